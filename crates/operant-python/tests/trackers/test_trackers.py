"""Runs in real trackers, offline: what each stored is read back and compared with metrics.csv."""

import json
import math
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import mlflow
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
from wandb.proto.wandb_internal_pb2 import Record

import operant
import operant.track

# Trackio reads it when it is imported.
os.environ["TRACKIO_DIR"] = tempfile.mkdtemp()
METRICS = ["episodic_return", "policy_loss", "eval_return", "entropy"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("OPERANT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OPERANT_RING_DIR", str(tmp_path / "rings"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    (tmp_path / "rings").mkdir(mode=0o700)
    return tmp_path


def short(**settings):
    own = {"seed": 3, "total_timesteps": 16384, "eval_episodes": 4, "eval_interval": 2, "threads": 1, "name": f"mine-{uuid.uuid4().hex}"}
    return operant.train("cartpole", **{**own, **settings})


def wandb_records(run):
    """The records of a W&B file, which is a log of LevelDB: blocks of 32 KiB, of parts with a checksum, a length and a type."""
    (file,) = run.dir.glob("wandb/offline-run-*/*.wandb")
    data = file.read_bytes()
    records, held, at = [], b"", 7
    while at + 7 <= len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        part = data[at + 7 : at + 7 + length]
        at += 7 + length
        held = part if kind in (1, 2) else held + part
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(held)
            records.append(record)
    return records


def from_wandb(run):
    rows = {name: {} for name in METRICS}
    for record in wandb_records(run):
        row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for name in METRICS:
            if name in row:
                rows[name][int(row["env_steps"])] = row[name]
    return rows


def store():
    """MLflow keeps one connection for each name."""
    return f"sqlite:///{os.getcwd()}/mlflow.db"


def from_mlflow(run):
    client = mlflow.MlflowClient(store())
    number = (run.dir / "mlflow-run.txt").read_text().strip()
    assert client.get_run(number).info.status == "FINISHED"
    assert client.get_run(number).data.params["gamma"] == str(run.config["gamma"])
    return {name: {metric.step: metric.value for metric in client.get_metric_history(number, name)} for name in METRICS}


def from_trackio(run, project):
    database = sqlite3.connect(Path(os.environ["TRACKIO_DIR"]) / f"{project}.db")
    stored = database.execute("select step, metrics from metrics where run_name = ?", [run.name]).fetchall()
    rows = [(step, json.loads(metrics)) for step, metrics in stored]
    return {name: {step: row[name] for step, row in rows if name in row} for name in METRICS}


def from_tensorboard(run):
    events = EventAccumulator(f"board/{run.name}", size_guidance={"tensors": 0}).Reload()
    return {name: {event.step: float(make_ndarray(event.tensor_proto)) for event in events.Tensors(name)} for name in METRICS}


def compare(run, stored, what):
    for name in METRICS:
        steps, values = run.curve(name)
        assert [*stored[name]] == steps.astype(int).tolist(), f"{what}: {name}"
        np.testing.assert_allclose([*stored[name].values()], values, rtol=1e-6, err_msg=f"{what}: {name}")
        assert len(values) > 0


def trackers(every=0.0):
    track = operant.track
    return [
        track.WandB("demo", every=every),
        track.MLflow("demo", tracking_uri=store(), every=every),
        track.Trackio("demo", every=every),
        track.TensorBoard("board", every=every),
    ]


@pytest.mark.parametrize("every", [0.0, 1000.0])
def test_trackers_store_what_the_run_measured(every):
    run = short(callbacks=trackers(every))
    compare(run, from_wandb(run), "wandb")
    compare(run, from_mlflow(run), "mlflow")
    compare(run, from_trackio(run, "demo"), "trackio")
    compare(run, from_tensorboard(run), "tensorboard")


def test_a_resumed_run_goes_on_in_the_same_place():
    first = short(callbacks=[operant.track.MLflow("demo", tracking_uri=store())])
    number = (first.dir / "mlflow-run.txt").read_text()
    run = operant.resume(first, total_timesteps=32768, callbacks=[operant.track.MLflow("demo", tracking_uri=store())])
    assert (run.dir / "mlflow-run.txt").read_text() == number
    compare(run, from_mlflow(run), "mlflow")


def test_a_failed_run_is_marked():
    def fail(metrics):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        short(on_update=fail, callbacks=[operant.track.MLflow("demo", tracking_uri=store())])
    number = (operant.runs()[0].dir / "mlflow-run.txt").read_text().strip()
    assert mlflow.MlflowClient(store()).get_run(number).info.status == "FAILED"


@pytest.mark.parametrize("tracker", ["wandb", "mlflow", "trackio", "tensorboard"])
def test_runs_that_have_ended_are_exported(place, tracker, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store())
    run = short()
    command = [sys.executable, "-m", "operant", "runs", "--export", tracker]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and f"sent to {tracker}" in done.stderr, done
    if tracker == "wandb":
        compare(run, from_wandb(run), tracker)
    elif tracker == "mlflow":
        compare(run, from_mlflow(run), tracker)
    elif tracker == "trackio":
        compare(run, from_trackio(run, "operant"), tracker)
    else:
        (place / "tensorboard").rename(place / "board")
        compare(run, from_tensorboard(run), tracker)
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 1 and "has it already" in again.stderr, again


def test_what_was_not_measured_is_left_out():
    run = short(callbacks=[operant.track.MLflow("demo", tracking_uri=store())])
    stored = from_mlflow(run)
    assert all(math.isfinite(value) for rows in stored.values() for value in rows.values())
    assert len(stored["eval_return"]) < len(stored["entropy"])
