"""Trains a JAX policy on CartPole with PPO: JAX reads the engine's arrays over DLPack, none is copied.

`from_dlpack(array, copy=False)` raises an error if JAX could not use the array where it is.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.dlpack import from_dlpack

import operant

# JAX computes before a call returns. Else its threads may still read an array of NumPy that the engine overwrites, or free one while
# Python exits, which aborts the process.
jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]

NUM_ENVS, NUM_STEPS, UPDATES, EPOCHS = 32, 32, 150, 16
GAMMA, LAMBDA, CLIP, ENTROPY, LEARNING_RATE = 0.99, 0.95, 0.2, 0.005, 5e-3
LEARNED = 450.0

Layers = list[tuple[jax.Array, jax.Array]]  # weights and biases
Params = tuple[Layers, Layers]  # of the policy and the value
State = tuple[Params, tuple[Params, Params]]  # and the two moments of Adam
Arrays = dict[str, jax.Array]


def network(layers: Layers, obs: jax.Array) -> jax.Array:
    for weights, bias in layers[:-1]:
        obs = jnp.tanh(obs @ weights + bias)
    return obs @ layers[-1][0] + layers[-1][1]


def logits_of(params: Params, obs: jax.Array) -> jax.Array:
    return network(params[0], obs)


def value_of(params: Params, obs: jax.Array) -> jax.Array:
    return network(params[1], obs)[..., 0]


def initial(key: jax.Array, *sizes: int) -> Layers:
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [(jax.random.normal(key, (m, n)) / m**0.5, jnp.zeros(n)) for key, m, n in pairs]


@jax.jit
def act(params: Params, obs: jax.Array, key: jax.Array) -> jax.Array:
    return jax.random.categorical(key, logits_of(params, obs)).astype(jnp.int32)


def advantages_of(params: Params, played: Arrays) -> tuple[jax.Array, jax.Array]:
    """Generalized advantage estimates, and what the value should be."""
    values = value_of(params, played["observations"])
    # A terminated episode has no value after its end; a truncated one has that of its last observation.
    after = jnp.where(played["ended"], value_of(params, played["final_obs"]), value_of(params, played["obs"]))
    deltas = played["rewards"] + GAMMA * after * ~played["terminated"] - values

    def backwards(running: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, ended = step
        running = delta + GAMMA * LAMBDA * ~ended * running
        return running, running

    _, advantages = jax.lax.scan(backwards, jnp.zeros(NUM_ENVS), (deltas, played["ended"]), reverse=True)
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8), advantages + values


def log_probs_of(params: Params, played: Arrays) -> tuple[jax.Array, jax.Array]:
    log_probs = jax.nn.log_softmax(logits_of(params, played["observations"]))
    return log_probs, jnp.take_along_axis(log_probs, played["actions"][..., None], -1)[..., 0]


def loss(
    params: Params, played: Arrays, old: jax.Array, advantages: jax.Array, targets: jax.Array
) -> jax.Array:
    log_probs, chosen = log_probs_of(params, played)
    ratio = jnp.exp(chosen - old)
    gain = jnp.minimum(ratio * advantages, ratio.clip(1 - CLIP, 1 + CLIP) * advantages)
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1)
    errors = targets - value_of(params, played["observations"])
    return (0.5 * errors**2 - gain - ENTROPY * entropy).mean()


@jax.jit
def update(params: Params, moments: tuple[Params, Params], count: int, played: Arrays) -> State:
    """Some steps of Adam on one rollout, their rate falling to 0."""
    advantages, targets = advantages_of(params, played)
    old = log_probs_of(params, played)[1]
    rate = LEARNING_RATE * (1 - count / UPDATES)

    def step(epoch: int, state: State) -> State:
        params, (first, second) = state
        gradients = jax.grad(loss)(params, played, old, advantages, targets)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        done = EPOCHS * count + epoch + 1
        bias = 1 - 0.9**done, 1 - 0.999**done
        params = jax.tree.map(
            lambda p, m, v: p - rate * (m / bias[0]) / (jnp.sqrt(v / bias[1]) + 1e-8), params, first, second
        )
        return params, (first, second)

    result: State = jax.lax.fori_loop(0, EPOCHS, step, (params, moments))
    return result


def main() -> None:
    envs = operant.make_vec("CartPole-v1", NUM_ENVS, seed=1, copy=False, reward_dtype="float32", final_obs="dense")
    envs.reset()
    key, start = jax.random.split(jax.random.key(1))
    params = initial(start, 4, 64, 64, 2), initial(start, 4, 64, 64, 1)
    moments = jax.tree.map(jnp.zeros_like, (params, params))
    lengths, started = [], time.perf_counter()
    for count in range(UPDATES):
        keys = iter(jax.random.split(jax.random.fold_in(key, count), NUM_STEPS))
        # The policy's actions, too, are read where JAX has them.
        played = envs.rollout(lambda obs: np.asarray(act(params, from_dlpack(obs, copy=False), next(keys))), NUM_STEPS)
        lengths.extend(played["lengths"][played["ended"]].tolist())
        wanted = ("observations", "actions", "rewards", "terminated", "ended", "obs", "final_obs")
        views = {name: from_dlpack(played[name], copy=False if name != "actions" else None) for name in wanted}
        params, moments = update(params, moments, count, views)
        if (count + 1) % 30 == 0:
            steps = (count + 1) * NUM_ENVS * NUM_STEPS
            rate = steps / (time.perf_counter() - started)
            print(f"{steps} steps: mean return {np.mean(lengths[-100:]):.1f}, {rate:.0f} steps/s", flush=True)
    mean = float(np.mean(lengths[-100:]))
    if mean < LEARNED:
        raise SystemExit(f"mean return of the last 100 episodes {mean:.1f}: below {LEARNED:.0f}, not learned")
    print(f"mean return of the last 100 episodes {mean:.1f}: learned")


if __name__ == "__main__":
    main()
