"""Training from Python: results, files, callbacks, stops and errors."""

import _thread
import inspect
import json
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

import operant
from operant import _train
from operant._train import Evaluation, Result


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working directory of its own, without this machine's configuration and rings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("OPERANT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OPERANT_RING_DIR", str(tmp_path / "rings"))
    (tmp_path / "rings").mkdir(mode=0o700)
    return tmp_path


def short(**settings):
    return operant.train("cartpole", **{"seed": 3, "total_timesteps": 8192, "eval_episodes": 10, **settings})


def weights(run):
    return {name: array.tobytes() for name, array in run.policy.state_dict().items()}


def test_a_run_leaves_what_the_command_leaves(place):
    run = short(name="mine", learning_rate=1e-3, hidden=[32, 16], lr_schedule="constant")
    assert run.dir.resolve() == place / "runs" / "mine" and run.name == "mine" and run.state == "finished"
    for file in ["config.toml", "metrics.csv", "operant.log", "run.json", "result.json", "checkpoints"]:
        assert (run.dir / file).exists(), file
    assert "begins" in (run.dir / "operant.log").read_text()
    result = run.result
    assert set(result) == set(Result.__annotations__)
    assert (result["run"], result["env"], result["seed"], result["env_steps"]) == ("mine", "cartpole", 3, 8192)
    assert result["config"]["learning_rate"] == 1e-3 and result["config"]["hidden"] == [32, 16]
    assert result["config"]["lr_schedule"] == "constant"
    evaluation = run.eval(10)
    assert set(evaluation) == set(Evaluation.__annotations__)
    assert evaluation["eval_return_mean"] == result["eval_return_mean"]
    sampled = run.eval(10, deterministic=False)
    assert (evaluation["eval_actions"], sampled["eval_actions"]) == ("greedy", "sampled")
    assert sampled["eval_return_mean"] != evaluation["eval_return_mean"]


def test_metrics_are_a_structured_array():
    seen = []
    run = short(num_envs=16, num_steps=64, on_update=seen.append)
    metrics = run.metrics()
    assert len(metrics) == len(seen) == 8 and metrics.ndim == 1
    np.testing.assert_array_equal(metrics["env_steps"], np.arange(1, 9) * 1024)
    for record, row in zip(seen, metrics, strict=True):
        assert list(record) == list(metrics.dtype.names)
        assert record["policy_loss"] == row["policy_loss"] and record["update"] == row["update"]
    assert np.isnan(metrics["gpu_power"]).all() and np.isfinite(metrics["episodic_return"][-1])


def test_the_same_seed_gives_the_same_bits_whatever_watches():
    first = short(name="first")
    assert weights(first) == weights(short(name="second", on_update=lambda record: None, threads=1))
    assert weights(first) != weights(short(name="other", seed=4))


def test_runs_lists_them():
    assert operant.runs() == []
    short(name="a"), short(name="b", run_dir="elsewhere")
    assert [run.name for run in operant.runs()] == ["a"]
    (found,) = operant.runs("elsewhere")
    assert found.info()["env"] == "cartpole" and found.info()["total_timesteps"] == 8192
    assert found.result["run"] == "b" and repr(found).startswith("operant.Run(")


def test_a_run_is_opened_by_its_name():
    short(name="mine"), short(name="theirs", run_dir="elsewhere")
    assert operant.run("mine").dir == operant.run("runs/mine").dir == operant.Run(Path("runs/mine")).dir == Path("runs/mine").absolute()
    assert operant.run("theirs", run_dir="elsewhere").result["run"] == "theirs"
    for name, says in {"mien": 'there is no run "mien" .did you mean "mine"', "nowhere": "run_dir looks elsewhere"}.items():
        with pytest.raises(ValueError, match=says):
            operant.run(name)


