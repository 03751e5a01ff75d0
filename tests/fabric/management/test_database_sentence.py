"""A database's error is a sentence for the person who runs a command."""

from __future__ import annotations

import sqlite3

import pytest
from django.db import DatabaseError, connection

from fabric.management.base import database_sentence


@pytest.fixture
def full(tmp_path):
    """SQLite's sentence when it has no more room."""
    with sqlite3.connect(tmp_path / "small.sqlite3") as opened:
        opened.execute("CREATE TABLE filled (value)")
        opened.execute("PRAGMA max_page_count = 4")
        with pytest.raises(sqlite3.OperationalError) as refused:
            opened.execute("INSERT INTO filled VALUES (zeroblob(100000))")
    opened.close()
    return str(refused.value)


def test_a_full_disk_is_said_with_what_to_do(full):
    sentence = database_sentence(DatabaseError(full))
    assert sentence.startswith("the database file " if connection.vendor == "sqlite" else "the database ")
    assert sentence.endswith(
        "has no room left on its disk: make room there and try again; what was written before is kept"
    )


def test_what_is_not_in_the_table_is_told_as_it_is():
    assert database_sentence(DatabaseError("something\n  odd")).endswith("cannot be used: something odd")
