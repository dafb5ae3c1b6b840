"""PPO in JAX as PureJaxRL does it: environment, rollout, advantages and all epochs of an update in one jit.

CartPole-v1, a policy and a value network of their own, 64-64 tanh by default, orthogonal initialisation,
Adam, clipping of the global norm: the same algorithm and sizes as operant's, with the hyperparameters on the
command line. It needs JAX alone, runs on a CPU or a GPU, and either measures its speed for the driver or
trains until CartPole is solved (`--solve`).
"""

import argparse
import os
import sys
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import cartpole_jax as cartpole
from worker import (
    EVALUATION_EPISODES,
    SOLVED_AT,
    Attempts,
    Candidate,
    Step,
    protocol,
    report_solved,
    serve,
    versions,
)

ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON = 0.9, 0.999, 1e-5

Layers = list[dict[str, jax.Array]]
Parameters = dict[str, Layers]


@dataclass(frozen=True)
class Settings:
    """Hyperparameters, with CleanRL's names and, except the batch, its default values."""

    seed: int = 1
    total_timesteps: int = 500_000
    num_envs: int = 4
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 4
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    clip_vloss: int = 1
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    target_kl: float = 0.0
    """Approximate KL divergence that ends an update's epochs; 0: never."""
    eval_interval: int = 10
    """Updates between attempts to count as solved."""
    precision: str = "f32"
    """Of matrix products: f32, or on a GPU tf32 or bf16 with float32 sums."""
    generator: str = "threefry2x32"
    """JAX's name for how it makes random numbers."""
    hidden: str = "64,64"
    """Widths of the hidden layers."""

    @property
    def widths(self) -> list[int]:
        """Widths of the hidden layers, as numbers."""
        return [int(width) for width in self.hidden.split(",")]

    @property
    def batch(self) -> int:
        """Samples of an update."""
        return self.num_envs * self.num_steps

    @property
    def updates(self) -> int:
        """Updates of the whole training, over which the learning rate falls to zero."""
        return max(1, self.total_timesteps // self.batch)


class Adam(NamedTuple):
    """State of the optimizer."""

    count: jax.Array
    first: Parameters
    second: Parameters


class Carry(NamedTuple):
    """All that one update hands to the next."""

    parameters: Parameters
    adam: Adam
    state: cartpole.State
    key: jax.Array


class Samples(NamedTuple):
    """What the loss needs of each sample of the rollout."""

    obs: jax.Array
    action: jax.Array
    logprob: jax.Array
    value: jax.Array
    advantage: jax.Array


def network(key: jax.Array, hidden: list[int], outputs: int, last_gain: float) -> Layers:
    """The hidden layers and an output layer."""
    sizes = [cartpole.OBSERVATION, *hidden, outputs]
    gains = [2**0.5] * len(hidden) + [last_gain]
    layers = zip(jax.random.split(key, len(gains)), sizes[:-1], sizes[1:], gains, strict=True)
    return [
        {"w": jax.nn.initializers.orthogonal(gain)(key, (rows, columns)), "b": jnp.zeros(columns)}
        for key, rows, columns, gain in layers
    ]


def product(x: jax.Array, w: jax.Array, precision: str) -> jax.Array:
    """A matrix product in the asked precision, summed in float32."""
    if precision == "bf16":
        return jnp.matmul(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
    return jnp.matmul(x, w, precision="float32" if precision == "f32" else "tensorfloat32")


def forward(layers: Layers, x: jax.Array, precision: str) -> jax.Array:
    """The network's output for a batch of observations."""
    for layer in layers[:-1]:
        x = jnp.tanh(product(x, layer["w"], precision) + layer["b"])
    return product(x, layers[-1]["w"], precision) + layers[-1]["b"]


class Ppo:
    """The jitted parts of training under some settings."""

    def __init__(self, settings: Settings) -> None:
        if settings.batch % settings.num_minibatches:
            raise ValueError(
                f"a batch of {settings.batch} has no {settings.num_minibatches} equal minibatches"
            )
        self.settings = settings
        self.update = jax.jit(self._update, donate_argnums=0)
        self.evaluate = jax.jit(self._evaluate)

    def start(self) -> Carry:
        """Fresh networks and environments."""
        return jax.jit(self._start)(jax.random.key(self.settings.seed, impl=self.settings.generator))

    def _start(self, key: jax.Array) -> Carry:
        policy_key, value_key, reset_key, key = jax.random.split(key, 4)
        widths = self.settings.widths
        parameters = {
            "policy": network(policy_key, widths, cartpole.ACTIONS, 0.01),
            "value": network(value_key, widths, 1, 1.0),
        }
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        adam = Adam(jnp.zeros((), jnp.int32), zeros, zeros)
        return Carry(parameters, adam, cartpole.reset(reset_key, self.settings.num_envs), key)

    def policy(self, parameters: Parameters, obs: jax.Array) -> jax.Array:
        """Log-probabilities of the actions."""
        return jax.nn.log_softmax(forward(parameters["policy"], obs, self.settings.precision))

    def value(self, parameters: Parameters, obs: jax.Array) -> jax.Array:
        """Estimated return from these observations."""
        return forward(parameters["value"], obs, self.settings.precision)[:, 0]

    def _rollout(self, carry: Carry) -> tuple[Carry, Samples, cartpole.Outcome]:
        """A horizon of every environment, time-major; the advantages are still empty."""

        def step(inner: Any, _: None) -> Any:
            state, key = inner
            key, action_key, reset_key = jax.random.split(key, 3)
            logprobs = self.policy(carry.parameters, state.physics)
            value = self.value(carry.parameters, state.physics)
            action = jax.random.categorical(action_key, logprobs)
            logprob = jnp.take_along_axis(logprobs, action[:, None], 1)[:, 0]
            after, outcome = cartpole.step(reset_key, state, action)
            return (after, key), (Samples(state.physics, action, logprob, value, value), outcome)

        inner, (samples, outcome) = jax.lax.scan(
            step, (carry.state, carry.key), None, self.settings.num_steps
        )
        return carry._replace(state=inner[0], key=inner[1]), samples, outcome

    def _advantages(self, samples: Samples, outcome: cartpole.Outcome, last_value: jax.Array) -> jax.Array:
        """Generalised advantage estimates; as in PureJaxRL a time limit ends an episode like a fall."""
        settings = self.settings

        def back(carry: Any, row: Any) -> Any:
            advantage, next_value = carry
            value, reward, done = row
            alive = 1.0 - done
            delta = reward + settings.gamma * next_value * alive - value
            advantage = delta + settings.gamma * settings.gae_lambda * alive * advantage
            return (advantage, value), advantage

        rows = (samples.value, outcome.reward, outcome.done)
        return jax.lax.scan(back, (jnp.zeros_like(last_value), last_value), rows, reverse=True)[1]

    def _loss(self, parameters: Parameters, samples: Samples) -> tuple[jax.Array, jax.Array]:
        """PPO's loss over a minibatch, and the approximate KL divergence."""
        settings = self.settings
        logprobs, value = self.policy(parameters, samples.obs), self.value(parameters, samples.obs)
        logratio = jnp.take_along_axis(logprobs, samples.action[:, None], 1)[:, 0] - samples.logprob
        ratio = jnp.exp(logratio)
        advantage = (samples.advantage - samples.advantage.mean()) / (samples.advantage.std() + 1e-8)
        clipped = jnp.clip(ratio, 1 - settings.clip_coef, 1 + settings.clip_coef)
        policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
        returns = samples.advantage + samples.value
        error = (value - returns) ** 2
        if settings.clip_vloss:
            moved = samples.value + jnp.clip(value - samples.value, -settings.clip_coef, settings.clip_coef)
            error = jnp.maximum(error, (moved - returns) ** 2)
        entropy = -(jnp.exp(logprobs) * logprobs).sum(-1).mean()
        loss = policy_loss + settings.vf_coef * 0.5 * error.mean() - settings.ent_coef * entropy
        return loss, (ratio - 1 - logratio).mean()

    def _adam(self, parameters: Parameters, adam: Adam, gradient: Parameters) -> tuple[Parameters, Adam]:
        """One step of Adam on the gradient, its global norm clipped, at the annealed learning rate."""
        settings = self.settings
        norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        gradient = jax.tree.map(
            lambda leaf: leaf * jnp.minimum(1.0, settings.max_grad_norm / (norm + 1e-6)), gradient
        )
        count = adam.count + 1
        first = jax.tree.map(lambda m, g: ADAM_BETA1 * m + (1 - ADAM_BETA1) * g, adam.first, gradient)
        second = jax.tree.map(lambda v, g: ADAM_BETA2 * v + (1 - ADAM_BETA2) * g * g, adam.second, gradient)
        done = adam.count // (settings.num_minibatches * settings.update_epochs)
        rate = settings.learning_rate * jnp.maximum(0.0, 1.0 - done / float(settings.updates))
        correction1, correction2 = 1 - ADAM_BETA1**count, 1 - ADAM_BETA2**count

        def moved(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            return p - rate * (m / correction1) / (jnp.sqrt(v / correction2) + ADAM_EPSILON)

        return jax.tree.map(moved, parameters, first, second), Adam(count, first, second)

    def _epoch(self, parameters: Parameters, adam: Adam, samples: Samples, key: jax.Array) -> Any:
        """All minibatches once, in a fresh order; also the last one's approximate KL divergence."""
        settings = self.settings
        order = jax.random.permutation(key, settings.batch).reshape(settings.num_minibatches, -1)

        def step(carry: Any, chosen: jax.Array) -> Any:
            minibatch = jax.tree.map(lambda array: array[chosen], samples)
            gradient, kl = jax.grad(self._loss, has_aux=True)(carry[0], minibatch)
            return self._adam(*carry, gradient), kl

        (parameters, adam), kls = jax.lax.scan(step, (parameters, adam), order)
        return parameters, adam, kls[-1]

    def _update(self, carry: Carry) -> tuple[Carry, jax.Array]:
        """Rollout, advantages and all epochs; also the returns of episodes, -1 where none ended."""
        settings = self.settings
        carry, samples, outcome = self._rollout(carry)
        last_value = self.value(carry.parameters, carry.state.physics)
        samples = samples._replace(advantage=self._advantages(samples, outcome, last_value))
        samples = jax.tree.map(lambda array: array.reshape(settings.batch, *array.shape[2:]), samples)

        def epoch(inner: Any, key: jax.Array) -> Any:
            parameters, adam, kl = inner

            def learn() -> Any:
                return self._epoch(parameters, adam, samples, key)

            if settings.target_kl == 0.0:
                return learn(), None
            return jax.lax.cond(kl > settings.target_kl, lambda: inner, learn), None

        key, *keys = jax.random.split(carry.key, settings.update_epochs + 1)
        inner = (carry.parameters, carry.adam, jnp.zeros(()))
        (parameters, adam, _), _ = jax.lax.scan(epoch, inner, jnp.stack(keys))
        return Carry(parameters, adam, carry.state, key), outcome.episodic_return

    def _evaluate(self, parameters: Parameters, key: jax.Array) -> jax.Array:
        """Mean return of greedy episodes, each played to its end."""
        reset_key, key = jax.random.split(key)

        def step(inner: Any, _: None) -> Any:
            state, returns = inner
            action = jnp.argmax(self.policy(parameters, state.physics), axis=1)
            state, outcome = cartpole.step(key, state, action)
            first_end = (returns < 0) & outcome.done
            return (state, jnp.where(first_end, outcome.episodic_return, returns)), None

        start = (cartpole.reset(reset_key, EVALUATION_EPISODES), jnp.full(EVALUATION_EPISODES, -1))
        return jax.lax.scan(step, start, None, cartpole.TIME_LIMIT)[0][1].mean()


def prepare(settings: Settings) -> Step:
    """A compiled update and the state from which it continues."""
    ppo = Ppo(settings)
    carry = [ppo.start()]

    def step() -> int:
        carry[0], returns = ppo.update(carry[0])
        returns.block_until_ready()
        return settings.batch

    return step


def solve(settings: Settings) -> None:
    """Trains until CartPole is solved or the steps are used up, and reports to the driver."""
    send = protocol()
    ppo, attempts = Ppo(settings), Attempts(settings.eval_interval)
    carry, mean, solved = ppo.start(), None, False
    update = 0
    while update < settings.updates and not solved:
        carry, returns = ppo.update(carry)
        update += 1
        returns = np.asarray(returns)
        attempts.finished(returns[returns >= 0].tolist())
        if attempts.due(update):
            key = jax.random.key(settings.seed + update, impl=settings.generator)
            mean = float(ppo.evaluate(carry.parameters, key))
            solved = mean >= SOLVED_AT
    report_solved(send, solved, mean, update * settings.batch, versions("jax", "jaxlib"))


def device() -> jax.Device:
    """What JAX computes on; ends the process where that is not to be had."""
    try:
        return jax.devices()[0]
    except (AssertionError, RuntimeError) as error:
        sys.exit(f"JAX finds no device for JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}: {error!r}")


def candidates(settings: Settings) -> list[Candidate]:
    """On a GPU the faster of the generator that is set and JAX's quicker one, which on a CPU is the slower."""
    names = [settings.generator] if device().platform == "cpu" else sorted({settings.generator, "rbg"})
    choices = [replace(settings, generator=name) for name in names]
    return [
        Candidate(
            {"device": device().device_kind, "generator": choice.generator},
            lambda choice=choice: prepare(choice),
        )
        for choice in choices
    ]


def main() -> None:
    """Reads the settings, one flag a field, and measures or solves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solve", action="store_true")
    for field in fields(Settings):
        parser.add_argument(
            "--" + field.name.replace("_", "-"), type=type(field.default), default=field.default
        )
    arguments = vars(parser.parse_args())
    solving = arguments.pop("solve")
    settings = Settings(**arguments)
    device()
    if solving:
        solve(settings)
        return
    serve(versions("jax", "jaxlib"), candidates(settings))


if __name__ == "__main__":
    main()
