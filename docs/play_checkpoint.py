"""Plays a checkpoint of operant in Gymnasium with NumPy. Usage: python play_checkpoint.py CHECKPOINT"""

import sys

import gymnasium
import numpy as np
from safetensors import safe_open

IDS = {"cartpole": "CartPole-v1", "acrobot": "Acrobot-v1", "mountain_car": "MountainCar-v0",
       "mountain_car_continuous": "MountainCarContinuous-v0", "pendulum": "Pendulum-v1"}

with safe_open(f"{sys.argv[1]}/state.safetensors", "numpy") as file:
    meta = {key.removeprefix("operant."): value for key, value in file.metadata().items()}
    tensors = {name: file.get_tensor(name) for name in file.keys()}

trunk = "trunk" if meta["shared_trunk"] == "true" else "actor"
hidden = [f"{trunk}.{k}" for k in range(len(meta["hidden"].split(",")) if meta["hidden"] else 0)]
activation = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}[meta["activation"]]


def dense(layer, x):
    return tensors[f"params.{layer}.weight"] @ x + tensors[f"params.{layer}.bias"]


def act(obs, space):
    x = obs.astype(np.float32).ravel()
    if meta["norm_obs"] == "true":
        x = (x - tensors["norm_obs.mean"]) / np.sqrt(tensors["norm_obs.var"] + float(meta["norm_eps"]))
        x = np.clip(x, -float(meta["clip_obs"]), float(meta["clip_obs"]))
    for layer in hidden:
        x = activation(dense(layer, x))
    output = dense("policy", x)  # logits of a discrete action, means of a continuous one
    if isinstance(space, gymnasium.spaces.Discrete):
        return output.argmax()
    return np.clip(output, space.low, space.high).astype(space.dtype)


env = gymnasium.make(IDS[meta["env"]])
returns = []
for episode in range(100):
    (obs, _), total, done = env.reset(seed=episode), 0.0, False
    while not done:
        obs, reward, terminated, truncated, _ = env.step(act(obs, env.action_space))
        total, done = total + float(reward), terminated or truncated
    returns.append(total)
print(f"{env.spec.id}: mean return {np.mean(returns):.2f} +- {np.std(returns):.2f} over {len(returns)} episodes")