def test_weights_of_another_environment_are_warned_about():
    source = operant.train("mountain_car", name="car", total_timesteps=512, num_envs=16, num_steps=32, num_minibatches=2, eval_episodes=1)
    says = r"init_from: car at step 512 was trained in mountain_car, this run trains cartpole; new layers: .*policy \(3 -> 2 outputs\); the others were taken"
    for given in (source, source.policy):
        with pytest.warns(UserWarning, match=says):
            short(init_from=given, total_timesteps=512)


def test_a_callback_that_raises_stops_the_run_with_a_checkpoint():
    calls = []

    def stop(record):
        calls.append(record["update"])
        if len(calls) == 3:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        short(name="stopped", total_timesteps=200_000, on_update=stop)
    assert calls == [1, 2, 3]
    (run,) = operant.runs()
    assert run.state == "preempted" and run.info()["reason"] == "the program" and run.result is not None
    assert 3 <= run.result["updates"] <= 5


class Heard(operant.Callback):
    """What a callback hears, in order."""

    def __init__(self, ends_at=None, fails=None):
        self.ends_at, self.fails, self.told = ends_at, fails, []

    def hear(self, what, *details):
        self.told.append((what, *details))
        if what == self.fails:
            raise RuntimeError(what)

    def on_start(self, run):
        self.hear("start", run.name, run.config["gamma"])

    def on_update(self, run, metrics):
        self.hear("update", int(metrics["env_steps"]))
        return metrics["env_steps"] != self.ends_at

    def on_evaluation(self, run, metrics):
        self.hear("evaluation", metrics["eval_return"])

    def on_checkpoint(self, run, path):
        assert path.is_absolute() and (path / "config.toml").exists()
        self.hear("checkpoint", path.name)

    def on_end(self, run, error):
        self.hear("end", None if error is None else str(error), None if run.result is None else run.result["env_steps"])


def test_callbacks_hear_of_a_run_in_order():
    first, second, updates = Heard(), Heard(), []
    run = short(name="heard", gamma=0.97, num_envs=16, num_steps=256, callbacks=[first, second], on_update=updates.append)
    mean = run.result["eval_return_mean"]
    # The last checkpoint is saved before the last update is reported with the final evaluation.
    assert first.told[0] == ("start", "heard", 0.97) and first.told[-1] == ("end", None, 8192)
    rest = first.told[1:-1]
    assert [told for told in rest if told[0] != "checkpoint"] == [("update", 4096), ("update", 8192), ("evaluation", mean)]
    assert [told for told in rest if told[0] == "checkpoint"] == [("checkpoint", "step_000000008192")]
    assert second.told == first.told and len(updates) == 2
    again = Heard()
    operant.resume(run, total_timesteps=12288, callbacks=[again])
    assert again.told[:2] == [("start", "heard", 0.97), ("update", 12288)] and again.told[-1] == ("end", None, 12288)


def test_a_callback_ends_a_run_or_stops_it():
    ending = Heard(ends_at=4096)
    run = short(name="ended", num_envs=16, num_steps=64, total_timesteps=10**7, callbacks=[ending])
    assert run.result["env_steps"] < 10**6 and ending.told[-1] == ("end", None, run.result["env_steps"])
    for event in ["start", "update", "evaluation", "checkpoint"]:
        failing, other = Heard(fails=event), Heard()
        with pytest.raises(RuntimeError, match=f"^{event}"):
            short(name=event, total_timesteps=65536, eval_interval=4, callbacks=[other, failing])
        assert failing.told[-1][:2] == ("end", event) and other.told[-1][:2] == ("end", event)
        assert operant.run(event).info()["checkpoint"] is not None
    failing, other = Heard(fails="end"), Heard()
    with pytest.raises(RuntimeError, match="^end$"):
        short(name="last", callbacks=[failing, other])
    assert other.told[-1][0] == "end" and operant.run("last").state == "finished"


def test_what_is_no_callback_is_refused_before_anything_starts(place):
    for wrong in [operant.Callback(), [print], [operant.Callback]]:
        with pytest.raises(TypeError, match="callbacks: expected a list of operant.Callback objects"):
            short(callbacks=wrong)
    silent = Heard()
    with pytest.raises(ValueError, match="gamma"):
        short(gamma=3, callbacks=[silent])
    assert not silent.told and not (place / "runs").exists()


