"""Hosts with circuit breakers: what one process meets, all of them heed; a probe is one call; who is let go of gives its permit back."""

import json
import sqlite3
import threading

import pytest

from fabric.core.audit.lines import Act, AuditEntry
from fabric.core.breaker.table import BreakerHappening, Standing, apply_happening, decode_standing, encode_standing
from fabric.core.events.inputs import CallFailed
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.ports.spending import RunLine
from tests.benchmarks.throughput.spec import SPEC
from tests.fabric.worker.host.scenes import WAIT_S, policy, said, sharing

SCOPE = f"provider:{SPEC.models[0].provider}"
RETRY = {"base_s": 0.001, "cap_s": 0.01}
RICH = {"run_usd_micros": 10_000_000}


def breaker(**changed):
    return {"preset": "endpoint", "cooldown_s": 3_600.0, **changed}


def away(request):
    return CallFailed(
        command_id=request.command_id, attempt=request.attempt, cause=Cause.SERVER_ERROR, message="503", status=503
    )


@pytest.fixture(params=["memory", "sqlite"])
def site(request, tmp_path, sqlite_template):
    made = sharing(request.param, tmp_path, sqlite_template)
    made.spec = policy(budget=RICH, retry=RETRY, breakers=[breaker()])
    yield made
    made.close()


def row(site):
    (one,) = site.spec.policy.breakers
    return site.shared[1].guards([(SCOPE, one.kind)])[0]


def stands(site):
    return decode_standing(row(site).state)


def open_it(site, *, happened=BreakerHappening.TRIPPED, **how):
    (one,) = site.spec.policy.breakers
    given = {"signal": "server_error", "failures": 5, "threshold": 5.0} if happened is BreakerHappening.TRIPPED else how
    opened = encode_standing(apply_happening(one, Standing(), happened, **given))
    assert site.shared[1].change(SCOPE, one.kind, generation=row(site).generation, state=opened)


def refusals(site, run):
    return [fact for fact in site.facts(run, "attempt_failed") if (fact.get("trip") or {}).get("mechanism")]


def test_what_one_host_met_no_host_calls_any_more(site):
    first = site.agents(away)
    host = site.host(first)
    run = site.create()
    host.offer()
    site.until_released(run)
    assert stands(site).state == "open"
    assert len(first.asked(run)) == 5
    assert refusals(site, run)[0]["trip"]["evidence"]["details"]["state"] == "open"
    second = site.agents()
    other, late = site.host(second), site.create()
    other.offer()
    site.until_released(late)
    assert second.asked(late) == []
    assert len(refusals(site, late)) >= 1


def limited(request, wait_s=7_200.0):
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=Cause.RATE_LIMIT,
        message="429",
        status=429,
        retry_after_s=wait_s,
    )


def test_what_one_host_was_told_to_wait_every_host_waits(site):
    site.spec = policy(budget=RICH, breakers=[{"preset": "rate_limit", "cooldown_s": 0.05}])
    (one,) = site.spec.policy.breakers
    agents = site.agents(limited)
    host = site.host(agents)
    runs = [site.create() for _ in range(3)]
    for run in runs:
        host.offer()
        site.until_released(run)
    host.stop()
    asked = [request for run in runs for request in agents.asked(run)]
    assert len(asked) == 3
    late = site.create()
    other = site.agents()
    site.host(other).offer()
    site.until_released(late)
    assert other.asked(late) == []
    (refusal, *_) = refusals(site, late)
    assert 7_100 < refusal["breaker_wait_s"] <= 7_200
    assert 7_100_000 < refusal["trip"]["evidence"]["details"]["retry_after_ms"] <= 7_200_000
    assert stands(site).state == "open"
    assert one.cooldown_s == 0.05


def test_a_probe_that_is_told_to_wait_keeps_all_calls_waiting(site):
    site.spec = policy(budget=RICH, breakers=[{"preset": "rate_limit", "cooldown_s": 0.05}])
    (one,) = site.spec.policy.breakers
    half = Standing(state="half_open", trips=1, signal="rate_limit", failures=3, threshold=3.0)
    assert site.shared[1].change(SCOPE, one.kind, generation=0, state=encode_standing(half))
    agents = site.agents(limited)
    host, run = site.host(agents), site.create()
    host.offer()
    site.until_released(run)
    host.stop()
    (failed, *_) = site.facts(run, "attempt_failed")
    assert 7_199 < failed["breaker_wait_s"] <= 7_200
    found = row(site)
    assert (stands(site).state, stands(site).trips) == ("open", 2)
    assert found.counts["retry_at"] - found.changed_at > 7_199_000_000


def test_one_that_is_closed_costs_a_run_nothing_but_a_look(site):
    agents = site.agents()
    host = site.host(agents)
    runs = [site.create() for _ in range(3)]
    host.offer()
    site.until_released(*runs)
    assert {site.outcome(run) for run in runs} == {"completed"}
    assert (row(site).state, row(site).generation, dict(row(site).counts)) == ("", 0, {})


