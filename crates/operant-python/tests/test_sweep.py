"""`operant.sweep` has the bits and the table of `operant sweep`; `operant.ray` says what it needs."""

import importlib.util
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import operant

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


@pytest.mark.long
def test_a_sweep_that_was_stopped_continues(tmp_path):
    long = {"env": "cartpole", "seeds": 2, "set": {"total_timesteps": 5_000_000, "eval_episodes": 4}}
    stop = "import os, signal; operant.sweep.__globals__['_show'] = lambda *_: os.kill(os.getpid(), signal.SIGINT)"
    code = f"import operant; {stop}; operant.sweep({long!r}, name='s', run_dir={str(tmp_path)!r}, progress=True)"
    stopped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert stopped.returncode in (1, -signal.SIGINT) and "KeyboardInterrupt" in stopped.stderr, stopped
    sweep = operant.Sweep(tmp_path / "s")
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


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
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
