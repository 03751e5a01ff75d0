"""How the interpreter is set for hosting runs, and that a test process gets its own settings back."""

from __future__ import annotations

import gc
import sqlite3
import sys
import weakref

import pytest

from fabric.adapters.tuning import COLLECT_AFTER, SWITCH_S, tune_process
from tests.interpreter import as_it_was


def settings() -> tuple[object, ...]:
    return gc.get_threshold(), gc.get_freeze_count(), round(sys.getswitchinterval(), 6)


def test_a_process_that_hosts_runs_is_tuned_and_a_test_process_is_as_it_was():
    before = settings()
    with as_it_was():
        tune_process()
        assert gc.get_threshold() == COLLECT_AFTER
        assert gc.get_freeze_count() > 0
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    assert settings() == before


class Held(sqlite3.Connection):
    """One that refers to itself, as Django's wrappers of connections do."""


def test_what_was_open_while_runs_were_hosted_is_closed_once_nobody_has_it(tmp_path):
    with as_it_was():
        connection = sqlite3.connect(tmp_path / "some.sqlite3", factory=Held)
        connection.itself = connection
        kept = weakref.ref(connection)
        tune_process()
    del connection
    gc.collect()
    assert kept() is None
