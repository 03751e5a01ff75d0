"""Runs that a host holds since it cannot load, step or write them: no worker claims them before their time, then they are tried again.

No time passes but what a test lets pass.
"""

import threading

import pytest

from fabric.core.events.envelope import list_events
from fabric.core.values.frozen import replace
from fabric.stores.errors import RowRefused
from tests.fabric.stores.journal_worlds import REVISION
from tests.fabric.worker.host.clocks import HOLD_S, SWEEP_S, Standing, pass_time
from tests.fabric.worker.host.scenes import WAIT_S, Site, Watched, WatchedSqlite, said, settled

REFUSED = RowRefused("there is something in it that the database does not take")
HOUR_S = 3_600


@pytest.fixture
def site():
    made = Site(Watched())
    made.clock = Standing(HOUR_S)
    yield made
    made.close()


@pytest.fixture
def on_sqlite(tmp_path, sqlite_template):
    path = tmp_path / "journal.sqlite3"
    path.write_bytes(sqlite_template.read_bytes())
    made = Site(WatchedSqlite(path))
    made.clock = Standing(HOUR_S)
    yield made
    made.close()


def until_held(site, host, run_id):
    """Waits until the run was claimed once more, and the host took in what it claimed."""
    while run_id not in site.store.claims.get(timeout=WAIT_S):
        pass
    settled(host)


def test_a_revision_that_cannot_be_loaded_is_tried_again_and_the_claims_show_it(site):
    site.faults[REVISION] = "the revision is of a later version"
    host = site.host(site.agents())
    run_id = site.create()
    host.offer(run_id)
    for claims in (1, 2, 3):
        until_held(site, host, run_id)
        assert site.store.read_standing(run_id)[2] == claims  # Since it last made progress.
        assert host.counters.faults == claims
        assert host.owned == {}
        assert site.store.journal(run_id) == []
        assert site.store.columns(run_id).state == "queued"
        if claims == 3:
            site.faults.clear()
        pass_time(site, host, HOLD_S)
        site.until_given_back(run_id)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
    assert site.store.read_standing(run_id)[2] == 0


def test_no_hot_loop_while_it_is_held_whatever_is_offered(site):
    site.faults[REVISION] = "the revision is of a later version"
    host = site.host(site.agents())
    run_id = site.create()
    host.offer(run_id)
    assert site.store.claims.get(timeout=WAIT_S) == [run_id]
    commits = site.store.commits
    for _ in range(5):
        host.offer(run_id)
        assert site.store.claims.get(timeout=WAIT_S) == []
    assert site.claim("another") == []  # Nor does another process try at once, although its inbox has something for it.
    assert site.store.commits == commits
    assert (host.counters.claimed, host.counters.faults) == (1, 1)


def test_another_host_that_can_load_it_gets_it(site):
    site.faults[REVISION] = "the revision is of a later version"
    old = site.host(site.agents())
    run_id = site.create()
    old.offer(run_id)
    until_held(site, old, run_id)
    newer = Site(site.store)
    newer.released = site.released
    newer.host(site.agents(), sweep_s=0.01)
    old.stop(0.0)
    site.until_released(run_id)
    newer.close()
    assert site.outcome(run_id) == "completed"
    assert old.counters.claimed == 1


@pytest.mark.parametrize("kind", ["site", "on_sqlite"])
def test_a_step_that_raises_lets_the_run_go_with_its_journal_whole_and_it_is_found_again(kind, request):
    site = request.getfixturevalue(kind)
    broken = threading.Event()

    def answer(asked):
        given = said(asked)
        return replace(given, text=7) if broken.is_set() else given  # What no port may give back.

    agents = site.agents(answer)
    agents.holds = lambda asked: asked.agent == "worker"
    host = site.host(agents)
    run_id = site.create()
    host.offer(run_id)
    for last in (False, True):  # Let go of, given back, claimed again, let go of again.
        parked = [agents.next() for _ in range(4)]
        broken.set()
        parked[0].answer()
        for one in parked[1:]:
            assert one.ended.wait(WAIT_S)  # Its calls are let go of.
        settled(host)
        if last:
            broken.clear()
            agents.holds = lambda asked: False
        pass_time(site, host, HOLD_S)
        site.until_given_back(run_id)
    while site.outcome(run_id) == "":
        site.released.get(timeout=WAIT_S)
    assert site.outcome(run_id) == "completed"
    rows = site.store.journal(run_id)
    assert [event.seq for event in list_events(rows)] == list(range(1, rows[-1].last_seq + 1))
    again = {one.request.command_id for one in agents.ledger[5:9]}
    assert again == {one.request.command_id for one in parked}
    assert all(one.intended for one in agents.ledger)


def test_one_run_that_cannot_be_written_stops_no_other_and_is_tried_again(site):
    agents = site.agents()
    host = site.host(agents)
    site.store.open.clear()
    bad, good = site.create(), site.create()
    site.store.refused[bad] = REFUSED
    host.offer()
    site.store.open.set()
    site.until_released(good, bad)
    assert site.outcome(good) == "completed"
    assert site.store.journal(bad) == []
    assert host.counters.refused == 1
    settled(host)
    site.store.refused.clear()
    pass_time(site, host, HOLD_S)
    while site.outcome(bad) == "":
        site.released.get(timeout=WAIT_S)
    assert site.outcome(bad) == "completed"
    assert all(one.intended for one in agents.ledger)


def test_a_run_that_could_not_be_given_back_is_asked_for_by_name_a_sweep_later(site):
    """This incarnation still owns its row, so no other claim finds it."""
    host = site.host(site.agents(), sweep_s=SWEEP_S)
    run_id = site.create()
    site.store.refused[run_id] = REFUSED
    host.offer(run_id)
    site.until_released(run_id)
    until_held(site, host, run_id)
    pass_time(site, host, HOLD_S)
    assert site.store.claims.get(timeout=WAIT_S) == []  # The giving back was refused, and the host has looked for more.
    settled(host)
    site.store.refused.clear()
    pass_time(site, host, SWEEP_S)
    site.until_released(run_id)
    assert site.outcome(run_id) == "completed"
