"""Gymnasium environments that only this process can make: by a lambda, a partial, or a class of a function or a notebook. Threads of this
process step them, as worker processes do others; nothing is pickled or imported."""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from operant import _core, _gym, _worker


def local(maker: Callable[[], Any]) -> _core.LocalEnv:
    """The environment of a function. Makes it once here, to read its spaces."""
    description, notes = _gym.describe("here:", maker)
    for note in notes:
        logging.getLogger("operant").info("%s: note: %s", description["spec"]["name"], note)

    def start(memory: int, channel: _core.WorkerChannel, argument: str) -> threading.Thread:
        # It has its own file descriptor.
        words = np.frombuffer(mmap.mmap(memory, 0), dtype=np.uint32)
        task = _worker.task_of(words, argument)
        thread = threading.Thread(target=_work, args=(maker, words, channel, task), name="operant-environments", daemon=True)
        thread.start()
        return thread

    return _core.LocalEnv(json.dumps(description).encode(), start)


def _work(maker: Callable[[], Any], words: _gym.Words, channel: _core.WorkerChannel, task: dict[str, Any]) -> None:
    # A thread that is bound to a core starts this one; it may use those of the program.
    os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()))
    rows = _worker.Rows(task, words, maker)
    try:
        _worker.work(rows, words, channel)
    finally:
        # As for the environments of a process that ends, an error here ends nothing else.
        with contextlib.suppress(Exception):
            rows.close()
