"""The shared breaker in front of a run's calls that is nearest to opening: which one, by what, and what it costs to know."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from django.db import connection

from fabric.composition import engine as wiring
from fabric.core.breaker.table import FORCED, BreakerState, Standing
from fabric.core.schema.limits import Unit
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.values.flow import RunState
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.models.breakers import DAY_US, list_breaker_views
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.runs.margins import breakers as breaker_margin
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.fabric.selectors.models.breaker_rows import BREAKERS, HALF_OPEN, STOPPED, TRIPPED, change, guarded, tell

CUMULATIVE = """
  breakers:
    - {scope: %s, signals: [{names: [timeout], mode: cumulative, threshold: 4}]}
"""


def begun(actor, breakers=BREAKERS):
    guarded(actor, breakers)
    started = run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric="small", text="Later")
    return run_get(actor, started.run_id)


def nearest(run, **given):
    return breaker_margin.breaker_nearest(run, revision_spec(run.revision_id), **given)


def the(actor, over, name=None):
    (found,) = [one for one in list_breaker_views(actor) if one.over == over and name in (None, one.name)]
    return found


def test_every_state_of_a_breaker_has_its_words():
    assert set(breaker_margin.WORDS) == set(breaker_margin.BECOMES) == set(BreakerState)


def test_without_breakers_nothing_is_read(actor, django_assert_num_queries):
    run = begun(actor, "\n  breakers: []\n  breakers_deviation: One worker alone asks this endpoint.\n")
    spec = revision_spec(run.revision_id)
    with django_assert_num_queries(0):
        assert breaker_margin.breaker_nearest(run, spec) is None


def test_it_is_one_statement_however_many_there_are(actor, django_assert_num_queries):
    run = begun(actor)
    tell(the(actor, BreakerScope.PROVIDER), s0=4)
    tell(the(actor, BreakerScope.TOOL), s0=1, all0=3)
    change(the(actor, BreakerScope.AGENT, "reader"), HALF_OPEN)
    spec = revision_spec(run.revision_id)
    with django_assert_num_queries(1):
        assert breaker_margin.breaker_nearest(run, spec) is not None
    with django_assert_num_queries(0):
        assert breaker_margin.breaker_nearest(replace(run, state=RunState.COMPLETED), spec) is None


def test_it_is_the_nearest_with_its_count_threshold_and_row(actor):
    run = begun(actor)
    provider = the(actor, BreakerScope.PROVIDER)
    tell(provider, s0=2)
    tell(the(actor, BreakerScope.TOOL), s0=3, all0=3)
    margin = nearest(run)
    assert (margin.observed, margin.limit, margin.unit, margin.where) == (2, 5, Unit.TIMES, "provider scripted")
    assert margin.at_limit == "timeout or server error, opens at 5 in a row"
    assert margin.shared == (provider.scope, provider.kind)
    tell(the(actor, BreakerScope.TOOL), s0=3, all0=7)
    margin = nearest(run)
    assert (margin.where, margin.unit, margin.share) == ("tool read_document", Unit.COUNT_OR_SHARE, pytest.approx(1.0))
    assert margin.at_limit.startswith("timeout, 6 of 10 calls, opens above 50% of at least 10 calls in 60 s")


def test_what_is_counted_within_one_step_is_not_told_again(actor):
    only = "\n  breakers: [{scope: agent, signals: [{names: [schema_invalid], mode: consecutive, threshold: 2}]}]\n"
    run = begun(actor, only)
    assert nearest(run) is None
    change(the(actor, BreakerScope.AGENT, "reader"), TRIPPED)
    assert nearest(run).standing == "open"


@pytest.mark.parametrize("over", [scope for scope in BreakerScope if scope is not BreakerScope.TOOL])
def test_each_scope_has_its_row(actor, over):
    run = begun(actor, CUMULATIVE % over)
    one = list_breaker_views(actor)[-1]
    tell(one, s0=3)
    margin = nearest(run)
    assert (margin.observed, margin.limit) == (3, 4)
    assert margin.where == f"{over} {one.name.replace('_', ' ')}"


def test_one_that_stops_calls_comes_before_one_that_is_near(actor):
    run = begun(actor)
    tell(the(actor, BreakerScope.PROVIDER), s0=5)
    found = []
    for standing in (HALF_OPEN, TRIPPED, STOPPED):
        change(the(actor, BreakerScope.TOOL), standing)
        found.append(nearest(run))
    assert [one.standing for one in found] == ["half open", "open", "stopped"]
    assert [one.where for one in found] == ["tool read_document"] * 3
    assert [one.at_limit for one in found] == [
        "probes alone pass", "calls are refused", "calls are refused until a person resets it"
    ]  # fmt: skip


def test_one_that_was_opened_by_hand_is_open_until_a_person_resets_it(actor):
    run = begun(actor)
    change(the(actor, BreakerScope.TOOL), Standing(state=BreakerState.OPEN, signal=FORCED, by="Ana", reason="mine"))
    assert (nearest(run).standing, nearest(run).at_limit) == ("open", "calls are refused until a person resets it")


def test_counts_are_those_of_the_generation_and_of_the_last_minute(actor):
    run = begun(actor)
    tool = the(actor, BreakerScope.TOOL)
    tell(tool, s0=8, all0=10)
    assert nearest(run).where == "tool read_document"
    later = nearest(run, now=time.time_ns() // 1_000 + DAY_US)
    assert (later.where, later.observed) == ("agent planner", 0)
    closed = Standing(state=BreakerState.CLOSED)
    change(tool, TRIPPED, closed)
    assert nearest(run).observed == 0


def test_another_fabrics_rows_are_not_the_runs(actor):
    run = begun(actor)
    change(replace(the(actor, BreakerScope.AGENT, "reader"), scope="agent:elsewhere:reader"), TRIPPED)
    assert nearest(run).standing == ""


def test_rows_are_found_by_their_key(actor):
    """However many breakers there are in the installation."""
    run = begun(actor)
    asked = []

    def keep(execute, sql, params, many, context):
        asked.append((sql, params))
        return execute(sql, params, many, context)

    spec = revision_spec(run.revision_id)
    with connection.execute_wrapper(keep):
        breaker_margin.breaker_nearest(run, spec)
    ((sql, params),) = asked
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        plan = [line[-1] for line in cursor.fetchall()]
    assert not [line for line in plan if line.startswith("SCAN")], plan


def test_one_that_stands_in_front_of_others_alone_is_not_the_runs(actor):
    """A row that an earlier policy left behind stops no call of it."""
    run = begun(actor, "\n  breakers: [{preset: semantic, scope: agent, only: [planner]}]\n")
    planner = the(actor, BreakerScope.AGENT)
    change(replace(planner, scope=planner.scope.replace("planner", "reader")), TRIPPED)
    assert nearest(run).standing == ""
    change(planner, TRIPPED)
    assert (nearest(run).standing, nearest(run).where) == ("open", "agent planner")
