"""operant's training through Python, `operant.train`: the speed that its results report."""

import argparse
import sys
import tempfile
from typing import Any

import operant

from worker import protocol, versions


def train(settings: dict[str, Any], updates: int, seed: int) -> float:
    """Steps per second of a training with this many updates."""
    batch = settings["num_envs"] * settings["num_steps"]
    with tempfile.TemporaryDirectory() as place:
        run = operant.train(
            "cartpole", seed=seed, total_timesteps=updates * batch, run_dir=place, progress=False, **settings
        )
        assert run.result is not None
        return run.result["sps"]


def main() -> None:
    """Trains as long as the driver asks, once for each line on stdin."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = {"num_envs": int, "num_steps": int, "num_minibatches": int, "update_epochs": int}
    rates = ("learning_rate", "gamma", "gae_lambda", "clip_coef", "ent_coef", "vf_coef", "max_grad_norm")
    for name, kind in {**names, **dict.fromkeys(rates, float)}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=kind, required=True)
    fixed = {"clip_vloss": True, "target_kl": 0.0, "hidden": [64, 64], "activation": "tanh"}
    settings = {**vars(parser.parse_args()), **fixed, "shared_trunk": False, "eval_interval": 10**6}
    settings |= {"device": "cpu", "precision": "f32"}
    send = protocol()
    speed = train(settings, 2, 1)
    send({"ready": True, "versions": versions("numpy"), "settings": {"device": "cpu", "precision": "f32"}})
    for seed, line in enumerate(sys.stdin, 1):
        updates = max(2, round(speed * float(line) / (settings["num_envs"] * settings["num_steps"])))
        send({"sps": train(settings, updates, seed)})


if __name__ == "__main__":
    main()
