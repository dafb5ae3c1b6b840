"""What all tests of the package share."""

import signal

import pytest

#: How many cases of one parametrised test `cargo xtask test` runs, evenly chosen; all of them run in `cargo xtask test --all`.
FEW = 4


def pytest_configure(config):
    """Ctrl-C is an interrupt also where the shell that started the tests ignores it, as one does for commands in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "long: runs in `cargo xtask test --all`, not in `cargo xtask test`")


@pytest.hookimpl(tryfirst=True)  # before the cases are selected by their marks
def pytest_collection_modifyitems(items):
    """Marks all but a few cases of each parametrised test as long."""
    cases = {}
    for item in items:
        if hasattr(item, "callspec"):
            cases.setdefault((item.path, item.originalname), []).append(item)
    for of_one in cases.values():
        few = {k * (len(of_one) - 1) // (FEW - 1) for k in range(FEW)}
        for k, item in enumerate(of_one):
            if k not in few:
                item.add_marker("long")
