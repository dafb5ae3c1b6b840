"""MinAtar's Freeway with the package's sticky actions; the game ignores its ramping option."""

from reference import MinAtar, rollout

SEED = 1_006
STEP_NOISE = 0.0
REFERENCE = {"tolerance": {"step": 0.0, "end": 0.0, "reward": 0.0, "f32": 0.0}, "angles": []}


class Freeway(MinAtar):
    def set(self, state):
        game = self.game
        game.pos, game.move_timer, game.terminate_timer = state[:3]
        game.cars = [[x, row, timer, speed] for row, (x, timer, speed) in enumerate(zip(*[iter(state[3:])] * 3), 1)]

    def get(self):
        game = self.game
        assert [row for _, row, _, _ in game.cars] == list(range(1, 9))
        cars = [number for x, _, timer, speed in game.cars for number in (x, timer, speed)]
        return [game.pos, game.move_timer, game.terminate_timer, *cars]


def environment():
    return Freeway("Freeway", time_limit=2_502, sticky_action_prob=0.1)


def drawn(env, state, seed):
    """The first number drawn after a start from `state`: of sticky actions."""
    env.seed = seed
    env.start(state)
    env.step(0)
    return env.draws[0]


def played(c, state, action):
    """A step that plays its own action, with another seed than the step before."""
    seeds = range(c.env.seed + 1, c.env.seed + 100)
    c.env.seed = next(seed for seed in seeds if drawn(c.env, state, seed) >= c.env.sticky_action_prob)
    return c.single(state, action)


