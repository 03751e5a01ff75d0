"""Installations whose scripted agents are a provider of the tests, with a folder in which it writes down what it sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from simulator.installation.workers import Site, temporary_site
from tests.chaos.faults.failpoints import FOLDER

SETTINGS = "tests.settings_running"
"""Settings of a process that may import the tests."""


@contextmanager
def watched_site(db: str, *, provider: str, workers: int) -> Iterator[Site]:
    """A fresh installation on ``sqlite`` or ``postgresql`` (with Redis as broker) whose scripted agents are ``provider``."""
    with TemporaryDirectory(prefix="fabric-chaos-") as folder:
        more = {FOLDER: folder, "DJANGO_SETTINGS_MODULE": SETTINGS}
        with temporary_site(db, provider=provider, workers=workers, more=more) as made:
            yield made


def folder_of(made: Site) -> Path:
    """The folder in which the providers of an installation keep their files."""
    return Path(made.environment[FOLDER])
