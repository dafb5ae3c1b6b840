"""Shows the settings of a run in the signature and the help of functions that take them as keywords."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from operant._settings import SETTINGS, Settings

Function = TypeVar("Function", bound=Callable[..., Any])


class _Default:
    """A default, given as TOML."""

    def __init__(self, text: str) -> None:
        self.text = {"true": "True", "false": "False", "none": "None"}.get(text, text)

    def __repr__(self) -> str:
        return self.text


def shows_settings(function: Function) -> Function:
    """The function, whose `**settings` are shown as one keyword for each setting: to `help`, to completion and to `inspect`."""
    return _showing(function, SETTINGS)


def shows_some(*names: str) -> Callable[[Function], Function]:
    """As `shows_settings`, for a function that takes these settings alone."""
    return partial(_showing, names=names)


def _showing(function: Function, names: Iterable[str]) -> Function:
    hidden = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    own = [parameter for parameter in inspect.signature(function).parameters.values() if parameter.kind not in hidden]
    taken = {parameter.name for parameter in own}
    names = [name for name in SETTINGS if name in names and name not in taken]
    types = Settings.__annotations__
    settings = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_Default(SETTINGS[name][0]), annotation=_shown(types[name]))
        for name in names
    ]
    returns = inspect.signature(function).return_annotation
    function.__signature__ = inspect.Signature([*own, *settings], return_annotation=returns)  # type: ignore[attr-defined]
    lines = [
        textwrap.fill(f"{name}: {SETTINGS[name][1]}.", 100, initial_indent=" " * 8, subsequent_indent=" " * 12) for name in names
    ]
    function.__doc__ = f"{function.__doc__ or ''}\n    Settings (the defaults shown are those without a preset):\n" + "\n".join(lines) + "\n"
    return function


def _shown(annotation: Any) -> Any:
    # The text of an annotation that is evaluated late.
    return getattr(annotation, "__forward_arg__", annotation)
