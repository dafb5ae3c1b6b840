"""MinAtar's Seaquest without sticky actions, with ramping."""

from reference import MinAtar, first, rollout

SEED = 1_009
STEP_NOISE = 0.0
REFERENCE = {"tolerance": {"step": 0.0, "end": 0.0, "reward": 0.0, "f32": 0.0}, "angles": []}

HEAD = ("sub_y", "sub_x", "sub_or", "oxygen", "diver_count", "shot_timer", "e_spawn_timer", "e_spawn_speed", "d_spawn_timer",
        "move_speed", "ramp_index", "surface")
LISTS = {"f_bullets": 3, "e_bullets": 3, "e_fish": 4, "e_subs": 5, "divers": 4}


class Seaquest(MinAtar):
    def set(self, state):
        for name, value in zip(HEAD, state):
            setattr(self.game, name, bool(value) if name in ("sub_or", "surface") else value)
        rest = list(state[len(HEAD) :])
        for name, length in LISTS.items():
            count, rest = rest[0], rest[1:]
            records = [rest[k * length : (k + 1) * length] for k in range(count)]
            setattr(self.game, name, [[x, y, bool(right), *timers] for y, x, right, *timers in records])
            rest = rest[count * length :]
        assert rest == []

    def get(self):
        state = [getattr(self.game, name) for name in HEAD]
        for name in LISTS:
            records = getattr(self.game, name)
            state += [len(records), *(number for x, y, *rest in records for number in (y, x, *rest))]
        return state


def environment():
    return Seaquest("Seaquest", time_limit=5_000, sticky_action_prob=0.0)


def at(y=4, x=5, right=0, oxygen=100, carried=0, shot=0, enemy=(9, 20), diver=9, speed=5, ramps=0, surfaced=0,
       own=(), theirs=(), fish=(), subs=(), divers=()):
    lists = [number for things in (own, theirs, fish, subs, divers) for number in (len(things), *sum(map(list, things), []))]
    return [y, x, right, oxygen, carried, shot, *enemy, diver, speed, ramps, surfaced, *lists]


def parts(state):
    """The lists of a state."""
    state, found = state[len(HEAD) :], []
    for length in LISTS.values():
        count, rest = state[0], state[1:]
        found.append([tuple(rest[k * length : (k + 1) * length]) for k in range(count)])
        state = rest[count * length :]
    return found


def captain(env, rng, ramps):
    """A player that shoots, keeps away from what comes near, and surfaces for air if that pays; `ramps` surfaces as often as it can."""
    def policy(s, _):
        y, x, right, oxygen, carried, ready = s[0], s[1], s[2], s[3], s[4], s[5] == 0
        _, theirs, fish, subs, divers = parts(s)
        near = [(ty, tx + k * (1 if way else -1)) for ty, tx, way, *_ in theirs + fish + subs for k in (0, 1, 2)]
        cells = {0: (y, x), 1: (y, max(0, x - 1)), 2: (max(0, y - 1), x), 3: (y, min(9, x + 1)), 4: (min(8, y + 1), x)}
        safe = [a for a, cell in cells.items() if cell not in near and not (cell[0] == 0 and y and carried == 0)] or [0]
        if ready and any(ty == y and (tx > x) == bool(right) for ty, tx, *_ in fish + subs) and 0 in safe:
            return 5
        home = carried != 0 and (oxygen < 60 or carried >= 6 or (ramps and y < 5))
        goals = [(0, x)] if home else [(ty, tx) for ty, tx, *_ in divers] or [(4, 5)]
        far = lambda cell: min(abs(cell[0] - ty) + abs(cell[1] - tx) for ty, tx in goals)
        return min(safe, key=lambda a: (far(cells[a]), rng.random()))

    return policy


