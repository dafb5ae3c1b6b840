"""Threads, processes and interpreters: what runs together, what is refused, and that nothing is left behind."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from test_vector import assert_equal, trajectory

import operant

# Python and JAX warn of every fork of a process with threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork")


def test_two_environments_run_in_two_threads():
    def play(seed, into):
        envs = operant.make_vec("cartpole", 256, seed=seed, threads=1)
        envs.reset()
        into[seed] = trajectory(envs, 200)

    alone, together = {}, {}
    for seed in (1, 2):
        play(seed, alone)
    threads = [threading.Thread(target=play, args=(seed, together)) for seed in (1, 2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for seed in (1, 2):
        assert_equal(together[seed], alone[seed])


def test_after_a_fork_there_is_a_clear_error():
    pooled, single = operant.make_vec("cartpole", 64, threads=2), operant.make_vec("cartpole", 64, threads=1, seed=1)
    pooled.reset(), single.reset()
    child = os.fork()
    if child == 0:
        try:
            single.step(np.zeros(64, int))
            pooled.step(np.zeros(64, int))
        except RuntimeError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def continue_in_child(envs, connection):
    """Sends what the environments return that were given, and what environments made here return."""
    made = operant.make_vec("cartpole", 64, threads=2, seed=3)
    made.reset()
    connection.send((trajectory(envs, 50), trajectory(made, 50)))
    connection.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_environments_continue_in_another_process(method):
    given, made = operant.make_vec("cartpole", 64, threads=1, seed=1), operant.make_vec("cartpole", 64, threads=2, seed=3)
    given.reset(), made.reset()
    trajectory(given, 20)
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=continue_in_child, args=(given, sender))
    child.start()
    sender.close()
    of_given, of_made = receiver.recv()
    child.join()
    assert child.exitcode == 0
    assert_equal(of_given, trajectory(given, 50))
    assert_equal(of_made, trajectory(made, 50))


IN_A_SECOND_INTERPRETER = """
import operant
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
interpreters.run_string(interpreters.create(), '''
try:
    import operant
except ImportError as error:
    print("refused:", error, flush=True)
''')
operant.make_vec("cartpole", 2).reset()
"""


def test_a_second_interpreter_is_refused():
    command = [sys.executable, "-c", IN_A_SECOND_INTERPRETER]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("refused:") and "interpreter" in result.stdout


@pytest.mark.long
def test_a_thousand_environments_leave_nothing_behind():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cycle(count):
        for seed in range(count):
            envs = operant.make_vec("cartpole", 256, seed=seed, threads=2)
            envs.reset()
            envs.step(np.zeros(256, int))
            envs.close()
            env = operant.make("cartpole", seed=seed)
            env.reset()
            env.close()

    cycle(100)
    before, threads, descriptors = resident(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    cycle(900)
    assert resident() - before < 8 << 20
    assert len(os.listdir("/proc/self/fd")) == descriptors
    # Threads end by themselves, some time after close.
    deadline = time.monotonic() + 60
    while len(os.listdir("/proc/self/task")) > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= threads
