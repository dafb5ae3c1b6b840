"""Atari preprocessing (`--preset atari`), after Mnih et al. (2015) and CleanRL's `ppo_atari.py`. Unlike CleanRL it reads the emulator's grey
image, before the maximum and the resize.

1. A reset plays 1 to 30 no-ops, then FIRE (and the third action) where the game waits for it.
2. A step repeats its action four times; the frame is the maximum of the last two, in grey, 84 x 84.
3. An observation is the last four frames, (84, 84, 4), the latest last.
4. In training, the loss of a life ends the episode for the learner, and the next one continues in the same game.
5. In training, the reward is the sign of the score.

Episode statistics and evaluations count whole games and their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_OPS = 30
REPEATS = 4
SIDE = 84
FRAMES = 4
# Frames after which the emulator truncates a game.
MOST_FRAMES = 108_000


def make(maker: Callable[..., Any], arguments: Mapping[str, Any], evaluation: bool) -> Atari:
    """A game; `arguments` go to `gymnasium.make`."""
    for key in ("frameskip", "obs_type"):
        if key in arguments:
            raise ValueError(f"{key}: the preset atari sets it; leave it out")
    needed = "the preset atari is for ALE environments, such as gym:ALE/Pong-v5"
    try:
        # Observations are made here, from the last two frames of four.
        env = maker(frameskip=1, obs_type="ram", **arguments)
    except TypeError as error:
        raise ValueError(f"it is not an Atari game; {needed} ({error})") from None
    if not hasattr(env.unwrapped, "ale"):
        raise ValueError(f"{env} is not an Atari game; {needed}")
    return Atari(env, evaluation)


class Atari:
    """One game. `operant_game` describes the last step of the game itself: the score's change, and whether it is over."""

    def __init__(self, env: Any, evaluation: bool) -> None:
        import cv2
        from gymnasium import spaces

        self._env, self._ale, self._evaluation = env, env.unwrapped.ale, evaluation
        self._resize, self._area = cv2.resize, cv2.INTER_AREA
        cv2.setNumThreads(0)
        self.spec, self.unwrapped = env.spec, env.unwrapped
        self.action_space = env.action_space
        self.observation_space = spaces.Box(0, 255, (SIDE, SIDE, FRAMES), np.uint8)
        meanings = env.unwrapped.get_action_meanings()
        self._starts = [1, 2] if len(meanings) >= 3 and meanings[1] == "FIRE" else []
        height, width = env.unwrapped.ale.getScreenDims()
        self._screens = [np.empty((height, width), np.uint8) for _ in range(2)]
        self._stack = np.zeros((SIDE, SIDE, FRAMES), np.uint8)
        self._lives = 0
        # Score while a reset played, which counts with the next step.
        self._carried = 0.0
        self.max_episode_steps = MOST_FRAMES // REPEATS
        self._random = np.random.default_rng()
        self.operant_game = {"reward": 0.0, "over": True}

    def reset(self, *, seed: int | None = None) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        if self.operant_game["over"] or seed is not None:
            self._restart(seed)
        else:
            # The game continues after the lost life.
            self._play(0)
        for action in self._starts:
            self._play(action)
        self._lives = self._ale.lives()
        self.operant_game = {"reward": 0.0, "over": False}
        self._stack[:] = self._frame()[:, :, None]
        return self._stack, {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        reward, over, truncated = self._repeat(action)
        self._stack[:, :, :-1] = self._stack[:, :, 1:]
        self._stack[:, :, -1] = self._frame()
        self.operant_game = {"reward": reward + self._carried, "over": over or truncated}
        self._carried = 0.0
        if self._evaluation:
            return self._stack, reward, over, truncated, {}
        lives = self._ale.lives()
        terminated = over or 0 < lives < self._lives
        self._lives = lives
        return self._stack, float(np.sign(reward)), terminated, truncated, {}

    def close(self) -> None:
        self._env.close()

    def _play(self, action: int) -> None:
        """A step of a reset."""
        reward, over, truncated = self._repeat(action)
        self._carried += reward
        if over or truncated:
            self._restart(None)

    def _restart(self, seed: int | None) -> None:
        """A new game, after some no-ops."""
        self._env.reset(seed=seed)
        self._carried = 0.0
        for _ in range(int(self._random.integers(1, NO_OPS + 1))):
            _, _, terminated, truncated, _ = self._env.step(0)
            if terminated or truncated:
                self._env.reset()
        self._ale.getScreenGrayscale(self._screens[1])
        self._screens[0][:] = self._screens[1]

    def _repeat(self, action: Any) -> tuple[float, bool, bool]:
        """One action for four frames: the score's change, and whether the game is over or cut off."""
        total = 0.0
        for frame in range(REPEATS):
            _, reward, terminated, truncated, _ = self._env.step(action)
            total += float(reward)
            if frame >= REPEATS - 2 or terminated or truncated:
                self._ale.getScreenGrayscale(self._screens[frame % 2])
            if terminated or truncated:
                return total, terminated, truncated
        return total, False, False

    def _frame(self) -> NDArray[np.uint8]:
        return np.asarray(self._resize(np.maximum(*self._screens), (SIDE, SIDE), interpolation=self._area), np.uint8)
