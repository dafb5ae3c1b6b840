"""`operant.sweep` has the bits and the table of `operant sweep`; `operant.ray` says what it needs."""

import importlib.util
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import gym_envs
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import operant
from operant import _core

BRIEF = {"num_envs": 16, "num_steps": 16, "total_timesteps": 5120, "eval_episodes": 4}


def state(run: Path) -> bytes:
    return (max((run / "checkpoints").glob("step_*")) / "state.safetensors").read_bytes()


def test_a_sweep_has_the_bits_of_the_command_and_of_single_runs(tmp_path):
    spec = {"env": "cartpole", "seeds": (3, 4), "set": BRIEF, "vary": {"learning_rate": np.array([1e-3, 1e-2])}}
    sweep = operant.sweep(spec, name="here", run_dir=tmp_path)
    assert sweep.name == "here" and repr(sweep) == f"operant.Sweep({str(tmp_path / 'here')!r})"
    assert [run.name for run in sweep.runs] == ["0000-seed3", "0000-seed4", "0001-seed3", "0001-seed4"]
    flags = [word for key, value in BRIEF.items() for word in ("--set", f"{key}={value}")]
    flags += ["--set", "learning_rate=1e-3,1e-2", "--seeds", "3..4", "--name", "there", "--run-dir", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "operant", "sweep", "cartpole", *flags, "--quiet"], check=True, capture_output=True)
    single = operant.train("cartpole", seed=4, learning_rate=1e-2, name="single", run_dir=tmp_path, **BRIEF)
    assert state(sweep.runs[3].dir) == state(tmp_path / "there" / "trials" / "0001-seed4") == state(single.dir)
    groups = sweep.report()["environments"][0]["groups"]
    assert {group["settings"]["learning_rate"] for group in groups} == {1e-3, 1e-2}
    assert sum(len(group["runs"]) for group in groups) == 4
    assert {group["name"] for group in groups} == {"learning_rate=0.001", "learning_rate=0.01"}


def test_runs_of_a_sweep_are_a_table(tmp_path):
    vary = {"learning_rate": [1e-3, 1e-2], "hidden": [[8], [16, 8]], "activation": ["tanh", "relu"]}
    sweep = operant.sweep({"env": "cartpole", "seeds": (3, 4), "set": BRIEF, "vary": vary}, name="table", run_dir=tmp_path)
    frame = sweep.to_pandas()
    assert frame.index.name == "run" and frame.index.tolist() == [run.name for run in sweep.runs] and len(frame) == 16
    assert list(frame.columns[:6]) == ["trial", "env", "activation", "hidden", "learning_rate", "seed"]
    kinds = {"trial": "int64", "seed": "int64", "learning_rate": "float64", "objective": "float64", "env_steps": "Int64", "solved_at_step": "Int64"}
    assert {name: str(frame[name].dtype) for name in kinds} == kinds
    for run, (_, row) in zip(sweep.runs, frame.iterrows(), strict=True):
        result = run.result
        assert row["dir"] == str(run.dir) and row["state"] == run.state == "finished" and row["error"] is None
        for name in ("env", "seed", "env_steps", "updates", "eval_return_mean", "train_s"):
            assert row[name] == result[name], name
        assert (row["learning_rate"], list(row["hidden"]), row["activation"]) == tuple(result["config"][name] for name in ("learning_rate", "hidden", "activation"))
        assert row["objective"] == result["eval_return_mean"]
    assert frame.groupby(["learning_rate", "hidden"])["objective"].count().tolist() == [4] * 4
    table = sweep._repr_html_()
    assert "<th>score (eval return)</th>" in table and "objective" not in table
    assert "<b>table</b>: 16 of 16 runs" in table and table.count("<tr>") == 9 and "<th>learning_rate</th>" in table and "[16, 8]" in table


def test_a_table_in_a_notebook_shows_what_is_maximised(tmp_path):
    spec = {"env": "minatar_breakout", "set": {**BRIEF, "hidden": [8]}, "vary": {"learning_rate": [1e-3, 1e-2]}, "search": {"objective": "solved_at_step"}}
    table = operant.sweep(spec, name="s", run_dir=tmp_path)._repr_html_()
    # Twice the steps of a run that does not solve it.
    assert "<th>objective: solved_at_step (minimised)</th>" in table and table.count("<td>10240</td>") == 2


