"""Memories over the API: listed with what stands in them, one key deleted on the version that was listed."""

import json

import pytest

from fabric.models import AuditLine
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.services.fabrics.revisions import fabric_publish
from tests.console.bad_input import remember
from tests.fabric.services.memories.test_changes import REMEMBERING

MEMORIES = "/api/v1/fabrics/remembering/memories"
GOOD = {"memory": "notes", "key": "budget", "version": 1, "reason": "It is wrong."}


@pytest.fixture(autouse=True)
def fabric_id(actor):
    fabric_publish(actor=actor, source=REMEMBERING)
    return fabric_get(actor, "remembering").id


def test_they_are_listed_with_what_stands_in_them(program, fabric_id):
    remember(fabric_id, value='{"usd": [40]}', version=3)
    notes, scratch = program.get(MEMORIES).json()["memories"]
    assert (notes["name"], notes["scope"], notes["keys"], notes["keys_max"]) == ("notes", "fabric", 1, 100)
    assert (notes["writers"], notes["readers"], notes["deleters"]) == (["reader"], ["reader"], [])
    (entry,) = notes["entries"]
    assert (entry["key"], entry["version"], entry["value"], entry["agent"]) == ("budget", 3, {"usd": [40]}, "reader")
    assert (scratch["scope"], scratch["entries"]) == ("run", [])
    assert program.get("/api/v1/fabrics/nosuch/memories").status_code == 404


def test_one_is_deleted_and_a_second_time_it_is_not_there(program, fabric_id):
    remember(fabric_id)
    deleted = program.post(f"{MEMORIES}/delete", GOOD)
    assert (deleted.status_code, deleted.json()["memories"][0]["entries"]) == (200, [])
    assert program.post(f"{MEMORIES}/delete", GOOD).status_code == 404
    assert AuditLine.objects.filter(kind="memory_deleted").count() == 1


def test_a_key_that_no_database_could_hold_is_deleted_as_it_would_be_kept(program, fabric_id):
    """A NUL is in no text of PostgreSQL; on SQLite it would do no harm, and find nothing."""
    named = GOOD | {"key": "bud\0get"}
    assert program.post(f"{MEMORIES}/delete", named).status_code == 404
    remember(fabric_id, "bud\ufffdget")
    deleted = program.post(f"{MEMORIES}/delete", named)
    assert (deleted.status_code, deleted.json()["memories"][0]["entries"]) == (200, [])


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"reason": ""}, 422),
        ({"reason": " "}, 422),
        ({"version": 0}, 422),
        ({"version": 2}, 409),
        ({"memory": "scratch"}, 404),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_deleted(program, fabric_id, other, status):
    remember(fabric_id)
    assert program.post(f"{MEMORIES}/delete", GOOD | other).status_code == status
    assert program.get(MEMORIES).json()["memories"][0]["keys"] == 1


WRITE = {"memory": "notes", "key": "office", "value": {"open": "9-17"}, "version": 0, "reason": "Told by the office."}


def test_a_value_is_written_on_the_version_that_was_listed_and_its_history_told(program, fabric_id):
    written = program.post(f"{MEMORIES}/write", WRITE)
    assert (written.status_code, written.json()["memories"][0]["entries"][0]["value"]) == (200, {"open": "9-17"})
    assert program.post(f"{MEMORIES}/write", WRITE).status_code == 409
    assert program.post(f"{MEMORIES}/write", WRITE | {"version": 1, "value": None}).status_code == 200
    told = program.get(f"{MEMORIES}/history?memory=notes&key=office").json()
    rows = [(one["version"], one["became"], one["value"], one["reason"]) for one in told["entries"]]
    assert (told["count"], rows[0]) == (2, (2, "stands", None, "Told by the office."))
    assert rows[1][:2] == (1, "replaced")
    assert program.get(f"{MEMORIES}/history?memory=notes&key=never").status_code == 404


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"reason": " "}, 422),
        ({"key": "-"}, 422),
        ({"version": -1}, 422),
        ({"memory": "scratch"}, 404),
        ({"value": "x" * 10_001}, 413),
    ],
)
def test_what_is_wrong_with_a_writing_is_told_and_nothing_is_written(program, fabric_id, other, status):
    assert program.post(f"{MEMORIES}/write", WRITE | other).status_code == status
    assert program.get(MEMORIES).json()["memories"][0]["keys"] == 0


def test_all_of_it_is_a_file_that_the_audit_stream_tells_of(program, fabric_id):
    remember(fabric_id)
    answer = program.post(f"{MEMORIES}/export", query={"memory": "notes"})
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/x-ndjson")
    (line,) = b"".join(answer.streaming_content).splitlines()
    assert (json.loads(line)["key"], json.loads(line)["became"]) == ("budget", "stands")
    assert program.post(f"{MEMORIES}/export", query={"memory": "scratch"}).status_code == 404
    assert AuditLine.objects.filter(kind="memory_exported").count() == 1
