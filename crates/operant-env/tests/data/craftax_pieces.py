"""Where the pieces of play of `craftax_classic.recipe.py` begin, and who plays them."""

import collections

from craftax_rules import *

STEPS = 60
# Weights of the 17 actions.
EVEN = [1] * 17
BUSY = [1, 4, 4, 4, 4, 12, 0.3, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
FIGHT = [2, 2, 2, 2, 2, 8, 0.2, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0]
WALK = [1, 6, 6, 6, 6, 3, 0.2, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0, 0]
CRAFTS = [0, 1, 1, 1, 1, 2, 0.2, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4]
PLACES = [0, 3, 3, 3, 3, 2, 0.2, 5, 4, 4, 4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
FARMS = [0.5, 2, 2, 2, 2, 8, 0.2, 0.5, 0.5, 0.5, 5, 0, 0, 0, 0, 0, 0]
RESTS = [2, 1, 1, 1, 1, 2, 4, 0.2, 0, 0, 0, 0, 0, 0, 0, 0, 0]
AT_REST = [8, 1, 1, 1, 1, 2, 1, 0.2, 0, 0, 0, 0, 0, 0, 0, 0, 0]
NATURAL = {"random": EVEN, "do": BUSY, "purposeful": None}


class Chooser:
    """Actions by weight; sometimes the last one again."""

    def __init__(self, rng, weights):
        self.rng, self.weights, self.last = rng, weights, 0

    def act(self, state):
        if self.rng.random() > 0.25:
            self.last = self.rng.choices(range(17), self.weights)[0]
        return self.last


class Purposeful:
    """Walks to what it wants, through stone if it can, uses it, and crafts what it can; and sometimes acts at random."""

    def __init__(self, rng):
        self.rng, self.plan = rng, []

    def act(self, state):
        if self.rng.random() < 0.08:
            self.plan = []
            return self.rng.randrange(17)
        if not self.plan:
            self.plan = self.at_once(state) or self.path(state, self.wanted(state)) or [self.rng.randint(1, 5)]
        return self.plan.pop(0)

    def at_once(self, state):
        items, table, furnace = state.items, state.near(TABLE), state.near(FURNACE)
        if state.energy < 4:
            return [SLEEP]
        if table:
            if items[STONE_] and not furnace and items[STONE_PICKAXE] and items[COAL_]:
                return [DO_FURNACE]
            for at, (tool, needs, _) in enumerate(TOOLS):
                if not items[tool] and all(items[item] for item in needs) and (furnace or IRON_ not in needs):
                    return [CRAFT + at]
        lacks = not items[WOOD_PICKAXE] or (items[STONE_] > 1 and not items[STONE_PICKAXE]) or (items[IRON_] and items[COAL_])
        if items[WOOD_] > 4 and lacks and not table:
            return [DO_TABLE]
        if items[SAPLING_]:
            return [DO_PLANT]
        return [DO_STONE] if items[STONE_] > 5 and self.rng.random() < 0.1 else []

    def wanted(self, state):
        """What a cell must be to be walked to."""
        items, blocks = state.items, set()
        if items[WOOD_] < 6:
            blocks.add(TREE)
        if state.drink < 6:
            blocks = {WATER}
        elif items[WOOD_PICKAXE]:
            blocks |= {COAL} | ({STONE} if items[STONE_] < 4 else set()) | ({IRON} if items[STONE_PICKAXE] else set())
            blocks |= {DIAMOND} if items[IRON_PICKAXE] else set()
        blocks |= {RIPE} if state.food < 8 else set()
        prey = state.mobs[:3] + state.mobs[6:] + (state.mobs[3:6] if state.food < 7 else [])
        return blocks, {(mob[0], mob[1]) for mob in prey if mob[4]}

    def path(self, state, wanted):
        blocks, prey = wanted
        digs = state.items[WOOD_PICKAXE] > 0
        start = (state.row, state.col)
        queue, came = collections.deque([start]), {start: None}
        while queue and len(came) < 900:
            here = queue.popleft()
            for action in self.rng.sample((LEFT, RIGHT, UP, DOWN), 4):
                there = (here[0] + MOVES[action][0], here[1] + MOVES[action][1])
                if outside(*there) or there in came:
                    continue
                block = state.blocks[there[0] * SIDE + there[1]]
                if block in blocks or there in prey:
                    steps = [action, DO, DO]
                    while came[here]:
                        action, here, dug = came[here]
                        steps = [action, DO, action, *steps] if dug else [action, *steps]
                    return steps[:12]
                if block in (GRASS, SAND, PATH) or (digs and block == STONE):
                    came[there] = (action, here, block == STONE)
                    queue.append(there)
        return []


# Crafted states.


def base(rng, worlds, fill=None, edge=False):
    """A player somewhere in a world, or on a plain of one block, with needs and achievements of some kind."""
    s = State(rng.choice(worlds) if fill is None else [fill] * SIDE * SIDE)
    s.row, s.col = (rng.choice([0, 0, 0, 1, 5, 33, 62, 63]) if edge else rng.randint(8, 55) for _ in range(2))
    s.time, s.facing = rng.choice([rng.randint(0, 700), rng.randint(0, 9_900)]), rng.randint(1, 4)
    put(s, s.row, s.col, rng.choice([GRASS, PATH, SAND]))
    s.health, s.food, s.drink, s.energy = (rng.randint(4, 9) for _ in range(4))
    s.hunger, s.thirst, s.fatigue, s.recover = rng.randint(0, 50), rng.randint(0, 40), rng.randint(-10, 30), rng.randint(-30, 50)
    s.achievements = [int(rng.random() < 0.3) for _ in range(22)]
    return s


def put(s, r, c, block):
    if not outside(r, c):
        s.blocks[r * SIDE + c] = block


def cell(rng, s, least, most):
    """A cell within a distance of the player, inside the map."""
    while True:
        r, c = s.row + rng.randint(-most, most), s.col + rng.randint(-most, most)
        if not outside(r, c) and least <= s.distance(r, c) <= most:
            return r, c


def scatter(rng, s, kinds, count, most=5):
    for _ in range(count):
        put(s, *cell(rng, s, 1, most), rng.choice(kinds))


def creature(s, i, r, c, health=None, live=1, cooldown=0, mark=1):
    s.mobs[i] = [r, c, (5, 3, 3)[i // 3] if health is None else health, 0 if 3 <= i < 6 else cooldown, live]
    s.marks[i] = mark & live
    if s.blocks[r * SIDE + c] in SOLID | {LAVA}:
        put(s, r, c, GRASS if i < 6 else PATH)


def some_items(rng, s, chance=0.6):
    s.items = [rng.randint(1, 9) if rng.random() < chance else 0 for _ in range(12)]


def forge(rng, worlds):
    s = base(rng, worlds)
    some_items(rng, s, 0.8)
    scatter(rng, s, [TABLE, FURNACE], 5, 2)
    scatter(rng, s, [TREE, STONE, COAL, IRON, DIAMOND], 4, 2)
    if rng.random() < 0.5:
        put(s, *s.front(), rng.choice([STONE, COAL, IRON, DIAMOND]))
        s.items[WOOD_PICKAXE:WOOD_SWORD] = [rng.randint(0, 1) for _ in range(3)]
    if rng.random() < 0.5:
        s.items[:5] = [9] * 5
        if rng.random() < 0.5:
            s.items[rng.randint(0, 3)] = 0
        put(s, s.row - 1, s.col - 1, TABLE)
        put(s, s.row + 1, s.col - 1, FURNACE)
    return s


def lava(rng, worlds):
    s = base(rng, worlds)
    s.items[WOOD_], s.items[STONE_], s.items[SAPLING_] = rng.randint(0, 9), rng.randint(0, 9), rng.randint(0, 3)
    scatter(rng, s, [LAVA], rng.randint(2, 12), 4)
    if rng.random() < 0.6:
        put(s, *s.front(), LAVA)
    for i in rng.sample(range(8), 3):
        creature(s, i, *cell(rng, s, 2, 6))
    return s


def tunnels(rng, worlds):
    s = base(rng, worlds, rng.choice([PATH, STONE]))
    for _ in range(60):
        put(s, *cell(rng, s, 1, 12), rng.choice([PATH, PATH, STONE, COAL, WATER, TABLE]))
    put(s, s.row, s.col, PATH)
    for i in (6, 7):
        r, c = cell(rng, s, 2, 8)
        for step in range(8):
            put(s, s.row + (r - s.row) * step // 8, s.col + (c - s.col) * step // 8, PATH)
        creature(s, i, r, c, cooldown=rng.randint(0, 3))
    some_items(rng, s, 0.4)
    return s


def night(rng, worlds):
    s = base(rng, worlds)
    s.time = 300 * rng.randint(0, 30) + rng.randint(170, 230)
    s.sleeping, s.energy = int(rng.random() < 0.7), rng.choice([0, 3, 7, 8, 8, 9])
    s.health, s.fatigue = rng.randint(4, 9), rng.randint(-10, 5)
    for i in rng.sample(range(3), rng.randint(0, 3)):
        creature(s, i, *cell(rng, s, 1, 8), cooldown=rng.randint(0, 5))
    if rng.random() < 0.5:
        creature(s, 6, *cell(rng, s, 3, 6))
    if rng.random() < 0.3:
        s.health = 9
        for i in (0, 1):
            creature(s, i, *cell(rng, s, 1, 1))
    return s


def farm(rng, worlds):
    s = base(rng, worlds, rng.choice([None, GRASS]))
    for r, c in AROUND:
        put(s, s.row + r, s.col + c, rng.choice([GRASS, GRASS, SAND]))
    s.items[SAPLING_] = rng.randint(2, 9)
    cells = rng.sample([(s.row + r, s.col + c) for r in (-2, -1, 0, 1, 2) for c in (-2, -1, 0, 1, 2) if r or c], 12)
    for entry in range(rng.choice([2, 5, 9, 10])):
        age = rng.choice([0, 300, 560, 590, 597, 598, 599, 600, 640])
        s.plants[entry] = [*cells[entry], age, 1]
        put(s, *cells[entry], RIPE if age >= 600 else PLANT)
    if rng.random() < 0.5:
        put(s, *cells[11], RIPE)
    for i in rng.sample(range(6), 2):
        creature(s, i, *cell(rng, s, 3, 9))
    s.food = rng.randint(1, 6)
    return s


def edges(rng, worlds):
    s = base(rng, worlds, edge=True)
    for k in range(SIDE):
        for r, c in ((0, k), (63, k), (k, 0), (k, 63)):
            if (r, c) != (s.row, s.col) and rng.random() < 0.7:
                far = 63 in (r, c)
                put(s, r, c, rng.choice([LAVA, LAVA, TABLE, FURNACE, GRASS] if far else [GRASS, GRASS, PATH, PATH, TABLE, FURNACE, WATER, LAVA]))
    for r, c in AROUND:
        if rng.random() < 0.8:
            put(s, s.row + r, s.col + c, rng.choice([GRASS, PATH]))
    for arrow in range(3):
        way = rng.choice(MOVES[1:])
        r, c = cell(rng, s, 1, 4)
        s.arrows[arrow] = [r, c, *way, int(rng.random() < 0.8)]
    for i in range(8):
        if rng.random() < 0.5:
            creature(s, i, *cell(rng, s, 1, 6), live=int(rng.random() < 0.7))
    some_items(rng, s, 0.5)
    return s


def despawned(rng, worlds):
    s = base(rng, worlds)
    for i in range(8):
        full = (5, 3, 3)[i // 3]
        creature(s, i, *cell(rng, s, 1, rng.choice([4, 10, 16])), rng.randint(0, full), live=0, cooldown=rng.randint(0, 4))
    some_items(rng, s, 0.2)
    return s


def starving(rng, worlds):
    s = base(rng, worlds)
    s.food, s.drink, s.energy = (rng.choice([0, 0, 1, 5]) for _ in range(3))
    s.health, s.sleeping = rng.randint(1, 4), int(rng.random() < 0.4)
    s.recover = rng.randint(-30, -10)
    scatter(rng, s, [WATER, GRASS], 4, 3)
    creature(s, 3, *cell(rng, s, 1, 3), rng.randint(1, 3))
    return s


def limit(rng, worlds):
    s = base(rng, worlds)
    s.time = 10_000 - rng.randint(2, STEPS)
    s.fatigue = rng.randint(0, 30)
    return s


def crowds(rng, worlds):
    s = base(rng, worlds, rng.choice([None, GRASS, PATH]))
    for i in range(8):
        creature(s, i, *cell(rng, s, 1, rng.choice([2, 4, 6])), cooldown=rng.randint(0, 4), mark=int(rng.random() < 0.8))
    some_items(rng, s, 0.3)
    return s


def arrows(rng, worlds):
    s = base(rng, worlds)
    scatter(rng, s, [TABLE, FURNACE, WATER, STONE, PLANT, LAVA], 14, 6)
    for arrow in range(rng.randint(1, 3)):
        along, far, sign = rng.random() < 0.5, rng.randint(1, 7), rng.choice([-1, 1])
        aside = rng.choice([0, 0, 0, 1, -2])
        r, c = (s.row + aside, s.col + sign * far) if along else (s.row + sign * far, s.col + aside)
        s.arrows[arrow] = [r, c, *((0, -sign) if along else (-sign, 0)), int(rng.random() < 0.9)]
    s.sleeping, s.energy = int(rng.random() < 0.3), rng.randint(2, 8)
    creature(s, 0, *cell(rng, s, 1, 4))
    for i in (6, 7):
        creature(s, i, *cell(rng, s, 3, 5))
    return s


def shared(rng, worlds):
    s = base(rng, worlds)
    spots = [cell(rng, s, 0, 3) for _ in range(3)]
    for i in range(8):
        creature(s, i, *rng.choice(spots), live=int(rng.random() < 0.8), mark=int(rng.random() < 0.6))
    some_items(rng, s, 0.3)
    if rng.random() < 0.5:
        r, c = s.front()
        step = MOVES[s.facing]
        creature(s, 0, r, c, 1, mark=0)
        creature(s, 3, r, c)
        for i in (1, 2):
            creature(s, i, r + i * step[0], c + i * step[1])
    return s


def builder(rng, worlds):
    s = base(rng, worlds)
    some_items(rng, s, 0.7)
    s.items[WOOD_], s.items[STONE_], s.items[SAPLING_] = (rng.randint(2, 9) for _ in range(3))
    scatter(rng, s, [WATER, LAVA, SAND, PATH, GRASS, TREE], 12, 3)
    for i in rng.sample(range(8), 4):
        creature(s, i, *cell(rng, s, 1, 3))
    return s


CRAFTED = {
    "forge": (forge, CRAFTS),
    "lava": (lava, [3, 2, 2, 2, 2, 3, 0.2, 3, 4, 4, 2, 0, 0, 0, 0, 0, 0]),
    "tunnels": (tunnels, FIGHT),
    "night": (night, RESTS),
    "farm": (farm, FARMS),
    "edges": (edges, WALK),
    "despawned": (despawned, FIGHT),
    "starving": (starving, RESTS),
    "limit": (limit, EVEN),
    "crowds": (crowds, FIGHT),
    "arrows": (arrows, AT_REST),
    "shared": (shared, FIGHT),
    "builder": (builder, PLACES),
}
