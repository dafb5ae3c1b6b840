"""Craftax-Classic: pieces of play, worlds with their draws, and what 2,000 worlds contain.

Needs craftax 1.6.1 with jax 0.10.2, on a CPU. The package's own code is traced with `jax.random.uniform` and `jax.random.choice`
wrapped so that their results come out too, and with the loops that carry a key unrolled; the wrapped program must give the states of the
unwrapped one. `craftax_rules.py` follows every step with the same draws, and everything must be equal.

Worlds are made one a call: with this version, a batch of them comes out wrong on CPUs.
"""

import contextlib
import importlib.metadata
import itertools
import random

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax_classic.envs.craftax_state import EnvState, Inventory, Mobs
from craftax.craftax_classic.envs.craftax_symbolic_env import CraftaxClassicSymbolicEnvNoAutoReset
from craftax_pieces import CRAFTED, NATURAL, STEPS, Chooser, Purposeful
from craftax_rules import FIELDS, LIGHT, SIDE, State, world
from reference import number32, write

PACKAGE = f"craftax {importlib.metadata.version('craftax')}"
BATCH = 64
# Pieces written: natural ones from a reset and from later on; crafted ones, of this many times BATCH.
KEPT = {"random": (8, 12), "do": (8, 12), "purposeful": (8, 30), "edges": (0, 20), "forge": (0, 16), "shared": (0, 14)}
CRAFTED_KEPT, ROUNDS, WINDOWS = (0, 10), 3, 5
WORLDS, COUNTED = 8, 2_000
UNIT = 1 << 23
UNIFORMS = {0, 3, 6, 9, 15, 18, 19, 21, 23}  # among the 25 draws of a step
# What no part of the data may lack; `craftax_rules.py` says when.
NEEDED = """
    a full list marks its first|a kill takes another's mark|a second zombie hits|an 11th plant|an action asleep|
    arrow at 11, wrapped|arrow at 12, wrapped|arrow hits a sleeper|arrow over water|arrow stops at a creature|arrow stops outside|
    asleep without energy|collect 0 full|collect 4|craft 11: lacks only 1|craft 11: lacks only 2|craft 8: lacks only 2|
    craft 8: lacks only furnace|do outside|eat|eat without an entry|end: health|end: lava|end: time|gone|
    enters where a kill took another's mark|hit kind 0, damage 4|
    in the player's cell|into lava, wrapped|kind 0 hidden|kind 0 hidden by a wrap|kind 1 hidden|kind 2 hidden|kind 3 hidden|
    kind 3 hidden by a wrap|live without mark|moves, not live|no arrow left|no cell to spawn 6|no tool for 10, a lesser one|
    not tired|place 7 on 14|place 7 on 3|place 8 on 14|place 9 on 14|rested|revived kind 0|revived kind 1|revived kind 2|ripens|
    skeleton flees|skeleton shoots, cornered|spawn 0 on 7|spawn 0 with cooldown|spawn by the light before|tie|
    two achievements at once|two live mobs in a cell|two of a kind in front|wakes|weakens|zombie hits a sleeper
"""


@contextlib.contextmanager
def recorded():
    """The list of what the package's code draws while it is traced: uniforms, positions in lists, ranks among the cells that may be chosen."""
    uniform, choice, scan, draws = jax.random.uniform, jax.random.choice, jax.lax.scan, []

    def drawn_uniform(*args, **more):
        draws.append(uniform(*args, **more))
        return draws[-1]

    def drawn_choice(key, a, shape=(), p=None):
        place = choice(key, jnp.arange(len(a)), shape, p=p)
        one = place.reshape(())
        draws.append(((p > 0) & (jnp.arange(len(p)) < one)).sum() if len(a) == SIDE * SIDE else one)
        return a[place]

    def unrolled(body, carry, xs):
        if not (isinstance(carry, tuple) and isinstance(carry[-1], EnvState)):
            return scan(body, carry, xs)
        for x in xs:
            carry, _ = body(carry, x)
        return carry, None

    jax.random.uniform, jax.random.choice, jax.lax.scan = drawn_uniform, drawn_choice, unrolled
    try:
        yield draws
    finally:
        jax.random.uniform, jax.random.choice, jax.lax.scan = uniform, choice, scan


