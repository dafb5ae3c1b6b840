"""MinAtar's Breakout without sticky actions; the game ignores its ramping option."""

import copy

import numpy as np
from reference import MinAtar, first, rollout

SEED = 1_005
STEP_NOISE = 0.0
REFERENCE = {"tolerance": {"step": 0.0, "end": 0.0, "reward": 0.0, "f32": 0.0}, "angles": []}


class Breakout(MinAtar):
    def set(self, state):
        game = self.game
        game.ball_y, game.ball_x, game.ball_dir, game.pos, strike, game.last_y, game.last_x = state[:7]
        game.strike = bool(strike)
        game.brick_map = np.array(state[7:], dtype=np.float64).reshape(10, 10)

    def get(self):
        game = self.game
        head = [game.ball_y, game.ball_x, game.ball_dir, game.pos, game.strike, game.last_y, game.last_x]
        return [*head, *game.brick_map.flatten()]


def environment():
    return Breakout("Breakout", time_limit=5_000, sticky_action_prob=0.0)


def bricks(*cells):
    grid = [0] * 100
    for y, x in cells:
        grid[10 * y + x] = 1
    return grid


def landing(env):
    """The column in which the ball will be met: the course of the ball does not depend on the paddle until row 9."""
    probe = copy.deepcopy(env.game)
    while probe.ball_y != 8 or probe.ball_dir < 2:
        probe.act(0)
    return probe.ball_x, probe


def keeper(env, rng):
    """A player that never misses, meeting the ball in its old or its new column at random."""
    choice = {"target": None}

    def policy(_, k):
        game = env.game
        if choice["target"] is None or (game.ball_y == 8 and game.ball_dir < 2):
            choice["target"] = rng.random()
        column, probe = landing(env)
        step = 1 if probe.ball_dir == 2 else -1
        target = column if choice["target"] < 0.6 else max(0, min(9, column + step))
        return 0 if game.pos == target else (1 if game.pos > target else 3)

    return policy


