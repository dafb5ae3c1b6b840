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


class ActorCritic(nn.Module):
    """The network of a policy, its normalisation and its bounds. `operant.load(...).to_torch()` makes it.

    `forward(obs)` returns logits of discrete actions or means of continuous ones, `(N, A)`, and values, `(N,)`. Observations of
    parts are a dictionary of tensors.
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

        self.trunks = ["trunk", "trunk"] if metadata["shared_trunk"] else ["actor", "critic"]
        for trunk in dict.fromkeys(self.trunks):
            layers: dict[str, nn.Module] = {"conv": nn.ModuleList(Conv(shape) for shape in metadata["conv"])}
            layers |= {f"{k}": dense(f"{trunk}.{k}") for k in range(len(metadata["hidden"]))}
            self.add_module(trunk, nn.ModuleDict(layers))
        self.policy, self.value = dense("policy"), dense("value")
        if "log_std" in arrays:
            self.log_std = nn.Parameter(torch.zeros(len(arrays["log_std"])))
            for name in ("action_low", "action_high"):
                self.register_buffer(name, torch.from_numpy(arrays[name]))
        self.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})

    def forward(self, obs: Tensor | Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        dtype = self.policy.weight.dtype
        given = [obs if isinstance(obs, Tensor) else obs[str(part.name)] for part in self.parts]
        x = self.obs_norm(torch.cat([part(x, dtype) for part, x in zip(self.parts, given, strict=True)], 1))
        actor, critic = (self._hidden(trunk, x) for trunk in self.trunks)
        return self.policy(actor), self.value(critic).squeeze(1)

    def _hidden(self, trunk: str, x: Tensor) -> Tensor:
        convs, *layers = self.get_submodule(trunk).children()
        for conv in convs.children():
            x = conv(x, self.activation)
        for layer in layers:
            x = self.activation(layer(x))
        return x

    def distribution(
        self, obs: Tensor | Mapping[str, Tensor], action_mask: Tensor | None = None
    ) -> list[torch.distributions.Distribution]:
        """The distribution of each component of the action; of continuous ones a single one over `(N, A)`, not clipped."""
        outputs, _ = self(obs)
        if not self.is_discrete:
            return [torch.distributions.Normal(outputs, self.log_std.exp(), validate_args=False)]
        if action_mask is not None:
            outputs = torch.where(action_mask.bool(), outputs, _ILLEGAL)
        parts = outputs.split(self.choices, 1)
        return [torch.distributions.Categorical(logits=part, validate_args=False) for part in parts]

    def act(
        self, obs: Tensor | Mapping[str, Tensor], action_mask: Tensor | None = None, *, deterministic: bool = True
    ) -> Tensor:
        """Actions: int64 `(N,)` or `(N, components)`, or floats `(N, A)` within the bounds. Without gradients."""
        with torch.no_grad():
            parts = [part.mode if deterministic else part.sample() for part in self.distribution(obs, action_mask)]
        if not self.is_discrete:
            return torch.minimum(torch.maximum(parts[0], self.get_buffer("action_low")), self.get_buffer("action_high"))
        return parts[0] if len(parts) == 1 else torch.stack(parts, 1)
