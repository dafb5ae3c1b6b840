"""What all tests of the package share."""

import signal


def pytest_configure():
    """Ctrl-C is an interrupt also where the shell that started the tests ignores it, as one does for commands in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
