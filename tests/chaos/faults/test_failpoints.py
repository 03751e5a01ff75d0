"""The places around the ports: no process notices them without a ticket, and with one exactly one process dies there."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

from fabric.core.events.inputs import ModelReplied
from fabric.runtime.ports.journal import BatchFate, Head, StoreUnavailable
from fabric.runtime.ports.spending import Grant, ReaperWork
from simulator.installation.database import ROOT
from tests.chaos.faults import failpoints
from tests.chaos.faults.failpoints import DEATHS, FOLDER, LOST_ANSWER, PLACES, REFUSED, ticket

DIES = """
import json, os
from pathlib import Path
from tests.chaos.faults.failpoints import FOLDER, ticket, wrap
from tests.chaos.faults.test_failpoints import PASSES
ends = {}
for place, passes in PASSES.items():
    ticket(Path(os.environ[FOLDER]), place).touch()
    pid = os.fork()
    if not pid:
        passes(wrap)
        os._exit(0)
    ends[place] = pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps(ends))
"""
"""One process a place, forked, which lives if no strike kills it."""


class Store:
    """A store that does what it is told."""

    fates = (BatchFate.COMMITTED,)

    def create(self, run, *, audit=None):
        return "r1", True

    def claim(self, incarnation, *, limit, queues, again=()):
        return ["claimed"]

    def write(self, batches):
        return list(self.fates)

    def heads(self, run_ids):
        return {"r1": Head(1, 2, b"")}


class Port:
    """A model, a tool and a nudge."""

    async def ask(self, request):
        return ModelReplied(command_id="c", attempt=1, text="said")

    async def run(self, request):
        return "ran"

    def wake(self, run_id):
        pass

    def close(self):
        return "closed"


class Grants:
    """A store of shared budgets that grants what is asked, and finds the dead."""

    reaped = ReaperWork(1, 0)

    def take(self, incarnation, scope, *, grant_id, enough, chunk):
        return Grant(grant_id, scope, chunk)

    def keep(self, incarnation, amounts):
        return None

    def close(self, incarnation, grant_ids):
        return list(grant_ids)

    def reap(self):
        return self.reaped

    def budgets(self, scopes):
        return list(scopes)


class Batch:
    run_id, fence, last_seq = "r1", 3, 7


def claims(wrap):
    wrap("store", Store()).claim("w", limit=1, queues=["default"], again=["r1"])


def writes(wrap):
    wrap("store", Store()).write([Batch])


def asks(wrap):
    asyncio.run(wrap("models", Port()).ask(None))


class Command:
    def __init__(self, command_id):
        self.command_id = command_id


def undoes(command_id):
    return lambda wrap: asyncio.run(wrap("tools", Port()).run(Command(command_id)))


def takes(wrap):
    return wrap("grants", Grants()).take("w", "session:f:s", grant_id="g1", enough=1, chunk=4)


def keeps(wrap):
    wrap("grants", Grants()).keep("w", {"g1": 1})


def closes(wrap):
    return wrap("grants", Grants()).close("w", ["g1"])


def reaps(wrap):
    return wrap("grants", Grants()).reap()


PASSES = {
    "claim.after": claims,
    "write.before": writes,
    "write.after": writes,
    "effect.before": asks,
    "effect.after": undoes("fan_out.0.e0.r0.t1.c0"),
    "compensate.before": undoes("undo.1"),
    "compensate.between": undoes("undo.2"),
    "compensate.after": undoes("undo.1"),
    "start.created": lambda wrap: wrap("store", Store()).create(None),
    "start.nudged": lambda wrap: wrap("nudge", Port()).wake("r1"),
    "grant.take.before": takes,
    "grant.take.after": takes,
    "grant.keep.before": keeps,
    "grant.keep.after": keeps,
    "grant.close.before": closes,
    "grant.close.after": closes,
    "grant.reap.before": reaps,
    "grant.reap.after": reaps,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def test_every_place_is_tried_here():
    assert {*PASSES, LOST_ANSWER} == set(PLACES)


@pytest.fixture(scope="module")
def died(tmp_path_factory):
    """The folder, and how the process ended that passed each place with a ticket there: its number and its status."""
    folder = tmp_path_factory.mktemp("died")
    environment = {**os.environ, FOLDER: str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", DIES]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("place", PASSES)
def test_a_process_dies_where_a_ticket_says_so_and_takes_it_along(died, place):
    folder, ends = died
    pid, status = ends[place]
    assert status == -signal.SIGKILL
    assert not ticket(folder, place).exists()
    deaths = [json.loads(line) for line in (folder / DEATHS).read_text().splitlines()]
    assert [said["place"] for said in deaths if said["pid"] == pid] == [place]


@pytest.mark.parametrize("place", PASSES)
def test_without_a_ticket_nothing_happens(folder, place):
    PASSES[place](failpoints.wrap)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "command_id"),
    [
        ("compensate.before", "fan_out.0.e0.r0.t1.c0"),
        ("compensate.between", "undo.1"),
        ("compensate.after", "fan_out.0.e0.r0.t1.c0"),
    ],
)
def test_what_undoes_nothing_or_is_the_first_passes_the_places_of_others(folder, place, command_id):
    ticket(folder, place).touch()
    undoes(command_id)(failpoints.wrap)
    assert ticket(folder, place).exists()


def test_an_ask_that_was_refused_and_a_look_that_found_no_dead_worker_pass_the_places_after_them(folder):
    for place in ("grant.take.after", "grant.reap.after"):
        ticket(folder, place).touch()
    poor = Grants()
    poor.take, poor.reaped = lambda *scope, **asked: "where the budget stands", ReaperWork(0, 0)
    wrapped = failpoints.wrap("grants", poor)
    assert wrapped.take("w", "session:f:s", grant_id="g1", enough=1, chunk=4) == "where the budget stands"
    assert wrapped.reap() == ReaperWork(0, 0)
    assert wrapped.budgets(["fabric:f"]) == ["fabric:f"]
    assert len(list(folder.iterdir())) == 2


def test_what_shared_budgets_answer_comes_through(folder):
    assert takes(failpoints.wrap) == Grant("g1", "session:f:s", 4)
    assert closes(failpoints.wrap) == ["g1"]
    assert reaps(failpoints.wrap) == ReaperWork(1, 0)


def test_the_answer_to_a_commit_is_lost_and_no_process_dies(folder):
    ticket(folder, LOST_ANSWER).touch()
    store = failpoints.wrap("store", Store())
    with pytest.raises(StoreUnavailable) as raised:
        store.write([Batch])
    assert raised.value.unknown
    assert store.write([Batch]) == [BatchFate.COMMITTED]


def test_what_is_refused_as_anothers_is_noted(folder):
    refusing = Store()
    refusing.fates = (BatchFate.FENCED,)
    assert failpoints.wrap("store", refusing).write([Batch]) == [BatchFate.FENCED]
    (said,) = [json.loads(line) for line in (folder / REFUSED).read_text().splitlines()]
    assert (said["run"], said["fence"], said["last_seq"]) == ("r1", 3, 7)


def test_whatever_else_a_port_has_is_still_there(folder):
    assert failpoints.wrap("tools", Port()).close() == "closed"
    assert failpoints.wrap("store", Store()).heads([]) == {"r1": Head(1, 2, b"")}
    assert not hasattr(failpoints.wrap("store", Store()), "retire_others")
