"""The `operant` command: the whole `operant` program, in Python's process. Neither NumPy nor Gymnasium is imported."""

from __future__ import annotations

import os
import signal
import sys

from operant import _core


def main() -> int:
    """Runs the command of this process's arguments and returns its exit code."""
    # As in a program without Python: the engine handles SIGINT while it trains, and limits on file sizes.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    return _core.main(_program(), sys.argv[1:])


def _program() -> list[str]:
    """The words that start this command again: the installed script if that is what runs, else the module."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script) == "operant" and os.path.isfile(script):
        return [sys.executable, script]
    return [sys.executable, "-m", "operant"]
