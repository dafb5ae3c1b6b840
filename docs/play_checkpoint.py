"""Plays a checkpoint of operant in Gymnasium with NumPy. Usage: python play_checkpoint.py CHECKPOINT"""

import json
import sys

import gymnasium
import numpy as np
from safetensors import safe_open

IDS = {"cartpole": "CartPole-v1", "acrobot": "Acrobot-v1", "mountain_car": "MountainCar-v0",
       "mountain_car_continuous": "MountainCarContinuous-v0", "pendulum": "Pendulum-v1"}

with safe_open(f"{sys.argv[1]}/state.safetensors", "numpy") as file:
    net = json.loads(file.metadata()["operant"])
    tensors = {name: file.get_tensor(name) for name in file.keys()}
others = any(net.get(key) for key in ("conv", "layer_norm", "residual_blocks", "pointer")) or net.get("algorithm", "ppo") != "ppo"
if others or net.get("encoder", "auto") != "auto" or net.get("core", "mlp") != "mlp":
    sys.exit("this script plays fully connected networks; `operant export` writes others as ONNX")

trunk = "trunk" if net["shared_trunk"] else "actor"
activation = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}[net["activation"]]


def dense(layer, x):
    return tensors[f"params.{layer}.weight"] @ x + tensors[f"params.{layer}.bias"]


def act(obs, space):
    x = obs.astype(np.float32).ravel()
    if net["norm_obs"]:
        x = (x - tensors["norm_obs.mean"]) / np.sqrt(tensors["norm_obs.var"] + 1e-8)
        x = np.clip(x, -net["clip_obs"], net["clip_obs"])
    for k in range(len(net["hidden"])):
        x = activation(dense(f"{trunk}.{k}", x))
    output = dense("policy", x)  # logits of a discrete action, means of a continuous one
    if isinstance(space, gymnasium.spaces.Discrete):
        return output.argmax()
    return np.clip(output, space.low, space.high).astype(space.dtype)


env = gymnasium.make(IDS[net["environment"]])
returns = []
for episode in range(100):
    (obs, _), total, done = env.reset(seed=episode), 0.0, False
    while not done:
        obs, reward, terminated, truncated, _ = env.step(act(obs, env.action_space))
        total, done = total + float(reward), terminated or truncated
    returns.append(total)
print(f"{IDS[net['environment']]}: mean return {np.mean(returns):.2f} +- {np.std(returns):.2f} over {len(returns)} episodes")
