"""Snake in Python, on a board of 10 x 10 cells: arrays, integers and rare events. It equals the built-in environment bit for bit.

    operant train examples/worlds/snake.py:Snake
"""

import gymnasium
from gymnasium.spaces import MultiBinary

import operant
from operant import math as om
from operant import shapes

SIZE, START = 10, 3  # cells per side, first length
SIGHT = 5  # how far the view extends from the head, in cells
VIEW = 2 * SIGHT + 1  # cells per side of the view
UP, RIGHT, DOWN, LEFT = range(4)
FULL_ROW = (1 << SIZE) - 1


def moved(x, y, direction):
    """The next cell in a direction. Beyond the left or top edge a coordinate wraps around to a large number."""
    x = x + om.where(direction == RIGHT, 1, 0) - om.where(direction == LEFT, 1, 0)
    y = y + om.where(direction == DOWN, 1, 0) - om.where(direction == UP, 1, 0)
    return x, y


def at(rows, x, y):
    """Bit x of row y of a bit map."""
    return (rows[y] >> x) & 1


def put(rows, x, y, bit, where=True):
    """Sets bit x of row y."""
    others = rows[y] & ~(1 << x)
    rows.put(y, others | (bit << x), where=where)


def nth_bit(word, k):
    """The position of the set bit number k of a word."""
    position = om.to_uint(0)
    for half in (16, 8, 4, 2, 1):
        count = om.count_ones(word & ((1 << half) - 1))
        above = k >= count
        k = om.where(above, k - count, k)
        word = om.where(above, word >> half, word)
        position = position + om.where(above, half, 0)
    return position


def place(body, length, draws):
    """A uniformly random free cell."""
    k = draws.integer(SIZE * SIZE - length)
    x, y, found = om.to_uint(0), om.to_uint(0), False
    for row in range(SIZE):
        free = ~body[row] & FULL_ROW
        count = om.count_ones(free)
        here = (k < count) & ~found if row else k < count
        x, y = om.where(here, free, x), om.where(here, row, y)
        found = here | found
        k = om.where(found, k, k - count)
    return nth_bit(x, k), y


