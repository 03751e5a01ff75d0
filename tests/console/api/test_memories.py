"""Memories over the API: listed with what stands in them, one key deleted on the version that was listed."""

import pytest

from fabric.models import AuditLine
from fabric.selectors.fabrics import fabric_get
from fabric.services.fabrics import fabric_publish
from tests.console.bad_input import remember
from tests.fabric.services.test_memories import REMEMBERING

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