def cases(c, rng):
    env = c.env
    quiet = [(0, 5, 5)] * 8

    def at(y, move_timer, time_left=1_000, cars={}):
        return [y, move_timer, time_left, *(number for i in range(8) for number in cars.get(i + 1, quiet[i]))]

    # state, action, what must come of it: (reward, terminated, y, move_timer) and columns of the cars in the state
    edges = [
        (at(9, 0), 2, (0, False, 8, 2), {}),  # up and down, when the timer allows it
        (at(9, 1), 2, (0, False, 9, 0), {}),
        (at(5, 0), 4, (0, False, 6, 2), {}),
        (at(5, 2), 4, (0, False, 5, 1), {}),
        (at(9, 0), 4, (0, False, 9, 2), {}),  # down at the bottom costs the wait
        *[(at(5, 0), action, (0, False, 5, 0), {}) for action in (0, 1, 3, 5)],  # nothing, left, right, fire
        (at(9, 3), 0, (0, False, 9, 2), {}),
        (at(5, 1, cars={3: (7, 0, 2), 4: (7, 0, -2)}), 0, (0, False, 5, 0), {3: (8, 2, 2), 4: (6, 2, -2)}),
        (at(5, 1, cars={3: (9, 0, 1), 4: (0, 0, -1)}), 0, (0, False, 5, 0), {3: (0, 1, 1), 4: (9, 1, -1)}),  # around
        (at(5, 1, cars={3: (0, 0, -4), 4: (9, 0, 3)}), 0, (0, False, 5, 0), {3: (9, 4, -4), 4: (0, 3, 3)}),
        (at(5, 1, cars={3: (2, 1, 5), 4: (2, 3, -5)}), 0, (0, False, 5, 0), {3: (2, 0, 5), 4: (2, 2, -5)}),  # waits
        (at(5, 1, cars={5: (3, 0, 1)}), 0, (0, False, 9, 0), {5: (4, 1, 1)}),  # drives into the chicken
        (at(5, 1, cars={5: (5, 0, -3)}), 0, (0, False, 9, 0), {5: (4, 3, -3)}),
        (at(5, 1, cars={5: (3, 1, 1)}), 0, (0, False, 5, 0), {5: (3, 0, 1)}),
        (at(6, 0, cars={5: (4, 2, 3)}), 2, (0, False, 9, 2), {5: (4, 1, 3)}),  # walks into a car
        (at(4, 0, cars={5: (4, 2, 3)}), 4, (0, False, 9, 2), {5: (4, 1, 3)}),
        (at(6, 0, cars={5: (4, 0, 3)}), 2, (0, False, 9, 2), {5: (5, 3, 3)}),  # ... one that leaves in this step
        (at(6, 0, cars={5: (3, 0, 3)}), 2, (0, False, 9, 2), {5: (4, 3, 3)}),  # ... one that comes
        (at(5, 0, cars={5: (4, 0, 3)}), 2, (0, False, 4, 2), {5: (5, 3, 3)}),  # out of its way
        (at(5, 0, cars={4: (4, 2, 3), 5: (3, 0, 3)}), 4, (0, False, 6, 2), {4: (4, 1, 3), 5: (4, 3, 3)}),
        (at(1, 1, cars={1: (4, 2, 2)}), 0, (0, False, 9, 0), {1: (4, 1, 2)}),  # first and last row
        (at(8, 1, cars={8: (4, 2, 2)}), 0, (0, False, 9, 0), {8: (4, 1, 2)}),
        (at(5, 0, time_left=1), 2, (0, False, 4, 2), {}),  # the clock
        (at(5, 0, time_left=0), 2, (0, True, 4, 2), {}),
        (at(2, 0, time_left=0), 2, (0, True, 1, 2), {}),
    ]
    for state, action, expected, cars in edges:
        out = played(c, state, action)
        s = out["state"][0]
        got = (out["reward"][0], out["terminated"][0], *s[:2])
        assert got == expected, (state, action, got, expected)
        for row, car in cars.items():
            assert tuple(s[3 * row : 3 * row + 3]) == car, (state, action, row, s)
    crossings = {}
    for car in range(9):  # across, with cars anywhere; the last on the last step
        cars = {row: (int(rng.integers(0, 10)), int(rng.integers(0, 6)), int(rng.integers(1, 6))) for row in range(1, 9)}
        out = played(c, at(1, 0, time_left=0 if car == 8 else 77, cars=cars), 2)
        assert (out["reward"], out["terminated"], out["state"][0][:2]) == ([1], [car == 8], [9, 2])
        draws = c.cases[-1]["draws"][0]
        assert len(draws) == 17
        for row, speed, direction in zip(range(1, 9), draws[1:9], draws[9:]):
            crossings[speed, direction > 0.5] = True
            assert out["state"][0][3 * row + 2] == (speed if direction > 0.5 else -speed)
    assert len(crossings) == 10  # every speed in both directions

    def hasty(s, k):
        return 2 if rng.random() < 0.8 else int(rng.integers(0, 6))

    def careful(s, k):
        """Goes up where no car is near the next row's crossing."""
        y = s[0]
        near = lambda row: 1 <= row <= 8 and min(abs(s[3 * row] - 4), 10 - abs(s[3 * row] - 4)) <= 1
        if not near(y - 1):
            return 2
        return 4 if near(y) and not near(y + 1) else 0

    stuck = at(5, 0)  # the action before takes the place of this one
    env.seed = next(seed for seed in range(200, 300) if drawn(env, stuck, seed) < env.sticky_action_prob)
    assert c.single(stuck, 2)["state"][0][:2] == [5, 0]

    for env.seed in range(40, 48):  # states from play, with the player's and other actions
        rollout(env, env.reset_state(env.seed), careful, 60 + 40 * (env.seed - 40))
        state = env.state()
        c.single(state, careful(state, 0))
        c.single(state, int(rng.integers(0, 6)))
    # The last steps of an episode, step by step.
    for env.seed, policy in ((1, hasty), (2, careful)):
        state = env.reset_state(env.seed)
        rollout(env, state, policy, 400)
        state = [*env.state()[:2], 30 + env.seed, *env.state()[3:]]
        assert c.episode(state, rollout(env, state, policy, 100), (True, False))
    for env.seed, policy in ((3, hasty), (4, careful), (5, careful)):
        state = env.reset_state(env.seed)
        actions = rollout(env, state, policy, 3_000)
        assert len(actions) == 2_501
        assert c.long_episode(state, actions, (True, False))
    assert c.long[-1]["return"] > 5, c.long[-1]["return"]
