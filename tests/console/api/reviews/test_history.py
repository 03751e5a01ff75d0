"""The history of decisions over the API: pages, filters, and the file."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync

from fabric.core.values.units import US
from tests.fabric.services.reviews.decided import AT, decided, many
from tests.fabric.services.world import ran

PATH = "/api/v1/decisions"


@pytest.fixture
def some(actor, small):
    run_id = ran(actor, small).id
    rows = [decided(run_id, decided_at=AT + n * US) for n in range(3)]
    many(*rows, decided(run_id, "edit", "ben", decided_at=AT + 3 * US))
    return run_id


def body(response):
    async def pieces():
        return [piece async for piece in response.streaming_content]

    return b"".join(async_to_sync(pieces)()).decode()


def test_a_page_at_a_time(program, some):
    first = program.get(f"{PATH}?limit=3").json()
    assert [one["decided_by"] for one in first["decisions"]] == ["ben", "ana", "ana"]
    assert first["decisions"][0]["took_us"] == 60 * US
    rest = program.get(f"{PATH}?cursor={first['next_cursor']}").json()
    assert (len(rest["decisions"]), rest["next_cursor"]) == (1, None)


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ("by=ben", 1),
        ("verb=edit", 1),
        ("who=system", 0),
        ("fabric=small&item=post_stage", 4),
        ("until=2026-09-21T14:13:21Z", 1),
        ("since=2036-01-01T00:00:00Z", 0),
    ],
)
def test_filters(program, some, asked, count):
    assert len(program.get(f"{PATH}?{asked}").json()["decisions"]) == count


@pytest.mark.parametrize(
    "asked", ["since=2026-01-01", "until=0.5", "since=1767225600", "verb=nod", "limit=0", "cursor=x", "item=follow_up"]
)
def test_what_cannot_be_read_is_said(program, some, asked):
    assert program.get(f"{PATH}?{asked}").status_code == 422


def test_the_file(program, some):
    assert body(program.post(f"{PATH}/export", {"form": "csv"})).count("\r\n") == 5
    asked = {"form": "ndjson", "by": "ben"}
    answer = program.post(f"{PATH}/export", asked)
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line)["verb"] for line in body(answer).splitlines()] == ["edit"]
