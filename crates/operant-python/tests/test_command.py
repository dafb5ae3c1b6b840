"""The `operant` command of the package: the installed script and `python -m operant`, with the exit codes of the program."""

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import operant

SMALL = ["--envs", "4", "--set", "num_steps=32", "--set", "num_minibatches=2", "--set", "threads=1"]
ENDLESS = ["train", "cartpole", "--steps", "1e12", *SMALL]


def forms():
    """How the command is called: as a module, and by its script if the package has been installed."""
    found = {"module": [sys.executable, "-m", "operant"]}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.distribution("operant-rl")
        found["script"] = [str(Path(sys.executable).with_name("operant"))]
    return found


@pytest.fixture(params=forms().values(), ids=forms().keys())
def place(request, tmp_path):
    """A directory in which the command runs; what it started there is killed at the end."""
    made = CommandRunner(request.param, tmp_path)
    yield made
    for pid in made.daemons:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class CommandRunner:
    def __init__(self, words, path):
        self.words, self.path, self.daemons = words, path, []
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("OPERANT_")}
        self.env |= {"HOME": str(path), "XDG_CONFIG_HOME": str(path), "OPERANT_RING_DIR": str(path / "rings")}
        self.env |= {"OPERANT_DEVICE": "cpu"}
        if level := os.environ.get("OPERANT_ISA"):
            self.env["OPERANT_ISA"] = level

    def start(self, *args, **how):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*self.words, *args], cwd=self.path, env=self.env, text=True, **(pipes | how))

    def run(self, *args):
        with self.start(*args) as process:
            out, err = process.communicate(timeout=120)
        return process.returncode, out, err


def test_operant_train_writes_the_checkpoint_of_the_command(place, monkeypatch):
    for name in [name for name in os.environ if name.startswith("OPERANT_") and name != "OPERANT_ISA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place.path))
    monkeypatch.chdir(place.path)
    assert place.run("train", "cartpole", "--seed", "5", "--steps", "8192", "--name", "command", "--quiet")[0] == 0
    run = operant.train(
        "cartpole", seed=5, total_timesteps=8192, name="python", device="cpu", ring=False, progress=False
    )
    both = [Path("runs", name, "checkpoints", run.policy.path.name, "state.safetensors") for name in ("command", "python")]
    assert both[0].read_bytes() == both[1].read_bytes()


def test_version_help_and_an_error(place):
    assert place.run("--version") == (0, f"operant {operant.__version__}\n", "")
    code, out, err = place.run("train", "--help")
    assert (code, err) == (0, "") and "Usage: operant train" in out
    code, out, err = place.run("train", "cartpol")
    assert (code, out) == (2, "") and 'did you mean "cartpole"?' in err
    code, out, err = place.run("train", "--no-such-flag")
    assert (code, out) == (2, "") and err.startswith("error: ")
    code, out, err = place.run("eval", "nothing")
    assert code == 2 and "Traceback" not in err


def test_training_prints_its_result(place):
    code, out, err = place.run("train", "cartpole", "--steps", "2000", "--json", "--quiet", *SMALL)
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["env_steps"] >= 2000 and Path(result["checkpoint"]).exists()
    code, out, err = place.run("eval", result["run"], "--json")
    assert code == 0 and json.loads(out), err


def test_a_daemon_is_the_same_command_and_stops_by_its_name(place):
    code, out, err = place.run(*ENDLESS, "--name", "night", "--detach", "--json")
    assert code == 0, err
    started = json.loads(out)
    place.daemons.append(started["pid"])
    assert started["run"] == "night"
    words = Path(f"/proc/{started['pid']}/cmdline").read_text().split("\0")[:-1]
    leading = place.words if place.words[0] == sys.executable else [sys.executable, *place.words]
    given = [*ENDLESS, "--name", "night", "--json"]
    assert words == [*leading, *given]
    code, out, _ = place.run("runs", "--json")
    assert code == 0 and "night" in out
    code, out, err = place.run("stop", "night")
    assert code == 0 and "preempted at" in out, err
    result = (place.path / "runs/night/daemon.out").read_text().splitlines()[-1]
    assert json.loads(result)["run"] == "night"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_and_exits_with_75(place, number):
    with place.start(*ENDLESS, "--name", "stopped") as process:
        while "env_steps" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 75 and "Traceback" not in err, err
    assert list((place.path / "runs/stopped/checkpoints").iterdir())


def test_a_second_interrupt_ends_it_at_once(place):
    # The first update takes far longer than this test.
    with place.start(*ENDLESS, "--set", "update_epochs=10000", "--set", "num_steps=1024") as process:
        # A signal before the first update would end the run without a second one. The start computes for less than this.
        while cpu_seconds(process.pid) < 1.0:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        while "another SIGINT or SIGTERM ends it at once" not in process.stderr.readline():
            assert process.poll() is None
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
        assert process.returncode == 130


def cpu_seconds(pid):
    """How long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_closed_pipe_is_no_failure(place):
    read, write = os.pipe()
    os.close(read)
    with place.start("completions", "bash", stdout=write) as process:
        os.close(write)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")


def test_the_command_imports_neither_numpy_nor_gymnasium():
    code = "import operant._command, sys; print(*(m for m in ('numpy', 'gymnasium') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