def test_a_sweep_is_opened_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = operant.sweep({"env": "cartpole", "set": BRIEF}, name="mine")
    assert operant.Sweep("mine").dir == operant.Sweep("runs/mine").dir == operant.Sweep("mine", run_dir="runs").dir == sweep.dir
    assert [found.dir for found in operant.sweeps()] == [found.dir for found in operant.sweeps("runs")] == [sweep.dir]
    with pytest.raises(ValueError, match=r'there is no sweep "mien" .did you mean "mine".*operant\.sweeps\(\).*operant\.sweep begins one'.replace(".*", r"(?s:.*)")):
        operant.Sweep("mien")
    with pytest.raises(TypeError, match=r"operant\.sweep begins one"):
        operant.Sweep({"env": "cartpole"})


def test_the_table_shows_runs_that_failed_and_runs_to_come(tmp_path):
    spec = {"env": "cartpole", "seeds": 1, "set": BRIEF, "vary": {"learning_rate": [1e-3, 1e30]}}
    spec["set"] = {**BRIEF, "max_grad_norm": 1e30, "norm_adv": False, "max_nonfinite_updates": 1, "vf_coef": 1e30}
    seen = []

    class Elsewhere:
        slots, threads, device = 1, 1, "cpu"

        def train(self, task, world, directory, link):
            seen.append(operant.Sweep(tmp_path / "s").to_pandas())
            return _core.train_task(task, None, str(Path(directory).parent), _core.Control())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = operant.sweep(spec, name="s", run_dir=tmp_path, executor=Elsewhere()).to_pandas()
    assert seen[0]["state"].tolist()[0] == "planned" and seen[0]["env_steps"].isna().all() and str(seen[0]["env_steps"].dtype) == "Int64"
    assert frame["state"].tolist() == ["finished", "failed"]
    failed = frame.iloc[1]
    assert "diverged" in failed["error"] and np.isnan(failed["objective"]) and failed["learning_rate"] == 1e30


@pytest.mark.long
def test_a_sweep_that_was_stopped_continues(tmp_path):
    long = {"env": "cartpole", "seeds": 2, "set": {"total_timesteps": 5_000_000, "eval_episodes": 4}}
    stop = "import os, signal; operant.sweep.__globals__['_show'] = lambda *_: os.kill(os.getpid(), signal.SIGINT)"
    code = f"import operant; {stop}; operant.sweep({long!r}, name='s', run_dir={str(tmp_path)!r}, progress=True)"
    stopped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    sweep = operant.Sweep(tmp_path / "s")
    says = f'KeyboardInterrupt: the runs of the sweep were stopped with checkpoints; operant.sweep(resume="{sweep.dir}") continues it'
    assert stopped.returncode in (1, -signal.SIGINT) and says in stopped.stderr, stopped
    assert [run.state for run in sweep.runs] == ["preempted", "preempted"]
    with pytest.raises(TypeError, match="leave out seeds"):
        operant.sweep(resume=sweep, seeds=3)
    operant.sweep(resume=sweep)
    assert [run.state for run in sweep.runs] == ["finished", "finished"]


def test_an_executor_of_ones_own_trains_the_runs(tmp_path):
    """In other processes here, as on other machines."""

    class Elsewhere:
        slots, threads, device = 2, 1, "cpu"

        def train(self, task, world, directory, link):
            assert not link.is_stopping()
            link.warn(f"trains {Path(directory).name}")
            code = "import sys; from operant import _core; sys.exit(not _core.train_task(sys.argv[1], None, sys.argv[2], _core.Control()))"
            subprocess.run([sys.executable, "-c", code, task, str(Path(directory).parent)], check=True)
            link.add_steps(5120)
            return True

    spec = {"env": "cartpole", "seeds": 2, "set": BRIEF}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        there = operant.sweep(spec, name="there", run_dir=tmp_path, executor=Elsewhere())
    assert sum("trains 0000-seed" in str(each.message) for each in shown) == 2
    here = operant.sweep(spec, name="here", run_dir=tmp_path)
    assert [state(run.dir) for run in there.runs] == [state(run.dir) for run in here.runs]


@operant.world(observation_space=Box(-9, 9, (1,)), action_space=Discrete(2), max_episode_steps=9, preset={"total_timesteps": 512, "num_envs": 16, "num_steps": 16})
class Line:
    x: operant.Float

    def __init__(self, size=3, *, step=1.0):
        self.size, self.step_size = size, step

    def reset(self, draws):
        return self.State(x=0.0)

    def step(self, s, action, draws):
        s.x = s.x + operant.math.where(action == 1, self.step_size, 0.0)
        return s, s.x, s.x >= self.size

    def observe(self, s):
        return [s.x]


