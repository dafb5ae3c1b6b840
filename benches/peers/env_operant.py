"""operant's environments through Python, every array written; on one thread."""

import argparse
import tempfile

import numpy as np
import operant

from worker import Candidate, Step, serve, versions

BATCHES = 16
"""Batches of random actions drawn beforehand, as for the other peers."""
STEPS_PER_CALL = 32
HORIZON = 128
"""Steps of a rollout, as in `operant bench rollout`."""

FAST = {"copy": False, "reward_dtype": "float32", "final_obs": "dense"}
MODES = {
    "next-step": {**FAST, "autoreset_mode": "next_step"},
    "same-step": FAST,
    "default": {},
}


def prepare(mode: str, num_envs: int) -> Step:
    """Environments in one of the modes."""
    envs = operant.make_vec("CartPole-v1", num_envs, threads=1, seed=0, **MODES[mode])
    envs.reset()
    actions = np.random.default_rng(0).integers(0, 2, (BATCHES, num_envs))

    def step() -> int:
        for index in range(STEPS_PER_CALL):
            envs.step(actions[index % BATCHES])
        return STEPS_PER_CALL * num_envs

    return step


def prepare_rollout(num_envs: int) -> Step:
    """Horizons under a trained policy of the preset's network, acting inside the engine."""
    with tempfile.TemporaryDirectory() as place:
        keys = {"total_timesteps": 1024, "eval_episodes": 1, "ring": False, "progress": False}
        policy = operant.train("cartpole", seed=0, run_dir=place, **keys).policy
    envs = operant.make_vec("CartPole-v1", num_envs, threads=1, seed=0, **FAST)
    envs.reset()
    out = envs.rollout(policy, HORIZON)

    def step() -> int:
        envs.rollout(policy, HORIZON, out=out)
        return HORIZON * num_envs

    return step


def prepare_collector(env: str, num_envs: int) -> Step:
    """Rollouts of an initial policy, with values and advantages, as arrays of NumPy: `operant bench rollout`."""
    network = {"conv": [], "hidden": [64, 64], "activation": "tanh", "shared_trunk": False}
    collector = operant.Collector(env, num_envs=num_envs, num_steps=HORIZON, threads=1, seed=0, **network)
    collector.collect()

    def step() -> int:
        collector.collect()
        return HORIZON * num_envs

    return step


def main() -> None:
    """Serves one mode at the asked number of environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8192)
    parser.add_argument("--env", default="cartpole", help="of the mode collector; the others step CartPole")
    parser.add_argument("--mode", choices=[*MODES, "rollout", "collector"], default="default")
    arguments = parser.parse_args()
    settings = {"envs": arguments.envs, "mode": arguments.mode}

    def prepared() -> Step:
        if arguments.mode == "rollout":
            return prepare_rollout(arguments.envs)
        if arguments.mode == "collector":
            return prepare_collector(arguments.env, arguments.envs)
        return prepare(arguments.mode, arguments.envs)

    serve(versions("gymnasium", "numpy"), [Candidate(settings, prepared)])


if __name__ == "__main__":
    main()
