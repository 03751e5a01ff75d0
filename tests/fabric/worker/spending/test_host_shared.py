"""A host whose runs share budgets and retry tokens: what is reserved and given back with every batch, and what a refusal leads to."""

import threading

import pytest

from fabric.core.values.frozen import replace
from fabric.runtime.ports.journal import BatchFate
from fabric.runtime.ports.spending import TokenAsk
from fabric.worker.process.clock import SYSTEM_CLOCK
from fabric.worker.spending.process_share import NO_STORE
from simulator.stores.memory.guards import MemoryGuards
from tests.fabric.stores.grant_worlds import reserving
from tests.fabric.stores.journal_worlds import WORKSPACE, Journal
from tests.fabric.worker.host.scenes import WAIT_S, Site, Watched, overloaded_once, policy, settled, sharing

RICH = 10_000_000
HOUR = policy(budget={"run_usd_micros": RICH, "fabric_hour_usd_micros": RICH})


class Gone(Watched):
    """A store that closes a grant behind its holder's back, before the first batch that reserves from it is written."""

    shut = 0

    def write(self, batches):
        for one in [one for batch in batches for one in batch.reserved][: not self.shut]:
            self.shut += 1
            assert self.grants.close(next(iter(self.tables.incarnations)), [one.grant_id]) == [one.grant_id]
        return super().write(batches)


@pytest.fixture(params=["memory", "sqlite"])
def site(request, tmp_path, sqlite_template):
    made = sharing(request.param, tmp_path, sqlite_template)
    made.spec = HOUR
    yield made
    made.close()


def budget(site, kind="fabric"):
    (found,) = site.shared[0].budgets([f"{kind}:{scope}" for scope in SCOPES])
    return found


SCOPES = ("revision-1", "fabric-1", WORKSPACE)


def cost(site, run_id):
    return sum(fact.get("cost_usd_micros", 0) for fact in site.facts(run_id, "model_answered"))


def test_what_runs_spend_is_in_the_budget_once_their_host_stops(site):
    host = site.host(site.agents())
    runs = [site.create() for _ in range(5)]
    host.offer()
    site.until_released(*runs)
    assert {site.outcome(run_id) for run_id in runs} == {"completed"}
    spent = sum(cost(site, run_id) for run_id in runs)
    assert budget(site).granted > 0
    host.stop()
    stands = budget(site)
    assert (stands.spent, stands.granted, stands.overrun, stands.hourly) == (spent, 0, 0, True)


def test_a_refused_run_goes_by_its_table_and_says_why(site):
    site.spec = policy(budget={"run_usd_micros": RICH, "fabric_hour_usd_micros": 100})
    host = site.host(site.agents())
    run = site.create()
    host.offer()
    site.until_released(run)
    decisions = site.facts(run, "reaction_decided")
    seen = decisions[0]["cause"]["evidence"]
    assert (decisions[0]["cause"]["cause"], seen["scope"], seen["limit"]) == ("budget_gate", "fabric", 100)
    assert seen["details"]["asked_at"] > 0
    assert site.facts(run, "call_issued") == []
    assert budget(site).spent == budget(site).granted == 0
    host.stop()


def test_a_workspaces_cap_holds_for_every_fabric_in_it(site):
    site.spec = policy(budget={"run_usd_micros": RICH})
    site.shared[0].set_cap(f"workspace:{WORKSPACE}", 100, workspace_id=WORKSPACE)
    host = site.host(site.agents())
    run = site.create()
    host.offer()
    site.until_released(run)
    assert site.facts(run, "reaction_decided")[0]["cause"]["evidence"]["scope"] == "workspace"
    host.stop()


def test_a_cap_without_a_store_is_refused(site):
    site.shared = site.tokens = None
    host = site.host(site.agents())
    run = site.create()
    host.offer()
    site.until_released(run)
    assert site.facts(run, "call_issued") == []
    said = [one["cause"]["message"] for one in site.facts(run, "reaction_decided")]
    assert said
    assert all(one.startswith("the fabric's budget for an hour: the next call may take $") for one in said)
    assert all(one.endswith(f", but {NO_STORE}") for one in said)
    host.stop()


