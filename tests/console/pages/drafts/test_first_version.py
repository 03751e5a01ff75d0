"""A change request for a fabric's first version: what it may do, may spend and whom it asks stands there, its text open."""

from __future__ import annotations

import re
from html import unescape

import pytest

from console.site.access.actors import find_actor
from fabric.services.drafts.change_requests import change_approve, change_request_open
from tests.fabric.services.world import EYES, PAYING
from tests.people import member, signed_in

RICH = (
    PAYING.replace(
        "run_usd_micros: 1000000}",
        "run_usd_micros: 1000000, run_tokens: 20000}\n  humans: {four_eyes: [interactive]}",
    )
    + EYES[EYES.index("decision_table:") :]
)
"""Its calls cannot be undone, and two people agree to its changes."""


def text(page):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
def page(actor):
    """The request's page as the second person sees it."""
    ana = member("ana", "owner", "editor")
    asked = change_request_open(actor=actor, source=RICH)
    return signed_in(ana).get(f"/fabrics/paying/requests/{asked.id}").content.decode()


def test_its_tools_stand_with_effect_agents_and_hosts(page):
    said = text(page)
    assert re.search(r"pay .{0,200}?Irreversible a person approves each call \w+ \S+", said, re.IGNORECASE)
    assert "1 tool, the most harmful first" in said


def test_budgets_people_and_drills_stand_there(page):
    said = text(page)
    assert "20,000 tokens" in said
    assert re.search(r"reviewers owner\b", said)
    assert "two people in low-latency interactive" in said
    assert "drills the draft was never drilled" in said


def test_its_yaml_is_open(page):
    assert re.search(r'<details class="fold" open><summary>Show all of it', page)
    assert "name: paying" in text(page)


def test_a_change_of_a_published_fabric_shows_the_differences_instead(actor):
    asked = change_request_open(actor=actor, source=EYES)
    other = signed_in(member("ana", "editor"))
    first = other.get(f"/fabrics/small/requests/{asked.id}").content.decode()
    assert "Tools and effects" in first
    change_approve(actor=find_actor(member("ben", "editor")), request_id=asked.id, digest=asked.digest)
    again = change_request_open(actor=actor, source=EYES.replace("A small fabric", "Another"))
    page = other.get(f"/fabrics/small/requests/{again.id}").content.decode()
    assert "Tools and effects" not in page
    assert '<details class="fold"><summary>Show all of it' in page
