"""CartPole in Python: balance a pole on a cart. It equals the built-in environment bit for bit.

    operant train examples/worlds/cartpole.py:CartPole
    python examples/worlds/cartpole.py
"""

import math

import gymnasium
import numpy as np

import operant
from operant import math as om
from operant import shapes

GRAVITY = 9.8  # m/s^2
CART_MASS, POLE_MASS = 1.0, 0.1  # kg
TOTAL_MASS = CART_MASS + POLE_MASS
HALF_LENGTH = 0.5  # of the pole, m
FORCE = 10.0  # of a push, N
TAU = 0.02  # between steps, s
X_LIMIT = 2.4  # m
THETA_LIMIT = 12.0 * 2.0 * math.pi / 360.0  # rad
HIGH = np.array([2.0 * X_LIMIT, np.inf, 2.0 * THETA_LIMIT, np.inf], np.float32)


@operant.world(
    name="my_cartpole",
    observation_space=gymnasium.spaces.Box(-HIGH, HIGH),
    action_space=gymnasium.spaces.Discrete(2),
    max_episode_steps=500,
    action_names=["left", "right"],
    view=((-2.6, -0.4), (2.6, 1.6)),
    fps=50.0,
    preset={"solved_at": 475.0},
)
class CartPole:
    """Balance a pole on a cart; +1 per step."""

    x: operant.Float  # position of the cart, m
    x_dot: operant.Float  # its velocity, m/s
    theta: operant.Float  # angle of the pole from upright, rad
    theta_dot: operant.Float  # its angular velocity, rad/s

    def reset(self, draws):
        x, x_dot, theta, theta_dot = (draws.uniform(-0.05, 0.05) for _ in range(4))
        return self.State(x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot)

    def step(self, s, action, draws):
        force = om.where(action == 1, FORCE, -FORCE)
        sin, cos = om.sin_cos(s.theta)
        swing = s.theta_dot * s.theta_dot * (POLE_MASS * HALF_LENGTH)
        temp = om.fma(swing, sin, force) * (1.0 / TOTAL_MASS)
        lever = om.fma(cos * cos, -HALF_LENGTH * POLE_MASS / TOTAL_MASS, HALF_LENGTH * 4.0 / 3.0)
        theta_acc = om.fma(sin, GRAVITY, -(cos * temp)) / lever
        x_acc = om.fma(theta_acc * cos, -POLE_MASS * HALF_LENGTH / TOTAL_MASS, temp)
        # Explicit Euler: positions move with the velocities from before the step.
        after = self.State(
            x=om.fma(s.x_dot, TAU, s.x),
            x_dot=om.fma(x_acc, TAU, s.x_dot),
            theta=om.fma(s.theta_dot, TAU, s.theta),
            theta_dot=om.fma(theta_acc, TAU, s.theta_dot),
        )
        return after, 1.0, (abs(after.x) > X_LIMIT) | (abs(after.theta) > THETA_LIMIT)

    def observe(self, s):
        return [s.x, s.x_dot, s.theta, s.theta_dot]

    def draw(self, s):
        sin, cos = om.sin_cos(s.theta)
        return [
            shapes.line([(-X_LIMIT, 0.0), (X_LIMIT, 0.0)]),
            shapes.rectangle((s.x, 0.1), 0.5, 0.2, tone="body"),
            shapes.line([(s.x, 0.2), (s.x + sin, 0.2 + cos)], tone="accent"),
            shapes.circle((s.x, 0.2), 0.04, tone="target"),
        ]


if __name__ == "__main__":
    run = operant.train(CartPole, seed=1)
    assert run.result is not None
    print(run.result["eval_return_mean"])