def test_a_run_has_its_settings():
    run = operant.train("snake", name="own", env_options={"size": 11}, total_timesteps=4096, eval_episodes=1, learning_rate=1e-3)
    assert (run.config["learning_rate"], run.config["env.size"], run.config["algorithm"]) == (1e-3, 11, "ppo")


def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped():
    def stop(record):
        if record["update"] == 4:
            raise StopIteration

    with pytest.raises(StopIteration):
        short(name="parts", total_timesteps=16384, on_update=stop)
    (parts,) = operant.runs()
    resumed = operant.resume(parts)
    whole = short(name="whole", total_timesteps=16384)
    assert weights(resumed) == weights(whole)
    for name in ("eval_return_mean", "env_steps", "updates"):
        assert resumed.result[name] == whole.result[name]


def test_a_run_has_the_note_and_the_tags_that_commands_write(place):
    run = short(name="noted")
    assert (run.note, run.tags) == ("", [])
    (run.dir / "notes.json").write_text('{"note": "a first try", "tags": ["baseline"]}', encoding="utf-8")
    assert (run.note, run.tags) == ("a first try", ["baseline"])
    (run.dir / "notes.json").write_text("garbage", encoding="utf-8")
    assert (run.note, run.tags) == ("", [])


def test_a_run_begins_with_the_weights_of_a_run_a_checkpoint_or_a_policy(place, caplog):
    first = short(name="first", hidden=[8], norm_obs=True)
    for number, source in enumerate([first, "first", Path("runs/first"), "first@8192", first.result["checkpoint"], first.policy]):
        with caplog.at_level(logging.INFO, "operant"):
            settings = {"seed": number, "num_envs": 32, "num_steps": 16, "total_timesteps": 512, "eval_episodes": 1}
            begun = short(name=f"begun-{number}", init_from=source, **settings)
        assert "weights: from first at step 8192" in caplog.messages
        assert begun.result["config"]["hidden"] == [8] and begun.result["config"]["num_envs"] == 32
        assert begun.result["config"]["init_from"] == first.result["checkpoint"]
        assert weights(SimpleNamespace(policy=operant.load(f"{begun.name}@0"))) == weights(first)
        caplog.clear()


def test_a_run_begins_with_arrays_that_a_policy_was_given():
    policy = short(name="first", hidden=[8], norm_obs=True).policy
    changed = {name: array * np.float32(0.75) for name, array in policy.state_dict().items()}
    policy.load_state_dict(changed)
    begun = short(name="begun", init_from=policy, total_timesteps=4096)
    for name, array in operant.load("begun@0").state_dict().items():
        # Statistics are kept as variances.
        np.testing.assert_allclose(array, changed[name], rtol=1e-6 if name == "obs_norm.scale" else 0, err_msg=name)
    assert begun.result["config"]["init_from"].endswith(", changed by the program")
    assert operant.resume("begun", total_timesteps=8192).result["env_steps"] == 8192


def test_weights_that_do_not_fit_leave_nothing(place):
    first = short(name="first", hidden=[8])
    for source, settings, says in [
        (first, {"hidden": [9]}, r"hidden = \[9\] does not match the weights of first at step 8192"),
        (first.policy, {"algorithm": "pqn"}, 'algorithm = "pqn" does not match the weights'),
        ("frist", {}, 'no run "frist"'),
        ("first@9", {}, "nearest: first@8192"),
    ]:
        with pytest.raises(ValueError, match=says):
            short(name="x", init_from=source, **settings)
        assert not (place / "runs" / "x").exists()
    with pytest.raises(ValueError, match="continues with its own weights, and init_from sets others"):
        operant.resume("first", init_from="first")


