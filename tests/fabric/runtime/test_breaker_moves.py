"""The line of the audit stream that a move of a circuit breaker leaves, from the row as it was seen and as it becomes."""

import json
from typing import Any

from fabric.core.breaker.passing import Key, Step
from fabric.core.breaker.policy import KIND, PRESETS
from fabric.core.breaker.table import Happened, Standing, after, encoded
from fabric.runtime.breaking import holder_of, move_of
from fabric.runtime.grant_ports import GuardRow

BREAKER = PRESETS["endpoint"]()
SCOPE = "provider:scripted"
COUNTED: dict[str, Any] = {"signal": "server_error", "failures": 5, "threshold": 5.0}
OPEN = after(BREAKER, Standing(), Happened.TRIPPED, **COUNTED)


def moved(before, now, kind=KIND, holder=None):
    row = GuardRow(scope=SCOPE, kind=kind, state=encoded(before), generation=3, permits={}, counts={}, asked_at=0)
    step = Step(do="change", key=Key(SCOPE, kind), row=row, state=encoded(now))
    return move_of(step, holder or holder_of("run-1", "plan.0.e0.r0.t1", 2), "entry-1")


def told(*asked, **more):
    return json.loads(moved(*asked, **more).entry.body)


def test_what_closes_says_what_had_been_counted():
    body = told(OPEN, Standing())
    assert (body["was"], body["is"], body["generation"]) == ("open", "closed", 4)
    assert (body["counted"], body["limit"]) == (OPEN.counted, 5.0)
    assert body["call"] == "plan.0.e0.r0.t1#2"


def test_a_reason_is_told_and_where_nothing_is_to_say_nothing_stands():
    forced = after(BREAKER, Standing(), Happened.FORCED_OPEN, by="dana", reason="maintenance")
    assert told(Standing(), forced)["reason"] == "maintenance"
    assert not {"reason", "counted", "limit", "call"} & set(told(Standing(), Standing(), holder="run-1/#0"))


def test_a_row_of_no_breaker_leaves_no_line():
    assert moved(Standing(), OPEN, kind="usual_rates") is None
