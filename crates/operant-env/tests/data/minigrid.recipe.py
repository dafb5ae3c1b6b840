"""The MiniGrid family: episodes of random and of purposeful players, and the frequencies of what layouts draw.

A state is written as `operant replay` has it: width, height, then type, colour and state of each cell, row by row; the agent's
column, row and direction; type and colour of what it carries; the step; and the numbers of the task: those of the mission first.
"""

import collections
import json
import random
import sys
import warnings

import gymnasium
import minigrid
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from reference import write

warnings.filterwarnings("ignore")

EPISODES = 12
RESETS = 2_000
PACKAGE = f"minigrid {minigrid.__version__}"
IDS = """
    Empty-5x5-v0 Empty-8x8-v0 Empty-Random-5x5-v0 FourRooms-v0 DoorKey-5x5-v0 DoorKey-6x6-v0 DoorKey-8x8-v0 DoorKey-16x16-v0
    Unlock-v0 UnlockPickup-v0 BlockedUnlockPickup-v0 ObstructedMaze-1Dl-v0 KeyCorridorS3R1-v0 KeyCorridorS3R2-v0
    KeyCorridorS3R3-v0 MultiRoom-N2-S4-v0 MultiRoom-N4-S5-v0 MultiRoom-N4-S5-v1 LavaGapS5-v0 LavaGapS6-v0 LavaGapS7-v0
    LavaCrossingS9N1-v0 SimpleCrossingS9N1-v0 DistShift1-v0 MemoryS7-v0 MemoryS9-v0 MemoryS11-v0 MemoryS13-v0
    MemoryS13Random-v0 Dynamic-Obstacles-5x5-v0 Dynamic-Obstacles-6x6-v0 Dynamic-Obstacles-8x8-v0 RedBlueDoors-6x6-v0
    GoToDoor-5x5-v0 Fetch-5x5-N2-v0 PutNear-6x6-N2-v0 LockedRoom-v0
""".split()
SYNTAX = ["get a", "go get a", "fetch a", "go fetch a", "you must fetch a"]
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
STEPS = [(1, 0), (0, 1), (-1, 0), (0, -1)]


class Driver:
    """An environment of the package by the numbers of its state."""

    def __init__(self, id):
        self.id, self.env = id, gymnasium.make(f"MiniGrid-{id}", disable_env_checker=True).unwrapped

    def reset(self, seed):
        self.obs, _ = self.env.reset(seed=seed)

    def mission(self):
        """The numbers of the mission; none where it is always the same."""
        env, words = self.env, self.env.mission.split()
        if self.id.startswith(("UnlockPickup", "BlockedUnlockPickup", "KeyCorridor")):
            return [COLOR_TO_IDX[env.obj.color]]
        if self.id.startswith("GoToDoor"):
            return [COLOR_TO_IDX[env.target_color]]
        if self.id.startswith("LockedRoom"):
            return [COLOR_TO_IDX[words[2]], COLOR_TO_IDX[words[6]]]
        if self.id.startswith("Fetch"):
            return [SYNTAX.index(" ".join(words[:-2])), COLOR_TO_IDX[env.targetColor], OBJECT_TO_IDX[env.targetType]]
        if self.id.startswith("PutNear"):
            pairs = ((env.moveColor, env.move_type), (env.target_color, env.target_type))
            return [number for colour, kind in pairs for number in (COLOR_TO_IDX[colour], OBJECT_TO_IDX[kind])]
        return []

    def balls(self):
        return [int(x) for ball in getattr(self.env, "obstacles", []) for x in ball.cur_pos]

    def state(self):
        env = self.env
        cells = env.grid.encode().transpose(1, 0, 2).flatten().tolist()
        hand = env.carrying.encode()[:2] if env.carrying else (0, 0)
        places = [getattr(env, name) for name in ("target_pos", "success_pos", "failure_pos") if hasattr(env, name)]
        hidden = [int(x) for place in places for x in place]
        agent = [int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir)]
        size, hand = [int(env.width), int(env.height)], [int(x) for x in hand]
        return [*size, *cells, *agent, *hand, int(env.step_count), *self.mission(), *hidden, *self.balls()]

    def seen(self):
        return [*self.obs["image"].flatten().tolist(), int(self.obs["direction"]), *self.mission()]

    def step(self, action):
        self.obs, reward, terminated, truncated, _ = self.env.step(action)
        return float(reward), bool(terminated), bool(truncated)