class Package:
    """The package's step for BATCH environments and its reset for one, each with its draws and without."""

    def __init__(self):
        self.env = CraftaxClassicSymbolicEnvNoAutoReset()
        params = self.env.default_params

        def plain(key, state, action):
            return self.env.step_env(key, state, action, params)[:4]

        def step(key, state, action):
            with recorded() as draws:
                return plain(key, state, action), draws

        def reset(key):
            with recorded() as draws:
                return self.env.reset_env(key, params), draws

        self.plain, self.step = jax.jit(jax.vmap(plain)), jax.jit(jax.vmap(step))
        self.plain_reset, self.reset = jax.jit(lambda key: self.env.reset_env(key, params)), jax.jit(reset)
        self.template = self.plain_reset(jax.random.PRNGKey(0))[1]

    def world(self, seed):
        """Blocks, uniforms in units of 2^-23 by field, and the rank of the last stone."""
        key = jax.random.PRNGKey(seed)
        (obs, state), draws = self.reset(key)
        same((obs, state), self.plain_reset(key))
        names = [*FIELDS, "gem"]
        assert len(draws) == len(names)
        fields = {name: np.ravel(np.asarray(values, np.float64) * UNIT).astype(np.int64) for name, values in zip(names[:-1], draws)}
        assert all(len(fields[name]) == FIELDS[name] for name in FIELDS)
        start = State(np.asarray(state.map).ravel().tolist())
        assert self.numbers(jax.tree.map(lambda x: jnp.asarray(x)[None], state))[0].tolist() == without_marks(start.public())
        check_observation(start.observe(), np.asarray(obs))
        return start.blocks, fields, int(draws[-1])

    def numbers(self, state):
        """The public states of a batch, without the marks."""
        rows = len(state.timestep)
        column = lambda *xs: [np.asarray(x).reshape(rows, -1) for x in xs]
        each = lambda *xs: np.stack([np.asarray(x) for x in xs], -1).reshape(rows, -1)
        mobs = [
            each(m.position[..., 0], m.position[..., 1], m.health, jnp.maximum(m.attack_cooldown, 0), m.mask)
            for m in (state.zombies, state.cows, state.skeletons)
        ]
        arrows, ways, places = state.arrows, state.arrow_directions, state.growing_plants_positions
        halves = column(2 * state.player_recover, 2 * state.player_hunger, 2 * state.player_thirst)
        parts = [
            *column(state.timestep, state.player_position, state.player_direction),
            *column(state.player_health, state.player_food, state.player_drink, state.player_energy, state.is_sleeping),
            *halves,
            *column(state.player_fatigue, *(getattr(state.inventory, name) for name in Inventory.__dataclass_fields__)),
            *mobs,
            each(arrows.position[..., 0], arrows.position[..., 1], ways[..., 0], ways[..., 1], arrows.mask),
            each(places[..., 0], places[..., 1], state.growing_plants_age, state.growing_plants_mask),
            *column(state.achievements, state.map),
        ]
        rows = np.concatenate(parts, 1)
        assert (rows == np.floor(rows)).all()
        return rows.astype(np.int64)

    def states(self, models):
        """The package's states for a batch of `craftax_rules.State`."""
        at = lambda f: np.array([f(m) for m in models])
        mobs = lambda i, j: Mobs(
            position=at(lambda m: [x[:2] for x in m.mobs[i:j]]),
            health=at(lambda m: [x[2] for x in m.mobs[i:j]]),
            attack_cooldown=at(lambda m: [x[3] for x in m.mobs[i:j]]),
            mask=at(lambda m: [x[4] for x in m.mobs[i:j]]),
        )
        state = self.template.replace(
            map=at(lambda m: m.blocks).reshape(-1, SIDE, SIDE),
            mob_map=at(occupied),
            player_position=at(lambda m: [m.row, m.col]),
            player_direction=at(lambda m: m.facing),
            player_health=at(lambda m: m.health),
            player_food=at(lambda m: m.food),
            player_drink=at(lambda m: m.drink),
            player_energy=at(lambda m: m.energy),
            is_sleeping=at(lambda m: m.sleeping),
            player_recover=at(lambda m: m.recover / 2),
            player_hunger=at(lambda m: m.hunger / 2),
            player_thirst=at(lambda m: m.thirst / 2),
            player_fatigue=at(lambda m: m.fatigue),
            inventory=Inventory(*(at(lambda m, k=k: m.items[k]) for k in range(12))),
            zombies=mobs(0, 3),
            cows=mobs(3, 6),
            skeletons=mobs(6, 8),
            arrows=self.template.arrows.replace(
                position=at(lambda m: [x[:2] for x in m.arrows]),
                mask=at(lambda m: [x[4] for x in m.arrows]),
                health=np.zeros((len(models), 3)),
                attack_cooldown=np.zeros((len(models), 3)),
            ),
            arrow_directions=at(lambda m: [x[2:4] for x in m.arrows]),
            growing_plants_positions=at(lambda m: [x[:2] for x in m.plants]),
            growing_plants_age=at(lambda m: [x[2] for x in m.plants]),
            growing_plants_mask=at(lambda m: [x[3] for x in m.plants]),
            light_level=at(lambda m: LIGHT[m.time % 300]),
            achievements=at(lambda m: m.achievements),
            state_rng=np.repeat(np.asarray(self.template.state_rng)[None], len(models), 0),
            timestep=at(lambda m: m.time),
        )
        return jax.tree.map(lambda x, like: jnp.asarray(x, jnp.asarray(like).dtype), state, self.template)


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert np.array_equal(np.asarray(x), np.asarray(y))


