"""Rollouts for a custom update: `operant.Collector`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from operant import _core
from operant._policy import Policy, as_options, of_rollouts
from operant._register import asked, is_env_maker, refuse_others
from operant._signature import shows_some
from operant._vector import VectorEnv, zeros
from operant._world import World, is_world

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from operant._settings import Settings

Array = NDArray[Any]


class Rollout(dict[str, Any]):
    """The arrays of `Collector.collect` by name."""

    def __repr__(self) -> str:
        shapes = {name: _each(array, lambda part: (part.dtype.name, part.shape)) for name, array in self.items()}
        return f"operant.Rollout({shapes})"

    def flat(self) -> dict[str, Any]:
        """The arrays `(T, N, ...)` as `(T * N, ...)`, without a copy."""
        return {name: _each(array, _flat) for name, array in self.items() if name not in _OF_ENVS}

    def torch(self) -> dict[str, Any]:
        """The arrays as tensors of PyTorch that share their memory."""
        import torch

        return {name: _each(array, torch.from_numpy) for name, array in self.items()}


# Settings that are used, apart from those of a new policy.
_OF_ROLLOUTS = ("num_envs", "num_steps", "gamma", "gae_lambda", "seed", "threads")
_OF_POLICIES = ("algorithm", "q_lambda", "end_e", *_core.network_settings())
# Arrays `(N, ...)`.
_OF_ENVS = ("next_values", "next_player", "states")


class Collector:
    """Collects rollouts of a policy in N environments, for a custom update in NumPy, PyTorch or JAX.

        collector = operant.Collector("cartpole", num_envs=256, num_steps=128, seed=1)
        module = collector.policy.to_torch()                # a torch.nn.Module with the same weights
        for update in range(100):
            batch = collector.collect().torch()             # tensors (T, N, ...)
            ...                                             # losses and steps of an optimiser
            collector.load(module)                          # the new weights

    Actions, log-probabilities, values and advantages are computed by the engine, as in training.

    Args:
        env: A name such as "cartpole", or a world, as for `operant.make_vec`.
        policy: What acts. None for `operant.Policy.new(env, **settings)`.
        env_options: The environment's own options.
        **settings: Those of `operant.train`, with the defaults of the environment's preset: `num_envs`, `num_steps`, `gamma` and `gae_lambda`
            of the rollouts, `seed`, `threads` (no result depends on it), and without a policy `algorithm` and those of the network, such as
            `hidden`. Others are refused: the update is yours.

    Attributes:
        policy: What acts.
        envs: The environments, an `operant.VectorEnv`.
        num_envs, num_steps, gamma, gae_lambda: Settings of the rollouts.

    Raises:
        ValueError: A setting cannot be used, or the policy has other spaces than the environment.
    """

    @shows_some(*_OF_ROLLOUTS, *_OF_POLICIES)
    def __init__(
        self,
        env: str | World | type,
        policy: Policy | None = None,
        *,
        env_options: Mapping[str, float | str] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy: expected a Policy or None, got {policy!r}; operant.load loads a policy")
        _refuse_gymnasium(env)
        _refuse_unused(settings, policy)
        found = _core.rollout_settings(asked(env), of_rollouts(settings), as_options(env_options))
        self.num_envs, self.num_steps, self.gamma, self.gae_lambda, seed, threads = found
        keywords: dict[str, Any] = dict(env_options or {})
        self.envs = VectorEnv(
            env,
            self.num_envs,
            threads=threads,
            seed=seed,
            copy=False,
            reward_dtype=np.float32,
            final_obs="dense",
            episode_stats=False,
            **keywords,
        )
        self.policy = policy or Policy.new(env, env_options=env_options, **settings)
        self.envs._core.check_spaces(self.policy._core)
        self.policy.seed(seed)
        self._many = self.envs._horizon(self.num_steps)
        per_step, per_env = (self.num_steps, self.num_envs), (self.num_envs,)
        shapes = {"logprobs": per_step, "values": per_step, "final_values": per_step, "next_values": per_env}
        self._judged = {name: zeros(shape, np.dtype(np.float32)) for name, shape in shapes.items()}
        self._advantages, self._returns = (zeros(per_step, np.dtype(np.float32)) for _ in range(2))
        self.envs.reset()

    def collect(self) -> Rollout:
        """Plays T steps in each environment, from where the last call ended.

        Returns:
            Arrays by name, which the next call overwrites. `(T, N, ...)`: `observations`; `actions`, which the policy drew on them, before
            continuous ones are clipped to their bounds; `logprobs` of these actions, unless the policy has action values; `values` of the
            observations; `rewards`; `terminated`, `truncated` and `ended` (either); `final_values`, the values of the last observations of
            truncated episodes, else 0; `advantages` (GAE, with these as the values after a truncation) and `returns`, which are
            advantages + values; `episode_returns` and `episode_lengths` where an episode ended, else 0; `action_mask` of environments that
            have it. `(N, ...)`: `next_values` of the observations after the last step, and of a policy with memory the `states` before the
            first.

            In a game of several players also `player` `(T, N)`, who chose the actions, and `next_player` `(N,)`. `rewards` are those of the
            players with even numbers, `values` those of the player to move, and advantages span from a move of a player to that player's next
            one (docs/two-players.md); a game that is cut off counts as it stands. `states` are those of both sides, one after the
            other.
        """
        envs, policy, arrays, judged = self.envs, self.policy, self._many, self._judged
        envs._check_steppable()
        states = envs._core.memory(policy._core).reshape(self.num_envs, -1) if policy.state_size else None
        envs._play(policy, arrays, False, judged)
        _core.advantages(
            arrays["rewards"],
            judged["values"],
            judged["final_values"],
            arrays["ended"],
            judged["next_values"],
            arrays["player"],
            envs.players,
            self.gamma,
            self.gae_lambda,
            self._advantages,
        )
        np.add(self._advantages, judged["values"], out=self._returns)
        rollout = Rollout(observations=envs._obs({name: array[:-1] for name, array in arrays.items()}))
        rollout |= {as_name: arrays[name] for name, as_name in _GIVEN.items()}
        rollout |= judged | {"advantages": self._advantages, "returns": self._returns}
        if envs._choices:
            rollout["action_mask"] = arrays["mask"][:-1]
        if envs.players > 1:
            rollout |= {"player": arrays["player"][:-1], "next_player": arrays["player"][-1]}
        if states is not None:
            rollout["states"] = states
        if policy.metadata.get("exploration") is not None:
            del rollout["logprobs"]
        return rollout

    def load(self, weights: Any) -> None:
        """The policy acts with these weights from the next rollout on.

        Args:
            weights: A module that `policy.to_torch()` made, its `state_dict()`, an `operant.Policy`, or an array for each name of
                `policy.state_dict()`.

        Raises:
            ValueError: A name is missing or unknown, or an array has another shape; nothing was replaced.
        """
        self.policy.load_state_dict(weights.state_dict() if hasattr(weights, "state_dict") else weights)

    def close(self) -> None:
        """Ends the environments."""
        self.envs.close()

    def __repr__(self) -> str:
        return f"operant.Collector({self.envs.name!r}, num_envs={self.num_envs}, num_steps={self.num_steps})"


def _refuse_gymnasium(env: Any) -> None:
    """An error for environments that worker processes step in training."""
    is_maker = not isinstance(env, str) and not is_world(env) and (is_env_maker(env) or hasattr(env, "observation_space"))
    if is_maker or isinstance(env, str) and env.startswith("gym:"):
        made = getattr(env, "__name__", repr(env))
        raise ValueError(
            f"env: a Collector steps built-in environments and worlds, and {made} is a Gymnasium environment; operant.train trains on it, and "
            f"for an update of your own step gymnasium.make_vec(...) with the actions of a policy: operant.Policy.new({made})"
        )
    refuse_others(env)


def _refuse_unused(settings: Mapping[str, Any], policy: Policy | None) -> None:
    """An error for settings that a collector does not use."""
    for name in settings:
        _core.check_setting(name)
    if unused := [name for name in settings if name not in (*_OF_ROLLOUTS, *_OF_POLICIES, "norm_obs")]:
        raise ValueError(
            f"{', '.join(unused)}: a Collector does not use {'this setting' if len(unused) == 1 else 'these settings'}: it collects on the CPU, and "
            f"the update is yours. It takes {', '.join(_OF_ROLLOUTS)}, and without a policy {', '.join(_OF_POLICIES)}"
        )
    if policy is not None and (others := [name for name in settings if name not in _OF_ROLLOUTS]):
        raise ValueError(f"{others[0]}: the policy has settings of its own; leave it out, or leave out policy")


# Arrays of the environments, and what they are here.
_GIVEN = {
    **{name: name for name in ("actions", "rewards", "terminated", "truncated", "ended")},
    "returns": "episode_returns",
    "lengths": "episode_lengths",
}


def _flat(array: Array) -> Array:
    return array.reshape(-1, *array.shape[2:])


def _each(arrays: Any, change: Any) -> Any:
    """Changed arrays of one space, or of each of its parts."""
    if isinstance(arrays, dict):
        return {name: _each(array, change) for name, array in arrays.items()}
    if isinstance(arrays, tuple):
        return tuple(_each(array, change) for array in arrays)
    return change(arrays)
