"""Wake-ups that are lost, doubled, late and out of order: a start, a cancellation, an answer and a timer happen once each, and none is missed."""

from __future__ import annotations

import random
from collections import Counter
from queue import SimpleQueue

import pytest

from fabric.core.events.inputs import INBOX
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from tests.fabric.worker.host.scenes import (
    WAIT_S,
    Site,
    Watched,
    WatchedSqlite,
    cancel,
    decision,
    doubtful,
    overloaded_once,
    said,
    settled,
)

RUNS = 6
"""Of each kind."""
SWEEP_S = 0.05
UNDO_S = 0.2


class BadBroker:
    """Each message is lost, delivered, delivered twice, or kept: those that are kept come later, in any order, perhaps again."""

    def __init__(self, hosts, seed):
        self._hosts, self._random = hosts, random.Random(seed)
        self.down = False
        self.late = []

    def send(self, run_id):
        for _ in range(0 if self.down else self._random.choice((0, 1, 1, 2))):
            self._random.choice(self._hosts).offer(run_id)
        if self._random.random() < 0.5:
            self.late.append(run_id)

    def deliver_late(self):
        """The messages that were kept, shuffled and doubled."""
        messages = self.late * 2
        self._random.shuffle(messages)
        for run_id in messages:
            self._random.choice(self._hosts).offer(run_id)

    def flush(self):
        """It forgets every message."""
        self.late.clear()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def site(request):
    """Agents over one database: one host on a file, two on a server."""
    world = request.getfixturevalue(f"{request.param}_world")
    store = SqliteStore(world.path) if request.param == "sqlite" else PostgresqlStore(world.dsn)
    world.stores.append(store)
    made = Site(store)
    made.world = world
    made.workers = 1 if request.param == "sqlite" else 2
    yield made
    made.close()


ANSWERS = {"start": said, "decision": doubtful, "timer": overloaded_once, "cancel": said}
"""What agents say to the runs of a kind; a run's kind is the first word of its id."""


def kind_of(run_id):
    return run_id.partition("-")[0]


def inputs(site):
    """How often each input was consumed, by its row: (run, input) -> seq."""
    found = site.world.ask("SELECT run_id, input_id, consumed_seq FROM fabric_inbox")
    return {(run_id, input_id): seq for run_id, input_id, seq in found}


@pytest.mark.parametrize("seed", range(3))
def test_everything_that_was_asked_for_happens_once(site, seed):
    agents = site.agents(lambda request: ANSWERS[kind_of(request.run_id)](request))
    agents.holds = lambda request: kind_of(request.run_id) == "cancel" and request.agent == "worker"
    hosts = [site.host(agents, sweep_s=SWEEP_S) for _ in range(site.workers)]
    broker = BadBroker(hosts, seed)

    def starts(kind):
        made = [site.create(run_id=f"{kind}-{n}") for n in range(RUNS)]
        for run_id in made:
            broker.send(run_id)
        return made

    plain = starts("start")
    broker.down = True
    waiting, retried = starts("decision"), starts("timer")
    site.until_released(*plain, *waiting, *retried)
    for run_id in waiting:
        body = decision(site, run_id)
        for _ in range(2):  # It was sent twice, and so was its message.
            site.store.put_input(run_id, body.input_id, INBOX.dump_json(body), delay_s=UNDO_S)
            broker.send(run_id)
    broker.down = False
    stopped = starts("cancel")
    for _ in range(4 * RUNS):
        agents.next()
    for run_id in stopped * 2:
        site.store.put_input(run_id, "cancel", cancel())
        broker.send(run_id)
    broker.deliver_late()
    broker.flush()
    site.until_released(*waiting, *stopped)
    everything = [*plain, *waiting, *retried, *stopped]
    before = {run_id: site.kinds(run_id) for run_id in everything}
    broker.late += everything  # Long after, and for runs that have ended.
    broker.deliver_late()
    for host in hosts:
        settled(host)
    assert {run_id: site.kinds(run_id) for run_id in everything} == before
    assert {site.outcome(run_id) for run_id in [*plain, *waiting, *retried]} == {"completed"}
    assert {site.outcome(run_id) for run_id in stopped} == {"cancelled"}
    assert all(seq is not None and seq > 0 for seq in inputs(site).values())
    for run_id in everything:
        kind, found = kind_of(run_id), Counter(site.kinds(run_id))
        assert found["run_started"] == found["run_ended"] == 1
        assert found["review_decided"] == (kind == "decision")
        assert found["retry_scheduled"] == (kind == "timer")
        assert found["cancel_accepted"] == (kind == "cancel")
    repeated = [key for key, times in Counter(one.key for one in agents.ledger).items() if times > 1]
    assert repeated == [], "an attempt went out twice"


@pytest.fixture(params=["memory", "sqlite"])
def watched(request, tmp_path, sqlite_template):
    if request.param == "memory":
        made = Site(Watched())
    else:
        path = tmp_path / "journal.sqlite3"
        path.write_bytes(sqlite_template.read_bytes())
        made = Site(WatchedSqlite(path))
    yield made
    made.close()


def test_a_start_without_a_nudge_is_claimed_by_the_next_sweep(watched):
    """Counted in sweeps: the one under way when the run was inserted, and the one after it."""
    watched.host(watched.agents(), sweep_s=SWEEP_S)
    looks: SimpleQueue[list[str]] = watched.store.claims
    for _ in range(5):
        looks.get(timeout=WAIT_S)
        run_id = watched.create()
        ended = [looks.get() for _ in range(looks.qsize())]  # Before or while it was inserted.
        sweeps = 0
        while not any(run_id in claimed for claimed in ended):
            ended = [looks.get(timeout=WAIT_S)]
            sweeps += 1
        assert sweeps <= 2
        watched.until_released(run_id)