class Player:
    """Walks to things and uses them, in no order; and sometimes acts at random."""

    def __init__(self, driver, rng, chance):
        self.driver, self.rng, self.chance, self.plan = driver, rng, chance, []

    def path(self, goal, onto):
        """Actions that lead to the cell `goal`, or to face it; None if there is no way."""
        env = self.driver.env
        start = (int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir))
        queue, came = collections.deque([start]), {start: None}
        while queue:
            x, y, d = here = queue.popleft()
            dx, dy = STEPS[d]
            if (x, y) == goal if onto else (x + dx, y + dy) == goal:
                actions = []
                while came[here]:
                    action, here = came[here]
                    actions.append(action)
                return actions[::-1]
            moves = [(LEFT, (x, y, (d + 3) % 4)), (RIGHT, (x, y, (d + 1) % 4))]
            ahead = env.grid.get(x + dx, y + dy)
            if ahead is None or (ahead.can_overlap() and ahead.type != "lava"):
                moves.append((FORWARD, (x + dx, y + dy, d)))
            for action, there in moves:
                if there not in came:
                    came[there] = (action, here)
                    queue.append(there)
        return None

    def aims(self):
        """Cells with something in them, and a few others."""
        env, aims = self.driver.env, []
        free = []
        for x in range(env.width):
            for y in range(env.height):
                thing = env.grid.get(x, y)
                if thing is None:
                    free.append((x, y))
                elif thing.type not in ("wall", "lava") or self.rng.random() < 0.002:
                    aims.append((x, y))
        aims += [tuple(map(int, getattr(env, name))) for name in ("success_pos", "failure_pos") if hasattr(env, name)]
        return aims + self.rng.sample(free, min(2, len(free)))

    def use(self, thing):
        """What to do in front of a thing."""
        rng, env = self.rng, self.driver.env
        kind = thing.type if thing else None
        if kind in ("key", "ball", "box"):
            return [PICKUP] if rng.random() < 0.9 else [TOGGLE]
        if kind == "door":
            if self.driver.id.startswith("GoToDoor"):
                return [DONE] if rng.random() < 0.8 else [TOGGLE]
            return [TOGGLE, *[FORWARD] * 2] if rng.random() < 0.9 else [FORWARD]
        return [DROP] if env.carrying and rng.random() < 0.6 else [rng.choice([DONE, PICKUP, FORWARD])]

    def act(self):
        rng, env = self.rng, self.driver.env
        count = int(env.action_space.n)
        if rng.random() < self.chance:
            return rng.randrange(count)
        for _ in range(20):
            if self.plan:
                break
            aim = rng.choice(self.aims())
            thing = env.grid.get(*aim)
            onto = thing is not None and thing.type == "goal" or (thing is None and rng.random() < 0.5)
            path = self.path(aim, onto)
            if path is not None:
                self.plan = path if onto else path + self.use(thing)
        return self.plan.pop(0) % count if self.plan else rng.randrange(count)


def fold(digest, numbers):
    for number in numbers:
        digest = (digest ^ number) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest


def episode(id, seed):
    """One episode: how it begins, what is done, and a digest of everything that it shows."""
    rng = random.Random(seed)
    driver = Driver(id)
    driver.reset(seed)
    player = Player(driver, rng, rng.choice([0.02, 0.1, 0.3, 1.0]))
    state, actions, draws, total, digest = driver.state(), [], [], 0.0, 0xCBF29CE484222325
    while True:
        actions.append(player.act())
        reward, terminated, truncated = driver.step(actions[-1])
        draws.append(driver.balls())
        total += reward
        digest = fold(digest, [*driver.seen(), *driver.state(), terminated, truncated])
        if terminated or truncated:
            break
    line = {"env": f"MiniGrid-{id}", "state": state, "actions": actions}
    if any(draws):
        line["draws"] = draws
    ends = {"terminated": terminated, "truncated": truncated}
    return {**line, "return": total, **ends, "digest": f"{digest:016x}"}


def frequencies(id):
    """In how many layouts a place has what: by what is counted, a count for each place."""
    driver, counts = Driver(id), collections.defaultdict(collections.Counter)
    for seed in range(RESETS):
        driver.reset(seed)
        for key, place in set(features(driver.state())):
            counts[key][place] += 1
    constant = lambda counter: all(count == RESETS for count in counter.values())
    return {key: sorted(counter.items()) for key, counter in sorted(counts.items()) if not constant(counter)}


def features(state):
    """What is counted in a layout, as pairs of a name and a place. tests/minigrid.rs counts the same."""
    width, height = state[:2]
    area = width * height
    cells, rest = state[2 : 2 + 3 * area], state[2 + 3 * area :]
    x, y, direction = rest[:3]
    # Where cells are few, with the direction.
    if area <= 81:
        yield "agent", (y * width + x) * 4 + direction
    else:
        yield "agent", y * width + x
        yield "direction", direction
    for cell in range(area):
        kind, colour, door = cells[3 * cell : 3 * cell + 3]
        if kind > 1:
            yield f"type {kind}", cell
        if kind in (4, 5, 6, 7):
            yield f"colour {kind}", 3 * colour + door
    for index, number in enumerate(rest[6:]):
        yield f"extra {index}", number


def family():
    rows = []
    for number, id in enumerate(IDS):
        own = [episode(id, 1_000 * number + seed) for seed in range(EPISODES)]
        ends = collections.Counter((row["return"] > 0, row["terminated"]) for row in own)
        print(id, sum(len(row["actions"]) for row in own), "steps; (success, terminated):", dict(ends), flush=True)
        rows += own
    write("minigrid.episodes", rows)
    counts = [{"env": f"MiniGrid-{id}", "package": PACKAGE, "counts": frequencies(id)} for id in IDS]
    write("minigrid.frequencies", counts)


if __name__ == "__main__":
    # More episodes than the tests have: minigrid.recipe.py FIRST COUNT > FILE
    first, count = map(int, sys.argv[1:3])
    for id in IDS:
        for seed in range(first, first + count):
            print(json.dumps(episode(id, seed)))