def without_marks(public):
    return public[:142] + public[150:]


def occupied(model):
    """The package's mask of occupied cells, from the marks."""
    cells = np.zeros((SIDE, SIDE), bool)
    for mark, mob in zip(model.marks, model.mobs):
        if mark and mob[4]:
            cells[mob[0], mob[1]] = True
    return cells


def check_observation(own, theirs):
    assert abs(own[1343] - theirs[1343]) < 1e-5
    own[1343] = theirs[1343]
    assert np.array_equal(own, theirs), np.flatnonzero(own != theirs)


def digest(observation):
    """Of the bits of all numbers but light."""
    numbers = observation.copy()
    numbers[1343] = 0
    digest = 0xCBF29CE484222325
    for number in numbers.view(np.uint32).tolist():
        digest = (digest ^ number) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{digest >> 32:08x}"


class Piece:
    """What happened from a state on."""

    def __init__(self, kind, model):
        self.kind, self.state, self.ended = kind, model.public(), False
        self.actions, self.draws, self.rewards, self.states, self.seen = [], [], [], [], []
        self.events = model.events = {}

    def row(self):
        """The line of the file; observations as digests, and the last one whole."""
        changes = []
        for before, after in itertools.pairwise([self.state, *self.states]):
            changes.append([x for i in range(len(after)) if before[i] != after[i] for x in (i, after[i])])
        last = self.seen[-1]
        return {
            "kind": self.kind,
            "state": self.state[:150],
            "map": "".join("0123456789abcdefg"[block] for block in self.state[150:]),
            "actions": self.actions,
            "draws": [[int(x * UNIT) if i in UNIFORMS else x for i, x in enumerate(row)] for row in self.draws],
            "rewards": [number32(x) for x in self.rewards],
            "terminated": self.ended,
            "changes": changes,
            "digests": [digest(seen) for seen in self.seen],
            "last_obs": [x for i in np.flatnonzero(last).tolist() for x in (i, number32(last[i]))],
        }


def play(package, kind, models, players, seed, windows):
    """Pieces of STEPS steps, one after the other, of BATCH environments; every step is compared."""
    state, pieces, alive = package.states(models), [], [True] * BATCH
    for t in range(windows * STEPS):
        if t % STEPS == 0:
            current = [Piece(kind, model) if on else None for model, on in zip(models, alive)]
            pieces += [piece for piece in current if piece]
        actions = [player.act(model) if on else 0 for player, model, on in zip(players, models, alive)]
        keys = jax.random.split(jax.random.PRNGKey(1_000_000 * seed + t), BATCH)
        inputs = (keys, state, jnp.array(actions))
        out, draws = package.step(*inputs)
        same(out, package.plain(*inputs))
        obs, state, rewards, ends = out
        obs, rewards, ends = np.asarray(obs), np.asarray(rewards), np.asarray(ends)
        draws, numbers, masks = np.stack(draws, 1), package.numbers(state), np.asarray(state.mob_map)
        for i, (model, piece) in enumerate(zip(models, current)):
            if not alive[i]:
                continue
            row = [x if at in UNIFORMS else int(x) for at, x in enumerate(draws[i].tolist())]
            reward, end, used = model.step(actions[i], row)
            public = model.public()
            assert without_marks(public) == numbers[i].tolist(), (kind, t, i, public, numbers[i])
            assert np.array_equal(occupied(model), masks[i]), (kind, t, i)
            assert reward == rewards[i] and end == bool(ends[i]), (kind, t, i, reward, rewards[i])
            check_observation(model.observe(), obs[i])
            piece.actions.append(actions[i])
            piece.draws.append(used)
            piece.rewards.append(rewards[i])
            piece.states.append(public)
            piece.seen.append(obs[i].copy())
            piece.ended = bool(end)
            alive[i] = not end
    return pieces


def select(pieces, count, seen):
    """The pieces that show most of what is rare so far."""
    kept = []
    while len(kept) < count:
        worth = lambda piece: sum(1 / (1 + seen.get(event, 0)) ** 2 for event in piece.events)
        best = max(range(len(pieces)), key=lambda i: worth(pieces[i]))
        kept.append(pieces.pop(best))
        for event in kept[-1].events:
            seen[event] = seen.get(event, 0) + 1
    return kept


