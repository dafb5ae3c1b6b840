"""Installs a wheel into an empty environment of the Python that runs this, uses it as a new user would, and prints what was found as JSON.

    python check.py WHEEL [ARGUMENTS OF PIP]...
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

STARTS = 21

# What the README shows: training, its policy, and a Gymnasium environment; prints a hash of the weights.
USE = """
import hashlib, pathlib, sys
import numpy as np, operant

run = operant.train("cartpole", seed=1, total_timesteps=60_000, run_dir="runs", name="check", progress=False)
envs = operant.make_vec("CartPole-v1", num_envs=64, seed=1)
obs, _ = envs.reset()
for _ in range(200):
    obs, *_ = envs.step(run.policy(obs))
state = max(pathlib.Path("runs/check/checkpoints").glob("*/state.safetensors"))
print(hashlib.sha256(state.read_bytes() + np.ascontiguousarray(obs).tobytes()).hexdigest()[:16], run.result["eval_return_mean"],
      operant.build_info()["level"])
"""


def main() -> None:
    wheel, *pip_arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        began = time.monotonic()
        venv.create(Path(place, "venv"), with_pip=True)
        python, command = Path(place, "venv/bin/python"), Path(place, "venv/bin/operant")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pip_arguments, os.path.abspath(wheel)]
        # As pip does by default, whatever this process's settings are.
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        env["OPERANT_RING_DIR"] = place
        subprocess.run(install, cwd=place, env=env, check=True)
        installed = time.monotonic() - began

        def output(*words: object) -> str:
            return subprocess.run(words, cwd=place, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout

        times = []
        for _ in range(STARTS):
            began = time.perf_counter()
            version = output(command, "--version").strip()
            times.append(time.perf_counter() - began)
        bits, mean, level = output(python, "-c", USE).split()
        if float(mean) < 475:
            raise SystemExit(f"CartPole is not solved: {mean}")
        if "cartpole" not in output(command, "envs", "--json"):
            raise SystemExit("`operant envs` does not list cartpole")
        found = {
            "python": platform.python_version(),
            "libc": " ".join(platform.libc_ver()),
            "version": version,
            "level": level,
            "install_s": round(installed, 1),
            "start_ms": round(1e3 * statistics.median(times), 1),
            "bits": bits,
        }
        print(json.dumps(found))


main()
