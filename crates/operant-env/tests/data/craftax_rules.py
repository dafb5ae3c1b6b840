"""The rules of Craftax-Classic in plain Python, apart from the package's code: what `craftax_classic.recipe.py` compares the package with.

It also counts which rules a piece of play used (`State.events`).
"""

import math

import numpy as np

SIDE = 64
OUTSIDE, GRASS, WATER, STONE, TREE, WOOD, PATH, COAL, IRON, DIAMOND, TABLE, FURNACE, SAND, LAVA, PLANT, RIPE = range(1, 17)
SOLID = {WATER, STONE, TREE, COAL, IRON, DIAMOND, TABLE, FURNACE, PLANT, RIPE}
WOOD_, STONE_, COAL_, IRON_, DIAMOND_, SAPLING_, WOOD_PICKAXE, STONE_PICKAXE, IRON_PICKAXE, WOOD_SWORD, STONE_SWORD, IRON_SWORD = range(12)
COLLECT_WOOD, PLACE_TABLE, EAT_COW, COLLECT_SAPLING, COLLECT_DRINK, MAKE_WOOD_PICKAXE, MAKE_WOOD_SWORD, PLACE_PLANT = range(8)
DEFEAT_ZOMBIE, COLLECT_STONE, PLACE_STONE, EAT_PLANT, DEFEAT_SKELETON, MAKE_STONE_PICKAXE, MAKE_STONE_SWORD = range(8, 15)
WAKE_UP, PLACE_FURNACE, COLLECT_COAL, COLLECT_IRON, COLLECT_DIAMOND, MAKE_IRON_PICKAXE, MAKE_IRON_SWORD = range(15, 22)
NONE, LEFT, RIGHT, UP, DOWN, DO, SLEEP, DO_STONE, DO_TABLE, DO_FURNACE, DO_PLANT, CRAFT = range(12)
MOVES = [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)]
AROUND = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]
# Tool, ingredients, achievement of the actions from CRAFT on.
TOOLS = [
    (WOOD_PICKAXE, (WOOD_,), MAKE_WOOD_PICKAXE),
    (STONE_PICKAXE, (WOOD_, STONE_), MAKE_STONE_PICKAXE),
    (IRON_PICKAXE, (WOOD_, STONE_, COAL_, IRON_), MAKE_IRON_PICKAXE),
    (WOOD_SWORD, (WOOD_,), MAKE_WOOD_SWORD),
    (STONE_SWORD, (WOOD_, STONE_), MAKE_STONE_SWORD),
    (IRON_SWORD, (WOOD_, STONE_, COAL_, IRON_), MAKE_IRON_SWORD),
]
# What is collected: block: item, what must be owned, achievement, what remains.
COLLECT = {
    TREE: (WOOD_, None, COLLECT_WOOD, GRASS),
    STONE: (STONE_, WOOD_PICKAXE, COLLECT_STONE, PATH),
    COAL: (COAL_, WOOD_PICKAXE, COLLECT_COAL, PATH),
    IRON: (IRON_, STONE_PICKAXE, COLLECT_IRON, PATH),
    DIAMOND: (DIAMOND_, IRON_PICKAXE, COLLECT_DIAMOND, PATH),
}
TENTH = np.float32(np.float16(0.1))
TENTHS = [float(np.float16(np.float32(k) * TENTH)) for k in range(10)]
LIGHT = [1 - abs(math.cos(math.pi * (t / 300 + 0.3))) ** 3 for t in range(300)]
EACH_FACT, MOB, ARROW, PLANTS = 13, 5, 5, 4
FACTS = "time row col facing health food drink energy sleeping recover hunger thirst fatigue".split()
OBSERVATION = 1345


def outside(r, c):
    return not (0 <= r < SIDE and 0 <= c < SIDE)