def candidates(package, number, kind, worlds):
    """Pieces of one kind, more than are written."""
    if kind in NATURAL:
        rngs = [random.Random(100_000 * number + i) for i in range(BATCH)]
        players = [Purposeful(rng) if kind == "purposeful" else Chooser(rng, NATURAL[kind]) for rng in rngs]
        return play(package, kind, [State(blocks) for blocks in worlds], players, 10 * number, WINDOWS)
    (make, weights), pieces = CRAFTED[kind], []
    for turn in range(ROUNDS):
        rngs = [random.Random(100_000 * number + BATCH * turn + i) for i in range(BATCH)]
        models, players = [make(rng, worlds) for rng in rngs], [Chooser(rng, weights) for rng in rngs]
        pieces += play(package, kind, models, players, 10 * number + turn, 1)
    return pieces


def family():
    package, seen, rows, steps, shown = Package(), {}, [], 0, 0
    worlds = [package.world(seed)[0] for seed in range(100, 100 + BATCH)]
    for number, kind in enumerate([*CRAFTED, *NATURAL]):
        pieces = candidates(package, number, kind, worlds)
        resets = [piece for piece in pieces if piece.state[0] == 0 and kind in NATURAL]
        first, later = KEPT.get(kind, CRAFTED_KEPT)
        kept = select(resets, first, seen) + select([piece for piece in pieces if piece not in resets], later, seen)
        gained = sum(float(reward) for piece in pieces for reward in piece.rewards)
        print(f"{kind}: {len(pieces)} pieces equal, {len(kept)} written, mean return {gained / len(pieces):.2f} a piece", flush=True)
        steps += sum(len(piece.actions) for piece in pieces)
        shown += sum(len(piece.actions) for piece in kept)
        rows += [piece.row() for piece in kept]
    print(steps, "steps equal,", shown, "steps written; in how many pieces what happens:")
    print("\n".join(f"  {count:4} {event}" for event, count in sorted(seen.items())))
    lacking = [event for event in map(str.strip, NEEDED.split("|")) if event not in seen]
    assert not lacking, lacking
    write("craftax_classic.pieces", rows)
    write("craftax_classic.worlds", [world_row(package, seed) for seed in range(WORLDS)])
    write("craftax_classic.frequencies", [frequencies(package)])


def own_world(fields, gem):
    return world({name: (values / UNIT).astype(np.float32) for name, values in fields.items()}, gem)


def world_row(package, seed):
    blocks, fields, gem = package.world(seed)
    assert np.array_equal(own_world(fields, gem), blocks)
    text = "".join("0123456789abcdefg"[block] for block in blocks)
    return {"seed": seed, **{name: "".join(f"{x:06x}" for x in values.tolist()) for name, values in fields.items()}, "gem": gem, "map": text}


def features(blocks):
    """Numbers of a world, by name. The tests of the crate count the same."""
    grid = np.array(blocks).reshape(SIDE, SIDE)
    for block in (2, 3, 4, 5, 7, 8, 9, 10, 13, 14):
        yield f"block {block}", int((grid == block).sum())
    view = grid[29:36, 28:37]
    for block in (2, 3, 4, 5, 7, 13):
        yield f"view {block}", int((view == block).sum())
    yield "across", int((grid[:, 1:] == grid[:, :-1]).sum())
    yield "down", int((grid[1:] == grid[:-1]).sum())


def frequencies(package):
    """Of each feature mean, variance and counts between edges; of 64 cells, how often they are what."""
    values, cells, tiles = {}, np.zeros((64, 17), int), 0
    for seed in range(10_000, 10_000 + COUNTED):
        blocks, fields, gem = package.world(seed)
        tiles += int((own_world(fields, gem) != blocks).sum())
        for name, value in features(blocks):
            values.setdefault(name, []).append(value)
        places = np.array(blocks).reshape(SIDE, SIDE)[4::8, 4::8].ravel()
        cells[np.arange(64), places] += 1
    print(f"worlds: {tiles} tiles differ in {COUNTED}")
    rows = {}
    for name, numbers in values.items():
        numbers = np.array(numbers)
        edges = sorted({int(x) for x in np.quantile(numbers, np.arange(1, 10) / 10, method="higher")} - {int(numbers.min())})
        counts = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1).tolist()
        rows[name] = {"mean": float(numbers.mean()), "variance": float(numbers.var(ddof=1)), "edges": edges, "counts": counts}
    blocks = {str(block): cells[:, block].tolist() for block in range(17) if cells[:, block].any()}
    return {"package": PACKAGE, "worlds": COUNTED, "features": rows, "cells": blocks}
