"""The gradient of each algorithm's loss once more, by JAX's automatic differentiation in float64: `gradients.py DIRECTORY`.

Reads `cases.json` there, a list of networks, coefficients and samples that `tests/gradients.rs` wrote, and writes `gradients.json`:
the gradient of each case by the names of its parameters. It is written from the formulas of the algorithms' pages, and shares no code with the
engine. Gate order and biases are those of PyTorch's documentation of GRUCell and LSTMCell.
"""

import json
import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")


def convolution(x, name, shape, params, activation):
    """The image among the features (rows, O), through Conv2d; the other features follow."""
    first, (height, width, depth) = shape["first"], shape["image"]
    end = first + height * width * depth
    image = x[:, first:end].reshape(-1, height, width, depth)
    # (channels, depth, k, k)
    weight = params[f"{name}.weight"]
    sums = jax.lax.conv_general_dilated(
        image, weight, [shape["stride"]] * 2, "VALID", dimension_numbers=("NHWC", "OIHW", "NHWC")
    )
    made = activation(sums + params[f"{name}.bias"])
    return jnp.concatenate([made.reshape(len(x), -1), x[:, :first], x[:, end:]], 1)


def embedding(x, name, shape, params):
    """Rows of a table for the features (rows, O) that are indices; the other features follow."""
    end = shape["first"] + shape["positions"] * shape["rows"]
    ones = x[:, shape["first"] : end].reshape(len(x), shape["positions"], shape["rows"])
    vectors = ones @ params[f"{name}.weight"]
    made = {
        "embed": lambda: vectors.reshape(len(x), -1),
        "embed_sum": lambda: vectors.sum(1),
        "embed_mean": lambda: vectors.mean(1),
    }[shape["pool"]]()
    return jnp.concatenate([made, x[:, : shape["first"]], x[:, end:]], 1)


def normalised(x, name, params):
    """LayerNorm."""
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * params[f"{name}.weight"] + params[f"{name}.bias"]


def mingru(x, state, p):
    (h,) = state
    z, update, highway = jnp.split(x @ p["weight"].T + p["bias"], 3, 1)
    candidate = jnp.where(z >= 0, z + 0.5, jax.nn.sigmoid(z))
    update, highway = jax.nn.sigmoid(update), jax.nn.sigmoid(highway)
    h = (1 - update) * h + update * candidate
    return x * (1 - highway) + h * highway, [h]


def gru(x, state, p):
    (h,) = state
    of_x = jnp.split(x @ p["weight_ih"].T + p["bias_ih"], 3, 1)
    of_h = jnp.split(h @ p["weight_hh"].T + p["bias_hh"], 3, 1)
    reset, update = (jax.nn.sigmoid(of_x[k] + of_h[k]) for k in (0, 1))
    new = jnp.tanh(of_x[2] + reset * of_h[2])
    h = (1 - update) * new + update * h
    return h, [h]


def lstm(x, state, p):
    h, c = state
    gates = x @ p["weight_ih"].T + p["bias_ih"] + h @ p["weight_hh"].T + p["bias_hh"]
    i, f, g, o = jnp.split(gates, 4, 1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return h, [h, c]


CELLS = {"mingru": (mingru, 1), "gru": (gru, 1), "lstm": (lstm, 2)}


def core(x, trunk, case, params, state):
    """Layers with memory over (sequences, steps, features), from `state` (sequences, numbers); returns what is left of the state."""
    if case["core"] is None:
        return x, state
    cell, states = CELLS[case["core"]["cell"]]
    width = case["core"]["width"]
    for layer in range(case["core"]["layers"]):
        prefix = f"{trunk}.core.{layer}."
        p = {name.removeprefix(prefix): value for name, value in params.items() if name.startswith(prefix)}
        at = [state[:, k * width : (k + 1) * width] for k in range(states)]
        state = state[:, states * width :]

        def step(at, now, cell=cell, p=p):
            x, keep, is_constant = now
            at = [jnp.where(is_constant, jax.lax.stop_gradient(part), part) for part in at]
            # An episode that begins knows nothing of the last one.
            y, at = cell(x, [part * keep[:, None] for part in at], p)
            return at, y

        is_constant = jnp.arange(x.shape[1]) == case.get("burn_in", 0)
        _, y = jax.lax.scan(step, at, (x.swapaxes(0, 1), case["keep"].T, is_constant))
        x = y.swapaxes(0, 1)
    return x, state


def dense(x, name, params):
    return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]


