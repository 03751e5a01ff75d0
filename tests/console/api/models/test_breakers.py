"""Circuit breakers over the API: listed with what they are judged by, opened and reset on what was listed."""

from dataclasses import replace
from datetime import datetime

import pytest

from fabric.models import AuditLine
from fabric.selectors.models.breakers import list_breaker_views
from tests.fabric.selectors.models.breaker_rows import TRIPPED, change, guarded, tell, tell_to_wait

BREAKERS = "/api/v1/breakers"


@pytest.fixture
def seen(actor):
    guarded(actor)
    return next(one for one in list_breaker_views(actor) if one.over == "provider")


def asked(seen, **other):
    return {"scope": seen.scope, "kind": seen.kind, "generation": seen.generation, "reason": "They are down."} | other


def test_they_are_listed_with_where_they_stand(program, actor, seen):
    assert {one["state"] for one in program.get(BREAKERS).json()["breakers"]} == {"closed"}
    change(seen, TRIPPED)
    tell(replace(seen, generation=1), s0=2)
    first = program.get(BREAKERS).json()["breakers"][0]
    assert (first["scope"], first["state"], first["signal"], first["trips_24h"]) == (seen.scope, "open", "timeout", 1)
    assert first["probe_at"] > first["changed_at"]
    assert (first["signals"][0]["count"], first["signals"][0]["share"]) == (2, 40)
    assert [one["generation"] for one in first["changes"]] == [1]


def test_when_a_probe_may_go_out_goes_by_what_its_endpoint_asked_for(program, actor, seen):
    change(seen, TRIPPED)
    tell_to_wait(replace(seen, generation=1), 900)
    first = program.get(BREAKERS).json()["breakers"][0]
    left = datetime.fromisoformat(first["probe_at"]) - datetime.fromisoformat(first["changed_at"])
    assert 900 <= left.total_seconds() < 910


def test_one_is_opened_and_reset_and_a_second_time_it_is_a_conflict(program, actor, seen):
    opened = program.post(f"{BREAKERS}/open", asked(seen))
    assert (opened.status_code, opened.json()["held"], opened.json()["generation"]) == (200, True, 1)
    assert program.post(f"{BREAKERS}/open", asked(seen)).status_code == 409
    closed = program.post(f"{BREAKERS}/reset", asked(seen, generation=1))
    assert (closed.status_code, closed.json()["state"]) == (200, "closed")
    assert list(AuditLine.objects.filter(kind__startswith="breaker").order_by("at").values_list("kind", flat=True)) == [
        "breaker_opened",
        "breaker_reset",
    ]


@pytest.mark.parametrize(
    ("other", "status"),
    [({"reason": ""}, 422), ({"reason": " "}, 422), ({"generation": -1}, 422), ({"scope": "provider:none"}, 404)],
)
def test_what_cannot_be_done_is_refused(program, actor, seen, other, status):
    assert program.post(f"{BREAKERS}/open", asked(seen, **other)).status_code == status
    assert program.get(BREAKERS).json()["breakers"][0]["generation"] == 0
