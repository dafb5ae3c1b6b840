"""A trained policy as a PyTorch module."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from operant import _translate

# The logit of an illegal action, as in training.
_ILLEGAL = -1e8


class ObsNorm(nn.Module):
    """`clip((x - shift) * scale)`."""

    def __init__(self, shift: Tensor, scale: Tensor, clip: float) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)
        self.clip = clip

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.shift) * self.scale).clamp(-self.clip, self.clip)


class Part(nn.Module):
    """The features `(N, features)` of one part of the observations, as metadata describe it."""

    def __init__(self, part: dict[str, Any], space: _translate.Space) -> None:
        super().__init__()
        self.type, self.ndim = part["type"], 1 + len(space["shape"])
        self.features = math.prod(part["shape"])
        self.register_buffer("start", None, persistent=False)
        if space.get("start"):
            self.start = torch.tensor(space["start"])
        if self.type == "index":
            # The bounds repeat over the indices; an index below n is n features, of which one is 1.
            below = torch.from_numpy(np.resize(np.array(part["below"], np.int64), math.prod(part["shape"])))
            self.features = int(below.sum())
            self.register_buffer("below", below, persistent=False)
            self.register_buffer("first", below.cumsum(0) - below, persistent=False)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        x = self._rows(x)
        if self.type == "index":
            ones = x + self.get_buffer("first")
            return torch.zeros(x.shape[0], self.features, dtype=dtype, device=x.device).scatter(1, ones, 1.0)
        return x.to(dtype) / 255 if self.type == "bytes" else x.to(dtype)

    def check(self, x: Tensor) -> None:
        """An error for an index outside of its space, which would select the feature of another."""
        if self.type == "index":
            x = self._rows(x)
            wrong = x[(x < 0) | (x >= self.get_buffer("below"))]
            if wrong.numel():
                raise ValueError(f"obs: expected whole numbers within their space, got index {int(wrong[0])} (0: its first value)")

    def _rows(self, x: Tensor) -> Tensor:
        """One row for each observation; indices from 0 on."""
        if x.ndim < self.ndim:
            raise ValueError(f"obs: expected a batch of observations, got shape {tuple(x.shape)}")
        x = x.reshape(x.shape[0], -1)
        if self.type != "index":
            return x
        return x.long() if self.start is None else x.long() - self.start


class Conv(nn.Module):
    """A convolution over the part of the features `(N, features)` that is an image; the others follow its outputs."""

    def __init__(self, shape: dict[str, Any]) -> None:
        super().__init__()
        self.first: int = shape["first"]
        self.image: list[int] = shape["image"]
        made = torch.nn.Conv2d(self.image[2], shape["channels"], shape["kernel"], shape["stride"])
        self.weight, self.bias, self.stride = made.weight, made.bias, made.stride

    def forward(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        end = self.first + math.prod(self.image)
        image = x[:, self.first : end].reshape(-1, *self.image).permute(0, 3, 1, 2)
        made = activation(nn.functional.conv2d(image, self.weight, self.bias, self.stride))
        return torch.cat([made.permute(0, 2, 3, 1).flatten(1), x[:, : self.first], x[:, end:]], 1)


class Table(nn.Module):
    """The table of one part with indices."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))


class Embed(nn.Module):
    """Rows of tables for the features `(N, features)` that are one-hot indices; the others follow."""

    def __init__(self, shape: dict[str, Any], features: int) -> None:
        super().__init__()
        self.pool: str = shape["pool"]
        self.tables: list[tuple[nn.Module, int, int, int]] = []
        self.register_buffer("_passed", torch.ones(features, dtype=torch.bool), persistent=False)
        passed = np.ones(features, np.bool_)
        for part in shape["parts"]:
            table: nn.Module = self
            if part["name"]:
                table = Table(part["rows"], shape["width"])
                # A part may have the name of an attribute, which add_module refuses.
                self._modules[part["name"]] = table
            else:
                self.weight = nn.Parameter(torch.zeros(part["rows"], shape["width"]))
            first, end = part["first"], part["first"] + part["positions"] * part["rows"]
            passed[first:end] = False
            self.tables.append((table, first, end, part["rows"]))
        self.get_buffer("_passed").copy_(torch.from_numpy(passed))

    def forward(self, x: Tensor) -> Tensor:
        made = []
        for table, first, end, rows in self.tables:
            vectors = x[:, first:end].reshape(len(x), -1, rows) @ table.get_parameter("weight")
            pooled = {"embed": lambda v: v.flatten(1), "embed_sum": lambda v: v.sum(1), "embed_mean": lambda v: v.mean(1)}
            made.append(pooled[self.pool](vectors))
        return torch.cat([*made, x[:, self.get_buffer("_passed")]], 1)


