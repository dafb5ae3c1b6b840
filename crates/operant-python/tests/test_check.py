"""What an environment's rules return is checked by `check_world`, `make_vec(check=True)` and training."""

import pickle

import numpy as np
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
    ({"shown": lambda s: om.sqrt(2.0 - s.x)}, r"observation\[1\] is NaN in environment 0 at step 2, " + AT_3, True),
    ({"shown": lambda s: s.x + 3.0}, r"observation\[1\] is 4.5, outside \[0, 4\] in environment 0 at step 1, " + AT_3, False),
    # The observation before the reset, which no policy acts on.
    ({"shown": lambda s: om.where(s.t == 5, om.log(-s.x), s.x)}, r"the last observation\[1\] is NaN in environment 0 at step 4, " + AT_3, True),
    ({"shown": lambda s: s.x - 1.0}, r"observation\[1\] is -0.5, outside \[0, 4\] in environment 0 \(seed {}\)", False),
]


@pytest.mark.parametrize(("rules", "error", "trains"), FAULTS)
def test_what_rules_may_not_return_is_named(rules, error, trains, tmp_path):
    state = r"; the state before: t = \d, x = \d\.\d+" if "at step" in error else r"; its state: t = 0, x = 0\.5"
    with pytest.raises(RuntimeError, match=error.format(7) + state):
        operant.check_world(Counted(**rules), seed=7)
    if trains:
        with pytest.raises(RuntimeError, match="(?s)" + error.format(1) + ".*check_world"):
            operant.train(Counted(**rules), run_dir=tmp_path, **SMALL)


def test_the_state_after_the_step_is_shown_where_the_episode_goes_on(tmp_path):
    with pytest.raises(RuntimeError, match=r"step 2, after action [02] \(seed 1\); its state: t = 3, x = 2\.25"):
        operant.train(Counted(shown=lambda s: om.sqrt(2.0 - s.x)), run_dir=tmp_path, **SMALL)


def test_evaluations_are_checked(tmp_path):
    world = Counted(reward=lambda s: om.where(s.t == 3, 1e38, 1.0) * 100.0)
    # Training ends before the third step of an episode.
    short = SMALL | {"num_steps": 2, "num_minibatches": 2, "total_timesteps": 32}
    with pytest.raises(RuntimeError, match=r"the reward is inf in environment 0 at step 2, after action [02] \(seed 1\)"):
        operant.train(world, run_dir=tmp_path, name="failed", **short)
    # What was trained is saved.
    assert operant.load("failed", run_dir=tmp_path).env_steps == 32


def test_a_mask_without_a_legal_action_is_named():
    with pytest.raises(RuntimeError, match=r"no action is legal in environment 0 at step 1, .*; the state before: t = 1, x = 0\.75"):
        operant.check_world(Counted(legal=lambda s: s.t < 2))


def test_environments_without_a_fault_pass(tmp_path):
    operant.check_world(Counted(), steps=50)
    for name in ("cartpole", "2048", "freeway", "MiniGrid-DoorKey-8x8-v0"):
        operant.check_world(name, steps=100, num_envs=8)
    checked, plain = (operant.make_vec("cartpole", 8, seed=1, check=check) for check in (True, False))
    checked.reset(), plain.reset()
    for step in range(100):
        actions = np.arange(8) * step % 2
        (*a, info), (*b, expected) = checked.step(actions), plain.step(actions)
        assert repr((a, info)) == repr((b, expected))
    assert pickle.loads(pickle.dumps(checked))._check
    assert operant.train(Counted(), run_dir=tmp_path, **SMALL).state == "finished"


@operant.world(name="later", observation_space=spaces.Box(0, 1, (1,)), action_space=spaces.Discrete(2), max_episode_steps=2)
class Later:
    """One episode in four begins outside of the space."""

    x: operant.Float

    def reset(self, draws):
        return self.State(x=om.where(draws.integer(4) == 0, -1.0, 1.0))

    def step(self, s, action, draws):
        s.x = 0.5
        return s, 0.0, False

    def observe(self, s):
        return [s.x]


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_the_beginning_of_a_later_episode_is_no_result_of_the_step(mode):
    envs = operant.make_vec(Later, 1, autoreset_mode=mode, check=True)
    what = r"at the beginning of an episode, observation\[0\] is -1, outside \[0, 1\] in environment 0 \(seed \d\); its state: x = -1\.0"
    for seed in range(20):
        try:
            envs.reset(seed=seed)
        except RuntimeError:
            continue
        with pytest.raises(RuntimeError, match=what):
            for _ in range(1000):
                envs.step([0])
        return
    pytest.fail("every first episode begins outside of the space")


def test_the_seed_is_that_of_the_environment():
    low = Counted(shown=lambda s: s.x - 0.75)
    envs = operant.make_vec(low, 2, check=True)
    with pytest.raises(RuntimeError, match=r"observation\[1\] is -0.25, outside \[0, 4\] in environment 0 \(seed 100\); its state: t = 0"):
        envs.reset(seed=[100, 200])


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_an_episode_may_end_where_no_action_is_legal(mode):
    envs = operant.make_vec(Counted(legal=lambda s: s.t < 5), 3, autoreset_mode=mode, check=True)
    envs.reset(seed=1)
    for _ in range(5):
        *_, truncated, _ = envs.step([0, 0, 0])
    assert truncated.all()
    envs.reset(options={"reset_mask": np.array([True, False, False])})
    # Also after a state is set.
    again = operant.make_vec(Counted(legal=lambda s: s.t < 5), 3, autoreset_mode=mode, check=True)
    again.set_state(envs.get_state())
    if mode == "next_step":
        again.reset(options={"reset_mask": np.array([False, True, False])})
        again.step([0, 0, 0])
