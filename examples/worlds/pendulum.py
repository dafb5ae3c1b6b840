"""Pendulum in Python: swing a pendulum up with a weak motor. It equals the built-in environment bit for bit.

    operant train examples/worlds/pendulum.py:Pendulum
"""

from math import pi

import gymnasium
import numpy as np

import operant
from operant import math as om
from operant import shapes

GRAVITY, MASS, LENGTH = 10.0, 1.0, 1.0  # m/s^2, kg, m
DT = 0.05  # between steps, s
MAX_TORQUE, MAX_SPEED = 2.0, 8.0  # N m, rad/s
HIGH = np.array([1.0, 1.0, MAX_SPEED], np.float32)


def wrapped(angle):
    """An angle into -pi .. pi."""
    turns = om.floor((angle + pi) * (1.0 / (2.0 * pi)))
    return om.fma(turns, -2.0 * pi, angle)


@operant.world(
    name="my_pendulum",
    observation_space=gymnasium.spaces.Box(-HIGH, HIGH),
    action_space=gymnasium.spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,)),
    max_episode_steps=200,
    view=((-1.3, -1.3), (1.3, 1.3)),
    fps=30.0,
)
class Pendulum:
    """Swing a pendulum up and hold it; at most 0 per step."""

    theta: operant.Float  # angle from upright, rad
    theta_dot: operant.Float  # angular velocity, rad/s

    def reset(self, draws):
        return self.State(theta=draws.uniform(-pi, pi), theta_dot=draws.uniform(-1.0, 1.0))

    def step(self, s, action, draws):
        (torque,) = action
        u = om.clip(torque, -MAX_TORQUE, MAX_TORQUE)
        # The cost is of the state before the step.
        angle = wrapped(s.theta)
        cost = om.fma(s.theta_dot * s.theta_dot, 0.1, angle * angle)
        cost = om.fma(u * u, 0.001, cost)
        gravity = om.sin(s.theta) * (3.0 * GRAVITY / (2.0 * LENGTH))
        acceleration = om.fma(u, 3.0 / (MASS * LENGTH * LENGTH), gravity)
        s.theta_dot = om.clip(om.fma(acceleration, DT, s.theta_dot), -MAX_SPEED, MAX_SPEED)
        s.theta = om.fma(s.theta_dot, DT, s.theta)
        return s, -cost, False

    def observe(self, s):
        sin, cos = om.sin_cos(s.theta)
        return [cos, sin, s.theta_dot]

    def draw(self, s):
        sin, cos = om.sin_cos(s.theta)
        return [
            shapes.line([(0.0, 0.0), (sin, cos)], tone="accent"),
            shapes.circle((0.0, 0.0), 0.05, tone="target"),
        ]


if __name__ == "__main__":
    run = operant.train(Pendulum, seed=1, total_timesteps=500_000)
    assert run.result is not None
    print(run.result["eval_return_mean"])