def test_ctrl_c_raises_after_the_checkpoint():
    def interrupt(record):
        if record["update"] == 5:
            _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        short(name="interrupted", total_timesteps=10**9, on_update=interrupt)
    (run,) = operant.runs()
    assert run.info()["reason"] == "SIGINT" and run.policy.env_steps >= 5 * 1024
    assert operant.resume(run, total_timesteps=run.policy.env_steps + 2048).state == "finished"


def test_a_signal_to_a_script_stops_it_with_a_checkpoint(place):
    script = textwrap.dedent("""
        import operant, sys
        def stop(record):
            if record["update"] == 3:
                print("trains", flush=True)
        try:
            operant.train("cartpole", name="x", total_timesteps=10**9, on_update=stop)
        except KeyboardInterrupt as interrupt:
            print(operant.runs()[0].state)
            print(interrupt)
            sys.exit(7)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "trains\n"
        process.send_signal(signal.SIGINT)
        state, message = process.stdout.read().splitlines()
        assert process.wait() == 7
    (run,) = operant.runs()
    steps, checkpoint = run.policy.env_steps, run.info()["checkpoint"]
    assert state == "preempted" and steps > 0
    assert message == f'run x stopped at step {steps}, with the checkpoint {checkpoint}; operant.resume("{run.dir}") continues it'


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_an_exception_of_a_callback_names_the_checkpoint():
    for kind in (LookupError, KeyboardInterrupt):
        with pytest.raises(kind, match="enough") as raised:
            short(name=kind.__name__, total_timesteps=200_000, on_update=lambda _, kind=kind: (_ for _ in ()).throw(kind("enough")))
        (note,) = raised.value.__notes__
        assert raised.value.args == ("enough",)
        assert operant.Run(f"runs/{kind.__name__}").info()["checkpoint"].name in note and "operant.resume(" in note


def test_two_threads_train_two_runs():
    alone = weights(short(name="alone"))
    runs = {}

    def work(name):
        runs[name] = short(name=name)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert weights(runs["left"]) == weights(runs["right"]) == alone


def test_notes_are_logged_and_warnings_warn(caplog):
    with caplog.at_level(logging.INFO, logger="operant"):
        run = short(name="noted")
    assert any("run noted in" in message for message in caplog.messages)
    with pytest.warns(UserWarning, match="has taken its 8192 steps already"):
        operant.resume(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="already"):
            operant.resume(run)


class Notebook:
    """Stands for IPython in a notebook: keeps what each display shows."""

    def __init__(self):
        self.shown = []
        self.kernel = True

    def install(self, monkeypatch):
        ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
        ipython.get_ipython, display.display = lambda: self, self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        return self

    def display(self, shown, *, display_id):
        assert display_id is True
        updates = [shown]
        self.shown.append(updates)
        return SimpleNamespace(update=updates.append)


def test_a_notebook_shows_a_bar_that_is_updated(monkeypatch, capsys):
    notebook = Notebook().install(monkeypatch)
    short(total_timesteps=65536, num_envs=16, num_steps=64)
    (updates,) = notebook.shown
    first, last = updates[0], updates[-1]
    assert len(updates) >= 2 and first.share < last.share == 1
    assert re.fullmatch(r"100%  65,536 of 65,536 steps  [\d,]+ steps/s  return \d+\.\d", repr(last)), last
    assert re.search(r"steps/s  return (-|\d+\.\d)  \d+:\d\d:\d\d left$", repr(first)), first
    assert repr(last) in last._repr_html_() and '<progress value="1.0000" max="1"' in last._repr_html_()
    assert capsys.readouterr().err == ""
    short(progress=False)
    assert len(notebook.shown) == 1
    operant.sweep({"env": "cartpole", "seeds": 2, "set": {"total_timesteps": 2048, "eval_episodes": 1}})
    assert len(notebook.shown) == 2 and repr(notebook.shown[1][-1]).startswith("100%  2 of 2 runs  0 running")


def test_ctrl_c_while_a_notebook_shows_a_bar_stops_the_run(monkeypatch):
    notebook = Notebook().install(monkeypatch)
    notebook.display = lambda *_, **__: _thread.interrupt_main() or SimpleNamespace(update=lambda _: None)
    sys.modules["IPython.display"].display = notebook.display
    with pytest.raises(KeyboardInterrupt, match="with the checkpoint"):
        short(name="shown", total_timesteps=10**8)
    assert operant.runs()[0].state == "preempted"


def test_ipython_without_a_notebook_changes_nothing(monkeypatch, capsys):
    notebook = Notebook().install(monkeypatch)
    del notebook.kernel
    short()
    short(name="lines", progress=True)
    assert notebook.shown == [] and "100%" in capsys.readouterr().err


def test_progress_is_written_where_python_writes(capsys):
    short(progress=True)
    assert "100%" in capsys.readouterr().err
    short(progress=False)
    assert capsys.readouterr().err == ""


def test_settings_come_from_files_below_keywords(place):
    (place / "mine.toml").write_text("learning_rate = 0.5\ngamma = 0.9\n")
    config = short(config=place / "mine.toml", gamma=0.95).result["config"]
    assert (config["learning_rate"], config["gamma"]) == (0.5, 0.95)
    options = operant.train(
        "minatar_breakout", env_options={"sticky_action_prob": 0}, num_envs=16, num_steps=16,
        total_timesteps=512, eval_episodes=1,
    )
    assert options.result["config"]["env"]["sticky_action_prob"] == 0
    assert options.policy.env_options["sticky_action_prob"] == 0


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        ({"learning_rate": -1}, ValueError, "learning_rate = -1 is not a finite number above 0"),
        ({"learnin_rate": 1}, TypeError, 'no setting learnin_rate .did you mean "learning_rate"'),
        ({"hidden": {}}, TypeError, "hidden: expected a number, text or list"),
        ({"name": "a/b"}, ValueError, "cannot name a run"),
        ({"num_envs": 3, "num_steps": 1}, ValueError, "num_minibatches"),
        ({"num_envs": 2**30, "num_steps": 2**16}, ValueError, "memory|num_"),
        ({"config": "absent.toml"}, (ValueError, OSError), "absent.toml"),
        ({"env_options": {"gravity": 3}}, ValueError, "gravity"),
        ({"device": "cuda:7"}, ValueError, "cuda:7"),
        ({"on_update": 3}, TypeError, "on_update: expected a function"),
        ({"progress": "x"}, TypeError, "progress: expected True"),
        ({"env_options": 3.0}, TypeError, "env_options: expected a dictionary"),
        ({"env_options": {"a=b": 1}}, ValueError, "env_options: expected names"),
        ({"gamma": None}, TypeError, "gamma: .* leave it out for its default"),
    ],
)
def test_bad_settings_leave_nothing(place, wrong, kind, says):
    with pytest.raises(kind, match=says):
        short(**wrong)
    assert not (place / "runs").exists()


def test_bad_runs():
    with pytest.raises(ValueError, match='no environment "cartpol" .did you mean "cartpole"'):
        operant.train("cartpol")
    with pytest.raises(ValueError, match="there is no run"):
        operant.resume("absent")
    with pytest.raises(ValueError, match="there is no run"):
        operant.load("absent")
    run = short()
    shutil.rmtree(run.dir / "checkpoints")
    with pytest.raises(ValueError, match="no checkpoint"):
        operant.load(run.dir)


def test_a_run_that_trains_cannot_be_resumed_meanwhile():
    refused = []

    def again(record):
        if record["update"] == 2:
            with pytest.raises(ValueError, match="run busy is being trained already") as error:
                operant.resume("busy")
            refused.append(str(error.value))

    short(name="busy", on_update=again)
    assert refused


def test_run_and_policy_do_not_depend_on_the_working_directory(monkeypatch):
    run = short()
    policy = pickle.dumps(run.policy)
    monkeypatch.chdir("/")
    assert run.result["env_steps"] == 8192 and len(run.metrics()) > 0 and run.state == "finished"
    assert pickle.loads(policy).env_steps == 8192


def test_policy_follows_the_latest_checkpoint():
    run = short(name="longer")
    first = run.policy
    assert run.policy is first and first.env_steps == 8192
    operant.resume(run, total_timesteps=16384)
    assert run.policy.env_steps == 16384 and operant.load(run).env_steps == 16384


def test_metrics_that_are_not_there_are_an_error():
    with pytest.raises(FileNotFoundError, match="csv=False"):
        short(csv=False).metrics()


@operant.world(name="endless", observation_space=spaces.Box(0, 1, (1,)), action_space=spaces.Discrete(2), max_episode_steps=2**32 - 3)
class Endless:
    """An episode that no evaluation sees the end of."""

    x: operant.Float

    def reset(self, draws):
        return self.State(x=0.0)

    def step(self, s, action, draws):
        return s, 0.0, False

    def observe(self, s):
        return [s.x]


class Rang(Exception):
    """What the handler of a signal raises."""


def test_a_signal_ends_an_evaluation_whose_episodes_do_not_end(monkeypatch):
    def ring(*_):
        # Not before all steps are taken: the evaluation follows them.
        if notebook.shown:
            raise Rang

    notebook = Notebook().install(monkeypatch)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    try:
        with pytest.raises(Rang):
            operant.train(Endless(), name="endless", num_envs=16, num_steps=16, total_timesteps=256)
        assert notebook.shown[0][0].share == 1
        (run,) = operant.runs()
        with pytest.raises(Rang):
            run.eval(2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert run.policy.env_steps == 256


@pytest.mark.parametrize("last", [signal.SIGTERM, signal.SIGHUP])
def test_other_programs_stop_pause_and_save_a_run(place, last):
    """What `operant stop` and `operant checkpoint` send, and the pause between."""
    script = textwrap.dedent("""
        import operant, sys
        def stop(record):
            if record["update"] == 3:
                print("trains", flush=True)
        operant.train("cartpole", name="x", total_timesteps=10**9, on_update=stop, checkpoint_interval=0)
        print("not reached")
    """)

    def until(condition):
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "trains\n"
        run = operant.Run("runs/x")
        process.send_signal(signal.SIGUSR1)
        until(lambda: list(place.glob("runs/x/checkpoints/step_*")))
        process.send_signal(signal.SIGUSR2)
        until(lambda: run.state == "paused")
        process.send_signal(signal.SIGUSR2)
        until(lambda: run.state == "running")
        process.send_signal(last)
        assert process.stdout.read() == "" and process.wait() == 75
    assert run.state == "preempted" and run.info()["reason"] == last.name


@pytest.mark.parametrize(("handler", "requests"), [(signal.SIG_DFL, ["hang_up"]), (signal.SIG_IGN, [])])
def test_a_hangup_is_passed_to_the_run_unless_it_is_ignored(handler, requests):
    made = []
    control = SimpleNamespace(**{name: partial(made.append, name) for name in ("terminate", "hang_up", "checkpoint", "pause")})
    before = signal.signal(signal.SIGHUP, handler)
    try:
        with _train._signals(control):
            signal.raise_signal(signal.SIGHUP)
        assert made == requests and signal.getsignal(signal.SIGHUP) is handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_of_the_program_stay(monkeypatch):
    calls = []
    before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
    try:
        short(on_update=lambda record: os.kill(os.getpid(), signal.SIGUSR1))
        assert calls and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_while_progress_is_written_stops_the_run(monkeypatch):
    class Interrupted:
        def write(self, text):
            raise KeyboardInterrupt

        def flush(self):
            pass

    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            short(name="written", progress=True, total_timesteps=10**8)
    assert operant.runs()[0].state == "preempted"


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_run(place):
    script = textwrap.dedent("""
        import operant, os, signal
        children = []
        def fork(record):
            if record["update"] == 2:
                child = os.fork()
                if child == 0:
                    signal.pause()
                children.append(child)
        run = operant.train("cartpole", total_timesteps=8192, eval_episodes=1, on_update=fork)
        operant.resume(run, total_timesteps=16384)
        os.kill(children[0], signal.SIGKILL)
    """)
    subprocess.run([sys.executable, "-c", script], check=True)


def said_by(call, *arguments, **keywords):
    """The error of a call, in which no flag of the command line is named."""
    with pytest.raises((ValueError, TypeError, OSError, RuntimeError)) as raised:
        call(*arguments, **keywords)
    text = str(raised.value)
    assert not re.search(r"(?<![\w`])--[a-z]", text), text
    return text


def test_names_of_other_libraries_have_their_counterpart():
    for name, value, says in [
        ("callback", print, r"on_update=FUNCTION\) calls a function"),
        ("verbose", 1, "progress=False shows no progress"),
        ("policy", "MlpPolicy", 'it is "hidden" here: the widths of the layers'),
        ("policy_kwargs", {}, '"hidden" here'),
        ("n_steps", 128, '"num_steps" here'),
        ("minibatch_size", 64, r'"num_minibatches" here: a minibatch has num_envs \* num_steps / num_minibatches samples'),
        ("n_epochs", 4, '"update_epochs" here'),
        ("clip_range", lambda _: 0.2, '"clip_coef" here'),
        ("timesteps", 512, '"total_timesteps" here'),
        ("env_kwargs", {}, 'env_options={"NAME": VALUE} sets an option'),
        ("train_freq", 1, '"updates_per_step" here'),
        ("use_sde", True, "no algorithm has it"),
        ("resume", "x", r"`operant.resume\(RUN\)` continues a run"),
        ("gpu", True, 'device="cuda" trains on a GPU'),
    ]:
        assert re.search(f"^there is no setting {name}.*{says}", said_by(short, **{name: value})), name
    assert '"update_epochs" here' in said_by(operant.sweep, {"env": "cartpole", "set": {"n_epochs": 4}})
    assert '{"env": ..., "set": {"num_envs": ...}}' in said_by(operant.sweep, "cartpole", num_envs=4)
    assert '"num_envs" here' in said_by(operant.sweep, "cartpole", n_envs=4)
    for call in (lambda: operant.train("cartpole", 512), lambda: operant.resume("x", 512), lambda: operant.train("MlpPolicy", "CartPole-v1")):
        assert "settings are keywords, such as total_timesteps=100_000" in said_by(call)


def test_remedies_name_keywords(place):
    short(name="same")
    shutil.rmtree(short(name="empty").dir / "checkpoints")
    resume, load, sweep = operant.resume, operant.load, operant.sweep
    for says, call, arguments, keywords in [
        (r'choose another name, or continue it with operant.resume\("same"\)', short, [], {"name": "same"}),
        ("name: a resumed run keeps its own", resume, ["same"], {"name": "other"}),
        ("runs here: .*; run_dir looks elsewhere", resume, ["absent"], {}),
        (r'saves one now; otherwise `operant.resume\("empty"\)` starts it again', load, ["empty"], {}),
        ("run_dir=DIR", short, [], {"run_dir": "/proc/no"}),
        ("where: name", short, [], {"name": "a/b"}),
        ("where: env_options", short, [], {"env_options": {"hide": "x"}}),
        ('device="cpu"', short, [], {"device": "cuda"}),
        ("env: expected the name of an environment", operant.train, [3], {}),
        ("episodes: expected a whole number", operant.Run("runs/same").eval, [0], {}),
        ("where: seeds", sweep, ["cartpole"], {"seeds": "x"}),
        ("give trials=20", sweep, ["cartpole"], {"search": "random"}),
        ("give interval=50000", sweep, ["cartpole"], {"search": "pbt", "trials": 4}),
        ("vary a setting: learning_rate=1e-4,1e-3", sweep, ["cartpole"], {"search": "random", "trials": 4}),
        ("run_dir looks elsewhere", sweep, [], {"resume": "absent"}),
        *((says, sweep, [{"env": "cartpole", "set": {key: 1}}], {}) for key, says in [
            ("seed", 'seeds="3..3" for seed 3 alone'),
            ("name", "give the sweep's name with name"),
            ("run_dir", "directory of the sweep with run_dir"),
            ("threads", "jobs sets the number of parallel runs"),
            ("device", r'`operant.train\(device="cuda"\)` trains on a GPU'),
        ]),
    ]:
        text = said_by(call, *arguments, **keywords)
        assert re.search(says, text), text
    with pytest.warns(UserWarning, match="total_timesteps=N with a larger N continues it"):
        operant.resume("same")
    assert operant.train("operant/CartPole-v1", name="other", total_timesteps=1024, eval_episodes=1).name == "other"


def test_divergence_is_an_exception_of_its_own():
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(FloatingPointError, match="diverged"):
        short(learning_rate=1e30, max_grad_norm=1e30, norm_adv=False, max_nonfinite_updates=1, vf_coef=1e30)


def test_results_are_json():
    run = short()
    assert json.loads((run.dir / "result.json").read_text()) == run.result


@pytest.mark.long
def test_the_example_trains_plays_and_exports(place):
    example = Path(__file__).parents[3] / "examples" / "train_cartpole.py"
    ran = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)
    assert "in Gymnasium: mean return" in ran.stdout
    assert list(place.glob("runs/*/policy.onnx"))


def test_a_callback_that_returns_false_stops_the_run(place):
    seen = []

    def stop(record):
        seen.append(record["env_steps"])
        return np.bool_(len(seen) < 3)

    run = short(name="early", total_timesteps=10**7, on_update=stop)
    # The update after the one that was reported has begun.
    assert len(seen) == 3 and run.state == "preempted" and run.policy.env_steps >= seen[-1]
    # A signal is "SIGTERM", an exception "the program".
    assert run.info()["reason"] == "ended by a callback"
    # As SB3's callbacks end `learn`: the run has its final evaluation.
    assert run.result["eval_return_mean"] == run.eval(run.result["eval_episodes"])["eval_return_mean"]
    assert operant.resume(run, total_timesteps=run.policy.env_steps + 1).state == "finished"


def test_settings_are_shown_to_help_and_completion():
    from operant._settings import SETTINGS, Settings

    assert list(SETTINGS) == list(Settings.__annotations__)
    for function in (operant.train, operant.resume, operant.Policy.new):
        shown = inspect.signature(function).parameters
        assert {"learning_rate", "hidden", "core"} <= set(shown) and "settings" not in shown and "others" not in shown
        assert "gamma: Discount of future rewards." in function.__doc__
    text = str(inspect.signature(operant.train))
    assert "learning_rate: 'float' = 0.00025" in text and "norm_obs: 'bool' = False" in text
    assert "core: \"Literal['mlp', " in text


def test_curves_and_tables_of_a_run():
    run = short(name="curve", num_envs=16, num_steps=64)
    steps, values = run.curve()
    assert len(steps) == len(values) > 3 and np.isfinite(values).all() and (np.diff(steps) > 0).all()
    with pytest.raises(ValueError, match=r'metric: there is no metric \'episodic_retrun\' \(did you mean "episodic_return"\?\)'):
        run.curve("episodic_retrun")
    table = run._repr_html_()
    assert "cartpole" in table and "8,192 of 8,192" in table and "greedy episodes" in table
    frame = run.to_pandas()
    assert frame.index.name == "env_steps" and frame.index.tolist() == list(range(1024, 8193, 1024))
    assert str(frame.index.dtype) == str(frame["update"].dtype) == "int64" and frame["episodic_return"].dtype == np.float64
    np.testing.assert_array_equal(frame["episodic_return"].dropna(), values)
    assert frame["gpu_power"].isna().all()


def test_without_pandas_one_error_says_what_to_install(monkeypatch):
    run = short(total_timesteps=1024, eval_episodes=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs pandas: pip install pandas"):
        run.to_pandas()
