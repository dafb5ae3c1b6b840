"""CartPole-v1 in JAX for the PPO in ppo_jax.py: a batch of environments, stepped and reset inside a jit.

Gymnasium's rules in float32, written on whole arrays rather than with vmap, and with one random draw a step
for all resets: what the PPO measures is then XLA, and not a library's bookkeeping around it.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

OBSERVATION = 4
ACTIONS = 2
TIME_LIMIT = 500

GRAVITY = 9.8
CART_MASS = 1.0
POLE_MASS = 0.1
TOTAL_MASS = CART_MASS + POLE_MASS
HALF_LENGTH = 0.5
FORCE = 10.0
SECONDS_PER_STEP = 0.02
X_LIMIT = 2.4
THETA_LIMIT = math.radians(12.0)
RESET_BOUND = 0.05


class State(NamedTuple):
    """N environments in the middle of their episodes."""

    physics: jax.Array
    """x, x_dot, theta, theta_dot: (N, 4), which is also the observation."""
    elapsed: jax.Array
    """Steps of this episode: (N,)"""


class Outcome(NamedTuple):
    """What a step with auto-reset gives, each of shape (N,)."""

    reward: jax.Array
    done: jax.Array
    """Whether the rules or the time limit ended the episode."""
    episodic_return: jax.Array
    """Return of the episode that ended; -1 where none did."""


def fresh(key: jax.Array, num_envs: int) -> jax.Array:
    """Physics at the start of an episode."""
    return jax.random.uniform(key, (num_envs, OBSERVATION), minval=-RESET_BOUND, maxval=RESET_BOUND)


def reset(key: jax.Array, num_envs: int) -> State:
    """Environments at the start of their first episode."""
    return State(fresh(key, num_envs), jnp.zeros(num_envs, jnp.int32))


def advance(physics: jax.Array, action: jax.Array) -> jax.Array:
    """The equations of motion, by explicit Euler steps: positions use the old velocities."""
    x, x_dot, theta, theta_dot = physics.T
    sine, cosine = jnp.sin(theta), jnp.cos(theta)
    force = jnp.where(action == 1, FORCE, -FORCE)
    push = (force + POLE_MASS * HALF_LENGTH * theta_dot**2 * sine) / TOTAL_MASS
    inertia = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / TOTAL_MASS)
    theta_acceleration = (GRAVITY * sine - cosine * push) / inertia
    x_acceleration = push - POLE_MASS * HALF_LENGTH * theta_acceleration * cosine / TOTAL_MASS
    return jnp.stack(
        [
            x + SECONDS_PER_STEP * x_dot,
            x_dot + SECONDS_PER_STEP * x_acceleration,
            theta + SECONDS_PER_STEP * theta_dot,
            theta_dot + SECONDS_PER_STEP * theta_acceleration,
        ],
        axis=1,
    )


def step(key: jax.Array, state: State, action: jax.Array) -> tuple[State, Outcome]:
    """One step of every environment. Where an episode ends the next one starts within the same step."""
    physics, elapsed = advance(state.physics, action), state.elapsed + 1
    fell = (jnp.abs(physics[:, 0]) > X_LIMIT) | (jnp.abs(physics[:, 2]) > THETA_LIMIT)
    done = fell | (elapsed >= TIME_LIMIT)
    outcome = Outcome(jnp.ones_like(physics[:, 0]), done, jnp.where(done, elapsed, -1))
    physics = jnp.where(done[:, None], fresh(key, physics.shape[0]), physics)
    return State(physics, jnp.where(done, 0, elapsed)), outcome