class State:
    """A state. `mobs` are zombies 0..2, cows 3..5 and skeletons 6..7: row, column, health, cooldown, live; `marks` go with them."""

    def __init__(self, blocks):
        self.time, self.row, self.col, self.facing = 0, 32, 32, 3
        self.health = self.food = self.drink = self.energy = 9
        self.sleeping = self.recover = self.hunger = self.thirst = self.fatigue = 0
        self.items, self.achievements, self.marks = [0] * 12, [0] * 22, [0] * 8
        self.mobs = [[0, 0, health, 0, 0] for health in (1, 1, 1, 3, 3, 3, 0, 0)]
        self.arrows = [[0, 0, 1, 1, 0] for _ in range(3)]
        self.plants = [[0, 0, 0, 0] for _ in range(10)]
        self.blocks = list(blocks)
        self.events = {}

    def public(self):
        """The 4,246 numbers: cooldowns not below 0, marks only of live mobs."""
        mobs = [[r, c, health, max(cooldown, 0), live] for r, c, health, cooldown, live in self.mobs]
        marks = [mark if mob[4] else 0 for mark, mob in zip(self.marks, self.mobs)]
        lists = [x for row in (*mobs, *self.arrows, *self.plants) for x in row]
        return [*(int(getattr(self, name)) for name in FACTS), *self.items, *lists, *self.achievements, *marks, *self.blocks]

    def saw(self, event):
        self.events[event] = self.events.get(event, 0) + 1

    # Where something stands.

    def read(self, r, c):
        r, c = (SIDE - 1 if x in (-1, SIDE) else x for x in (r, c))
        return self.blocks[r * SIDE + c]

    def marked(self, r, c):
        return any(mark and mob[4] and mob[0] == r and mob[1] == c for mark, mob in zip(self.marks, self.mobs))

    def occupied(self, r, c):
        return (r == self.row and c == self.col) or self.marked(r, c)

    def free(self, r, c):
        if outside(r, c):
            return False
        block = self.blocks[r * SIDE + c]
        return block not in SOLID and block != LAVA and not self.occupied(r, c)

    def clear(self, r, c):
        for i, mob in enumerate(self.mobs):
            if mob[4] and mob[0] == r and mob[1] == c:
                self.marks[i] = 0

    def distance(self, r, c):
        return abs(r - self.row) + abs(c - self.col)

    def earn(self, achievement):
        self.achievements[achievement] = 1
        self.saw(f"achievement {achievement}")

    # Part 1: the player.

    def front(self):
        return self.row + MOVES[self.facing][0], self.col + MOVES[self.facing][1]

    def near(self, block):
        cells = [(self.row + r, self.col + c) for r, c in AROUND]
        return any(not outside(r, c) and self.blocks[r * SIDE + c] == block for r, c in cells)

    def craft(self, action):
        tool, needs, achievement = TOOLS[action - CRAFT]
        lacks = [item for item in needs if not self.items[item]]
        lacks += ["table"] * (not self.near(TABLE)) + ["furnace"] * (IRON_ in needs and not self.near(FURNACE))
        if lacks:
            self.saw(f"craft {tool}: lacks " + ("more" if len(lacks) > 1 else f"only {lacks[0]}"))
            return
        for item in needs:
            self.items[item] -= 1
        self.items[tool] += 1
        self.earn(achievement)
        self.saw(f"craft {tool}, had {min(self.items[tool] - 1, 2)}")

    def do(self, sapling):
        r, c = self.front()
        damage = max(1, 2 * self.items[WOOD_SWORD], 3 * self.items[STONE_SWORD], 5 * self.items[IRON_SWORD])
        hit = killed = False
        fronts = [sum(mob[4] and (mob[0], mob[1]) == (r, c) for mob in mobs) for mobs in (self.mobs[:3], self.mobs[3:6], self.mobs[6:])]
        if max(fronts) > 1:
            self.saw("two of a kind in front")
        elif sum(fronts) > 1:
            self.saw("two kinds in front")
        for kind, (first, last, achievement) in enumerate([(0, 3, DEFEAT_ZOMBIE), (3, 6, EAT_COW), (6, 8, DEFEAT_SKELETON)]):
            for i in range(first, last):
                mob = self.mobs[i]
                if mob[4] and (mob[0], mob[1]) == (r, c):
                    mob[2] -= damage
                    hit = True
                    self.saw(f"hit kind {kind}, damage {min(damage, 6)}")
                    if mob[2] <= 0:
                        killed = True
                        self.earn(achievement)
                        if achievement == EAT_COW:
                            self.food, self.hunger = min(9, self.food + 6), 0
                    break
            for i in range(first, last):
                if not self.mobs[i][4] and self.mobs[i][2] > 0:
                    self.marks[i] = 0
                    self.saw(f"revived kind {kind}")
                self.mobs[i][4] = int(self.mobs[i][2] > 0)
        if killed:
            if self.marked(r, c):
                self.saw("a kill takes another's mark")
                self.freed = (r, c)
            self.clear(r, c)
        if hit or outside(r, c):
            self.saw("do on a mob" if hit else "do outside")
            return
        block = self.blocks[r * SIDE + c]
        self.saw(f"do on {block}")
        if block in COLLECT:
            item, needs, achievement, rest = COLLECT[block]
            if needs is None or self.items[needs]:
                self.items[item] += 1
                self.saw(f"collect {item}" + (" full" if self.items[item] > 9 else ""))
                self.blocks[r * SIDE + c] = rest
                self.earn(achievement)
            else:
                self.saw(f"no tool for {block}" + (", a lesser one" if any(self.items[WOOD_PICKAXE:needs]) else ""))
        elif block == GRASS and sapling < np.float32(0.1):
            self.items[SAPLING_] += 1
            self.earn(COLLECT_SAPLING)
        elif block == WATER:
            self.drink, self.thirst = min(9, self.drink + 1), 0
            self.earn(COLLECT_DRINK)
        elif block == RIPE:
            self.food, self.hunger = min(9, self.food + 4), 0
            self.blocks[r * SIDE + c] = PLANT
            self.earn(EAT_PLANT)
            entry = next((i for i, plant in enumerate(self.plants) if (plant[0], plant[1]) == (r, c)), None)
            self.saw("eat without an entry" if entry is None else "eat")
            self.plants[entry or 0][2] = 0

    def place(self, action):
        r, c = self.front()
        if outside(r, c) or self.occupied(r, c):
            self.saw(f"place {action}: " + ("outside" if outside(r, c) else "occupied"))
            return
        block, item, count, achievement = {
            DO_STONE: (STONE, STONE_, 1, PLACE_STONE),
            DO_TABLE: (TABLE, WOOD_, 2, PLACE_TABLE),
            DO_FURNACE: (FURNACE, STONE_, 1, PLACE_FURNACE),
            DO_PLANT: (PLANT, SAPLING_, 1, PLACE_PLANT),
        }[action]
        old = self.blocks[r * SIDE + c]
        fits = old == GRASS if action == DO_PLANT else old not in SOLID or (action == DO_STONE and old == WATER)
        if not fits or self.items[item] < count:
            self.saw(f"place {action}: refused")
            return
        self.items[item] -= count
        self.blocks[r * SIDE + c] = block
        self.earn(achievement)
        self.saw(f"place {action} on {old}")
        if action == DO_PLANT:
            entry = next((plant for plant in self.plants if not plant[3]), None)
            if entry is None:
                self.saw("an 11th plant")
            else:
                entry[:] = [r, c, 0, 1]

    def walk(self, action):
        self.facing = action
        r, c = self.front()
        lava = self.read(r, c) == LAVA
        if self.free(r, c) or lava:
            self.row, self.col = r, c
            if lava:
                self.saw("into lava, wrapped" if outside(r, c) else "into lava")
        elif outside(r, c):
            self.saw("edge")

    # Parts 2 and 3: creatures.

    def towards(self, mob, tie):
        r, c = self.row - mob[0], self.col - mob[1]
        column = abs(c) > abs(r) or (abs(c) == abs(r) and tie == 1)
        if abs(c) == abs(r):
            self.saw("tie")
        sign = lambda x: (x > 0) - (x < 0)
        return (0, sign(c)) if column else (sign(r), 0)

    def settle(self, i, step):
        mob = self.mobs[i]
        old = (mob[0], mob[1])
        d = self.distance(*old)
        target = (mob[0] + step[0], mob[1] + step[1])
        if not self.free(*target):
            target = old
        elif target == self.freed:
            self.saw("enters where a kill took another's mark")
        if mob[4]:
            if not self.marks[i]:
                self.saw("live without mark")
            if any(other is not mob and other[4] and (other[0], other[1]) == old for other in self.mobs):
                self.saw("two live mobs in a cell")
            if old == (self.row, self.col):
                self.saw("in the player's cell")
            self.clear(*old)
            if d >= 14:
                mob[4] = 0
                self.saw("gone")
        elif target != old:
            self.saw("moves, not live")
        mob[0], mob[1] = target
        self.marks[i] = int(bool(mob[4]))

    def zombie(self, i, dir4, tie, chase):
        mob = self.mobs[i]
        d = self.distance(mob[0], mob[1])
        step = self.towards(mob, tie) if d < 10 and chase < np.float32(0.75) else MOVES[1 + dir4]
        if mob[4] and d == 1 and mob[3] <= 0:
            step = (0, 0)
            mob[3] = 5
            self.health -= 7 if self.sleeping else 2
            self.saw("zombie hits a sleeper" if self.sleeping else "zombie hits")
            self.hits += 1
            if self.hits == 2:
                self.saw("a second zombie hits")
            if self.sleeping:
                self.sleeping = 0
                self.earn(WAKE_UP)
        else:
            mob[3] -= 1
        self.settle(i, step)

    def skeleton(self, i, dir4, tie, plan):
        mob = self.mobs[i]
        d = self.distance(mob[0], mob[1])
        aim = self.towards(mob, tie)
        step = MOVES[1 + dir4]
        if plan > np.float32(0.85):
            if d >= 10:
                step = aim
            elif d <= 3:
                step = (-aim[0], -aim[1])
                self.saw("skeleton flees")
        cornered = d <= 3 and not self.free(mob[0] + step[0], mob[1] + step[1])
        if mob[4] and mob[3] <= 0 and (4 <= d <= 5 or cornered):
            self.saw("skeleton shoots, cornered" if cornered else "skeleton shoots")
            arrow = next((arrow for arrow in self.arrows if not arrow[4]), None)
            if arrow is None:
                self.saw("no arrow left")
            else:
                arrow[:] = [mob[0], mob[1], aim[0], aim[1], 1]
            step = (0, 0)
            mob[3] = 4
        else:
            mob[3] -= 1
        self.settle(i, step)

    def arrow(self, arrow):
        arrow[0] += arrow[2]
        arrow[1] += arrow[3]
        if not arrow[4]:
            return
        r, c = arrow[0], arrow[1]
        block = self.read(r, c)
        if (r, c) == (self.row, self.col):
            self.health -= 2
            self.saw("arrow hits a sleeper" if self.sleeping else "arrow hits")
            self.sleeping = 0
        if outside(r, c) or (block in SOLID and block != WATER) or self.occupied(r, c):
            arrow[4] = 0
            self.saw("arrow stops " + ("outside" if outside(r, c) else f"at {block}" if block in SOLID else "at a creature"))
        elif block == WATER:
            self.saw("arrow over water")
        if block in (TABLE, FURNACE):
            # A write wraps at -1 only.
            if SIDE not in (r, c):
                self.blocks[(r % SIDE) * SIDE + c % SIDE] = PATH
            self.saw(f"arrow at {block}" + (", wrapped" if outside(r, c) else "") + (", at 64" if SIDE in (r, c) else ""))

    # Part 4.

    def spawn(self, first, last, chance, least, kinds, health, u, rank):
        """Whether the rank was used."""
        mobs = range(first, last)
        if all(self.mobs[i][4] for i in mobs):
            if not self.marks[first]:
                self.saw("a full list marks its first")
            self.marks[first] = 1
            return False
        if not u < chance:
            return False
        grid = np.array(self.blocks, np.uint8).reshape(SIDE, SIDE)
        rows, cols = np.abs(np.arange(SIDE) - self.row)[:, None], np.abs(np.arange(SIDE) - self.col)[None, :]
        free = np.isin(grid, kinds) & (rows + cols >= least) & (rows + cols < 14)
        for mark, mob in zip(self.marks, self.mobs):
            if mark and mob[4]:
                free[mob[0], mob[1]] = False
        cells = np.flatnonzero(free)
        if not len(cells):
            self.saw(f"no cell to spawn {first}")
            return False
        i = next(i for i in mobs if not self.mobs[i][4])
        mob = self.mobs[i]
        mob[0], mob[1], mob[2], mob[4] = int(cells[rank]) // SIDE, int(cells[rank]) % SIDE, health, 1
        self.marks[i] = 1
        self.saw(f"spawn {first} on {self.blocks[cells[rank]]}")
        if mob[3] > 0:
            self.saw(f"spawn {first} with cooldown")
        return True

    # The rest of a step.

    def grow(self):
        for r, c, age, used in self.plants:
            if used and age + 1 >= 600:
                if age + 1 == 600:
                    self.saw("ripens")
                self.blocks[r * SIDE + c] = RIPE
        for plant in self.plants:
            plant[2] += plant[3]

    def needs(self, action):
        if action == SLEEP and self.energy < 9:
            self.sleeping = 1
            self.saw("falls asleep")
        elif action == SLEEP:
            self.saw("not tired")
        if self.sleeping and self.energy >= 9:
            self.sleeping = 0
            self.earn(WAKE_UP)
            self.saw("wakes")
        self.hunger += 1 if self.sleeping else 2
        if self.hunger > 50:
            self.food, self.hunger = max(self.food - 1, 0), 0
            self.saw("hungry")
        self.thirst += 1 if self.sleeping else 2
        if self.thirst > 40:
            self.drink, self.thirst = max(self.drink - 1, 0), 0
            self.saw("thirsty")
        self.fatigue = min(self.fatigue - 1, 0) if self.sleeping else self.fatigue + 1
        if self.fatigue > 30:
            self.energy, self.fatigue = max(self.energy - 1, 0), 0
            self.saw("tired")
        if self.fatigue < -10:
            self.energy, self.fatigue = min(self.energy + 1, 9), 0
            self.saw("rested")
        if self.food > 0 and self.drink > 0 and (self.energy > 0 or self.sleeping):
            self.recover += 4 if self.sleeping else 2
        else:
            self.recover -= 1 if self.sleeping else 2
        if self.sleeping and not self.energy:
            self.saw("asleep without energy")
        if self.recover > 50:
            self.health, self.recover = min(self.health + 1, 9), 0
            self.saw("recovers")
        if self.recover < -30:
            self.health, self.recover = self.health - 1, 0
            self.saw("weakens")

    def step(self, action, draws):
        """One step with the 25 draws: reward, end, and the draws with ranks of 0 where they have no meaning."""
        draws, had, health = list(draws), sum(self.achievements), self.health
        self.hits, self.freed = 0, None
        if self.sleeping:
            if action:
                self.saw("an action asleep")
            action = NONE
        if action >= CRAFT:
            self.craft(action)
        elif action == DO:
            self.do(draws[0])
        elif action >= DO_STONE:
            self.place(action)
        elif LEFT <= action <= DOWN:
            self.walk(action)
        for i in range(3):
            self.zombie(i, *draws[1 + 3 * i : 4 + 3 * i])
        for i in range(3):
            self.settle(3 + i, MOVES[1 + draws[10 + i]] if draws[10 + i] < 4 else (0, 0))
        for i in range(2):
            self.skeleton(6 + i, *draws[13 + 3 * i : 16 + 3 * i])
        for arrow in self.arrows:
            self.arrow(arrow)
        dark, darker = (0.02 + 0.1 * (1 - LIGHT[t % 300]) ** 2 for t in (self.time, self.time + 1))
        if (draws[21] < dark) != (draws[21] < darker) and not all(mob[4] for mob in self.mobs[:3]):
            self.saw("spawn by the light before")
        assert abs(draws[21] - dark) > 3e-6, "a draw at the zombie's chance, which is not exact"
        cow, zombie = (3, 6, np.float32(0.1), 4, [GRASS], 3), (0, 3, dark, 10, [GRASS, PATH], 5)
        skeleton = (6, 8, np.float32(0.05), 10, [PATH], 3)
        for at, kind in ((19, cow), (21, zombie), (23, skeleton)):
            if not self.spawn(*kind, draws[at], draws[at + 1]):
                draws[at + 1] = 0
        self.grow()
        self.needs(action)
        self.items = [min(item, 9) for item in self.items]
        lava = self.read(self.row, self.col) == LAVA
        self.health = max(0, 0 if lava else self.health)
        new, lost = sum(self.achievements) - had, self.health - health
        if new > 1:
            self.saw("two achievements at once")
        # The sum is rounded once.
        reward = np.float32(new + lost * float(np.float32(0.1)))
        self.time += 1
        end = self.time >= 10_000 or lava or self.health <= 0
        if end:
            self.saw("end: " + ("lava" if lava else "health" if self.health <= 0 else "time"))
        return reward, end, draws

    def observe(self):
        """The observation, with light in double precision."""
        seen = np.zeros((7, 9, 21), np.float32)
        for r in range(7):
            for c in range(9):
                y, x = self.row + r - 3, self.col + c - 4
                seen[r, c, OUTSIDE if outside(y, x) else self.blocks[y * SIDE + x]] = 1
        lists = (self.mobs[:3], self.mobs[3:6], self.mobs[6:], self.arrows)
        for kind, mobs in enumerate(lists):
            for mob in mobs:
                r, c = mob[0] - self.row + 3, mob[1] - self.col + 4
                shown = mob[4] and 0 <= r < 7 and 0 <= c < 9
                wraps = r < 0 or c < 0
                r, c = r + 7 * (r < 0), c + 9 * (c < 0)
                if 0 <= r < 7 and 0 <= c < 9:
                    if seen[r, c, 17 + kind] and not shown:
                        self.saw(f"kind {kind} hidden" + (" by a wrap" if wraps else ""))
                    seen[r, c, 17 + kind] = bool(shown)
                    if shown:
                        self.saw(f"kind {kind} seen")
        rest = [TENTHS[x] for x in (*self.items, self.health, self.food, self.drink, self.energy)]
        facing = [float(self.facing == k) for k in (1, 2, 3, 4)]
        return np.concatenate([seen.ravel(), rest, facing, [LIGHT[self.time % 300], self.sleeping]]).astype(np.float32)


