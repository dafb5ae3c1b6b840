"""MinAtar Breakout in Python: a paddle, a ball and three rows of bricks on 10 x 10 cells. It equals the built-in environment bit for bit.

    operant train examples/worlds/breakout.py:Breakout

Grids are bit maps: one bit a cell for the bricks, four for the observation. Directions of the ball are 0 up left, 1 up right, 2 down
right, 3 down left, so `^ 1` mirrors left and right, `^ 3` up and down, and `^ 2` both.
"""

import gymnasium

import operant
from operant import math as om
from operant import shapes

SIDE = 10
STICKY = 0.1  # probability that an action is replaced by the one before
LEFT, RIGHT = 1, 3  # MinAtar's numbers of the actions


def bits(first, end):
    """The four words of a bit map with the bits first .. end - 1 set."""
    number = ((1 << end) - 1) ^ ((1 << first) - 1)
    return [(number >> 32 * word) & 0xFFFFFFFF for word in range(4)]


WALL = bits(10, 40)  # rows 1, 2 and 3


def bit(cell, word):
    """Word number `word` of a bit map in which only the bit `cell` is set."""
    return om.where((cell >> 5) == word, 1 << cell, 0)


def mark(cell, channel, word):
    """The same for a bit map with four channels a cell."""
    return om.where((cell >> 3) == word, om.to_uint(1 << channel) << ((cell & 7) << 2), 0)


def spread(byte):
    """The low eight bits of a word, spread to every fourth bit."""
    pairs = (byte | (byte << 12)) & 0x000F000F
    twos = (pairs | (pairs << 6)) & 0x03030303
    return (twos | (twos << 3)) & 0x11111111


@operant.world(
    name="my_breakout",
    observation_space=gymnasium.spaces.MultiBinary((SIDE, SIDE, 4)),
    action_space=gymnasium.spaces.Discrete(6),
    max_episode_steps=5000,
    action_names=["none", "left", "up", "right", "down", "fire"],
    obs_names=["paddle", "ball", "the ball's last cell", "bricks"],
    view=((0, 0), (SIDE, SIDE)),
)
class Breakout:
    """Break bricks with a ball on a 10x10 grid; +1 per brick."""

    ball_y: operant.Uint
    ball_x: operant.Uint
    ball_dir: operant.Uint
    pos: operant.Uint  # column of the paddle
    strike: operant.Uint  # 1 while the ball passes bricks after it broke one
    last_y: operant.Uint
    last_x: operant.Uint
    bricks: operant.Uint[4]  # bit 10 y + x
    last_action: operant.Uint

    def reset(self, draws):
        right = draws.integer(2) == 1
        ball_x = om.where(right, SIDE - 1, 0)
        return self.State(
            ball_y=3,
            ball_x=ball_x,
            ball_dir=om.where(right, 3, 2),
            pos=4,
            strike=0,
            last_y=3,
            last_x=ball_x,
            bricks=WALL,
            last_action=0,
        )

    def step(self, s, action, draws):
        action = om.where(draws.uniform() < STICKY, s.last_action, action)
        # The paddle moves before the ball.
        left, right = (action == LEFT) & (s.pos != 0), (action == RIGHT) & (s.pos < SIDE - 1)
        pos = s.pos + om.where(right, 1, 0) - om.where(left, 1, 0)

        rightwards = (s.ball_dir == 1) | (s.ball_dir == 2)
        x = om.to_int(s.ball_x) + om.where(rightwards, 1, -1)
        y = om.to_int(s.ball_y) + om.where(s.ball_dir >= 2, 1, -1)
        # A side wall mirrors the ball's direction and keeps its column.
        at_wall = (x < 0) | (x >= SIDE)
        x = om.to_uint(om.clip(x, 0, SIDE - 1))
        direction = om.where(at_wall, s.ball_dir ^ 1, s.ball_dir)

        # Then the first applicable case: ceiling, brick, bottom row.
        ceiling = y < 0
        y = om.to_uint(om.maximum(y, 0))
        cell = y * SIDE + x
        on_brick = ~ceiling & (((s.bricks[cell >> 5] >> cell) & 1) != 0)
        breaks = on_brick & (s.strike == 0)
        bottom = ~ceiling & ~on_brick & (y == SIDE - 1)

        # A cleared wall is rebuilt when the ball comes down, caught or not.
        b0, b1, b2, b3 = s.bricks
        rebuild = bottom & ((b0 | b1 | b2 | b3) == 0)
        for word, full in enumerate(WALL):
            kept = om.where(breaks, s.bricks[word] & ~bit(cell, word), s.bricks[word])
            s.bricks[word] = om.where(rebuild, full, kept)

        # The paddle's middle is under the ball's old column, its edge under the new one.
        caught = bottom & (s.ball_x == pos)
        edge = bottom & ~caught & (x == pos)
        flip = om.where(ceiling | breaks | caught, 3, om.where(edge, 2, 0))
        after = s.replace(
            ball_y=om.where(breaks | caught | edge, s.ball_y, y),
            ball_x=x,
            ball_dir=direction ^ flip,
            pos=pos,
            strike=om.where(on_brick, 1, 0),
            last_y=s.ball_y,
            last_x=s.ball_x,
            last_action=action,
        )
        return after, om.where(breaks, 1.0, 0.0), bottom & ~caught & ~edge

    def observe(self, s):
        paddle = 9 * SIDE + s.pos
        ball = s.ball_y * SIDE + s.ball_x
        trail = s.last_y * SIDE + s.last_x
        words = []
        # Cell c has its four bits in word c / 8 from bit 4 (c mod 8) on.
        for word in range(13):
            bricks = spread((s.bricks[word // 4] >> (8 * (word % 4))) & 0xFF) << 3
            seen = bricks | mark(ball, 1, word) | mark(trail, 2, word)
            words.append(seen | mark(paddle, 0, word) if word >= 11 else seen)
        return om.packed(words)

    def draw(self, s):
        def there(cell):
            return ((s.bricks[cell // 32] >> (cell % 32)) & 1) != 0

        bricks = [shapes.square(SIDE, cell % SIDE, cell // SIDE, tone="body", where=there(cell)) for cell in range(10, 40)]
        f = om.to_float
        return [
            *bricks,
            shapes.square(SIDE, f(s.last_x), f(s.last_y), tone="faint"),
            shapes.square(SIDE, f(s.ball_x), f(s.ball_y), tone="accent"),
            shapes.square(SIDE, f(s.pos), SIDE - 1, tone="target"),
        ]


if __name__ == "__main__":
    run = operant.train(Breakout, seed=1, total_timesteps=5_000_000)
    assert run.result is not None
    print(run.result["eval_return_mean"])
