"""A trained policy as a PyTorch module."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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

    def __init__(self, part: dict[str, Any]) -> None:
        super().__init__()
        self.name, self.type, self.ndim = part.get("name"), part["type"], 1 + len(part["shape"])
        self.features = math.prod(part["shape"])
        if self.type == "index":
            # The bounds repeat over the indices; an index below n is n features, of which one is 1.
            below = torch.from_numpy(np.resize(np.array(part["below"], np.int64), math.prod(part["shape"])))
            self.features = int(below.sum())
            self.register_buffer("first", below.cumsum(0) - below, persistent=False)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        if x.ndim < self.ndim:
            raise ValueError(f"obs: expected a batch of observations, got shape {tuple(x.shape)}")
        x = x.reshape(x.shape[0], -1)
        if self.type == "index":
            ones = x.long() + self.get_buffer("first")
            return torch.zeros(x.shape[0], self.features, dtype=dtype, device=x.device).scatter(1, ones, 1.0)
        return x.to(dtype) / 255 if self.type == "bytes" else x.to(dtype)


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


class ActorCritic(nn.Module):
    """The network of a policy, its normalisation and its bounds. `operant.load(...).to_torch()` makes it.

    `forward(obs)` returns logits of discrete actions or means of continuous ones, `(N, A)`, and values, `(N,)`. Observations of
    parts are a dictionary of tensors. With memory, `forward(obs, state)` also returns the state after the step, `(N, state_size)`;
    a state of zeros, or None, begins an episode.
    """

    def __init__(self, metadata: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super().__init__()
        self.is_discrete = metadata["action_type"] == "discrete"
        self.choices: list[int] = list(metadata["action_sizes"])
        self.activation = {"tanh": torch.tanh, "relu": torch.relu}[metadata["activation"]]
        self.parts = nn.ModuleList(Part(part) for part in metadata["observation"])
        self.obs_norm: nn.Module = nn.Identity()
        if metadata["clip_obs"] is not None:
            shift, scale = (torch.from_numpy(arrays[f"obs_norm.{name}"]) for name in ("shift", "scale"))
            self.obs_norm = ObsNorm(shift, scale, metadata["clip_obs"])

        def dense(name: str) -> nn.Linear:
            outputs, inputs = arrays[f"{name}.weight"].shape
            return nn.Linear(inputs, outputs)

        self.state_size: int = metadata.get("state_size", 0)
        self.items: dict[str, int] | None = metadata.get("items")
        self.trunks = ["trunk", "trunk"] if metadata["shared_trunk"] else ["actor", "critic"]
        for trunk in dict.fromkeys(self.trunks):
            layers: dict[str, nn.Module] = {"conv": nn.ModuleList(Conv(shape) for shape in metadata["conv"])}
            layers["embed"] = nn.Identity()
            if metadata.get("embed"):
                layers["embed"] = Embed(metadata["embed"], sum(part.features for part in self.parts))
            core = metadata.get("core")
            layers["core"] = nn.ModuleList()
            if core:
                widths = [metadata["hidden"][-1], *[core["width"]] * (core["layers"] - 1)]
                layers["core"] = nn.ModuleList(_cell(core, inputs) for inputs in widths)
            for k, width in enumerate(metadata["hidden"]):
                layers[f"{k}"] = dense(f"{trunk}.{k}")
                if metadata.get("layer_norm"):
                    layers[f"{k}"].add_module("norm", nn.LayerNorm(width))
            self.add_module(trunk, nn.ModuleDict(layers))
        self.policy, self.value = dense("policy"), dense("value")
        if "log_std" in arrays:
            self.log_std = nn.Parameter(torch.zeros(len(arrays["log_std"])))
            for name in ("action_low", "action_high"):
                self.register_buffer(name, torch.from_numpy(arrays[name]))
        self.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})

    def forward(self, obs: Tensor | Mapping[str, Tensor], state: Tensor | None = None) -> tuple[Tensor, ...]:
        dtype = self.policy.weight.dtype
        given = [obs if isinstance(obs, Tensor) else obs[str(part.name)] for part in self.parts]
        x = self.obs_norm(torch.cat([part(x, dtype) for part, x in zip(self.parts, given, strict=True)], 1))
        before = x.new_zeros(len(x), self.state_size) if state is None else state
        after: list[Tensor] = []
        hidden: dict[str, Tensor] = {}
        for trunk in dict.fromkeys(self.trunks):
            hidden[trunk], before = self._hidden(trunk, x, before, after)
        actor, critic = (hidden[trunk] for trunk in self.trunks)
        if self.items:
            # A query of the state's features scores the features of the candidates.
            query, candidates = self.policy(actor[:, 0]), actor[:, 1:]
            outputs = (candidates @ query.unsqueeze(2)).squeeze(2) / math.sqrt(query.shape[1])
            values = self.value(critic[:, 0]).squeeze(1)
        else:
            outputs, values = self.policy(actor), self.value(critic).squeeze(1)
        return (outputs, values, torch.cat(after, 1)) if self.state_size else (outputs, values)

    def _hidden(self, trunk: str, x: Tensor, before: Tensor, after: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The inputs of the heads. The layers take their states from `before` and append to `after`; the rest of `before` is returned too."""
        convs, embed, cores, *layers = self.get_submodule(trunk).children()
        x = embed(x)
        for conv in convs.children():
            x = conv(x, self.activation)
        if self.items:
            first, count, features = (self.items[name] for name in ("first", "count", "features"))
            x = x[:, first : first + count * features].reshape(len(x), count, features)
        for layer in layers:
            x = layer(x)
            for norm in layer.children():
                x = norm(x)
            x = self.activation(x)
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
        obs: Tensor | Mapping[str, Tensor],
        action_mask: Tensor | None = None,
        state: Tensor | None = None,
    ) -> list[torch.distributions.Distribution]:
        """The distribution of each component of the action; for continuous actions one over `(N, A)`, not clipped."""
        return self._distribution(self(obs, state)[0], action_mask)

    def _distribution(
        self, outputs: Tensor, action_mask: Tensor | None
    ) -> list[torch.distributions.Distribution]:
        if not self.is_discrete:
            return [torch.distributions.Normal(outputs, self.log_std.exp(), validate_args=False)]
        if action_mask is not None:
            outputs = torch.where(action_mask.bool(), outputs, _ILLEGAL)
        parts = outputs.split(self.choices, 1)
        return [torch.distributions.Categorical(logits=part, validate_args=False) for part in parts]

    def act(
        self,
        obs: Tensor | Mapping[str, Tensor],
        action_mask: Tensor | None = None,
        *,
        state: Tensor | None = None,
        deterministic: bool = True,
    ) -> Any:
        """Actions: int64 `(N,)` or `(N, components)`, or floats `(N, A)` within the bounds; with memory `(actions, state)`. Without
        gradients."""
        with torch.no_grad():
            outputs, _, *after = self(obs, state)
            parts = [part.mode if deterministic else part.sample() for part in self._distribution(outputs, action_mask)]
        actions = parts[0] if len(parts) == 1 else torch.stack(parts, 1)
        if not self.is_discrete:
            actions = torch.minimum(torch.maximum(actions, self.get_buffer("action_low")), self.get_buffer("action_high"))
        return (actions, after[0]) if self.state_size else actions
