"""What every test shares: which servers there are, and what happens to a test whose server is missing."""

import os
from collections.abc import Iterator

import pytest

from tests import interpreter, servers

_MISSING = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Find the servers once a process and give their addresses to tests by the TEST_* variables."""
    found, missing = servers.locate()
    os.environ.update(found)
    config.stash[_MISSING] = missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose server is missing; with CI=true it fails instead."""
    for marker, sentence in item.config.stash[_MISSING].items():
        if item.get_closest_marker(marker):
            if os.environ.get("CI", "").lower() in ("true", "1"):
                pytest.fail(f"left out {sentence}", pytrace=False)
            pytest.skip(sentence)


@pytest.fixture(autouse=True)
def _interpreter() -> Iterator[None]:
    with interpreter.as_it_was():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say loudly what was left out."""
    for sentence in config.stash[_MISSING].values():
        terminalreporter.write_line(f"LEFT OUT {sentence}", yellow=True, bold=True)
