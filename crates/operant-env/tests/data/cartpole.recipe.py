"""Gymnasium's CartPole-v1."""

from reference import Gym, f32, rollout

SEED = 1_000
STEP_NOISE = 1e-15
REFERENCE = {"tolerance": {"step": 1e-12, "end": 1e-6, "reward": 0.0, "f32": 1e-5}, "angles": []}


class CartPole(Gym):
    def set(self, state):
        # CartPole computes with Python's floats, as its own tuple does.
        self.inner.state = tuple(float(x) for x in state)


def environment():
    return CartPole("CartPole-v1")


def cases(c, rng):
    env = c.env
    limit = env.inner.theta_threshold_radians
    for k in range(40):
        c.single(f32(rng.uniform([-2.35, -3.0, -0.205, -3.5], [2.35, 3.0, 0.205, 3.5])), k % 2)
    for k, side in enumerate((1.0, -1.0) * 4):  # leaves, or just stays, by 1e-4: the same in float32
        margin = 1e-4 if k < 4 else -1e-4
        c.single(f32([side * (2.4 + margin - 0.02 * 1.5), side * 1.5, 0.01 * side, 0.1]), k % 2)
        c.single(f32([0.3 * side, -0.2, side * (limit + margin - 0.02 * 0.8), side * 0.8]), k % 2)
    for side in (1.0, -1.0):  # exactly on the limit: the comparison is strict
        assert c.single([2.4 * side, 0.0, 0.0, 0.0], 1, on_edge=True)["terminated"] == [False]
        assert c.single([0.0, 0.0, limit * side, 0.0], 0, on_edge=True)["terminated"] == [False]
    c.single([2.39 * 1.0, 2.0, limit - 1e-3, 1.0], 1)  # both limits at once
    c.single([0.0, 0.0, 0.0, 0.0], 1)

    def balance(s, _):
        return int(0.05 * s[0] + 0.15 * s[1] + s[2] + 0.4 * s[3] > 0)

    for seed in range(5):
        actions = [int(a) for a in rng.integers(0, 2, 500)]
        assert c.episode(env.reset_state(seed), actions, (True, False))
    for push in (0, 1):
        state = env.reset_state(10 + push)
        assert c.episode(state, rollout(env, state, lambda s, k: balance(s, k) if k < 20 else push, 500), (True, False))
    # A replayed balancing act multiplies a last-bit difference by e^4 a second, so no case can last the 500 steps.
    for push in (0, 1):
        state = env.reset_state(20 + push)
        act = rollout(env, state, lambda s, k: balance(s, k) if k < 150 else push, 500)
        assert len(act) > 150 and c.long_episode(state, act, (True, False))