def activation_of(case):
    return {"tanh": jnp.tanh, "relu": lambda x: jnp.maximum(x, 0)}[case["activation"]]


def layers(case, trunk, x, params):
    """The features (rows, ...) that a trunk without memory makes of observations (rows, O)."""
    activation = activation_of(case)
    if case["embed"] is not None:
        x = embedding(x, f"{trunk}.embed", case["embed"], params)
    for k, shape in enumerate(case["conv"]):
        x = convolution(x, f"{trunk}.conv.{k}", shape, params, activation)
    if case["items"] is not None:
        first, count, features = (case["items"][name] for name in ("first", "count", "features"))
        x = x[:, first : first + count * features].reshape(-1, count, features)
    blocks = case["residual_blocks"]
    for k in range(case["hidden"]):
        x = dense(x, f"{trunk}.{k}", params)
        if blocks == 0 or k + 1 < case["hidden"]:
            x = activation(normalised(x, f"{trunk}.{k}.norm", params) if case["layer_norm"] else x)
    for k in range(blocks):
        name = f"{trunk}.blocks.{k}"
        inner = activation(dense(normalised(x, f"{name}.norm", params), f"{name}.up", params))
        x = x + dense(inner, f"{name}.down", params)
    return normalised(x, f"{trunk}.norm", params) if blocks > 0 else x


def heads(case, params):
    """Outputs of the policy and values, (sequences, steps, ...); or action values, and None."""
    sequences, steps, _ = case["obs"].shape
    state, hidden = case["begins"], {}
    for trunk in ["trunk"] if case["shared_trunk"] else ["actor", "critic"]:
        x = layers(case, trunk, case["obs"].reshape(sequences * steps, -1), params)
        hidden[trunk], state = core(x.reshape(sequences, steps, -1), trunk, case, params, state)
    actor, critic = (hidden.get(name, hidden.get("trunk")) for name in ("actor", "critic"))
    head = "q" if case["algorithm"] == "pqn" else "policy"
    weight, bias = params[f"{head}.weight"], params[f"{head}.bias"]
    if case["items"] is not None:
        # A query of the state's features, and products with those of each candidate.
        width = weight.shape[0]
        actor, critic = (x.reshape(sequences, steps, -1, width) for x in (actor, critic))
        query, critic = actor[:, :, 0] @ weight.T + bias, critic[:, :, 0]
        outputs = jnp.einsum("stah,sth->sta", actor[:, :, 1:], query) / math.sqrt(width)
    else:
        outputs = actor @ weight.T + bias
        if "log_std.weight" in params:
            outputs = jnp.concatenate([outputs, actor @ params["log_std.weight"].T + params["log_std.bias"]], -1)
    if head == "q":
        return outputs, None
    return outputs, critic @ params["value.weight"].T + params["value.bias"]


def bounded(output):
    """A log standard deviation between -5 and 2."""
    return -1.5 + 3.5 * jnp.tanh((output + 1.5) / 3.5)


