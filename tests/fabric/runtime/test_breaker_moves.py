"""The line of the audit stream that a move of a circuit breaker leaves, from the row as it was seen and as it becomes."""

import json
from typing import Any

from fabric.core.breaker.passing import BreakerKey, RowStep
from fabric.core.breaker.table import BreakerHappening, Standing, apply_happening, encode_standing
from fabric.core.spec.policies.breakers import KIND, PRESETS
from fabric.runtime.breakers import build_holder, find_move
from fabric.runtime.ports.spending import GuardRow

BREAKER = PRESETS["endpoint"]()
SCOPE = "provider:scripted"
COUNTED: dict[str, Any] = {"signal": "server_error", "failures": 5, "threshold": 5.0}
OPEN = apply_happening(BREAKER, Standing(), BreakerHappening.TRIPPED, **COUNTED)


def moved(before, now, kind=KIND, holder=None):
    row = GuardRow(
        scope=SCOPE, kind=kind, state=encode_standing(before), generation=3, permits={}, counts={}, asked_at=0
    )
    step = RowStep(do="change", key=BreakerKey(SCOPE, kind), row=row, state=encode_standing(now))
    return find_move(step, holder or build_holder("run-1", "plan.0.e0.r0.t1", 2), "entry-1")


def told(*asked, **more):
    return json.loads(moved(*asked, **more).entry.body)


def test_what_closes_says_what_had_been_counted():
    body = told(OPEN, Standing())
    assert (body["was"], body["is"], body["generation"]) == ("open", "closed", 4)
    assert (body["counted"], body["limit"]) == (OPEN.signal_words, 5.0)
    assert body["call"] == "plan.0.e0.r0.t1#2"


def test_a_reason_is_told_and_where_nothing_is_to_say_nothing_stands():
    forced = apply_happening(BREAKER, Standing(), BreakerHappening.FORCED_OPEN, by="dana", reason="maintenance")
    assert told(Standing(), forced)["reason"] == "maintenance"
    assert not {"reason", "counted", "limit", "call"} & set(told(Standing(), Standing(), holder="run-1/#0"))


def test_a_row_of_no_breaker_leaves_no_line():
    assert moved(Standing(), OPEN, kind="usual_rates") is None
