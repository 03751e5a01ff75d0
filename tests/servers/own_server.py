"""A PostgreSQL cluster of a test's own, with the tables of an installation: the shared one is never restarted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from simulator.installation.database import clean_environment
from tests.chaos.servers.clusters import cluster
from tests.chaos.servers.local import PostgresqlServer, ServerMissing


@contextmanager
def own_server(*, disk: Path | None = None) -> Iterator[PostgresqlServer]:
    """One with tables; ``disk``: where its tables lie. A test whose programs are not installed is left out."""
    folder = Path(tempfile.mkdtemp(prefix="cluster-"))  # Not one of pytest's: those are closed to other users.
    tables = None if disk is None else disk / "tables"
    if tables is not None:
        tables.mkdir()
    try:
        made = PostgresqlServer(folder, tablespace=tables)
    except ServerMissing as error:
        left_out(str(error))
    try:
        made.create(like=cluster(clean_environment()))
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def left_out(sentence: str) -> NoReturn:
    """Leaves a test out; with CI=true it fails instead."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"left out: {sentence}", pytrace=False)
    pytest.skip(sentence)
