"""What all tests of the package share."""

import signal


def pytest_configure(config):
    """Ctrl-C is an interrupt also where the shell that started the tests ignores it, as one does for commands in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "long: runs in `cargo xtask test --all`, not in `cargo xtask test`")
