"""Gymnasium environments that only this process can make: threads of it step them."""

import os
import re
import threading
from functools import partial

import gym_envs
import gymnasium
import numpy as np
import pytest
import test_gym
from test_gym import learned, short

import operant

place = test_gym.place


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "operant-environments"]


@pytest.fixture(autouse=True)
def ends():
    yield
    assert threads() == []


class Maker:
    """Makes environments by a bound method, and keeps them."""

    def __init__(self):
        self.made, self.closed, self.processes = [], 0, set()

    def make(self, length=5):
        outer = self

        class Seen(gym_envs.Steady):
            def step(self, action):
                outer.processes.add((os.getpid(), threading.current_thread().name))
                return super().step(action)

            def close(self):
                outer.closed += 1

        self.made.append(Seen(length))
        return self.made[-1]


def test_lambdas_partials_methods_and_local_classes_learn_what_worker_processes_do():
    class Steady(gym_envs.Steady):
        pass

    there = learned(short(gym_envs.Steady, name="there", options={"max_episode_steps": 50}))
    for number, env in enumerate([lambda: gym_envs.Steady(), partial(gym_envs.Steady, length=10), partial(Maker().make, 10), Steady]):
        run = short(env, name=f"here-{number}", options={"max_episode_steps": 50})
        assert run.state == "finished" and learned(run) == there, env
    # Two threads, and two tiles of environments.
    assert learned(short(lambda: gym_envs.Steady(), workers=2, threads=2, options={"max_episode_steps": 50})) == there


def test_they_are_made_stepped_and_closed_in_this_process():
    maker = Maker()
    run = short(maker.make)
    assert maker.processes == {(os.getpid(), "operant-environments")}
    # One to read its spaces, four that train, and those of the evaluation.
    assert len(maker.made) > 5 and maker.closed == len(maker.made)
    assert run.info()["env"] == "seen" and '"make":"here:Seen"' in (run.dir / "env.world").read_text()
    spec = short(lambda: gymnasium.make("CartPole-v1"), name="spec")
    assert spec.info()["env"] == "cartpole_v1" and spec.policy(np.zeros(4, np.float32)) in (0, 1)


def test_evaluations_and_continued_runs_ask_for_them_again():
    make = Maker().make
    run = short(make, name="again")
    says = r"the environment of this run was made by a Python function.*operant.resume\(run, env=FUNCTION\) or run.eval\(env=FUNCTION\)"
    for call in (run.eval, lambda: run.eval(trust=True), lambda: operant.resume(run, total_timesteps=1024)):
        with pytest.raises(ValueError, match=re.compile(says, re.DOTALL)):
            call()
    assert run.eval(1, env=make)["eval_return_mean"] == run.result["eval_return_mean"]
    with pytest.raises(ValueError, match="made from another file than in training, or its file or rules have changed"):
        run.eval(1, env=lambda: gymnasium.make("CartPole-v1"))
    assert operant.resume(run, env=make, total_timesteps=1024).result["env_steps"] == 1024
    with pytest.raises(ValueError, match=r"run again trains seen, not cartpole_v1"):
        operant.resume(run, env=lambda: gymnasium.make("CartPole-v1"), total_timesteps=2048)


class Faulty(gym_envs.Steady):
    """Fails at some steps of the process."""

    steps = 0

    def step(self, action):
        Faulty.steps += 1
        if Faulty.steps in self.fails:
            raise LookupError("no such thing")
        return super().step(action)


def test_failures_make_them_again_with_the_traceback_in_a_warning():
    class Local(Faulty):
        fails = (40, 90)

    Faulty.steps = 0
    with pytest.warns(UserWarning, match=r"(?s)LookupError: no such thing.*test_local_envs.py:\d+ in step.*the worker is restarted.*restart 1 of 16"):
        assert short(Local).state == "finished"
    Faulty.steps = 0
    with pytest.warns(UserWarning, match="restart 1 of 1"), pytest.raises(RuntimeError, match="failure 2 exceeds the limit of 1 restarts"):
        short(Local, name="fails", options={"restarts": 1})


def test_one_that_hangs_ends_the_run():
    release = threading.Event()

    class Hangs(gym_envs.Steady):
        def step(self, action):
            release.wait()
            return super().step(action)

    with pytest.raises(RuntimeError, match=r"no answer within 0.5 s \(env.timeout\)"):
        short(Hangs, options={"timeout": 0.5})
    release.set()
    for thread in threads():
        thread.join()


def test_ctrl_c_stops_with_a_checkpoint():
    def interrupt(metrics):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="with the checkpoint"):
        short(lambda: gym_envs.Steady(), on_update=interrupt, total_timesteps=10**6)
    assert operant.runs()[0].state == "preempted"


def test_only_training_steps_them_here():
    env = lambda: gym_envs.Steady()  # noqa: E731
    for call in (lambda: operant.sweep({"env": env}), lambda: operant.Policy.new(env)):
        with pytest.raises(ValueError, match="other processes cannot import .*, and only operant.train steps environments in this one"):
            call()
    with pytest.raises(TypeError, match="env: expected the name"):
        operant.train(gym_envs.Steady())
    with pytest.raises(ValueError, match="preset: 'atari' is for Gymnasium environments that other processes"):
        short(env, preset="atari")


def test_one_environment_for_all_rows_is_refused():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(RuntimeError, match="returned the same environment twice; return a new one from each call"):
        short(lambda: env, num_envs=8, workers=1)


def test_ctrl_c_names_the_call_that_takes_the_function_again():
    def interrupt(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"operant\.resume\(\".*/runs/c\", env=FUNCTION\) continues it"):
        short(lambda: gym_envs.Steady(), name="c", on_update=interrupt)
    run = operant.resume("c", env=lambda: gym_envs.Steady())
    assert run.state == "finished"
