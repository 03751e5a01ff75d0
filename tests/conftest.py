"""Every test shares these fixtures: which servers there are, and what happens to a test whose server is missing."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.contrib.contenttypes.management import create_contenttypes
from django.db.models.signals import post_migrate

from simulator.installation import database
from tests import sets
from tests.servers import addresses as servers

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
    os.environ[sets.SET] = _set_of(config)
    _draw_examples()
    # Processes side by side inherit it from the one that starts them.
    os.environ.setdefault(database.SHARED, str(database.own_folder()))


def _set_of(config: pytest.Config) -> str:
    """The set that the options name; in a process beside others the one that started it has said it."""
    if hasattr(config, "workerinput"):
        return os.environ[sets.SET]
    for name in ("nightly", "fast"):
        if config.getoption(f"--{name}"):
            return name
    return "full" if config.args == config.getini("testpaths") else "named"


def _draw_examples() -> None:
    """Hypothesis draws the same examples on every day, and others in the nightly set. No test fails for its time."""
    hypothesis.settings.register_profile("fixed", derandomize=not sets.is_nightly(), deadline=None)
    hypothesis.settings.load_profile("fixed")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is collected: nothing looks through it for garbage, neither while it comes nor while the tests run."""
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
    if not sets.is_nightly():
        terminalreporter.write_line(
            f"set of tests: {os.environ[sets.SET]}; all of them: python3 manage.py test --nightly"
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option for each set beside `full`."""
    parser.addoption("--fast", action="store_true", help="only what needs no server and does not wait (tests/sets.py)")
    parser.addoption("--nightly", action="store_true", help="every test there is (tests/sets.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of which the set has no test."""
    file = collection_path.relative_to(config.rootpath).as_posix()
    return None if sets.is_collected(file) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that take long go first, so that no process ends alone with them. Tests that the set does not have are left out."""
    left, names = sets.leave_out(items)
    unknown = [name for name in names if sets.is_collected(name.partition("::")[0])]
    if unknown and config.args == config.getini("testpaths") and not config.getoption("lf", False):
        raise pytest.UsageError(f"tests/sets.py names what is no test: {', '.join(unknown)}")
    # Who names one test means it, and so does who asks for the one that failed.
    meant = config.getoption("lf", False) or any("::" in argument for argument in config.args)
    if left and not meant:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
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
    """The database keeps its tables: it is a copy, in a folder that goes with this process."""
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """All processes of a run have copies of one database: to make its tables takes each of them three seconds."""
    from django.conf import settings

    if settings.DATABASES["default"]["ENGINE"] != "tests.sqlite_backend":
        return  # What TEST names is no file there.
    shutil.copyfile(database.sqlite_tables(database.clean_environment()), settings.DATABASES["default"]["TEST"]["NAME"])


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """Emptying the database after a test would fill in Django's permissions and content types again, which nothing here reads: 50 ms a test."""
    assert post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    assert post_migrate.disconnect(create_contenttypes)
