"""Ends of Gymnasium environments: signals, and what runs after the trainer or the process that reads the spaces."""

import _thread
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_command import SMALL
from test_gym import X, fault, place, short, until, workers  # noqa: F401

import operant


@contextlib.contextmanager
def started(place, env, *args):
    """The command with an endless run, in its own process group, as a shell starts it."""
    endless = ["--steps", "1e12", "--name", "x", *SMALL, "--set", "env.workers=2"]
    with place.start("train", env, *endless, *args, start_new_session=True) as process:
        try:
            yield process
        finally:
            # Where a test fails, too, the run does not stay.
            process.kill()


@pytest.mark.parametrize(("send", "number"), [
    (os.kill, signal.SIGINT), (os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM),
])  # fmt: skip
def test_signals_save_a_checkpoint_and_end_the_workers(place, send, number):
    with started(place, "gym_envs:Steady") as process:
        while "env_steps" not in process.stderr.readline():
            assert process.poll() is None
        assert len(workers(place.path)) == 2
        send(process.pid, number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 75 and "warning" not in err and "Traceback" not in err, err
    assert not workers(place.path) and operant.load("x").env_steps > 0


def test_ctrl_c_and_exceptions_in_python_end_the_workers(place):
    def interrupt(record):
        # There are no more workers than environments.
        assert len(workers(place.path)) == 4
        _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        short("gym_envs:Steady", 64, total_timesteps=10**9, on_update=interrupt)
    assert not workers(place.path) and operant.runs()[0].state == "preempted"
    with pytest.raises(ZeroDivisionError):
        short("gym_envs:Steady", 2, total_timesteps=10**9, on_update=lambda record: 1 / 0)
    assert not workers(place.path)


def owned():
    """Living processes that environments of `Owner` started, and all lines of their log."""
    log, alive = Path("log").read_text().split() if Path("log").exists() else [], []
    for pid in filter(str.isdigit, log):
        with contextlib.suppress(OSError):
            if Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                alive.append(pid)
    return alive, log


@pytest.mark.parametrize("how", ["ended", "deaf", "forked", "left"])
def test_processes_of_environments_end_with_the_run(place, how):
    env = f"gym_envs:Owner?log={place.path}/log&how={how}"
    code, _, err = place.run("train", env, *X, "--set", "env.workers=2")
    assert code == 0 and "warning" not in err, err
    alive, log = owned()
    # Those of four environments, of an evaluation and of the process that read the spaces.
    assert len([line for line in log if line.isdigit()]) == 6
    assert log.count("closed") == (6 if how in ("ended", "forked") else 0)
    until(lambda: not owned()[0], f"the end of {alive}")


@pytest.mark.long
def test_processes_of_environments_end_when_the_trainer_is_killed(place):
    with started(place, f"gym_envs:Owner?log={place.path}/log&how=left") as process:
        until(lambda: len(owned()[0]) == 4, "the environments have begun")
        process.kill()
    until(lambda: not owned()[0], "the end of the processes")


@pytest.mark.parametrize(("call", "number", "code"), [
    ("init", signal.SIGINT, 130), ("init", signal.SIGKILL, -9),
    ("step", signal.SIGINT, 130), ("step", signal.SIGKILL, -9),
])  # fmt: skip
def test_workers_that_wait_end_with_the_trainer(place, call, number, code):
    marker = place.path / "marker"
    with started(place, f"gym_envs:Waiting?marker={marker}&call={call}") as process:
        until(marker.exists, "a worker waits")
        process.send_signal(number)
        if (call, number) == ("step", signal.SIGINT):
            while "another SIGINT or SIGTERM ends it" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in err, err
    assert call == "step" or not list(place.path.glob("runs/*"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGINT, -2)])
def test_reading_the_spaces_ends_with_the_program(place, number, code):
    marker = place.path / "marker"
    env = f"gym_envs:Waiting?marker={marker}&call=record"
    program = ["-m", "operant", "train", env] if code != -2 else ["-c", f"import operant; operant.train({env!r})"]
    with subprocess.Popen([sys.executable, *program], stderr=subprocess.PIPE, text=True) as process:
        until(marker.exists, "the environment is made")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code and ("KeyboardInterrupt" in err) == (code == -2), err
    until(lambda: not workers(place.path, "operant._record"), "its end")


@pytest.mark.parametrize(("after", "code", "says"), [(40, 75, "restart 1 of 16"), (1, 1, "no step had been completed")])
def test_ctrl_c_while_an_environment_hangs_ends_after_its_timeout(place, after, code, says):
    marker = place.path / "marker"
    with started(place, fault("hangs", after=after, marker=marker), "--set", "env.timeout=5") as process:
        until(marker.exists, "a worker hangs")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == code and says in err and "Traceback" not in err, err
    assert code == 1 or operant.load("x").env_steps == 128


@pytest.mark.parametrize("is_killed", [True, False])
def test_workers_that_import_end_with_the_trainer(place, is_killed):
    (place.path / "site").mkdir()
    (place.path / "site/sitecustomize.py").write_text(
        "import os, sys, time\nif 'operant._worker' in sys.orig_argv:\n    open('waits', 'w').close()\n"
        "    while not os.path.exists('go'):\n        time.sleep(0.01)\n"
    )
    place.env["PYTHONPATH"] = f"{place.path}/site{os.pathsep}{place.env['PYTHONPATH']}"
    with started(place, "gym_envs:Steady") as process:
        until((place.path / "waits").exists, "a worker starts")
        process.kill() if is_killed else os.killpg(process.pid, signal.SIGINT)
        process.wait()
        Path("go").touch()
        _, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if is_killed else 130) and "Traceback" not in err, err
