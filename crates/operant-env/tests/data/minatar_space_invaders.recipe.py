"""MinAtar's Space Invaders without sticky actions, with ramping."""

import numpy as np
from reference import MinAtar, first, rollout

SEED = 1_008
STEP_NOISE = 0.0
REFERENCE = {"tolerance": {"step": 0.0, "end": 0.0, "reward": 0.0, "f32": 0.0}, "angles": []}


class SpaceInvaders(MinAtar):
    def set(self, state):
        game = self.game
        game.pos, game.shot_timer, game.alien_dir, game.alien_move_timer, game.alien_shot_timer = state[:5]
        game.enemy_move_interval, game.ramp_index = state[5:7]
        maps = np.array(state[7:], dtype=np.float64).reshape(3, 10, 10)
        game.alien_map, game.f_bullet_map, game.e_bullet_map = maps[0].copy(), maps[1].copy(), maps[2].copy()

    def get(self):
        game = self.game
        head = [game.pos, game.shot_timer, game.alien_dir, game.alien_move_timer, game.alien_shot_timer]
        maps = [game.alien_map, game.f_bullet_map, game.e_bullet_map]
        return [*head, game.enemy_move_interval, game.ramp_index, *np.concatenate([m.flatten() for m in maps])]


def environment():
    return SpaceInvaders("SpaceInvaders", time_limit=5_000, sticky_action_prob=0.0, module="space_invaders")


def cells(*places):
    grid = [0] * 100
    for y, x in places:
        grid[10 * y + x] = 1
    return grid


WAVE = cells(*((y, x) for y in range(4) for x in range(2, 8)))


def shooter(rng):
    """A player that keeps away from bullets that come down and shoots below aliens."""
    def policy(s, _):
        x, ready, direction = s[0], s[1] == 0, s[2]
        aliens, bullets = (np.array(s[7 + 100 * k : 107 + 100 * k]).reshape(10, 10) for k in (0, 2))
        danger = lambda x: not 0 <= x <= 9 or bullets[8][x] or bullets[9][x] or aliens[9][x]
        if danger(x):
            return 1 if not danger(x - 1) else 3
        if ready and aliens[:, max(0, min(9, x - direction))].any() and rng.random() < 0.9:
            return 5
        columns = np.flatnonzero(aliens.any(axis=0))
        near = columns[np.argmin(np.abs(columns - x))]
        step = int(np.sign(near - x))
        return 0 if step == 0 or danger(x + step) else 2 + step

    return policy


def at(x=5, shot=0, direction=-1, move=5, fire=5, interval=12, ramps=0, aliens=cells((0, 0)), own=cells(), theirs=cells()):
    return [x, shot, direction, move, fire, interval, ramps, *aliens, *own, *theirs]


