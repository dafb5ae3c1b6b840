"""Gymnasium's Taxi-v4: every action from every state that is not an end."""

from toy_text import EXACT, ToyText, tabular

SEED, STEP_NOISE, REFERENCE = 2_005, 0.0, EXACT


class Taxi(ToyText):
    def set(self, state):
        self.inner.s, self.inner.fickle_step = state[0], bool(state[1])

    def state(self):
        return [int(self.inner.s), int(self.inner.fickle_step)]


def environment(**options):
    return Taxi("Taxi-v4", options, env="taxi" if options else None)


def states(step, fickle=0):
    return [[s, fickle] for s in range(0, 500, step) if s // 4 % 5 != s % 4]


def cases(c, rng):
    tabular(c, rng, states(1), (), episodes=0)
    for c.env.seed in range(3):
        assert c.long_episode(c.env.reset_state(c.env.seed), [int(a) for a in rng.integers(0, 6, 200)], (False, True))
    assert {r for e in c.expected for r in e["reward"]} == {-1.0, -10.0, 20.0}