@operant.world(
    name="my_snake",
    observation_space=gymnasium.spaces.Dict(view=MultiBinary((2, VIEW, VIEW)), food=MultiBinary(4), heading=MultiBinary(4)),
    action_space=gymnasium.spaces.Discrete(4),
    max_episode_steps=2 * SIZE**4,  # longer than an episode can be without starving
    action_names=["up", "right", "down", "left"],
    view=((-0.5, -0.5), (SIZE + 0.5, SIZE + 0.5)),
    fps=10.0,
)
class Snake:
    """Eat and grow without hitting the walls or yourself; +1 per food."""

    x: operant.Uint  # the head
    y: operant.Uint
    heading: operant.Uint
    tail_x: operant.Uint
    tail_y: operant.Uint
    food_x: operant.Uint
    food_y: operant.Uint
    length: operant.Uint
    hunger: operant.Uint  # steps since the last food
    body: operant.Uint[SIZE]  # a bit map, one word per row
    low: operant.Uint[SIZE]  # the direction in which the snake left each cell: low bit
    high: operant.Uint[SIZE]  # high bit

    def reset(self, draws):
        middle = SIZE // 2

        def rows(bits):
            return om.array([om.to_uint(bits if row == middle else 0) for row in range(SIZE)])

        body = rows(0b111 << (middle - 2))
        food_x, food_y = place(body, om.to_uint(START), draws)
        return self.State(
            x=middle,
            y=middle,
            heading=RIGHT,
            tail_x=middle - 2,
            tail_y=middle,
            food_x=food_x,
            food_y=food_y,
            length=START,
            hunger=0,
            body=body,
            low=rows(0b011 << (middle - 2)),
            high=rows(0),
        )

    def step(self, s, action, draws):
        heading = om.where(action == (s.heading ^ 2), s.heading, action)
        x, y = moved(s.x, s.y, heading)
        wall = (x >= SIZE) | (y >= SIZE)
        eats = (x == s.food_x) & (y == s.food_y)
        put(s.low, s.x, s.y, heading & 1)
        put(s.high, s.x, s.y, heading >> 1)

        # The tail leaves its cell before the head enters its own.
        follows = at(s.low, s.tail_x, s.tail_y) | (at(s.high, s.tail_x, s.tail_y) << 1)
        next_x, next_y = moved(s.tail_x, s.tail_y, follows)
        put(s.body, s.tail_x, s.tail_y, om.to_uint(0), where=~eats)
        bites = ~wall & (at(s.body, x, y) != 0)
        put(s.body, x, y, om.to_uint(1), where=~wall)

        s.length = s.length + om.where(eats, 1, 0)
        s.hunger = om.where(eats, 0, s.hunger + 1)
        full = s.length == SIZE * SIZE
        own = draws.reserve(1)
        s.food_x, s.food_y = om.when(
            eats & ~full, lambda food_x, food_y: place(s.body, s.length, own), s.food_x, s.food_y
        )
        s.x, s.y, s.heading = x, y, heading
        s.tail_x, s.tail_y = om.where(eats, s.tail_x, next_x), om.where(eats, s.tail_y, next_y)
        starves = s.hunger >= 2 * SIZE * SIZE
        return s, om.where(eats, 1.0, 0.0), wall | bites | full | starves

    def observe(self, s):
        outside, margin = 0xFFFFFFFF & ~FULL_ROW, (1 << SIGHT) - 1
        tail = 1 << s.tail_x
        words = [om.to_uint(0) for _ in range(-(-2 * VIEW * VIEW // 32))]
        # Each row has a margin of walls, so the bits from the head's column on are the cells around the head.
        for line in range(VIEW):
            y = s.y + line - SIGHT
            row = s.body[y] & ~om.where(y == s.tail_y, tail, 0)
            row = om.where(y < SIZE, row | outside, 0xFFFFFFFF)
            seen = (((row << SIGHT) | margin) >> s.x) & ((1 << VIEW) - 1)
            word, bit = divmod(line * VIEW, 32)
            words[word] = words[word] | (seen << bit)
            if bit + VIEW > 32:
                words[word + 1] = words[word + 1] | (seen >> (32 - bit))
        column, row = s.food_x + SIGHT - s.x, s.food_y + SIGHT - s.y
        near = (column < VIEW) & (row < VIEW)
        food = VIEW * VIEW + row * VIEW + column
        for word in range(VIEW * VIEW // 32, len(words)):
            words[word] = words[word] | om.where(near & ((food >> 5) == word), 1 << food, 0)
        return {
            "view": om.packed(words),
            "food": [s.food_y < s.y, s.x < s.food_x, s.y < s.food_y, s.food_x < s.x],
            "heading": [s.heading == direction for direction in range(4)],
        }

    def draw(self, s):
        def cells(rows):
            return ((x, y, ((rows[y] >> x) & 1) != 0) for y in range(SIZE) for x in range(SIZE))

        # The head is an arrow.
        head_x, head_y = om.to_float(s.x) + 0.5, SIZE - 0.5 - om.to_float(s.y)
        along_x = om.where(s.heading == RIGHT, 0.4, om.where(s.heading == LEFT, -0.4, 0.0))
        along_y = om.where(s.heading == UP, 0.4, om.where(s.heading == DOWN, -0.4, 0.0))

        def corner(along, aside):
            return head_x + along * along_x + aside * along_y, head_y + along * along_y + aside * along_x

        edge = [(0, 0), (0, SIZE), (SIZE, SIZE), (SIZE, 0), (0, 0)]
        return [
            shapes.line(edge),
            *(shapes.square(SIZE, x, y, tone="green", where=there) for x, y, there in cells(s.body)),
            shapes.square(SIZE, om.to_float(s.food_x), om.to_float(s.food_y), tone="red"),
            shapes.polygon([corner(1, 0), corner(-1, 1), corner(-1, -1)], tone="accent"),
        ]


if __name__ == "__main__":
    run = operant.train(Snake, seed=1, total_timesteps=2_000_000)
    assert run.result is not None
    print(run.result["eval_return_mean"])