def test_after_the_cooldown_a_probe_closes_it_and_everything_goes_on(site):
    site.spec = policy(budget=RICH, retry=RETRY, breakers=[breaker(cooldown_s=0.05, success_threshold=1)])
    open_it(site)
    agents = site.agents()
    host = site.host(agents)
    run = site.create()
    host.offer()
    site.until_released(run)
    assert site.outcome(run) == "completed"
    host.stop()
    assert (stands(site).state, row(site).permits) == ("closed", {})


# -- the audit stream --------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path, sqlite_template):
    made = sharing("sqlite", tmp_path, sqlite_template)
    made.spec = policy(budget=RICH, retry=RETRY, breakers=[breaker(cooldown_s=0.05, success_threshold=1)])
    yield made
    made.close()


def moves(tmp_path):
    """``(subject, actor, body)`` of the breakers' lines in the audit stream."""
    with sqlite3.connect(tmp_path / "fabric.sqlite3") as file:
        found = file.execute(
            "SELECT subject, actor, kind, workspace_id, body FROM fabric_audit ORDER BY at, rowid"
        ).fetchall()
        (workspace,) = file.execute("SELECT DISTINCT workspace_id FROM fabric_run").fetchone()
    assert all(row[2:4] == ("breaker_moved", workspace) for row in found)
    return [(row[0], row[1], json.loads(row[4])) for row in found]


def test_each_move_stands_in_the_audit_stream_with_the_run_that_made_it_and_what_was_counted(kept, tmp_path):
    host, run = kept.host(kept.agents(away)), kept.create()
    host.offer()
    kept.until_released(run)
    host.stop()
    opened, *_ = moves(tmp_path)
    subject, actor, body = opened
    assert (subject, actor) == (SCOPE, "system")
    assert {name: body[name] for name in ("run", "was", "is", "trips", "counted", "limit", "probe", "generation")} == {
        "run": run,
        "was": "closed",
        "is": "open",
        "trips": 1,
        "counted": "5 times server error",
        "limit": 5.0,
        "probe": False,
        "generation": 1,
    }
    assert body["call"].startswith("plan.0.e0.r0.t1")


def test_a_move_that_came_too_late_leaves_no_line(kept, tmp_path):
    (one,) = kept.spec.policy.breakers
    run, entry = kept.create(), AuditEntry(entry_id="late", actor="system", act=Act.BREAKER_MOVED, subject=SCOPE)
    asked = {"state": encode_standing(Standing()), "line": RunLine(run, entry)}
    assert not kept.shared[1].change(SCOPE, one.kind, generation=9, **asked)
    assert moves(tmp_path) == []
    assert kept.shared[1].change(SCOPE, one.kind, generation=0, **asked)
    assert [subject for subject, _, _ in moves(tmp_path)] == [SCOPE]


def test_a_probe_is_marked_in_its_run_and_in_the_line_of_what_it_moved(kept, tmp_path):
    open_it(kept)
    host, run = kept.host(kept.agents()), kept.create()
    host.offer()
    kept.until_released(run)
    host.stop()
    assert [(body["was"], body["is"], body["probe"], body["run"]) for _, _, body in moves(tmp_path)] == [
        ("open", "half_open", False, run),
        ("half_open", "closed", True, run),
    ]
    probed = [fact["probed"] for fact in kept.facts(run, "model_answered") if fact.get("probed")]
    assert probed == [SCOPE]


def test_a_failed_probe_is_marked_too(kept):
    half = Standing(state="half_open", trips=1, signal="server_error", failures=5, threshold=5.0)
    (one,) = kept.spec.policy.breakers
    assert kept.shared[1].change(SCOPE, one.kind, generation=0, state=encode_standing(half))
    host, run = kept.host(kept.agents(away)), kept.create()
    host.offer()
    kept.until_released(run)
    host.stop()
    assert kept.facts(run, "attempt_failed")[0]["probed"] == SCOPE


def test_a_host_that_stops_has_told_what_it_counted(site):
    failing = iter([True, True])
    agents = site.agents(lambda request: away(request) if next(failing, False) else said(request))
    site.spec = policy(
        budget=RICH,
        retry=RETRY,
        breakers=[
            {"scope": "provider", "signals": [{"names": ["server_error"], "mode": "cumulative", "threshold": 9}]}
        ],
    )
    host = site.host(agents)
    run = site.create()
    host.offer()
    site.until_released(run)
    host.stop()
    assert dict(row(site).counts) == {"cumulative:server_error": 2}


def test_a_probe_that_is_let_go_of_gives_its_permit_back(site):
    (one,) = site.spec.policy.breakers
    half = Standing(state="half_open", trips=1, signal="server_error", failures=5, threshold=5.0)
    assert site.shared[1].change(SCOPE, one.kind, generation=0, state=encode_standing(half))
    agents = site.agents()
    agents.holds = lambda request: request.agent == "planner"
    host = site.host(agents)
    run = site.create()
    host.offer()
    parked = agents.next()
    assert list(row(site).permits) == [f"{run}/{parked.request.command_id}#1"]
    given_up = threading.Event()
    gives = site.shared[1].give_up

    def watched(*where, **asked):
        done = gives(*where, **asked)
        given_up.set()
        return done

    site.shared[1].give_up = watched
    host.loop.put(("do", host._begin_again))
    assert given_up.wait(WAIT_S)
    assert (row(site).permits, stands(site).state) == ({}, "half_open")


