"""Plays an exported policy of a MuJoCo task in operant's environment and in Gymnasium's own.

    operant export hopper --onnx hopper.onnx
    pip install . 'gymnasium[mujoco]==1.4.0' mujoco==4.0.0 onnxruntime
    python examples/bodies.py Hopper-v5 hopper.onnx [EPISODES]
"""

import sys

import gymnasium
import numpy as np
import onnxruntime

import operant


def returns(envs: gymnasium.vector.VectorEnv, model: str) -> np.ndarray:
    """The return of the first episode of each environment, with greedy actions."""
    session = onnxruntime.InferenceSession(model)
    given = session.get_inputs()[0]
    # A policy that was trained in Gymnasium's environment takes its float64 observations.
    dtype = np.float64 if "double" in given.type else np.float32
    outputs = [output.name for output in session.get_outputs()]
    box = envs.single_action_space
    obs, _ = envs.reset(seed=1)
    total, running = np.zeros(envs.num_envs), np.ones(envs.num_envs, dtype=bool)
    while running.any():
        values = session.run(None, {given.name: obs.astype(dtype)})
        action = dict(zip(outputs, values))["action"]
        obs, reward, terminated, truncated, _ = envs.step(np.clip(action, box.low, box.high))
        total += running * reward
        running &= ~(terminated | truncated)
    return total


def main(env_id: str, model: str, episodes: int = 100) -> None:
    """Prints mean and standard deviation in both."""
    for place, make in {"operant": operant.make_vec, "Gymnasium": gymnasium.make_vec}.items():
        played = returns(make(env_id, num_envs=episodes), model)
        print(f"{env_id} in {place}: {played.mean():.1f} +- {played.std():.1f} over {episodes} episodes")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
