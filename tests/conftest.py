"""What every test shares: which servers there are, and what happens to a test whose server is missing."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.contenttypes.management import create_contenttypes
from django.db.models.signals import post_migrate

from simulator.bench import database, tables
from tests import long_runs, servers

_MISSING = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Find the servers once a process and give their addresses to tests by the TEST_* variables."""
    # A script starts what it leaves in the background so, and nohup too; whatever a test starts would inherit it, and never hear of its end.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    found, missing = servers.locate()
    os.environ.update(found)
    config.stash[_MISSING] = missing
    if config.getoption("--long"):
        os.environ[long_runs.ASKED] = "1"
    elif config.args == config.getini("testpaths"):
        os.environ.setdefault(long_runs.TURN, long_runs.today())
    # Processes side by side inherit it from the one that starts them.
    os.environ.setdefault(tables.TABLES, str(tables.own_folder()))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file alone whose turn it is not."""
    named = (
        collection_path.relative_to(config.rootpath).as_posix()
        if collection_path.is_relative_to(config.rootpath)
        else ""
    )
    return True if long_runs.rests(named) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays: nothing looks through it for garbage, neither while it comes nor while the tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose server is missing; with CI=true it fails instead."""
    for marker, sentence in item.config.stash[_MISSING].items():
        if item.get_closest_marker(marker):
            if os.environ.get("CI", "").lower() in ("true", "1"):
                pytest.fail(f"left out {sentence}", pytrace=False)
            pytest.skip(sentence)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say loudly what was left out."""
    for sentence in config.stash[_MISSING].values():
        terminalreporter.write_line(f"LEFT OUT {sentence}", yellow=True, bold=True)
    if not config.getoption("--long"):
        turn = os.environ.get(long_runs.TURN)
        turns = f"in turns, this is {long_runs.TURN}={turn}, and others " if turn else ""
        terminalreporter.write_line(
            f"tests that are run {turns}with --long alone (tests/long_runs.py): python3 manage.py test --long"
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option for what is left out else."""
    parser.addoption("--long", action="store_true", help="with the tests of tests/long_runs.py, which no run has else")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long goes first: at the end of a run side by side nobody waits for one long file. What takes very long is left out unless it is asked for."""
    long, unknown = long_runs.of(items)
    if unknown and config.args == config.getini("testpaths") and not config.getoption("lf", False):
        raise pytest.UsageError(f"tests/long_runs.py names what is no test: {', '.join(unknown)}")
    # Who names one test means it, and so does who asks for the one that failed.
    meant = (
        config.getoption("--long") or config.getoption("lf", False) or any("::" in argument for argument in config.args)
    )
    if long and not meant:
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files, from both ends: see lanes."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.lanes import BothEnds

    return BothEnds(config, log)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """What a database has of tables is kept: it is a copy, in a folder that goes with this process."""
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """All processes of a run have copies of one database: to make its tables takes each of them three seconds."""
    from django.conf import settings

    if settings.DATABASES["default"]["ENGINE"] != "tests.sqlite_backend":
        return  # What TEST names is no file there.
    shutil.copyfile(tables.sqlite_tables(database.inherited()), settings.DATABASES["default"]["TEST"]["NAME"])


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """Emptying the database after a test would fill in Django's permissions and content types again, which nothing here reads: 50 ms a test."""
    assert post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    assert post_migrate.disconnect(create_contenttypes)
