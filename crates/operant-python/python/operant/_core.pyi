"""Types of the compiled module. It checks what it is given; use the classes of `operant` instead."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def build_info() -> dict[str, Any]:
    """How this engine was built: `version`, `instructions` (such as "AVX2") and `lanes`, the environments that one
    instruction steps."""

def specs() -> list[dict[str, Any]]:
    """The environments that there are: a dictionary each."""

class Buffers:
    """The arrays of one set of outputs, checked once."""

    def __init__(self, arrays: dict[str, NDArray[Any]], num_envs: int, numbers: int, choices: int) -> None: ...

class Environments:
    """N environments of one kind."""

    def __init__(
        self, name: str, num_envs: int, *, threads: int, seed: int, autoreset: str, options: dict[str, float]
    ) -> None: ...
    def spec(self) -> dict[str, Any]: ...
    def sizes(self) -> tuple[int, int, int]: ...
    def reseed(self, seed: int, to: Buffers) -> None: ...
    def restart(
        self, to: Buffers, chosen: NDArray[np.bool_] | None = None, seeds: Sequence[int] | None = None
    ) -> None: ...
    def observe(self, to: Buffers) -> None: ...
    def step(self, actions: Any, to: Buffers) -> int: ...
    def step_one(self, action: int, to: Buffers) -> int: ...
    def step_many(self, actions: Any, to: Sequence[Buffers]) -> int: ...
    def get_state(self) -> tuple[NDArray[np.uint32], int, list[int] | None, int]: ...
    def set_state(
        self, words: NDArray[np.uint32], seed: int, seeds: Sequence[int] | None, step: int, to: Buffers
    ) -> None: ...
