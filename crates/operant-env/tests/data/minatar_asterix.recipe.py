"""MinAtar's Asterix without sticky actions, with ramping."""

from reference import MinAtar, first, rollout

SEED = 1_007
STEP_NOISE = 0.0
REFERENCE = {"tolerance": {"step": 0.0, "end": 0.0, "reward": 0.0, "f32": 0.0}, "angles": []}


class Asterix(MinAtar):
    def set(self, state):
        game = self.game
        game.player_y, game.player_x, game.spawn_timer, game.spawn_speed = state[:4]
        game.move_timer, game.move_speed, game.ramp_timer, game.ramp_index = state[4:8]
        rows = enumerate(zip(*[iter(state[8:])] * 3), 1)
        game.entities = [[x, row, bool(right), kind == 2] if kind else None for row, (kind, x, right) in rows]

    def get(self):
        game = self.game
        head = [game.player_y, game.player_x, game.spawn_timer, game.spawn_speed, game.move_timer, game.move_speed]
        things = [(1 + thing[3], thing[0], thing[2]) if thing else (0, 0, 0) for thing in game.entities]
        assert all(thing is None or thing[1] == row for row, thing in enumerate(game.entities, 1))
        return [*head, game.ramp_timer, game.ramp_index, *(number for thing in things for number in thing)]


def environment():
    return Asterix("Asterix", time_limit=5_000, sticky_action_prob=0.0)


def wary(env, rng):
    """A player that goes for gold and keeps out of the cells that enemies reach."""
    def policy(s, _):
        y, x = s[0], s[1]
        rows = {row: s[5 + 3 * row : 8 + 3 * row] for row in range(1, 9)}

        def safe(y, x):
            kind, at, right = rows[y]
            return kind != 1 or x not in (at, at + (1 if right else -1))

        steps = {0: (y, x), 1: (y, max(0, x - 1)), 2: (max(1, y - 1), x), 3: (y, min(9, x + 1)), 4: (min(8, y + 1), x)}
        gold = [(row, rows[row][1]) for row in rows if rows[row][0] == 2] or [(5, 5)]
        far = lambda cell: min(abs(cell[0] - row) + abs(cell[1] - at) for row, at in gold)
        kept = [action for action in steps if safe(*steps[action])] or [0]
        return min(kept, key=lambda action: (far(steps[action]), rng.random()))

    return policy


def cases(c, rng):
    env = c.env

    def at(y, x, spawn=(7, 10), move=(3, 5), ramp=(50, 0), things={}):
        return [y, x, *spawn, *move, *ramp, *(number for row in range(1, 9) for number in things.get(row, (0, 0, 0)))]

    # state, action, what must come of it: (reward, terminated, y, x) and things in the state
    full = {row: (1, 2, 1) for row in range(1, 9)}
    edges = [
        *[(at(5, 5), action, (0, False, y, x), {}) for action, y, x in
          ((0, 5, 5), (1, 5, 4), (2, 4, 5), (3, 5, 6), (4, 6, 5), (5, 5, 5))],
        (at(1, 0), 1, (0, False, 1, 0), {}),  # the edges of the player's area
        (at(1, 0), 2, (0, False, 1, 0), {}),
        (at(8, 9), 3, (0, False, 8, 9), {}),
        (at(8, 9), 4, (0, False, 8, 9), {}),
        (at(5, 5, things={5: (2, 6, 0)}), 3, (1, False, 5, 6), {5: (0, 0, 0)}),  # into gold, into an enemy
        (at(5, 5, things={5: (1, 6, 0)}), 3, (0, True, 5, 6), {5: (1, 6, 0)}),
        (at(5, 5, move=(0, 5), things={5: (1, 6, 1)}), 3, (0, True, 5, 6), {5: (1, 7, 1)}),  # ... that moves away
        (at(5, 5, move=(0, 5), things={5: (1, 6, 0)}), 0, (0, True, 5, 5), {5: (1, 5, 0)}),  # they come to the player
        (at(5, 5, move=(0, 5), things={5: (2, 4, 1)}), 0, (1, False, 5, 5), {5: (0, 0, 0)}),
        (at(5, 5, move=(0, 5), things={5: (1, 6, 0)}), 2, (0, False, 4, 5), {5: (1, 5, 0)}),
        (at(5, 5, move=(0, 5), things={2: (1, 9, 1), 3: (2, 0, 0), 4: (2, 9, 0), 6: (1, 0, 1)}), 0, (0, False, 5, 5),
         {2: (0, 0, 0), 3: (0, 0, 0), 4: (2, 8, 0), 6: (1, 1, 1)}),  # over the edges
        (at(5, 2, things=full), 2, (0, True, 4, 2), {}),
        (at(5, 5, spawn=(0, 9), things=full), 0, (0, False, 5, 5), full),  # no room
    ]
    for state, action, expected, things in edges:
        out = c.single(state, action)
        s = out["state"][0]
        got = (out["reward"][0], out["terminated"][0], *s[:2])
        assert got == expected, (state, action, got, expected)
        for row, thing in things.items():
            assert tuple(s[5 + 3 * row : 8 + 3 * row]) == thing, (state, action, row, s)
    assert len(c.cases[-1]["draws"][0]) == 2
    # Ramps: both speeds, one of them, neither; an odd and an even number.
    for spawn, move, index in ((10, 5, 0), (9, 5, 1), (2, 2, 8), (2, 1, 9), (1, 2, 9), (1, 2, 10), (1, 1, 9)):
        for timer in (0, -1):
            c.single(at(5, 5, spawn=(1, spawn), move=(1, move), ramp=(timer, index)), 0)
    for state in range(120):  # anything anywhere; every third time something comes
        crowd = rng.choice([0.2, 0.6, 0.95])
        rows = [row for row in range(1, 9) if rng.random() < crowd]
        things = {row: (int(rng.integers(1, 3)), int(rng.integers(0, 10)), int(rng.integers(0, 2))) for row in rows}
        env.seed = state
        where = [int(rng.integers(1, 9)), int(rng.choice([0, 1, 4, 5, 8, 9]))]
        spawn, move = (0 if state % 3 == 0 else 4, 8), (int(rng.integers(0, 2)), 4)
        c.single(at(*where, spawn=spawn, move=move, ramp=(int(rng.integers(-1, 3)), int(rng.integers(0, 4))), things=things),
                 int(rng.integers(0, 6)))
    drawn = [case["draws"][0] for case in c.cases if "draws" in case]
    assert {len(draws) for draws in drawn} == {2, 3}
    kinds = {(draws[0] < 0.5, draws[1] < 1 / 3, draws[2]) for draws in drawn if len(draws) == 3}
    assert len(kinds) > 12
    env.seed = 1
    start = env.reset_state(1)
    assert c.episode(start, [0] * 300, (True, False))
    for env.seed in (2, 3):
        first(20, lambda _: c.episode(start, [int(a) for a in rng.integers(0, 6, 400)], (True, False)))
    best = 0
    for env.seed in range(10, 30):
        actions = rollout(env, start, wary(env, rng), 5_000)
        if len(actions) > best:
            best = len(actions)
            assert c.long_episode(start, actions, (True, False))
    assert best > 600 and max(line["final_state"][7] for line in c.long) >= 5, best
    fast = at(8, 0, spawn=(1, 1), move=(1, 1), ramp=(100, 9))
    for env.seed in range(40, 44):  # at full speed
        assert c.long_episode(fast, rollout(env, fast, wary(env, rng), 5_000), (True, False))