def cases(c, rng):
    env = c.env
    two = cells((2, 3), (2, 6))
    # state, action, what must come of it: (reward, terminated, x, shot_timer, direction, alien_move_timer, alien_shot_timer, interval),
    # and cells of aliens, of own and of alien bullets
    edges = [
        (at(), 5, (0, False, 5, 4, -1, 4, 4, 12), [(0, 0)], [(8, 5)], []),  # fire, and too early
        (at(shot=1), 5, (0, False, 5, 0, -1, 4, 4, 12), [(0, 0)], [], []),
        (at(x=0), 1, (0, False, 0, 0, -1, 4, 4, 12), [(0, 0)], [], []),
        (at(x=9), 3, (0, False, 9, 0, -1, 4, 4, 12), [(0, 0)], [], []),
        *[(at(), action, (0, False, x, 0, -1, 4, 4, 12), [(0, 0)], [], []) for action, x in
          ((0, 5), (1, 4), (2, 5), (3, 6), (4, 5))],
        (at(own=cells((0, 4), (3, 4)), theirs=cells((9, 1), (5, 5))), 0, (0, False, 5, 0, -1, 4, 4, 12),
         [(0, 0)], [(2, 4)], [(6, 5)]),
        (at(theirs=cells((8, 5))), 0, (0, True, 5, 0, -1, 4, 4, 12), [(0, 0)], [], [(9, 5)]),  # hit, and out of the way
        (at(theirs=cells((8, 5))), 1, (0, False, 4, 0, -1, 4, 4, 12), [(0, 0)], [], [(9, 5)]),
        (at(theirs=cells((8, 4))), 1, (0, True, 4, 0, -1, 4, 4, 12), [(0, 0)], [], [(9, 4)]),
        (at(theirs=cells((9, 4))), 1, (0, False, 4, 0, -1, 4, 4, 12), [(0, 0)], [], []),
        (at(aliens=cells((9, 4))), 1, (0, True, 4, 0, -1, 4, 4, 12), [(9, 4)], [], []),  # into an alien
        (at(aliens=cells((9, 4)), move=0), 0, (0, False, 5, 0, -1, 0, 4, 12), [(9, 3)], [], []),
        (at(aliens=cells((9, 6)), move=0), 0, (0, True, 5, 0, -1, 0, 4, 12), [(9, 5)], [], []),  # they march into the cannon
        (at(aliens=cells((8, 0), (8, 5)), move=0), 0, (0, True, 5, 0, 1, 1, 4, 12), [(9, 0), (9, 5)], [], []),
        (at(aliens=cells((9, 0), (2, 3)), move=0), 0, (0, True, 5, 0, 1, 1, 4, 12), [(0, 0), (3, 3)], [], []),  # the bottom
        (at(aliens=cells((9, 9), (2, 3)), move=0), 0, (0, False, 5, 0, -1, 1, 4, 12), [(9, 8), (2, 2)], [], []),
        (at(aliens=cells((9, 9), (2, 3)), move=0, direction=1), 0, (0, True, 5, 0, -1, 1, 4, 12), [(0, 9), (3, 3)], [], []),
        (at(aliens=WAVE, move=0, interval=9), 0, (0, False, 5, 0, -1, 8, 4, 9),
         [(y, x) for y in range(4) for x in range(1, 7)], [], []),
        (at(aliens=two, fire=0), 0, (0, False, 5, 0, -1, 4, 9, 12), [(2, 3), (2, 6)], [], [(2, 6)]),  # who shoots
        (at(x=4, aliens=cells((2, 3), (5, 5), (7, 5)), fire=0), 0, (0, False, 4, 0, -1, 4, 9, 12),
         [(2, 3), (5, 5), (7, 5)], [], [(2, 3)]),
        (at(x=4, aliens=cells((2, 2), (5, 5), (3, 5), (7, 5)), fire=0), 0, (0, False, 4, 0, -1, 4, 9, 12),
         [(2, 2), (3, 5), (5, 5), (7, 5)], [], [(7, 5)]),
        (at(x=0, aliens=cells((2, 9)), fire=0), 0, (0, False, 0, 0, -1, 4, 9, 12), [(2, 9)], [], [(2, 9)]),
        (at(x=9, aliens=cells((0, 0), (1, 0)), fire=0), 0, (0, False, 9, 0, -1, 4, 9, 12), [(0, 0), (1, 0)], [], [(1, 0)]),
        (at(aliens=cells((9, 0)), fire=0), 0, (0, False, 5, 0, -1, 4, 9, 12), [(9, 0)], [], [(9, 0)]),
        (at(aliens=cells((5, 3), (1, 1)), own=cells((6, 3), (2, 8))), 0, (1, False, 5, 0, -1, 4, 4, 12), [(1, 1)], [(1, 8)], []),
        (at(aliens=cells((5, 3), (1, 8), (0, 0)), own=cells((6, 3), (2, 8))), 0, (2, False, 5, 0, -1, 4, 4, 12), [(0, 0)], [], []),
        (at(aliens=cells((5, 3), (1, 0)), own=cells((5, 2)), move=0), 0, (0, False, 5, 0, 1, 1, 4, 12),
         [(6, 3), (2, 0)], [(4, 2)], []),
        (at(aliens=cells((5, 3), (1, 0)), own=cells((6, 3)), move=0), 0, (0, False, 5, 0, 1, 1, 4, 12),
         [(6, 3), (2, 0)], [(5, 3)], []),  # they swap cells
        (at(aliens=cells((5, 3), (1, 1)), own=cells((6, 3)), fire=0), 0, (1, False, 5, 0, -1, 4, 9, 12), [(1, 1)], [], [(5, 3)]),
        (at(aliens=cells((5, 3)), own=cells((6, 3), (4, 4)), theirs=cells((1, 1)), direction=1, interval=8, ramps=4), 0,
         (1, False, 5, 0, 1, 4, 4, 7), [(y, x) for y in range(4) for x in range(2, 8)], [(3, 4)], [(2, 1)]),  # the next wave
        (at(aliens=cells((5, 3)), own=cells((6, 3)), interval=6, ramps=6), 0, (1, False, 5, 0, -1, 4, 4, 6),
         [(y, x) for y in range(4) for x in range(2, 8)], [], []),
    ]
    for state, action, expected, *maps in edges:
        out = c.single(state, action)
        s = out["state"][0]
        got = (out["reward"][0], out["terminated"][0], *s[:6])
        assert got == expected, (state[:7], action, got, expected)
        for k, places in enumerate(maps):
            assert s[7 + 100 * k : 107 + 100 * k] == cells(*places), (state[:7], action, k)
    for state in range(60):  # anything anywhere
        crowd = [float(share) for share in rng.choice([0.02, 0.1, 0.4], 3)]
        aliens, own, theirs = ([int(rng.random() < share) for _ in range(100)] for share in crowd)
        aliens[int(rng.integers(0, 100))] = 1
        timers = [int(rng.choice([0, 0, 1, 5])) for _ in range(3)]
        c.single(at(int(rng.integers(0, 10)), timers[0], int(rng.choice([-1, 1])), timers[1], timers[2],
                    int(rng.integers(6, 13)), 0, aliens, own, theirs), int(rng.integers(0, 6)))
    start = env.reset_state(1)
    assert start == at(move=12, fire=10, aliens=WAVE)
    first(20, lambda _: c.episode(start, [int(a) for a in rng.integers(0, 6, 400)], (True, False)))
    assert c.long_episode(start, [0] * 400, (True, False))
    assert c.long_episode(start, [5] * 1_000, (True, False))
    few = at(aliens=cells((2, 5), (3, 4)), own=cells((8, 5)), interval=8, ramps=4)
    for state in (start, few):
        best = 0
        for _ in range(30):
            actions = rollout(env, state, shooter(rng), 5_000)
            if len(actions) > best:
                best = len(actions)
                assert c.long_episode(state, actions, (True, False))
    assert max(line["final_state"][6] for line in c.long) > 4 and max(line["return"] for line in c.long) > 24
