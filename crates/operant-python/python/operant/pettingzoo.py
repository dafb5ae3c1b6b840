"""Games as PettingZoo environments: `operant.pettingzoo.env("connect_four")`.

`pip install "operant-rl[pettingzoo]"` installs what this module needs. docs/two-players.md has the games.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from operant._vector import VectorEnv
from operant._world import World

try:
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.conversions import turn_based_aec_to_parallel
except ImportError as error:
    remedy = "pip install 'operant-rl[pettingzoo]'"
    raise ImportError(f"operant.pettingzoo needs PettingZoo, which cannot be imported ({error}): {remedy}") from error


#: Keywords of vector environments that have no meaning here.
_NOT_HERE = {
    "opponent": "every side has its agent here; operant.make_vec takes an opponent",
    "num_envs": "it is one game; operant.make_vec makes several",
    "autoreset_mode": "a game is not reset by itself",
    "seed": "give it to reset",
    "threads": "one game is played on one thread",
}


class GameEnv(AECEnv[str, Any, Any]):
    """A game of several players as an `AECEnv`; `env` makes one.

    The agents are "player_0", "player_1", ...; those with even numbers are one side. Where actions can be illegal, an observation is a dictionary of
    "observation" and "action_mask" `(choices,)`, all 0 for agents that do not move now, unless all choose at once. Every agent is shown the present state as its own view of it.

    Args:
        id: The name of a game, such as "connect_four", or a world with players.
        max_episode_steps: Moves after which a game is truncated: None for the game's own limit, -1 for no limit.
        render_mode: "rgb_array" for `render`.
        **options: The game's own options.

    Raises:
        ValueError: It is no game, there is no such option, or a value is out of range.
    """

    def __init__(
        self,
        id: str | World | type,
        *,
        max_episode_steps: int | None = None,
        render_mode: Literal["rgb_array"] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        for name in options.keys() & _NOT_HERE.keys():
            raise ValueError(f"{name}: {_NOT_HERE[name]}")
        self._env = VectorEnv(
            id,
            autoreset_mode="disabled",
            max_episode_steps=max_episode_steps,
            render_mode=render_mode,
            **options,
        )
        if self._env.players < 2:
            raise ValueError(f"id: {self._env.name} has one player; gymnasium.make and operant.make_vec make it")
        self.is_simultaneous = self._env.simultaneous
        self.render_mode = render_mode
        self.metadata = {
            "name": self._env.name,
            "render_modes": ["rgb_array"],
            "render_fps": self._env.metadata["render_fps"],
            "is_parallelizable": True,
        }
        self.possible_agents = [f"player_{player}" for player in range(self._env.players)]
        self.agents: list[str] = []
        actions, seen = self._env.single_action_space, self._env.single_observation_space
        if self._env.has_mask:
            mask = spaces.Box(0, 1, (sum(self._choices()),), np.int8)
            seen = spaces.Dict({"observation": seen, "action_mask": mask})
        self.observation_spaces = dict.fromkeys(self.possible_agents, seen)
        self.action_spaces = dict.fromkeys(self.possible_agents, actions)

    def _choices(self) -> list[int]:
        space: Any = self._env.single_action_space
        return [int(space.n)] if hasattr(space, "n") else [int(n) for n in space.nvec]

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The observations of an agent; all have the same."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The actions of an agent; all have the same."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begins a new game. The same seed begins the same one; `options` has no effect."""
        del options
        _, info = self._env.reset(seed=seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._show(info)

    def step(self, action: Any) -> None:
        """The move of `agent_selection`; None removes an agent whose game has ended.

        Raises:
            ValueError: An action of wrong shape or value. Nothing was moved.
        """
        self._check_reset("step")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        _, reward, terminated, truncated, info = self._env.step(np.asarray(action)[np.newaxis])
        self._cumulative_rewards[agent] = 0.0
        for player, name in enumerate(self.agents):
            self.rewards[name] = float(0.0 - reward[0] if player % 2 else reward[0])
            self.terminations[name], self.truncations[name] = bool(terminated[0]), bool(truncated[0])
        self._show(info)
        self._accumulate_rewards()

    def _show(self, info: dict[str, Any]) -> None:
        """Takes over whose turn it is. Observations are computed when they are asked for."""
        player = int(info["player"][0])
        if player >= len(self.possible_agents):
            raise RuntimeError(f"{self._env.name}: it has {len(self.possible_agents)} players, and player {player} is to move")
        self.agent_selection = self.possible_agents[player]
        self._seen: dict[str, Any] = {}

    def _check_reset(self, method: str) -> None:
        if not hasattr(self, "agent_selection"):
            raise ResetNeeded(f"{method}: expected a game that was begun; call reset first")

    def observe(self, agent: str) -> Any:
        """The present state as this agent sees it."""
        self._check_reset("observe")
        if agent not in self.possible_agents:
            raise ValueError(f"agent: expected one of {', '.join(self.possible_agents)}, got {agent!r}")
        if agent not in self._seen:
            self._seen[agent] = self._observed(agent)
        return copy.deepcopy(self._seen[agent])

    def _observed(self, agent: str) -> Any:
        state = self._env.get_state()
        words: NDArray[np.uint32] = state["words"].copy()
        words[self._env.player_word] = self.possible_agents.index(agent)
        rows, info = self._env.set_state({**state, "words": words})
        own = {name: part[0].copy() for name, part in rows.items()} if isinstance(rows, dict) else rows[0].copy()
        if self._env.has_mask:
            chooses = self._env.simultaneous or agent == self.agent_selection
            mask = info["action_mask"][0] * np.int8(chooses)
            own = {"observation": own, "action_mask": mask}
        self._env.set_state(state)
        return own

    def render(self) -> NDArray[np.uint8] | None:
        """A picture of the game, uint8 `(height, width, 3)`; None without `render_mode`."""
        pictures = self._env.render()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """Frees the game."""
        self._env.close()


env = GameEnv


class SimultaneousEnv(ParallelEnv[str, Any, Any]):
    """A game whose players choose at once, as a `ParallelEnv`; `parallel_env` makes one."""

    def __init__(self, game: GameEnv) -> None:
        self._game = game
        self.possible_agents = list(game.possible_agents)
        self.agents: list[str] = []
        self.observation_spaces, self.action_spaces = game.observation_spaces, game.action_spaces
        self.metadata, self.render_mode = game.metadata, game.render_mode

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The observations of an agent; all have the same."""
        return self._game.observation_space(agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The actions of an agent; all have the same."""
        return self._game.action_space(agent)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begins a new game. The same seed begins the same one; `options` has no effect."""
        self._game.reset(seed, options)
        self.agents = list(self.possible_agents)
        return self._observed(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """A step of the game, with an action of every agent.

        Raises:
            ValueError: An agent has no action, or one of wrong shape or value. Nothing was moved.
        """
        game = self._game
        if not self.agents:
            return {}, {}, {}, {}, {}
        for agent in self.agents:
            if agent not in actions or not self.action_space(agent).contains(actions[agent]):
                raise ValueError(f"{agent}: expected an action of {self.action_space(agent)}, got {actions.get(agent)!r}")
        rewards = dict.fromkeys(self.agents, 0.0)
        for _ in self.agents:
            game.step(actions[game.agent_selection])
            for agent in self.agents:
                rewards[agent] += game.rewards[agent]
            if game.terminations[self.agents[0]] or game.truncations[self.agents[0]]:
                break
        terminated, truncated = dict(game.terminations), dict(game.truncations)
        seen, infos = self._observed(), {agent: dict[str, Any]() for agent in self.agents}
        if any(terminated.values()) or any(truncated.values()):
            self.agents = []
        return seen, rewards, terminated, truncated, infos

    def _observed(self) -> dict[str, Any]:
        return {agent: self._game.observe(agent) for agent in self.agents}

    def render(self) -> NDArray[np.uint8] | None:
        """A picture of the game, uint8 `(height, width, 3)`; None without `render_mode`."""
        return self._game.render()

    def close(self) -> None:
        """Frees the game."""
        self._game.close()


def parallel_env(id: str | World | type, **options: Any) -> ParallelEnv[str, Any, Any]:
    """A game as a `ParallelEnv`. Its step takes an action of every agent: it plays all of them where the players choose at once, and otherwise that of the agent to move.
    The arguments are those of `env`.
    """
    game = GameEnv(id, **options)
    return SimultaneousEnv(game) if game.is_simultaneous else turn_based_aec_to_parallel(game)
