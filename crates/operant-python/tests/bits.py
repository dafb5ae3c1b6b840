"""Prints the engine's level, and hashes of 1,000 steps of every environment and of the checkpoint of a short training."""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import operant

TRAIN = [sys.executable, "-m", "operant", "train", "cartpole", "--device", "cpu", "--steps", "20000", "--name", "bits"]


def of_steps(name):
    """The hash of what 1,000 steps of 100 environments return."""
    envs = operant.make_vec(name, 100, seed=7)
    rng = np.random.default_rng(7)
    found = hashlib.sha256()
    envs.reset()
    for actions in envs._random_actions(rng, 1000):
        obs, *arrays = envs.step(actions)[:4]
        for array in [*(obs.values() if isinstance(obs, dict) else [obs]), *arrays]:
            found.update(np.ascontiguousarray(array))
    return found.hexdigest()


def of_training():
    """The hash of the trained weights and the state of the optimiser."""
    with tempfile.TemporaryDirectory() as place:
        env = {**os.environ, "OPERANT_RING_DIR": place, "XDG_CONFIG_HOME": place}
        subprocess.run([*TRAIN, "--quiet"], cwd=place, env=env, check=True, stdout=subprocess.DEVNULL)
        state = max(Path(place, "runs/bits/checkpoints").glob("*/state.safetensors"))
        return hashlib.sha256(state.read_bytes()).hexdigest()


print(operant.build_info()["level"])
for name in operant.envs.names():
    print(f"  {name:20} {of_steps(name)[:32]}")
print(f"  {'training':20} {of_training()[:32]}")
