"""Credentials in what a fabric remembers are masked for all members, and revealed to the role safety alone, by an act that the audit stream tells."""

from __future__ import annotations

import json

import pytest

from fabric.models import MemoryEntry
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.services.fabrics.revisions import fabric_publish
from tests.console.api.reviews.test_revealed_contents import KEY, MASK, text, told
from tests.console.bad_input import remember
from tests.fabric.services.memories.test_changes import REMEMBERING
from tests.people import member, signed_in

PAGE = "/fabrics/remembering/memory/notes"
API = "/api/v1/fabrics/remembering/memories"
AT = {"key": "budget", "version": 2}


@pytest.fixture
def fabric_id(actor):
    """A fabric that remembers two keys, one over the other."""
    fabric_publish(actor=actor, source=REMEMBERING)
    found = fabric_get(actor, "remembering").id
    remember(found, value=json.dumps(f"old {KEY}"))
    remember(found, version=2, value=json.dumps({"pay_with": KEY}))
    MemoryEntry.objects.filter(version=2).update(reason=f"It is {KEY} now.", actor="ann", run_id="")
    return found


@pytest.mark.parametrize("address", ["/fabrics/remembering?tab=memory", f"{PAGE}?key=budget"])
def test_pages_mask_it(browser, fabric_id, address):
    page = text(browser.get(address))
    assert KEY not in page
    assert MASK in page


def test_the_api_and_the_export_mask_it_and_say_that_they_do(program, fabric_id):
    (notes, _) = program.get(API).json()["memories"]
    assert [(one["value"], one["withheld"]) for one in notes["entries"]] == [({"pay_with": MASK}, True)]
    history = program.get(f"{API}/history?memory=notes&key=budget").json()["entries"]
    assert [(one["value"], one["reason"]) for one in history] == [
        ({"pay_with": MASK}, f"It is {MASK} now."),
        (f"old {MASK}", ""),
    ]
    lines = b"".join(program.post(f"{API}/export", {}).streaming_content).decode()
    assert (KEY in lines, lines.count(MASK)) == (False, 3)


def test_the_reviewer_has_one_version_revealed_and_that_is_told(browser, program, fabric_id):
    assert f'action="{PAGE}/reveal"' in text(browser.get(f"{PAGE}?key=budget"))
    revealed = text(browser.post(f"{PAGE}/reveal", AT))
    assert KEY in revealed
    assert f"old {KEY}" not in revealed
    assert f'action="{PAGE}/reveal"' not in revealed
    assert told() == [("owner", fabric_id, {"memory": "notes", **AT})]
    old = program.post(f"{API}/reveal", {"memory": "notes", "key": "budget", "version": 1}).json()["entries"]
    assert [one["value"] for one in old] == [{"pay_with": MASK}, f"old {KEY}"]
    assert len(told()) == 2
    assert KEY not in text(browser.get(f"{PAGE}?key=budget")), "one look, one line"


def test_others_are_refused_and_nothing_is_told(fabric_id):
    ben = signed_in(member("ben", "operator"))
    page = text(ben.get(f"{PAGE}?key=budget"))
    assert "/reveal" not in page
    refused = ben.post(f"{PAGE}/reveal", AT)
    assert (refused.status_code, KEY in text(refused)) == (403, False)
    assert told() == []


def test_nothing_to_reveal_is_said(browser, fabric_id):
    remember(fabric_id, key="plain")
    assert browser.post(f"{PAGE}/reveal", {"key": "plain", "version": 1}).status_code == 409
    assert browser.post(f"{PAGE}/reveal", {"key": "plain", "version": "x"}).status_code == 409
    assert told() == []


def test_a_mark_is_not_written_in_place_of_what_it_stands_for(browser, fabric_id):
    given = {"act": "write", **AT, "reason": "Again.", "value": json.dumps({"pay_with": MASK})}
    refused = browser.post(PAGE, given)
    assert refused.status_code == 422
    assert "the value holds a mark in place of a credential" in text(refused).lower()
    assert MemoryEntry.objects.filter(key="budget").count() == 2