def cases(c, rng):
    env = c.env
    full = bricks(*[(y, x) for y in (1, 2, 3) for x in range(10)])
    some = bricks((1, 0), (1, 9), (2, 5), (3, 0), (3, 2), (3, 9))

    def at(y, x, direction, pos, strike, last, cells):
        return [y, x, direction, pos, strike, *last, *cells]

    # state, action, what must come of it (reward, terminated, ball_y, ball_x, ball_dir, pos, strike, bricks left)
    edges = [
        (at(5, 5, 0, 4, 0, (6, 6), full), 0, (0, False, 4, 4, 0, 4, 0, 30)),  # free, all four directions
        (at(5, 5, 1, 4, 0, (6, 4), full), 2, (0, False, 4, 6, 1, 4, 0, 30)),
        (at(5, 5, 2, 0, 0, (4, 4), full), 1, (0, False, 6, 6, 2, 0, 0, 30)),  # the paddle stops at both ends
        (at(5, 5, 3, 9, 0, (4, 6), full), 3, (0, False, 6, 4, 3, 9, 0, 30)),
        (at(5, 0, 0, 4, 0, (6, 1), full), 4, (0, False, 4, 0, 1, 4, 0, 30)),  # side walls
        (at(5, 9, 1, 4, 0, (6, 8), full), 5, (0, False, 4, 9, 0, 4, 0, 30)),
        (at(5, 9, 2, 4, 0, (4, 8), full), 1, (0, False, 6, 9, 3, 3, 0, 30)),
        (at(5, 0, 3, 4, 0, (4, 1), full), 3, (0, False, 6, 0, 2, 5, 0, 30)),
        (at(4, 5, 0, 4, 0, (5, 6), full), 0, (1, False, 4, 4, 3, 4, 1, 29)),  # bricks from below and above
        (at(4, 5, 1, 4, 0, (5, 4), full), 0, (1, False, 4, 6, 2, 4, 1, 29)),
        (at(0, 1, 3, 4, 0, (0, 2), some), 0, (1, False, 0, 0, 0, 4, 1, 5)),
        (at(1, 6, 3, 4, 0, (0, 7), some), 0, (1, False, 1, 5, 0, 4, 1, 5)),
        (at(4, 0, 0, 4, 0, (5, 1), some), 0, (1, False, 4, 0, 2, 4, 1, 5)),  # wall and brick at once
        (at(4, 9, 1, 4, 0, (5, 8), some), 0, (1, False, 4, 9, 3, 4, 1, 5)),
        (at(4, 1, 1, 4, 1, (4, 0), some), 0, (0, False, 3, 2, 1, 4, 1, 6)),  # strike: passes over a brick
        (at(2, 1, 2, 4, 1, (2, 0), some), 3, (0, False, 3, 2, 2, 5, 1, 6)),
        (at(4, 5, 1, 4, 1, (4, 4), some), 0, (0, False, 3, 6, 1, 4, 0, 6)),  # strike ends in the open
        (at(0, 5, 0, 4, 0, (1, 6), some), 0, (0, False, 0, 4, 3, 4, 0, 6)),  # the ceiling
        (at(0, 5, 1, 4, 1, (0, 4), some), 0, (0, False, 0, 6, 2, 4, 0, 6)),
        (at(0, 0, 0, 4, 0, (1, 1), some), 0, (0, False, 0, 0, 2, 4, 0, 6)),  # both corners
        (at(0, 9, 1, 4, 0, (1, 8), some), 0, (0, False, 0, 9, 3, 4, 0, 6)),
        (at(8, 5, 2, 5, 0, (7, 4), some), 0, (0, False, 8, 6, 1, 5, 0, 6)),  # the paddle under the old column
        (at(8, 5, 3, 5, 0, (7, 6), some), 0, (0, False, 8, 4, 0, 5, 0, 6)),
        (at(8, 5, 2, 6, 0, (7, 4), some), 0, (0, False, 8, 6, 0, 6, 0, 6)),  # under the new column
        (at(8, 5, 3, 4, 0, (7, 6), some), 0, (0, False, 8, 4, 1, 4, 0, 6)),
        (at(8, 5, 2, 5, 0, (7, 4), some), 3, (0, False, 8, 6, 0, 6, 0, 6)),  # the paddle moves first
        (at(8, 5, 2, 4, 0, (7, 4), some), 3, (0, False, 8, 6, 1, 5, 0, 6)),
        (at(8, 9, 2, 9, 0, (7, 8), some), 0, (0, False, 8, 9, 0, 9, 0, 6)),  # paddle in a corner
        (at(8, 0, 3, 1, 0, (7, 1), some), 1, (0, False, 8, 0, 1, 0, 0, 6)),
        (at(8, 5, 2, 2, 0, (7, 4), some), 3, (0, True, 9, 6, 2, 3, 0, 6)),  # lost
        (at(8, 0, 3, 2, 0, (7, 1), some), 0, (0, True, 9, 0, 2, 2, 0, 6)),
        (at(8, 5, 2, 6, 0, (7, 4), some), 3, (0, True, 9, 6, 2, 7, 0, 6)),
        (at(4, 4, 1, 4, 0, (5, 3), bricks((3, 5))), 0, (1, False, 4, 5, 2, 4, 1, 0)),  # the last brick: no wall yet
        (at(7, 4, 2, 4, 0, (6, 3), bricks()), 0, (0, False, 8, 5, 2, 4, 0, 0)),
        (at(8, 5, 2, 5, 0, (7, 4), bricks()), 0, (0, False, 8, 6, 1, 5, 0, 30)),  # the new wall
        (at(8, 5, 3, 4, 0, (7, 6), bricks()), 0, (0, False, 8, 4, 1, 4, 0, 30)),
        (at(8, 5, 3, 8, 0, (7, 6), bricks()), 0, (0, True, 9, 4, 3, 8, 0, 30)),  # ... also when the ball is lost
    ]
    for state, action, expected in edges:
        out = c.single(state, action)
        s = out["state"][0]
        got = (out["reward"][0], out["terminated"][0], *s[:5], sum(s[7:]))
        assert got == expected, (state[:7], action, got, expected)
    for strange in range(6):  # states from play, with the player's and other actions
        play = keeper(env, rng)
        actions = rollout(env, env.reset_state(strange), play, 40 + 150 * strange)
        c.single(env.state(), int(rng.integers(0, 6)))
    starts = {}
    for seed in range(16):
        starts.setdefault(env.reset_state(seed)[2], env.reset_state(seed))
    assert sorted(starts) == [2, 3]
    for start in starts.values():
        for _ in range(2):
            assert c.episode(start, [int(a) for a in rng.integers(0, 6, 200)], (True, False))
    # A player, then nobody: through the last brick and the new wall.
    start = at(6, 4, 1, 5, 0, (7, 3), bricks((3, 7)))
    play = keeper(env, rng)
    flee = lambda s, k: play(s, k) if k < 18 else (1 if env.game.pos > 0 else 0)
    first(20, lambda _: c.episode(start, rollout(env, start, flee, 200), (True, False)))
    assert any(sum(s[7:]) == 0 for e in c.expected for s in e["state"])
    actions = rollout(env, starts[2], keeper(env, rng), env.time_limit)
    assert c.long_episode(starts[2], actions, (False, True))
    first(20, lambda i: c.long_episode(
        starts[3], rollout(env, starts[3], keeper(env, rng), 1_500 + i) + [1] * 40, (True, False)))
