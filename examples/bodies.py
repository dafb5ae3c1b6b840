"""Plays an exported policy of a body in Gymnasium's own environment.

    operant export hopper --onnx hopper.onnx
    python examples/bodies.py Hopper-v5 hopper.onnx [EPISODES]
"""

import sys

import gymnasium
import numpy as np
import onnxruntime


def main(env_id: str, model: str, episodes: int = 20) -> None:
    """Prints mean and standard deviation of the returns of greedy episodes."""
    session = onnxruntime.InferenceSession(model)
    name = session.get_inputs()[0].name
    outputs = [output.name for output in session.get_outputs()]
    env = gymnasium.make(env_id)
    low, high = env.action_space.low, env.action_space.high
    returns = []
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            values = session.run(None, {name: obs[None].astype(np.float32)})
            action = dict(zip(outputs, values))["action"][0]
            obs, reward, terminated, truncated, _ = env.step(np.clip(action, low, high))
            total += float(reward)
            ended = terminated or truncated
        returns.append(total)
    print(f"{env_id}: {np.mean(returns):.1f} +- {np.std(returns):.1f} over {episodes} episodes")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