class ResidualBlock(nn.Module):
    """Two layers over normalised inputs, added to the inputs."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        """The outputs."""
        outer: Tensor = self.down(activation(self.up(self.norm(x))))
        return x + outer


class MinGRUCell(nn.Module):
    """Minimal gated recurrent units with a highway gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        made = nn.Linear(width, 3 * width)
        self.weight, self.bias = made.weight, made.bias

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs and the state after the step."""
        z, update, highway = nn.functional.linear(x, self.weight, self.bias).chunk(3, 1)
        candidate = torch.where(z < 0, z.sigmoid(), z + 0.5)
        h = h + update.sigmoid() * (candidate - h)
        return x + highway.sigmoid() * (h - x), h


def _cell(shape: dict[str, Any], inputs: int) -> nn.Module:
    if shape["cell"] == "mingru":
        return MinGRUCell(shape["width"])
    return {"gru": nn.GRUCell, "lstm": nn.LSTMCell}[shape["cell"]](inputs, shape["width"])


def bounded(log_std: Tensor) -> Tensor:
    """Log standard deviations, between -5 and 2, of a network's outputs."""
    return -1.5 + 3.5 * ((log_std + 1.5) / 3.5).tanh()


def _explored(values: Tensor, exploration: float) -> torch.distributions.Distribution:
    """The greatest of `values`, `(N, choices)`, or with a probability of `exploration` any legal one."""
    legal = (values > _ILLEGAL).to(values.dtype)
    greatest = nn.functional.one_hot(values.argmax(1), values.shape[1]).to(values.dtype)
    probs = (1 - exploration) * greatest + exploration * legal / legal.sum(1, keepdim=True)
    return torch.distributions.Categorical(probs=probs, validate_args=False)


class Dueling(nn.Module):
    """Action values: advantages over their mean, by component, of the first half of the features, and a value of the second."""

    def __init__(self, advantage: nn.Linear, value: nn.Linear, choices: list[int]) -> None:
        super().__init__()
        self.advantage, self.value, self.choices = advantage, value, choices

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.split([self.advantage.in_features, self.value.in_features], 1)
        parts = self.advantage(first).split(self.choices, 1)
        return self.value(second) + torch.cat([part - part.mean(1, keepdim=True) for part in parts], 1)


class SquashedNormal(torch.distributions.Normal):
    """A normal whose draws are squashed by tanh: of a draw before that, with the log-probability of the result in (-1, 1). The
    entropy is that of the normal."""

    def log_prob(self, value: Tensor) -> Tensor:
        ln_slope = 2 * (math.log(2) - value - nn.functional.softplus(-2 * value))
        logprob: Tensor = super().log_prob(value)
        return logprob - ln_slope