def swept(spec, tmp_path, **keywords):
    sweep = operant.sweep(spec, run_dir=tmp_path, **keywords)
    return [each["env"] for each in sweep.report()["environments"]], sweep


def test_worlds_are_swept_and_so_are_arguments_of_their_constructors(tmp_path):
    brief = {"eval_episodes": 4}
    assert swept(Line(size=4), tmp_path / "object")[0] == ["line"]
    vary = {"env.size": (2, 5), "learning_rate": [1e-3, 1e-2]}
    names, sweep = swept({"env": Line, "set": {**brief, "env.step": 0.5}, "vary": vary}, tmp_path / "vary")
    assert names == ["line_size_2", "line_size_5"] and len(sweep.runs) == 4
    alone = operant.train(Line(size=5, step=0.5), run_dir=tmp_path, name="alone", learning_rate=1e-3, **brief)
    (of_five,) = [run for run in sweep.runs if run.info()["env"] == "line_size_5" and run.result["config"]["learning_rate"] == 1e-3]
    assert of_five.result["eval_return_mean"] == alone.result["eval_return_mean"]
    assert of_five.policy.state_dict()["policy.weight"].tobytes() == alone.policy.state_dict()["policy.weight"].tobytes()
    again = operant.sweep(resume=sweep)
    assert len(again.runs) == 4
    both = {"env": [Line, "cartpole"], "set": {**BRIEF, "total_timesteps": 512}}
    assert swept(both, tmp_path / "both")[0] == ["line", "cartpole"]


def test_gymnasium_environments_are_swept(tmp_path):
    envs = gymnasium.make_vec("operant/MinAtar-Breakout-v0", num_envs=16, sticky_action_prob=0.5)
    names, sweep = swept({"env": envs, "set": {"num_steps": 16, "total_timesteps": 512, "eval_episodes": 1}}, tmp_path)
    (run,) = sweep.runs
    assert names == ["minatar_breakout"] and run.result["config"]["num_envs"] == 16
    assert run.policy.env_options["sticky_action_prob"] == 0.5


@pytest.mark.long
def test_classes_of_gymnasium_environments_are_swept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert swept({"env": gym_envs.Steady, "set": {**BRIEF, "total_timesteps": 512, "env.workers": 1}}, tmp_path / "runs")[0] == ["steady"]


def test_keys_of_info_are_metrics_of_a_sweep(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    given = {**BRIEF, "total_timesteps": 512, "env.workers": 1, "env.metrics": ["is_success", "score"]}
    sweep = swept({"env": gym_envs.Scored, "set": given, "search": {"objective": "score"}}, tmp_path / "runs")[1]
    (run,) = sweep.runs
    assert run.result["eval_metrics"] == {"is_success": 1.0, "score": 10.5} and sweep.to_pandas()["objective"].tolist() == [10.5]


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ({"env": [Line(3), Line(4)]}, ValueError, "line is there twice; vary the argument of its constructor"),
        ({"env": Line, "vary": {"env.size": {"uniform": [1, 2]}}}, ValueError, "env.size: the argument of a world's constructor is varied by a list"),
        ({"env": Line, "set": {"env.sise": 3}}, TypeError, "unexpected keyword argument 'sise'"),
        ({"env": Line(3), "vary": {"env.size": [3, 4]}}, ValueError, "line has no option `size`"),
        ({"env": object}, TypeError, "env: expected the name of an environment, a world, or a class"),
        ({"env": "cartpole", "set": {"hidden": object()}}, TypeError, "the specification has <object"),
        ({"env": "cartpol"}, ValueError, 'did you mean "cartpole"'),
        ({"env": "cartpole", "vary": {"learning_rate": []}}, ValueError, "has no values"),
        ({"env": "cartpole", "sets": {}}, ValueError, "unknown field `sets`"),
        ("missing.toml", ValueError, "cannot be read"),
        (None, TypeError, "one of the two"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, spec, error, text):
    with pytest.raises(error, match=text):
        operant.sweep(spec, run_dir=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_one_error_says_what_to_install(tmp_path):
    with pytest.raises(ImportError, match=r"pip install 'operant-rl\[ray\]'"):
        operant.ray  # noqa: B018
    command = [sys.executable, "-m", "operant", "sweep", "cartpole", "--ray", "auto"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and "needs Ray" in done.stderr and "remedy: " in done.stderr, done
    assert not list(tmp_path.iterdir())