def edges():
    """State, action, and what must come of it: (reward, terminated, y, x, right, oxygen, carried) and lists."""
    O, T, F, S, D = range(5)
    return [
        *[(at(), action, (0, False, y, x, right, 99, 0), {}) for action, y, x, right in
          ((0, 4, 5, 0), (1, 4, 4, 0), (2, 3, 5, 0), (3, 4, 6, 1), (4, 5, 5, 0))],
        (at(x=0, right=1, surfaced=1), 1, (0, False, 4, 0, 0, 99, 0), {}),  # the edges; it turns at the wall
        (at(x=9), 3, (0, False, 4, 9, 1, 99, 0), {}),
        (at(y=8), 4, (0, False, 8, 5, 0, 99, 0), {}),
        (at(y=0, surfaced=1), 2, (0, False, 0, 5, 0, 100, 0), {}),
        (at(y=0, surfaced=1), 4, (0, False, 1, 5, 0, 99, 0), {}),
        (at(), 5, (0, False, 4, 5, 0, 99, 0), {O: [(4, 4, 0)]}),  # shots
        (at(right=1), 5, (0, False, 4, 5, 1, 99, 0), {O: [(4, 6, 1)]}),
        (at(shot=1), 5, (0, False, 4, 5, 0, 99, 0), {O: []}),
        (at(x=0), 5, (0, False, 4, 0, 0, 99, 0), {O: []}),
        (at(y=0, surfaced=1), 5, (0, False, 0, 5, 0, 100, 0), {O: [(0, 4, 0)]}),
        (at(own=[(2, 0, 0), (3, 8, 1)]), 0, (0, False, 4, 5, 0, 99, 0), {O: [(3, 9, 1)]}),
        (at(own=[(2, 1, 0)]), 5, (0, False, 4, 5, 0, 99, 0), {O: [(2, 0, 0), (4, 4, 0)]}),
        (at(own=[(3, 9, 1)]), 5, (0, False, 4, 5, 0, 99, 0), {O: [(4, 4, 0)]}),
        # A bullet takes the oldest fish, else the oldest submarine.
        (at(own=[(2, 3, 1)], fish=[(2, 4, 1, 3), (2, 4, 1, 2)], subs=[(2, 4, 1, 1, 4)]), 0, (1, False, 4, 5, 0, 99, 0),
         {O: [], F: [(2, 4, 1, 1)], S: [(2, 4, 1, 0, 3)]}),
        (at(own=[(2, 3, 1)], subs=[(2, 4, 1, 3, 2), (2, 4, 1, 1, 4)]), 0, (1, False, 4, 5, 0, 99, 0),
         {O: [], S: [(2, 4, 1, 0, 3)]}),
        (at(own=[(2, 3, 1), (2, 5, 0)], fish=[(2, 4, 1, 3), (2, 4, 1, 2)]), 0, (2, False, 4, 5, 0, 99, 0), {O: [], F: []}),
        (at(own=[(2, 3, 1), (2, 5, 0)], fish=[(2, 4, 1, 3)]), 0, (1, False, 4, 5, 0, 99, 0), {O: [(2, 4, 1)], F: []}),
        # Enemies swim into a bullet: the newest submarine first, and submarines before fish.
        (at(own=[(2, 4, 1)], fish=[(2, 6, 0, 0)]), 0, (1, False, 4, 5, 0, 99, 0), {O: [], F: []}),
        (at(own=[(2, 3, 1)], fish=[(2, 5, 0, 0)]), 0, (1, False, 4, 5, 0, 99, 0), {O: [], F: []}),
        (at(own=[(2, 3, 1)], fish=[(2, 5, 0, 0), (2, 5, 0, 0)]), 0, (1, False, 4, 5, 0, 99, 0), {O: [], F: [(2, 4, 0, 5)]}),
        (at(own=[(2, 3, 1)], subs=[(2, 5, 0, 0, 3), (2, 5, 0, 0, 4)]), 0, (1, False, 4, 5, 0, 99, 0), {O: [], S: [(2, 4, 0, 5, 2)]}),
        (at(own=[(2, 3, 1)], subs=[(2, 5, 0, 0, 3)], fish=[(2, 5, 0, 0)]), 0, (1, False, 4, 5, 0, 99, 0), {S: [], F: [(2, 4, 0, 5)]}),
        (at(own=[(2, 3, 1), (2, 5, 0)], subs=[(2, 5, 0, 0, 3), (2, 5, 0, 0, 4)]), 0, (2, False, 4, 5, 0, 99, 0), {O: [], S: []}),
        (at(own=[(2, 3, 1)], subs=[(2, 5, 0, 0, 0)]), 0, (1, False, 4, 5, 0, 99, 0), {S: [], T: [(2, 3, 0)]}),  # ... and still fire
        # Enemies meet the submarine: they stand there, they come.
        (at(fish=[(4, 4, 0, 3)]), 1, (0, True, 4, 4, 0, 99, 0), {}),
        (at(fish=[(4, 4, 0, 0)]), 1, (0, True, 4, 4, 0, 99, 0), {F: [(4, 3, 0, 5)]}),
        (at(fish=[(4, 4, 1, 0)]), 0, (0, True, 4, 5, 0, 99, 0), {}),
        (at(subs=[(4, 6, 0, 0, 2)]), 0, (0, True, 4, 5, 0, 99, 0), {}),
        (at(subs=[(4, 5, 0, 0, 2)]), 0, (0, True, 4, 5, 0, 99, 0), {}),
        (at(fish=[(4, 6, 1, 0)], subs=[(4, 7, 1, 0, 5)]), 0, (0, False, 4, 5, 0, 99, 0), {F: [(4, 7, 1, 5)], S: [(4, 8, 1, 5, 4)]}),
        # Out of the board; a submarine fires there, too.
        (at(fish=[(2, 9, 1, 0), (3, 0, 0, 0)], subs=[(5, 9, 1, 0, 0), (6, 0, 0, 0, 1)]), 0, (0, False, 4, 5, 0, 99, 0),
         {T: [], F: [], S: []}),
        (at(subs=[(2, 3, 1, 2, 0), (3, 7, 0, 0, 0), (5, 9, 1, 3, 0)]), 0, (0, False, 4, 5, 0, 99, 0),
         {T: [(3, 5, 0), (2, 4, 1)], S: [(2, 3, 1, 1, 10), (3, 6, 0, 5, 10), (5, 9, 1, 2, 10)]}),
        (at(theirs=[(4, 6, 0)]), 0, (0, True, 4, 5, 0, 99, 0), {T: [(4, 5, 0)]}),
        (at(theirs=[(4, 4, 0)]), 1, (0, True, 4, 4, 0, 99, 0), {T: [(4, 3, 0)]}),
        (at(theirs=[(4, 3, 0), (2, 0, 0), (3, 9, 1)]), 0, (0, False, 4, 5, 0, 99, 0), {T: [(4, 2, 0)]}),
        (at(subs=[(4, 4, 1, 3, 0)]), 0, (0, True, 4, 5, 0, 99, 0), {}),
        # Divers: taken where they are or when they come, not by a full submarine.
        (at(divers=[(4, 4, 0, 3)]), 1, (0, False, 4, 4, 0, 99, 1), {D: []}),
        (at(divers=[(4, 4, 1, 0)]), 0, (0, False, 4, 5, 0, 99, 1), {D: []}),
        (at(divers=[(4, 4, 1, 1)]), 0, (0, False, 4, 5, 0, 99, 0), {D: [(4, 4, 1, 0)]}),
        (at(carried=6, divers=[(4, 4, 1, 0)]), 0, (0, False, 4, 5, 0, 99, 6), {D: [(4, 5, 1, 5)]}),
        (at(carried=5, divers=[(4, 5, 1, 4), (4, 5, 0, 2)]), 0, (0, False, 4, 5, 0, 99, 6), {D: [(4, 5, 1, 3)]}),
        (at(divers=[(2, 0, 0, 0), (3, 9, 1, 3)]), 0, (0, False, 4, 5, 0, 99, 0), {D: [(3, 9, 1, 2)]}),
        # Air.
        (at(oxygen=1), 0, (0, False, 4, 5, 0, 0, 0), {}),
        (at(oxygen=0), 0, (0, True, 4, 5, 0, -1, 0), {}),
        (at(y=1), 2, (0, True, 0, 5, 0, 100, 0), {}),  # without divers
        *[(at(y=1, carried=carried), 2, (0, False, 0, 5, 0, 200, carried - 1), {}) for carried in (1, 5, -1, -2)],
        *[(at(y=1, carried=6, oxygen=oxygen), 2, (oxygen // 20, False, 0, 5, 0, 200, -1), {}) for oxygen in (199, 100, 39, 20, 19)],
        (at(y=1, carried=6, oxygen=0), 2, (0, True, 0, 5, 0, 200, -1), {}),
        (at(y=0, surfaced=1, carried=3), 0, (0, False, 0, 5, 0, 100, 3), {}),
    ]


def cases(c, rng):
    env = c.env
    for state, action, expected, lists in edges():
        out = c.single(state, action)
        s = out["state"][0]
        got = (out["reward"][0], out["terminated"][0], *s[:5])
        assert got == expected, (state, action, got, expected)
        for which, things in lists.items():
            assert parts(s)[which] == things, (state, action, which, parts(s))
    for ramps, enemy, speed in ((0, 20, 5), (1, 19, 5), (5, 9, 3), (7, 8, 2), (19, 1, 2), (20, 1, 2), (21, 1, 3), (22, 1, 3)):
        out = c.single(at(y=1, carried=2, enemy=(3, enemy), speed=speed, ramps=ramps), 2)
        assert out["state"][0][10] == ramps + (enemy > 1 or speed > 2)
    # What comes, and is refused in a row that goes the other way.
    crowd = dict(fish=[(row, 4, row % 2, 3) for row in (1, 2, 3, 4)], subs=[(row, 4, row % 2, 3, 3) for row in (5, 6, 7, 8)])
    came = set()
    for env.seed in range(40):
        state = at(y=0, x=4, surfaced=1, enemy=(0, 7), diver=9 * (env.seed % 2), speed=4, **(crowd if env.seed > 15 else {}))
        out = c.single(state, 0)
        came.add(tuple(len(things) for things in parts(out["state"][0])[2:]))
    assert came == {(4, 4, 0), (4, 4, 1), (5, 4, 0), (5, 4, 1), (4, 5, 0), (4, 5, 1), (1, 0, 0), (1, 0, 1), (0, 1, 0), (0, 1, 1)}, came
    for state in range(80):  # anything anywhere; rows have a direction
        way = [int(rng.integers(0, 2)) for _ in range(10)]
        speed = int(rng.integers(2, 6))
        place = lambda low: (lambda y: (y, int(rng.integers(0, 10)), way[y]))(int(rng.integers(low, 9)))
        timer = lambda most: int(rng.choice([0, int(rng.integers(0, most + 1))]))
        fish = [(*place(1), timer(speed)) for _ in range(int(rng.integers(0, 12)))]
        subs = [(*place(1), timer(speed), timer(10)) for _ in range(int(rng.integers(0, 9)))]
        shot, diver = timer(5), timer(2)
        # In play there are never more than two, the new one included.
        own = [place(0) for _ in range(int(rng.integers(0, 3 if shot else 2)))]
        theirs = [place(1) for _ in range(int(rng.integers(0, 9)))]
        divers = [(*place(1), timer(5)) for _ in range(int(rng.integers(0, 3 if diver else 2)))]
        env.seed = state
        c.single(at(int(rng.integers(0, 9)), int(rng.integers(1, 9)), int(rng.integers(0, 2)), int(rng.integers(1, 200)),
                    int(rng.integers(-1, 7)), shot, (timer(2), 12), diver, speed, 6, 0, own, theirs, fish, subs, divers),
                 int(rng.integers(0, 6)))
    env.seed = 50
    start = env.reset_state(50)
    assert start == at(y=0, oxygen=200, enemy=(20, 20), diver=30, surfaced=1)
    first(20, lambda _: c.episode(start, [int(a) for a in rng.integers(0, 6, 400)], (True, False)))
    for ramps in (False, True):
        best = 0
        for env.seed in range(60, 90):
            actions = rollout(env, start, captain(env, rng, ramps), 2_000)
            if len(actions) > best and len(actions) < 2_000:
                best = len(actions)
                assert c.long_episode(start, actions, (True, False))
    # The crowd of the fastest speeds, seen from the surface.
    fast = at(y=0, oxygen=200, enemy=(0, 1), diver=0, speed=2, ramps=19, surfaced=1)
    for env.seed in range(90, 93):
        actions = [int(a) for a in rng.choice([0, 1, 3, 5], 400)] + [4] * 60
        assert c.long_episode(fast, actions, (True, False))
