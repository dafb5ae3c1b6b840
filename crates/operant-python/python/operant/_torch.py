"""A trained policy as a PyTorch module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from numpy.typing import NDArray

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


class ActorCritic(nn.Module):
    """The network of a policy, its normalisation and its bounds. `operant.load(...).to_torch()` makes it.

    `forward(obs)` returns logits of discrete actions or means of continuous ones, `(N, A)`, and values, `(N,)`.
    """

    def __init__(self, metadata: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super().__init__()
        self.is_discrete = metadata["action_type"] == "discrete"
        self.choices: list[int] = list(metadata["action_sizes"])
        self.activation = {"tanh": torch.tanh, "relu": torch.relu}[metadata["activation"]]
        self.obs_norm: nn.Module = nn.Identity()
        if metadata["clip_obs"] is not None:
            shift, scale = (torch.from_numpy(arrays[f"obs_norm.{name}"]) for name in ("shift", "scale"))
            self.obs_norm = ObsNorm(shift, scale, metadata["clip_obs"])

        def dense(name: str) -> nn.Linear:
            outputs, inputs = arrays[f"{name}.weight"].shape
            return nn.Linear(inputs, outputs)

        self.trunks = ["trunk", "trunk"] if metadata["shared_trunk"] else ["actor", "critic"]
        for trunk in dict.fromkeys(self.trunks):
            layers = [dense(f"{trunk}.{k}") for k in range(len(metadata["hidden"]))]
            self.add_module(trunk, nn.ModuleList(layers))
        self.policy, self.value = dense("policy"), dense("value")
        if "log_std" in arrays:
            self.log_std = nn.Parameter(torch.zeros(len(arrays["log_std"])))
            for name in ("action_low", "action_high"):
                self.register_buffer(name, torch.from_numpy(arrays[name]))
        self.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        if obs.ndim < 2:
            raise ValueError(f"obs: expected a batch of observations, got shape {tuple(obs.shape)}")
        x = self.obs_norm(obs.to(self.policy.weight.dtype).flatten(1))
        actor, critic = (self._hidden(trunk, x) for trunk in self.trunks)
        return self.policy(actor), self.value(critic).squeeze(1)

    def _hidden(self, trunk: str, x: Tensor) -> Tensor:
        for layer in self.get_submodule(trunk).children():
            x = self.activation(layer(x))
        return x

    def distribution(self, obs: Tensor, action_mask: Tensor | None = None) -> list[torch.distributions.Distribution]:
        """The distribution of each component of the action; of continuous ones a single one over `(N, A)`, not clipped."""
        outputs, _ = self(obs)
        if not self.is_discrete:
            return [torch.distributions.Normal(outputs, self.log_std.exp(), validate_args=False)]
        if action_mask is not None:
            outputs = torch.where(action_mask.bool(), outputs, _ILLEGAL)
        parts = outputs.split(self.choices, 1)
        return [torch.distributions.Categorical(logits=part, validate_args=False) for part in parts]

    def act(self, obs: Tensor, action_mask: Tensor | None = None, *, deterministic: bool = True) -> Tensor:
        """Actions: int64 `(N,)` or `(N, components)`, or floats `(N, A)` within the bounds. Without gradients."""
        with torch.no_grad():
            parts = [part.mode if deterministic else part.sample() for part in self.distribution(obs, action_mask)]
        if not self.is_discrete:
            return torch.minimum(torch.maximum(parts[0], self.get_buffer("action_low")), self.get_buffer("action_high"))
        return parts[0] if len(parts) == 1 else torch.stack(parts, 1)
