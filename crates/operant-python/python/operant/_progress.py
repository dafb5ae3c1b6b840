"""Progress in a notebook: a bar that is updated in place, by IPython's display. Without a notebook there is none."""

from __future__ import annotations

import datetime
import sys
from typing import Any, NamedTuple


def is_notebook() -> bool:
    """Whether this program is a notebook's. IPython is not imported for it."""
    ipython: Any = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class _Shown(NamedTuple):
    """A state of the bar, as HTML and as text."""

    share: float
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.share:.4f}" max="1" style="width: 16em; vertical-align: middle"></progress>'
        return f'<div style="white-space: pre">{bar} <code>{self.text}</code></div>'


class NotebookBar:
    """A bar below the cell that trains."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, share: float, text: str) -> None:
        """Shows a share of the work, from 0 to 1, and a text."""
        share = min(max(share, 0.0), 1.0)
        shown = _Shown(share, f"{100 * share:3.0f}%  {text}")
        if self._handle is None:
            from IPython.display import display

            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def of_run(self, env_steps: int, total: int, sps: float, episodic_return: float | None) -> None:
        """Shows the progress of a run."""
        mean = "-" if episodic_return is None else f"{episodic_return:.1f}"
        remaining = left((total - env_steps) / sps if sps > 0 else None)
        self.show(env_steps / max(total, 1), f"{env_steps:,} of {total:,} steps  {sps:,.0f} steps/s  return {mean}{remaining}")


def left(seconds: float | None) -> str:
    """The time that is left, as `  0:01:30 left`; nothing at the end or if it is unknown."""
    if seconds is None or not 0 < seconds < 1e9:
        return ""
    return f"  {datetime.timedelta(seconds=max(round(seconds), 1))} left"