def logprob_and_entropy(case, policy, params):
    if case["distribution"] == "beta":
        alpha, beta = jnp.split(1 + jnp.logaddexp(policy, 0), 2, -1)
        ln_norm = gammaln(alpha) + gammaln(beta) - gammaln(alpha + beta)
        logprob = (alpha - 1) * jnp.log(case["actions"]) + (beta - 1) * jnp.log(1 - case["actions"]) - ln_norm
        of_both = (alpha - 1) * digamma(alpha) + (beta - 1) * digamma(beta)
        return logprob.sum(-1), (ln_norm - of_both + (alpha + beta - 2) * digamma(alpha + beta)).sum(-1)
    if case["choices"] is None:
        actions = case["actions"]
        mean, log_std = policy[..., : actions.shape[-1]] + case["noise"], params.get("log_std")
        if log_std is None:
            log_std = bounded(policy[..., actions.shape[-1] :])
        z = (actions - mean) / jnp.exp(log_std)
        logprob = -0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi)
        entropy = 0.5 + 0.5 * math.log(2 * math.pi) + log_std + jnp.zeros_like(mean)
        if case["distribution"] == "tanh":
            logprob -= jnp.log(1 - jnp.tanh(actions) ** 2)
            # Of one sample, which moves with the mean and the deviation.
            moved = mean + jnp.exp(log_std) * jax.lax.stop_gradient(z)
            entropy += jnp.log(1 - jnp.tanh(moved) ** 2)
        return logprob.sum(-1), entropy.sum(-1)
    logprob, entropy, first = 0.0, 0.0, 0
    for component, count in enumerate(case["choices"]):
        logits, legal = (all_[..., first : first + count] for all_ in (policy, case["legal"]))
        first += count
        ln_p = jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf))
        taken = case["actions"][..., component].astype(int)
        logprob += jnp.take_along_axis(ln_p, taken[..., None], -1)[..., 0]
        # Nothing of what is illegal, also in the gradient.
        safe = jnp.where(legal, ln_p, 0.0)
        entropy -= jnp.where(legal, jnp.exp(safe) * safe, 0.0).sum(-1)
    return logprob, entropy


def squared_error(case, values):
    """PQN's loss: the value of an action is the mean over its components."""
    taken, first = [], 0
    for component, count in enumerate(case["choices"]):
        index = case["actions"][..., component].astype(int)
        taken.append(jnp.take_along_axis(values[..., first : first + count], index[..., None], -1)[..., 0])
        first += count
    error = sum(taken) / len(taken) - (case["advantage"] + case["value"])
    return 0.5 * (error**2).mean()


def loss(params, case):
    c = case["coefficients"]
    policy, value = heads(case, params)
    if value is None:
        return squared_error(case, policy)
    logprob, entropy = logprob_and_entropy(case, policy, params)
    advantage = case["advantage"]
    if c["norm_adv"]:
        advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    ratio = jnp.exp(logprob - case["logprob"])
    clip = c["clip_coef"]
    of_policy = jnp.maximum(-advantage * ratio, -advantage * jnp.clip(ratio, 1 - clip, 1 + clip)).mean()
    target = case["advantage"] + case["value"]
    of_policy -= c["ent_coef"] * entropy.mean()
    if case["bins"] is not None:
        return of_policy - c["vf_coef"] * (divided(case, target) * jax.nn.log_softmax(value)).sum(-1).mean()
    value = value[..., 0]
    square = (value - target) ** 2
    if c["clip_vloss"]:
        bounded = case["value"] + jnp.clip(value - case["value"], -clip, clip)
        square = jnp.maximum(square, (bounded - target) ** 2)
    return of_policy + c["vf_coef"] * 0.5 * square.mean()


def draw(case, params, obs, normals):
    """SAC's actions within -1 and 1, and their log-probabilities."""
    x = layers(case, "actor", obs, params)
    log_std = bounded(dense(x, "log_std", params))
    before = dense(x, "policy", params) + jnp.exp(log_std) * normals
    of_normal = -0.5 * normals**2 - log_std - 0.5 * math.log(2 * math.pi)
    return jnp.tanh(before), (of_normal - jnp.log(1 - jnp.tanh(before) ** 2)).sum(-1)