def noise(u, rows, cols):
    """Gradient noise of the uniforms u, scaled to 0..1, in single precision."""
    f = np.float32
    a = f(2 * math.pi) * u.reshape(rows + 1, cols + 1).astype(f)
    gy, gx = np.cos(a, dtype=f), np.sin(a, dtype=f)
    h, w = SIDE // rows, SIDE // cols
    i, j = np.arange(SIDE)[:, None], np.arange(SIDE)[None, :]
    y, x = ((i % h) / f(h)).astype(f), ((j % w) / f(w)).astype(f)

    def corner(p, q):
        at = (i // h + p, j // w + q)
        return (y - f(p)) * gy[at] + (x - f(q)) * gx[at]

    s = lambda t: t * t * t * (t * (t * f(6) - f(15)) + f(10))
    n0, n1 = (corner(0, q) * (f(1) - s(y)) + s(y) * corner(1, q) for q in (0, 1))
    v = np.sqrt(f(2)) * ((f(1) - s(x)) * n0 + s(x) * n1)
    return (v - v.min()) / (v.max() - v.min())


# How many uniforms each field of a world takes, in the order of drawing.
FIELDS = {"water": 25, "mountain": 25, "path": 297, "coal": 4096, "iron": 4096, "diamond": 4096, "trees": 289, "tree": 4096}


def world(fields, gem):
    """The blocks of a world from its draws: arrays by name, and the rank of the last stone."""
    f = np.float32
    here = np.abs(np.arange(SIDE) - 32)
    near = np.minimum(f(1), (here[:, None] + here[None, :]).astype(f) / f(5))
    water = noise(fields["water"], 4, 4) + near - f(1)
    mountain = noise(fields["mountain"], 4, 4) + f(0.05) + near - f(1)
    path, trees = noise(fields["path"], 8, 32), noise(fields["trees"], 16, 16)
    coal, iron, diamond, tree = (fields[name].reshape(SIDE, SIDE) for name in ("coal", "iron", "diamond", "tree"))
    blocks = np.full((SIDE, SIDE), GRASS)
    blocks[(water > f(0.6)) & (water <= f(0.7))] = SAND
    blocks[water > f(0.7)] = WATER
    hill = mountain > f(0.7)
    blocks[hill] = STONE
    blocks[hill & ((path > f(0.8)) | (path.T > f(0.8)))] = PATH
    blocks[(mountain > f(0.85)) & (water > f(0.4))] = PATH
    blocks[(blocks == STONE) & (coal < f(0.04))] = COAL
    blocks[(blocks == STONE) & (iron < f(0.03))] = IRON
    blocks[(blocks == STONE) & (mountain > f(0.8)) & (diamond < f(0.005))] = DIAMOND
    blocks[(blocks == GRASS) & (trees > f(0.5)) & (tree > f(0.8))] = TREE
    blocks[(mountain > f(0.85)) & (trees > f(0.7))] = LAVA
    blocks[32, 32] = GRASS
    blocks.reshape(-1)[np.flatnonzero(blocks == STONE)[gem]] = DIAMOND
    return blocks.reshape(-1)