class ActorCritic(nn.Module):
    """The network of a policy, its normalisation and its bounds. `operant.load(...).to_torch()` makes it.

    `forward(obs)` returns logits of discrete actions, means of continuous ones or action values, `(N, A)`, and values, `(N,)`. With
    `log_std = "network"` the layer `log_std` makes A more outputs, between -5 and 2 after `bounded`; a Beta distribution has 2 A outputs. Observations are tensors, or
    dictionaries and tuples of tensors, as the environment has them. With memory, `forward(obs, state)` also returns the state after the step, `(N, state_size)`;
    a state of zeros, or None, begins an episode. A policy with critics of actions has no values: they are NaN, and the critics stay behind.
    """

    def __init__(self, metadata: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super().__init__()
        arrays = {name: array for name, array in arrays.items() if not name.startswith(("critics.", "log_alpha"))}
        self.is_discrete = metadata["action_type"] == "discrete"
        self.choices: list[int] = list(metadata["action_sizes"])
        self.activation = {"tanh": torch.tanh, "relu": torch.relu}[metadata["activation"]]
        self.masked: bool = metadata["action_mask"]
        self.obs_space, self.action_space = _translate.spaces_of(metadata)
        arrays_seen = zip(metadata["observation"], _translate.arrays_of(self.obs_space), strict=True)
        self.parts = nn.ModuleList(Part(part, space) for part, space in arrays_seen)
        self.obs_norm: nn.Module = nn.Identity()
        if metadata["clip_obs"] is not None:
            shift, scale = (torch.from_numpy(arrays[f"obs_norm.{name}"]) for name in ("shift", "scale"))
            self.obs_norm = ObsNorm(shift, scale, metadata["clip_obs"])

        def dense(name: str) -> nn.Linear:
            outputs, inputs = arrays[f"{name}.weight"].shape
            return nn.Linear(inputs, outputs)

        self.state_size: int = metadata.get("state_size", 0)
        self.items: dict[str, int] | None = metadata.get("items")
        self.bins: dict[str, Any] | None = metadata.get("bins")
        self.trunks = ["trunk"] if metadata["shared_trunk"] else ["actor", "critic"] if "value.weight" in arrays else ["actor"]
        for trunk in self.trunks:
            layers: dict[str, nn.Module] = {"conv": nn.ModuleList(Conv(shape) for shape in metadata["conv"])}
            layers["embed"] = nn.Identity()
            if metadata.get("embed"):
                layers["embed"] = Embed(metadata["embed"], sum(part.features for part in self.parts))
            core = metadata.get("core")
            layers["core"] = nn.ModuleList()
            if core:
                widths = [metadata["hidden"][-1], *[core["width"]] * (core["layers"] - 1)]
                layers["core"] = nn.ModuleList(_cell(core, inputs) for inputs in widths)
            hidden, blocks = metadata["hidden"], metadata.get("residual_blocks", 0)
            inner = [len(arrays[f"{trunk}.blocks.{k}.up.bias"]) for k in range(blocks)]
            layers["blocks"] = nn.ModuleList(ResidualBlock(hidden[-1], width) for width in inner)
            layers["norm"] = nn.LayerNorm(hidden[-1]) if blocks else nn.Identity()
            for k, width in enumerate(hidden):
                layers[f"{k}"] = dense(f"{trunk}.{k}")
                if metadata.get("layer_norm") and not (blocks and k + 1 == len(hidden)):
                    layers[f"{k}"].add_module("norm", nn.LayerNorm(width))
            self.add_module(trunk, nn.ModuleDict(layers))
        self.exploration: float | None = metadata.get("exploration")
        # A deterministic policy has noise on its squashed actions.
        self.is_noisy = self.exploration is not None and not self.is_discrete
        for name in ("policy", "value", "intrinsic_value", "q"):
            if f"{name}.weight" in arrays:
                self.add_module(name, dense(name))
        if "q.value.weight" in arrays:
            self.q = Dueling(dense("q.advantage"), dense("q.value"), self.choices)
        self.action_distribution: str | None = metadata.get("action_distribution")
        if "log_std" in arrays:
            self.log_std: nn.Parameter | nn.Linear = nn.Parameter(torch.zeros(len(arrays["log_std"])))
        elif "log_std.weight" in arrays:
            self.log_std = dense("log_std")
        if not self.is_discrete:
            for name in ("action_low", "action_high"):
                self.register_buffer(name, torch.from_numpy(arrays[name]))
        self.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})

    def forward(self, obs: Any, state: Tensor | None = None) -> tuple[Tensor, ...]:
        head = self.get_submodule("q" if hasattr(self, "q") else "policy")
        dtype = next(head.parameters()).dtype
        given = _translate.taken_apart(self.obs_space, obs, "obs")
        x = self.obs_norm(torch.cat([part(x, dtype) for part, x in zip(self.parts, given, strict=True)], 1))
        before = x.new_zeros(len(x), self.state_size) if state is None else state
        after: list[Tensor] = []
        hidden: dict[str, Tensor] = {}
        for trunk in self.trunks:
            hidden[trunk], before = self._hidden(trunk, x, before, after)
        actor, critic = (hidden[self.trunks[k]] for k in (0, -1))
        if self.items:
            # A query of the state's features scores the features of the candidates.
            query, candidates = head(actor[:, 0]), actor[:, 1:]
            outputs = (candidates @ query.unsqueeze(2)).squeeze(2) / math.sqrt(query.shape[1])
            critic = critic[:, 0]
        else:
            outputs = self._means(head(actor)) if hasattr(self, "q") else head(actor)
            if isinstance(getattr(self, "log_std", None), nn.Linear):
                outputs = torch.cat([outputs, self.log_std(actor)], 1)
        if hasattr(self, "value"):
            values = self._means(self.value(critic)).squeeze(1)
        elif not self.is_discrete:
            values = outputs.new_full((len(outputs),), math.nan)
        else:
            values = torch.stack([part.amax(1) for part in outputs.split(self.choices, 1)]).mean(0)
        return (outputs, values, torch.cat(after, 1)) if self.state_size else (outputs, values)

    def _means(self, outputs: Tensor) -> Tensor:
        """Values: the means of distributions, if outputs are their logits."""
        if self.bins is None:
            return outputs
        shares = outputs.unflatten(1, (-1, self.bins["count"])).softmax(2)
        return shares @ torch.linspace(self.bins["least"], self.bins["greatest"], self.bins["count"]).to(shares)

    def _hidden(self, trunk: str, x: Tensor, before: Tensor, after: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The inputs of the heads. The layers take their states from `before` and append to `after`; the rest of `before` is returned too."""
        convs, embed, cores, blocks, last_norm, *layers = self.get_submodule(trunk).children()
        x = embed(x)
        for conv in convs.children():
            x = conv(x, self.activation)
        if self.items:
            first, count, features = (self.items[name] for name in ("first", "count", "features"))
            x = x[:, first : first + count * features].reshape(len(x), count, features)
        for k, layer in enumerate(layers):
            x = layer(x)
            for norm in layer.children():
                x = norm(x)
            # Blocks add to the sums of the last layer.
            if not len(list(blocks.children())) or k + 1 < len(layers):
                x = self.activation(x)
        for block in blocks.children():
            x = block(x, self.activation)
        x = last_norm(x)
        for cell in cores.children():
            width = x.shape[1] if isinstance(cell, MinGRUCell) else int(cell.hidden_size)
            h, before = before[:, :width], before[:, width:]
            if isinstance(cell, nn.LSTMCell):
                c, before = before[:, :width], before[:, width:]
                x, c = cell(x, (h, c))
                after += [x, c]
            elif isinstance(cell, MinGRUCell):
                x, h = cell(x, h)
                after.append(h)
            else:
                x = cell(x, h)
                after.append(x)
        return x, before

    def distribution(
        self,
        obs: Any,
        action_mask: Tensor | None = None,
        state: Tensor | None = None,
    ) -> list[torch.distributions.Distribution]:
        """The distribution of each component of the action; for continuous actions one over `(N, A)`, before they are clipped, squashed or scaled from (0, 1), of a deterministic policy squashed and before they are clipped; of action values the greatest, or
        with a probability of `exploration` any legal choice."""
        return self._distribution(self(obs, state)[0], action_mask)

    def _distribution(
        self, outputs: Tensor, action_mask: Tensor | None
    ) -> list[torch.distributions.Distribution]:
        if self.masked != (action_mask is not None):
            says = "the environment has illegal actions; give info['action_mask']" if self.masked else "all actions are legal; leave it out"
            raise ValueError(f"action_mask: {says}")
        if not self.is_discrete:
            if self.action_distribution == "beta":
                alpha, beta = (1 + nn.functional.softplus(outputs)).chunk(2, 1)
                return [torch.distributions.Beta(alpha, beta, validate_args=False)]
            if self.is_noisy:
                noise = torch.full_like(outputs, self.exploration)
                return [torch.distributions.Normal(outputs.tanh(), noise, validate_args=False)]
            kind = SquashedNormal if self.action_distribution == "tanh" else torch.distributions.Normal
            if isinstance(self.log_std, nn.Linear):
                mean, log_std = outputs.chunk(2, 1)
                return [kind(mean, bounded(log_std).exp(), validate_args=False)]
            return [kind(outputs, self.log_std.exp(), validate_args=False)]
        if action_mask is not None:
            if action_mask.shape != outputs.shape or ((action_mask != 0) & (action_mask != 1)).any():
                raise ValueError(f"action_mask: expected {tuple(outputs.shape)}, 1 where a choice is legal and 0 elsewhere, got {tuple(action_mask.shape)}")
            if not all(part.any(1).all() for part in action_mask.split(self.choices, 1)):
                raise ValueError("action_mask: a component has no legal choice")
            outputs = torch.where(action_mask.bool(), outputs, _ILLEGAL)
        parts = outputs.split(self.choices, 1)
        if self.exploration is not None:
            return [_explored(part, self.exploration) for part in parts]
        return [torch.distributions.Categorical(logits=part, validate_args=False) for part in parts]

    def act(
        self,
        obs: Any,
        action_mask: Tensor | None = None,
        *,
        state: Tensor | None = None,
        deterministic: bool = True,
    ) -> Any:
        """Actions as the environment takes them, in tensors: int64 `(N,)` or `(N, components)`, floats `(N, A)` within the bounds, or dictionaries
        and tuples of such tensors; with memory `(actions, state)`. Without gradients. `action_mask` is `(N, choices)`. An index
        outside of its space raises ValueError."""
        for part, given in zip(self.parts, _translate.taken_apart(self.obs_space, obs, "obs"), strict=True):
            assert isinstance(part, Part)
            part.check(given)
        with torch.no_grad():
            outputs, _, *after = self(obs, state)
            parts = self._distribution(outputs, action_mask)
            if deterministic and self.is_discrete:
                # The logits of a distribution are normalised; the greatest is the same.
                legal = outputs if action_mask is None else torch.where(action_mask.bool(), outputs, _ILLEGAL)
                chosen = [values.argmax(1) for values in legal.split(self.choices, 1)]
            else:
                chosen = [part.mean if deterministic else part.sample() for part in parts]
        numbers = torch.stack(chosen, 1) if self.is_discrete else chosen[0]
        if not self.is_discrete:
            low, high = self.get_buffer("action_low"), self.get_buffer("action_high")
            if self.action_distribution == "tanh":
                share = numbers.clamp(-1, 1) if self.is_noisy else numbers.tanh()
                numbers = 0.5 * (low + high) + 0.5 * (high - low) * share
            elif self.action_distribution == "beta":
                numbers = low + (high - low) * numbers
            numbers = torch.minimum(torch.maximum(numbers, low), high)
        actions = self._own_actions(numbers)
        return (actions, after[0]) if self.state_size else actions

    def _own_actions(self, numbers: Tensor) -> Any:
        """As `_translate.own_actions`, of tensors."""
        first, values = 0, []
        for array in _translate.arrays_of(self.action_space):
            end = first + _translate.size_of(array)
            own = numbers[:, first:end]
            if array.get("start"):
                own = own + torch.tensor(array["start"], device=own.device)
            own = own.reshape(len(own), *array["shape"])
            if array["type"] != "Box":
                own = own.to(getattr(torch, array["dtype"]))
            elif array["dtype"] != "float32":
                low, high = (torch.from_numpy(bound.astype(np.float64)).to(own.device) for bound in _translate.bounds_of(array))
                own = torch.minimum(torch.maximum(own.double(), low), high).to(getattr(torch, array["dtype"]))
            values.append(own)
            first = end
        return _translate.put_together(self.action_space, iter(values))