def of_critics(case, params, obs, actions):
    """The outputs of both critics, (rows, bins or 1)."""
    inputs = jnp.concatenate([obs, actions], -1)
    names = ["critics.0", "critics.1"]
    return [dense(layers(case, name, inputs, params), f"{name}.q", params) for name in names]


def expected(case, outputs):
    """The values (rows, ...) that outputs (rows, ..., bins or 1) make."""
    return outputs[..., 0] if case["bins"] is None else jax.nn.softmax(outputs) @ jnp.linspace(*case["bins"][:2], case["bins"][2])


def values(case, params, obs, actions):
    return [expected(case, outputs) for outputs in of_critics(case, params, obs, actions)]


def divided(case, values):
    """The shares of the bins in values (...), each divided between its neighbours: (..., bins)."""
    z = jnp.linspace(*case["bins"][:2], case["bins"][2])
    return jnp.maximum(1 - abs(jnp.clip(values, z[0], z[-1])[..., None] - z) / (z[1] - z[0]), 0)


def projected(case, reward, shares):
    """Distributions of a value (rows, bins) after a step of this reward."""
    z = jnp.linspace(*case["bins"][:2], case["bins"][2])
    return jnp.einsum("nj,nji->ni", shares, divided(case, reward[:, None] + case["discount"][:, None] * z))


def loss_of_critics(case, params, next_actions, bonus):
    """The sum of both critics' losses, where `bonus` is added to the value of what follows."""
    of_targets = of_critics(case, case["targets"], case["next_obs"], next_actions)
    own = of_critics(case, params, case["obs"], case["actions"])
    a, b = (expected(case, outputs) for outputs in of_targets)
    if case["bins"] is None:
        target = case["reward"] + case["discount"] * (jnp.minimum(a, b) + bonus)
        return sum((case["weight"] * 0.5 * (expected(case, q) - target) ** 2).mean() for q in own)
    shares = jax.nn.softmax(jnp.where((a <= b)[:, None], *of_targets))
    target = projected(case, case["reward"] + case["discount"] * bonus, shares)
    return -sum((case["weight"] * (target * jax.nn.log_softmax(q)).sum(-1)).mean() for q in own)


def soft_actor_critic(params, case):
    """The losses of both critics, of the policy and of the temperature, each of which trains its own parameters alone."""
    fixed = jax.lax.stop_gradient(params)
    alpha = jnp.exp(fixed["log_alpha"])
    next_actions, logprob = draw(case, fixed, case["next_obs"], case["next_normals"])
    of_critics = loss_of_critics(case, params, next_actions, -alpha * logprob)
    actions, logprob = draw(case, params, case["obs"], case["normals"])
    of_policy = (alpha * logprob - jnp.minimum(*values(case, fixed, case["obs"], actions))).mean()
    excess = jax.lax.stop_gradient(logprob).mean() + case["target_entropy"] * actions.shape[-1]
    return of_critics + of_policy - (params["log_alpha"] * excess)[0]


def twin_delayed(params, case):
    """The losses of both critics and of the policy, each of which trains its own parameters alone."""
    fixed = jax.lax.stop_gradient(params)

    def policy(params, obs):
        return jnp.tanh(dense(layers(case, "actor", obs, params), "policy", params))

    noise = jnp.clip(case["next_normals"] * case["policy_noise"], -case["noise_clip"], case["noise_clip"])
    next_actions = jnp.clip(policy(case["targets"], case["next_obs"]) + noise, -1, 1)
    return loss_of_critics(case, params, next_actions, 0.0) - values(case, fixed, case["obs"], policy(params, case["obs"]))[0].mean()