def test_a_retry_without_a_store_is_refused_and_says_that_no_store_could_be_asked(site):
    site.shared = site.tokens = None
    site.spec = policy(budget={"run_usd_micros": RICH})
    host = site.host(site.agents(overloaded_once))
    run = site.create()
    host.offer()
    site.until_released(run)
    assert {one["attempt"] for one in site.facts(run, "call_issued")} == {1}
    (skipped,) = [one for one in site.facts(run, "rung_skipped") if one["reaction"] == "retry"]
    assert (
        skipped["reason"]
        == f"retry_budget_empty: the fabric's retry budget, which its runs share, gives no token: {NO_STORE}"
    )
    (asked,) = site.facts(run, "review_opened")  # What follows is the table's, as where a bucket is empty.
    assert (asked["item"], site.outcome(run)) == ("failure", "")
    host.stop()


def test_runs_that_share_nothing_ask_nothing(site):
    site.spec = policy(budget={"run_usd_micros": RICH})
    host = site.host(site.agents())
    run = site.create()
    host.offer()
    site.until_released(run)
    assert site.outcome(run) == "completed"
    assert getattr(site.shared[0], "statements", 0) == 0
    assert "fabric-grants" not in [thread.name for thread in threading.enumerate()]
    host.stop()


def test_a_run_whose_grant_was_closed_is_loaded_again_and_goes_on():
    site = Site(Gone())
    site.shared, site.spec = (site.store.grants, MemoryGuards(SYSTEM_CLOCK)), HOUR
    agents = site.agents()
    host = site.host(agents)
    run = site.create()
    host.offer()
    site.until_released(run)  # It is given back at once,
    host.offer()
    site.until_released(run)  # and ends with the next claim.
    assert site.store.shut == 1
    assert site.outcome(run) == "completed"
    assert len(agents.asked(run)) == len(set(agents.asked(run)))
    host.stop()
    assert (budget(site).spent, budget(site).granted) == (cost(site, run), 0)


def test_a_batch_that_was_not_written_gives_back_what_it_reserved(site):
    host = site.host(site.agents())
    run = site.create()
    host.offer()
    site.until_released(run)
    book, scope = host.shared.book, budget(site).scope
    grant, left = book.chunks(scope)[-1]
    batch = replace(_reserving(run, grant, 10), consumed=("gone",))
    host.loop.put(("do", lambda: host.shared.spend_reservations(batch)))
    settled(host)
    assert dict(book.chunks(scope))[grant] == left - 10
    for fate, room in ((BatchFate.FENCED, left - 10), (OSError("a poison"), left), (BatchFate.INPUT_GONE, left)):
        host.loop.put(("do", lambda fate=fate: host.shared.apply_fate(batch, fate)))
        settled(host)
        assert dict(book.chunks(scope))[grant] == room
    host.stop()


def _reserving(run, grant, amount):
    return Journal(run, 1).batch(reserved=(reserving(grant, amount, run=run),))


def test_a_lost_lease_leaves_what_was_held_to_the_reaper(site):
    agents = site.agents()
    agents.holds = lambda request: request.agent == "planner"
    host = site.host(agents)
    run = site.create()
    host.offer()
    parked = agents.next()
    scope = budget(site).scope
    held = {grant for grant, _ in host.shared.book.chunks(scope)}
    agents.holds = lambda request: False  # Under its new name it may take the run anew at any moment.
    site.store.retire(host.lease.name)
    host.lease.beat_soon()
    assert parked.ended.wait(WAIT_S)
    settled(host)
    assert held
    assert held.isdisjoint(grant for grant, _ in host.shared.book.chunks(scope))
    host.offer()
    site.until_released(run)
    assert site.outcome(run) == "completed"
    host.stop()
    site.shared[0].reap()
    worst = site.facts(run, "call_issued")[0]["reserved_usd_micros"]
    assert (budget(site).spent, budget(site).granted) == (worst + cost(site, run), 0)


def test_a_retry_takes_a_token_that_runs_share(site):
    site.spec = policy(budget={"run_usd_micros": RICH}, retry={"base_s": 0.01, "shared": True})
    host = site.host(site.agents(overloaded_once))
    run = site.create()
    host.offer()
    site.until_released(run)
    assert site.outcome(run) == "completed"
    provider = f"provider:{site.spec.models[0].provider}"
    left = site.shared[1].retry([TokenAsk(provider, 10_000)], first_in_stage=False).levels
    assert 8_000 <= left[provider] < 9_000, "one token went to the run's retry, one to this"
    host.stop()
