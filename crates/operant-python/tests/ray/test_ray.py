"""Sweeps and Ray Tune on a real cluster of three nodes on this machine, one of which is killed in the middle."""

import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ray
from ray import tune
from ray.cluster_utils import Cluster
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining
from ray.tune.search.optuna import OptunaSearch

import operant
import operant.ray

BRIEF = {"num_envs": 16, "num_steps": 16, "total_timesteps": 5120, "eval_episodes": 4}
LONG = BRIEF | {"total_timesteps": 1_000_000}
LIMIT_S = 300


def wait_for(what, condition):
    end = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"timed out waiting for {what}"
        time.sleep(0.02)
    return found


def busy_nodes(cluster, actor: str):
    """The nodes on which an actor of this class runs: their raylets are the parents of the actors' processes."""
    parents = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"ray::{actor}" in (process / "cmdline").read_text():
                parents.add(int((process / "stat").read_text().rpartition(")")[2].split()[1]))
        except OSError:
            pass
    return [node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid in parents]


@pytest.fixture
def cluster():
    """Three nodes with a core each, and one without."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 100 << 20})
    for _ in range(3):
        cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def state(run: Path) -> bytes:
    return (max((run / "checkpoints").glob("step_*")) / "state.safetensors").read_bytes()


def table(sweep: operant.Sweep) -> list[tuple]:
    """All that must not depend on time."""
    keys = ("seed", "score", "env_steps", "solved_at_step", "error")
    groups = sweep.report()["environments"][0]["groups"]
    return sorted((group["name"], str(group["settings"]), *(run[key] for key in keys)) for group in groups for run in group["runs"])


def assert_equal(one: operant.Sweep, other: operant.Sweep) -> None:
    assert table(one) == table(other)
    assert [run.name for run in one.runs] == [run.name for run in other.runs]
    for a, b in zip(one.runs, other.runs, strict=True):
        assert state(a.dir) == state(b.dir), a.name


@pytest.mark.parametrize(
    "search",
    [
        {"vary": {"learning_rate": [1e-3, 1e-2]}},
        {
            "vary": {"learning_rate": {"log_uniform": [1e-4, 1e-2]}},
            "search": {"method": "random", "trials": 5, "halving": {"first_steps": 1024, "factor": 2}},
        },
        {"vary": {"learning_rate": {"log_uniform": [1e-4, 1e-2]}}, "search": {"method": "pbt", "trials": 4, "interval": 2048}},
    ],
    ids=["grid", "halving", "pbt"],
)
def test_a_cluster_has_the_table_and_the_bits_of_one_machine(cluster, tmp_path, search):
    spec = {"env": "cartpole", "seeds": 2, "set": BRIEF, **search}
    here = operant.sweep(spec, name="here", run_dir=tmp_path)
    before = set(Path(tempfile.gettempdir()).glob("operant-*"))
    there = operant.ray.sweep(spec, name="there", run_dir=tmp_path)
    assert_equal(there, here)
    assert set(Path(tempfile.gettempdir()).glob("operant-*")) <= before, "the actors leave no files"
    if "interval" in search.get("search", {}):
        # Copies of the best of the first four.
        assert any(int(run.name.split("-")[0]) >= 4 for run in there.runs)


def test_runs_of_a_node_that_is_killed_continue_on_others(cluster, tmp_path):
    spec = {"env": "cartpole", "seeds": 4, "set": LONG, "vary": {"learning_rate": [1e-3, 1e-2]}}
    here = operant.sweep(spec, name="here", run_dir=tmp_path)
    where = f"name='there', run_dir={str(tmp_path)!r}, address={cluster.address!r}, checkpoint_s=0.5"
    code = f"import operant.ray; operant.ray.sweep({spec!r}, {where})"
    sweep = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    trials = tmp_path / "there" / "trials"

    def busy_node():
        """A node with a run that has sent a checkpoint."""
        nodes = busy_nodes(cluster, "_Worker")
        sent = list(trials.glob("[0-9]*/checkpoints/step_*"))
        # All runs that train have sent one, so the node's has.
        return nodes[0] if len(nodes) == 3 and len(sent) >= 3 and not list(trials.glob("*/result.json")) else None

    cluster.remove_node(wait_for("a run with a checkpoint", busy_node), allow_graceful=False)
    _, errors = sweep.communicate(timeout=LIMIT_S)
    assert sweep.returncode == 0, errors
    # Not from the beginning.
    assert re.search(r"lost its machine and continues on another one from step [1-9]", errors), errors
    assert_equal(operant.Sweep(tmp_path / "there"), here)


def test_the_command_trains_on_a_cluster(cluster, tmp_path):
    (tmp_path / "spec.toml").write_text('env = "cartpole"\nseeds = 2\n[vary]\nlearning_rate = [1e-3, 1e-2]\n')
    flags = [word for key, value in BRIEF.items() for word in ("--set", f"{key}={value}")]
    for name, where in (("here", []), ("there", ["--ray", cluster.address])):
        command = [sys.executable, "-m", "operant", "sweep", "spec.toml", "--name", name, *flags, *where]
        subprocess.run(command, cwd=tmp_path, check=True)
    assert_equal(operant.Sweep(tmp_path / "runs" / "there"), operant.Sweep(tmp_path / "runs" / "here"))


@pytest.mark.parametrize("way", ["python", "command"])
def test_a_sweep_that_was_stopped_continues_on_either(cluster, tmp_path, way):
    spec = {"env": "cartpole", "seeds": 3, "set": LONG}
    here = operant.sweep(spec, name="here", run_dir=tmp_path)
    if way == "python":
        code = f"import operant.ray; operant.ray.sweep({spec!r}, name='there', run_dir='.', address={cluster.address!r})"
        command = ["-c", code]
    else:
        flags = [word for key, value in LONG.items() for word in ("--set", f"{key}={value}")]
        where = ["--name", "there", "--run-dir", ".", "--ray", cluster.address]
        command = ["-m", "operant", "sweep", "cartpole", "--seeds", "3", *flags, *where]
    sweep = subprocess.Popen([sys.executable, *command], cwd=tmp_path)
    wait_for("a run that trains", lambda: busy_nodes(cluster, "_Worker.train"))
    sweep.terminate()
    assert sweep.wait(LIMIT_S) == 75
    steps = [int(path.name.removeprefix("step_")) for path in (tmp_path / "there").glob("trials/*/checkpoints/step_*")]
    assert any(0 < step < 1_000_000 for step in steps), steps
    there = operant.sweep(resume="there", run_dir=tmp_path)
    assert_equal(there, here)


def test_a_full_cluster_does_not_keep_a_sweep_from_stopping(cluster, tmp_path):
    @ray.remote(num_cpus=1)
    class Other:
        def ready(self):
            pass

    others = [Other.remote() for _ in range(3)]
    ray.get([other.ready.remote() for other in others])
    code = f"import operant.ray; operant.ray.sweep('cartpole', name='there', run_dir='.', address={cluster.address!r})"
    sweep = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    wait_for("the sweep", lambda: (tmp_path / "there" / "sweep.db").exists())
    sweep.terminate()
    assert sweep.wait(LIMIT_S) == 75
    del others


def test_a_killed_sweep_continues_from_what_was_sent(cluster, tmp_path):
    spec = {"env": "cartpole", "seeds": 3, "set": LONG}
    here = operant.sweep(spec, name="here", run_dir=tmp_path)
    where = f"name='there', run_dir='.', address={cluster.address!r}, checkpoint_s=0.3"
    sweep = subprocess.Popen([sys.executable, "-c", f"import operant.ray; operant.ray.sweep({spec!r}, {where})"], cwd=tmp_path)
    trials = tmp_path / "there" / "trials"
    wait_for("checkpoints", lambda: len(list(trials.glob("[0-9]*/checkpoints/step_*"))) >= 2)
    sweep.kill()
    sweep.wait()
    there = operant.ray.sweep(resume=tmp_path / "there", address=cluster.address)
    assert_equal(there, here)


def test_a_run_that_fails_is_recorded(cluster, tmp_path):
    spec = {"env": "cartpole", "set": BRIEF | {"learning_rate": 1e30}}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        sweep = operant.ray.sweep(spec, name="there", run_dir=tmp_path)
    (group,) = sweep.report()["environments"][0]["groups"]
    assert "training diverged" in group["runs"][0]["error"] and any("training diverged" in str(each.message) for each in shown)


SPACE = {"env": "cartpole", "interval": 1024, "seed": 1, **BRIEF}


def tuned(tmp_path, space, **config):
    run_config = tune.RunConfig(
        storage_path=str(tmp_path),
        verbose=0,
        failure_config=tune.FailureConfig(max_failures=5),
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True),
    )
    tune_config = tune.TuneConfig(metric="eval_return_mean", mode="max", **config)
    results = tune.Tuner(operant.ray.Trainable, param_space=space, tune_config=tune_config, run_config=run_config).fit()
    assert not results.errors
    return results


def test_tune_trains_the_bits_of_operant_train(cluster, tmp_path):
    space = SPACE | {"learning_rate": tune.grid_search([1e-3, 1e-2])}
    results = tuned(tmp_path, space)
    assert len(results) == 2
    for result in results:
        single = operant.train(
            "cartpole", seed=1, learning_rate=result.config["learning_rate"], run_dir=tmp_path, name=f"single-{result.config['learning_rate']}", **BRIEF
        )
        assert state(Path(result.checkpoint.path) / "run") == state(single.dir)
        assert result.metrics["eval_return_mean"] == single.result["eval_return_mean"]
        assert result.metrics["env_steps"] == 5120 and len(result.metrics_dataframe) == 5


def test_trials_of_tune_survive_a_node(cluster, tmp_path):
    def kill():
        def busy_node():
            nodes = busy_nodes(cluster, "Trainable")
            return nodes[0] if nodes and any(tmp_path.glob("**/checkpoint_*/run")) else None

        cluster.remove_node(wait_for("a trial with a checkpoint", busy_node), allow_graceful=False)

    space = SPACE | LONG | {"interval": 50_000, "learning_rate": tune.grid_search([1e-3, 3e-3, 1e-2])}
    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(kill)
        results = tuned(tmp_path, space)
        killer.result()
    for result in results:
        rate = result.config["learning_rate"]
        single = operant.train("cartpole", seed=1, learning_rate=rate, run_dir=tmp_path, name=f"single-{rate}", **LONG)
        assert state(Path(result.checkpoint.path) / "run") == state(single.dir), rate


@pytest.mark.parametrize("kind", ["asha", "pbt", "optuna"])
def test_tunes_schedulers_and_searches_work(cluster, tmp_path, kind):
    space = SPACE | {"learning_rate": tune.loguniform(1e-4, 1e-2)}
    if kind == "asha":
        # The last ones cannot be among the best.
        space |= {"learning_rate": tune.grid_search([1e-2, 3e-3, 1e-3, 1e-6, 2e-6, 3e-6])}
        scheduler = ASHAScheduler(time_attr="env_steps", max_t=5120, grace_period=1024)
        results = tuned(tmp_path, space, scheduler=scheduler, max_concurrent_trials=1)
        assert any(result.metrics["env_steps"] < 5120 for result in results)
    elif kind == "pbt":
        mutations = {"learning_rate": tune.loguniform(1e-4, 1e-2)}
        scheduler = PopulationBasedTraining(time_attr="env_steps", perturbation_interval=1024, hyperparam_mutations=mutations)
        results = tuned(tmp_path, space, num_samples=4, scheduler=scheduler)
        assert all(result.metrics["env_steps"] == 5120 for result in results)
    else:
        results = tuned(tmp_path, space, num_samples=4, search_alg=OptunaSearch(seed=1))
        assert len({result.config["learning_rate"] for result in results}) == 4


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(ConnectionError, match="cannot be joined"):
        operant.ray.sweep({"env": "cartpole"}, address="127.0.0.1:1", run_dir=tmp_path)
    command = [sys.executable, "-m", "operant", "sweep", "cartpole", "--ray", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and "cannot be joined" in done.stderr and "remedy: " in done.stderr
    assert not (tmp_path / "runs").exists()