def features(case, params, obs):
    """What the last layer takes; with memory `obs` are the rows of sequences."""
    x = layers(case, "trunk", obs, params)
    if case["core"] is None:
        return x
    sequences = len(case["begins"])
    x, _ = core(x.reshape(sequences, len(x) // sequences, -1), "trunk", case, params, case["begins"])
    return x.reshape(len(obs), -1)


def action_values(case, params, obs):
    """Values of the choices of each component."""
    x, ends = features(case, params, obs), np.cumsum(case["choices"])[:-1]
    if case["bins"] is not None:
        return [expected(case, dense(x, "q", params).reshape(len(x), -1, case["bins"][2]))]
    if "q.weight" in params:
        return jnp.split(dense(x, "q", params), ends, -1)
    half = params["q.advantage.weight"].shape[1]
    advantages = jnp.split(dense(x[:, :half], "q.advantage", params), ends, -1)
    return [dense(x[:, half:], "q.value", params) + of - of.mean(-1, keepdims=True) for of in advantages]


def deep_q(params, case):
    """DQN's loss."""
    # The rows of `next_obs` whose values targets have.
    then = np.array(case["then"])
    legal = jnp.split(case["legal"][then] > 0, np.cumsum(case["choices"])[:-1], -1)
    taken = [case["actions"][:, [k]].astype(int) for k in range(len(legal))]
    fixed = jax.lax.stop_gradient(params)
    of_target, by_net = ([of[then] for of in action_values(case, of, case["next_obs"])] for of in (case["targets"], fixed))
    judges = by_net if case["double_q"] else of_target
    best = [jnp.where(mask, of, -jnp.inf).argmax(-1, keepdims=True) for mask, of in zip(legal, judges, strict=True)]

    def of_actions(values, actions):
        chosen = [jnp.take_along_axis(of, index, -1) for of, index in zip(values, actions, strict=True)]
        return jnp.concatenate(chosen, -1).mean(-1)

    target = case["reward"] + case["discount"] * of_actions(of_target, best)
    if case["bins"] is not None:
        rows = jnp.arange(len(case["obs"]))

        def shares(of, obs, actions, rows=rows):
            logits = dense(features(case, of, obs), "q", of).reshape(len(obs), -1, case["bins"][2])
            return jax.nn.log_softmax(logits[rows, actions[0][:, 0]])

        target = projected(case, case["reward"], jnp.exp(shares(case["targets"], case["next_obs"], best, then)))
        return -(case["weight"] * (target * shares(params, case["obs"], taken)).sum(-1)).mean()
    error = of_actions(action_values(case, params, case["obs"]), taken) - target
    delta = case["huber"]
    loss = 0.5 * error**2 if delta is None else jnp.where(abs(error) > delta, delta * (abs(error) - 0.5 * delta), 0.5 * error**2)
    return (case["weight"] * loss).mean()


def tensors(case, *names):
    for name in names:
        case[name] = np.array(case[name]["values"], np.float64).reshape(case[name]["shape"])


def main(directory: Path) -> None:
    gradients = []
    for case in json.loads((directory / "cases.json").read_text()):
        for of in ("params", "targets"):
            parameters = case.get(of, {})
            tensors(parameters, *parameters)
            case[of] = {name: jnp.array(values) for name, values in parameters.items()}
        tensors(case, "obs", "actions")
        if "targets" in case and case["targets"]:
            tensors(case, "next_obs", "next_normals", "normals", "reward", "discount", "weight", "legal", "keep", "begins")
            function = {"sac": soft_actor_critic, "td3": twin_delayed, "dqn": deep_q}[case["algorithm"]]
        else:
            tensors(case, "noise", "logprob", "value", "advantage", "keep", "begins")
            case["legal"] = np.array(case["legal"]["values"], bool).reshape(case["legal"]["shape"])
            function = loss
        gradient = jax.jit(lambda params, case=case, of=function: jax.grad(of)(params, case))(case["params"])
        gradients.append({name: np.asarray(values).ravel().tolist() for name, values in gradient.items()})
    (directory / "gradients.json").write_text(json.dumps(gradients))


main(Path(sys.argv[1]))