def test_probes_of_two_hosts_that_pass_at_once_both_count(site):
    """Each answers with the row as it was before the other's: who comes second looks again."""
    site.spec = policy(
        budget=RICH, retry=RETRY, breakers=[breaker(half_open_max=2, success_threshold=2, cooldown_s=0.05)]
    )
    (one,) = site.spec.policy.breakers
    half = Standing(state="half_open", trips=1, signal="server_error", failures=5, threshold=5.0)
    assert site.shared[1].change(SCOPE, one.kind, generation=0, state=encode_standing(half))
    agents, parked = site.agents(), []
    agents.holds = lambda request: request.agent == "planner"
    for _ in range(2):
        host, run = site.host(agents), site.create()
        host.offer()
        parked.append((run, agents.next()))
    assert {name.partition("/")[0] for name in row(site).permits} == {run for run, _ in parked}
    for _, held in parked:
        held.answer()
    site.until_released(*(run for run, _ in parked))
    assert {site.outcome(run) for run, _ in parked} == {"completed"}
    assert (stands(site).state, row(site).permits) == ("closed", {})


def test_one_that_a_person_opened_refuses_until_it_is_reset(site):
    open_it(site, happened=BreakerHappening.FORCED_OPEN, by="dana", reason="maintenance")
    agents = site.agents()
    host = site.host(agents)
    run = site.create()
    host.offer()
    site.until_released(run)
    assert agents.asked(run) == []
    (decided, *_) = site.facts(run, "reaction_decided")
    assert "opened by dana: maintenance" in decided["cause"]["message"]
    assert json.dumps(decided["cause"]["evidence"]["details"]["signal"]) == '"forced"'


def test_without_a_store_no_call_is_refused(site):
    site.shared = None
    agents = site.agents()
    host = site.host(agents)
    run = site.create()
    host.offer()
    site.until_released(run)
    assert site.outcome(run) == "completed"
    assert "fabric-guards" not in [thread.name for thread in threading.enumerate()]


def test_a_policy_without_breakers_whose_rate_is_not_learned_asks_nothing(site):
    site.spec = policy(budget=RICH, breakers=[], cost_velocity={"times_usual": 0})
    host = site.host(site.agents())
    run = site.create()
    host.offer()
    site.until_released(run)
    assert site.outcome(run) == "completed"
    assert "fabric-guards" not in [thread.name for thread in threading.enumerate()]


def test_a_stand_in_that_another_host_knows_to_be_away_is_not_asked(site):
    """Its row is looked at where the call failed, whichever worker opened it, and though this one never asked that model."""
    own = SPEC.models[0]
    chain = [
        own.model_copy(update={"fallbacks": ("near", "far")}),
        own.model_copy(update={"name": "near", "provider": "elsewhere"}),
        own.model_copy(update={"name": "far", "provider": "far away"}),
    ]
    spec = policy(budget=RICH, retry=RETRY, breakers=[breaker(on_open="model")])
    site.spec = spec.model_copy(update={"models": tuple(chain)})
    (one,) = site.spec.policy.breakers
    opened = encode_standing(
        apply_happening(one, Standing(), BreakerHappening.TRIPPED, signal="server_error", failures=5, threshold=5.0)
    )
    assert site.shared[1].change("provider:elsewhere", one.kind, generation=0, state=opened)
    agents = site.agents(lambda request: away(request) if request.model.name == own.name else said(request))
    host, run = site.host(agents), site.create(tier=Tier.INTERACTIVE)
    host.offer()
    site.until_released(run)
    assert site.outcome(run) == "completed"
    assert {fact["model"] for fact in site.facts(run, "model_changed")} == {"far"}
    assert {tuple(fact["shut"]) for fact in site.facts(run, "attempt_failed")} == {("near",)}


SPIKE = 300_000


def spiking(request):
    return replace(said(request), cost_usd_micros=SPIKE)


def reserved(site, run):
    return [fact["reserved_usd_micros"] for fact in site.facts(run, "call_issued")]


def test_what_a_model_billed_above_its_reservation_under_one_host_every_host_reserves_from_then_on(site):
    first, run = site.host(site.agents(spiking)), site.create()
    first.offer()
    site.until_released(run)
    assert reserved(site, run)[0] < SPIKE
    first.stop()
    late = site.create()
    site.host(site.agents()).offer()
    site.until_released(late)
    assert set(reserved(site, late)) == {SPIKE}
    site.spec = policy(budget={"run_usd_micros": 9_999_999}, retry=RETRY, breakers=[breaker()])
    other = site.create()
    site.host(site.agents()).offer()
    site.until_released(other)
    assert max(reserved(site, other)) < SPIKE  # Another revision: its models may be others.
