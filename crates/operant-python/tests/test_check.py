"""What an environment's rules return is checked by `check_world`, `make_vec(check=True)` and training."""

import operant
import pytest
from gymnasium import spaces
from operant import math as om


@operant.world(name="counted", observation_space=spaces.Box(0, 4, (2,)), action_space=spaces.Discrete(3), max_episode_steps=5)
class Counted:
    t: operant.Uint
    x: operant.Float

    def __init__(self, reward=lambda s: 1.0, shown=lambda s: s.x, legal=lambda s: s.t >= 0):
        self.reward, self.shown, self.allows = reward, shown, legal

    def reset(self, draws):
        return self.State(t=0, x=0.5)

    def step(self, s, action, draws):
        s.t = s.t + 1
        reward = self.reward(s)
        s.x = om.to_float(s.t) * 0.75
        return s, reward, s.t > 8

    def observe(self, s):
        return [om.to_float(s.t % 4), self.shown(s)]

    def legal(self, s):
        return [self.allows(s), False, self.allows(s)]


SMALL = {"ring": False, "seed": 1, "num_envs": 16, "num_steps": 16, "total_timesteps": 512, "eval_episodes": 2}
AT_3 = r"after action [02] \(seed {}\)"
FAULTS = [
    # The reward of step 2 (from 0 on) overflows single precision.
    ({"reward": lambda s: om.where(s.t == 3, 1e38, 1.0) * 100.0}, r"counted: the reward is inf in environment 0 at step 2, " + AT_3, True),
    ({"reward": lambda s: om.log(1.0 - om.to_float(s.t))}, r"the reward is -inf in environment 0 at step 0, " + AT_3, True),
    ({"shown": lambda s: om.log(1.6 - s.x)}, r"observation\[1\] is NaN in environment 0 at step 2, " + AT_3, True),
    ({"shown": lambda s: s.x + 3.0}, r"observation\[1\] is 4.5, outside \[0, 4\] in environment 0 at step 1, " + AT_3, False),
    # The observation before the reset, which no policy acts on.
    ({"shown": lambda s: om.where(s.t == 5, om.log(-s.x), s.x)}, r"the last observation\[1\] is NaN in environment 0 at step 4, " + AT_3, True),
    ({"shown": lambda s: s.x - 1.0}, r"observation\[1\] is -0.5, outside \[0, 4\] in environment 0 before the first step \(seed {}\)", False),
]


@pytest.mark.parametrize(("rules", "error", "trains"), FAULTS)
def test_what_rules_may_not_return_is_named(rules, error, trains, tmp_path):
    before = "" if "before" in error else r"; the state before: t = \d, x = \d\.\d+"
    with pytest.raises(RuntimeError, match=error.format(7) + before):
        operant.check_world(Counted(**rules), seed=7)
    if trains:
        with pytest.raises(RuntimeError, match="(?s)" + error.format(1) + ".*check_world"):
            operant.train(Counted(**rules), run_dir=tmp_path, **SMALL)


def test_the_state_after_the_step_is_shown_where_the_episode_goes_on(tmp_path):
    with pytest.raises(RuntimeError, match=r"step 2, after action [02] \(seed 1\); its state: t = 3, x = 2\.25"):
        operant.train(Counted(shown=lambda s: om.log(1.6 - s.x)), run_dir=tmp_path, **SMALL)


def test_a_mask_without_a_legal_action_is_named():
    with pytest.raises(RuntimeError, match=r"no action is legal in environment 0 at step 1, .*; the state before: t = 1, x = 0\.75"):
        operant.check_world(Counted(legal=lambda s: s.t < 2))


def test_environments_without_a_fault_pass(tmp_path):
    operant.check_world(Counted(), steps=50)
    for name in ("cartpole", "2048", "freeway", "MiniGrid-DoorKey-8x8-v0"):
        operant.check_world(name, steps=100, num_envs=8)
    checked, plain = (operant.make_vec("pendulum", 8, seed=1, check=check) for check in (True, False))
    (a, _), (b, _) = checked.reset(), plain.reset()
    assert (a == b).all() and operant.train(Counted(), run_dir=tmp_path, **SMALL).state == "finished"
