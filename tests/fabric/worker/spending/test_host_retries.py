"""Retries of many runs in several processes at once while their provider is down: one budget for all of them (docs/specification/retries.md)."""

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Cause
from tests.fabric.worker.host.scenes import Site, policy, sharing

RUNS = 12
RUNGS = [{"reaction": "retry", "times": 2}, {"reaction": "surface"}]


def retrying() -> FabricSpec:
    """flow5 whose calls are retried, with nothing else that keeps a call from a provider that is down."""
    table = {"provider_failure": {"interactive": {"rungs": RUNGS}}}
    return FabricSpec.model_validate(
        policy(retry={"base_s": 0.01}, breakers=[]).model_dump() | {"decision_table": table}
    )


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def site(request, tmp_path, sqlite_template):
    if request.param == "postgresql":
        shared = request.getfixturevalue("shared_postgresql")
        made = Site(shared.journal.store)
        made.shared = shared.grants, shared.guards
    else:
        made = sharing(request.param, tmp_path, sqlite_template)
    made.spec = retrying()
    made.processes = 1 if request.param == "sqlite" else 3
    yield made
    made.close()


def down(request):
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=Cause.SERVER_ERROR,
        message="the provider is down",
        status=503,
    )


def test_all_runs_in_all_processes_retry_at_most_twenty_times_and_a_tenth_of_their_first_attempts(site):
    runs = [site.create() for _ in range(RUNS)]
    hosts = [site.host(site.agents(down)) for _ in range(site.processes)]
    for host in hosts:
        host.offer()
    site.until_released(*runs)
    retries = [fact for run in runs for fact in site.facts(run, "retry_scheduled")]
    firsts = sum(fact.get("attempt", 1) == 1 for run in runs for fact in site.facts(run, "call_issued"))
    denied = [fact for run in runs for fact in site.facts(run, "rung_skipped") if fact["reaction"] == "retry"]
    assert 10 <= len(retries) <= 20 + 0.1 * firsts
    assert len(denied) >= 1
    for fact in retries:
        assert {one["bucket"].partition(":")[0] for one in fact["buckets"]} == {"fabric", "provider"}
    for fact in denied:
        evidence = fact["trip"]["evidence"]
        assert (fact["trip"]["cause"], evidence["limit"], evidence["unit"]) == (
            "retry_budget_empty",
            10,
            "retry tokens",
        )
        assert evidence["observed"] < 1


def test_a_run_that_meets_no_failure_asks_no_bucket(site):
    """No statement of a budget, and of the guards only the claims' look at what models billed above their reservations, one a second at most.

    Without circuit breakers, and without a comparison with usual rates: what a fabric has of both by default stands in the same store.
    """
    site.spec = policy(retry={"base_s": 0.01}, breakers=[], cost_velocity={"times_usual": 0})
    host = site.host(site.agents(), beat_s=0.05)
    runs = [site.create() for _ in range(3)]
    host.offer()
    site.until_released(*runs)
    assert {site.outcome(run) for run in runs} == {"completed"}
    assert getattr(site.shared[0], "statements", 0) == 0
    assert getattr(site.shared[1], "statements", 0) <= len(runs)
