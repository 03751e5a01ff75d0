"""A real MCP server asks in the middle of a call: a person answers by the service, and the run goes on with the real tool port."""

from __future__ import annotations

import pytest

from fabric.core.values.flow import RunState
from fabric.management.output.reviews import review_lines
from fabric.management.run_follower import Following
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.subjects import find_review_subject
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import ran
from tests.fabric.tools.mcp.worlds import served

FABRIC = """\
name: asking
title: Booking desk
description: Books a room after the hotel's server asked a person.
mcp_servers:
  - {{name: things, transport: http, url: "http://{where}/mcp"}}
models:
  - name: script
    provider: scripted
    price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
    options:
      agents:
        clerk:
          calls:
            - - {{tool: books, args: {{room: blue}}}}
tools:
  - name: books
    kind: mcp
    target: things/books
    effect: mutating
    compensation: unbook
    description: Books a room.
    parameters: {{type: object, properties: {{room: {{type: string}}}}, required: [room]}}
  - {{name: unbook, kind: mcp, target: things/echo, effect: idempotent, description: Takes it back., parameters: {{type: object}}}}
agents:
  - {{name: clerk, model: script, instructions: Book the room., tools: [books]}}
topology:
  workers: [clerk]
  plan:
    goal: The room is booked.
    briefs: [{{agent: clerk, title: The room, instructions: Book the blue room.}}]
    exit_criteria: [It is booked.]
policy:
  budget: {{run_usd_micros: 100000}}
reviewers: [owner]
"""


@pytest.fixture(params=["2026", "before 2026"])
def run(request, actor, settings):
    with served(*(("--old",) if request.param == "before 2026" else ())) as where:
        settings.FABRIC_ALLOWED_HOSTS = (where,)
        fabric_publish(actor=actor, source=FABRIC.format(where=where))
        yield ran(actor, "asking", documents=())


@pytest.fixture
def open_item(actor, run):
    def found():
        (one,) = list_open_reviews(actor, run.id)
        return one

    return found


@pytest.fixture
def decide(store, nudge, actor):
    def decided(item, verb, **given):
        asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id, "digest": item.digest}
        return decide_review(**asked, verb=verb, **given)

    return decided


def go_on(actor, item):
    return Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()


def test_a_run_with_two_questions_comes_to_its_end(actor, run, open_item, decide):
    floor = open_item()
    about = find_review_subject(floor)
    assert (about.asks.server, about.asks.message) == ("things", "On which floor is blue?")
    assert about.asks.args == {"room": "blue"}
    assert "  fields      floor: a whole number, at least 0, at most 9 (Floor)" in review_lines(floor)
    decide(floor, "approve")  # Its default.
    assert go_on(actor, floor).state is RunState.WAITING
    sure = open_item()
    decide(sure, "edit", edited={"sure": True})
    ended = go_on(actor, sure)
    results = [row.content for row in run_events(actor, run.id, limit=500) if row.kind == "tool_answered"]
    assert ended.state is RunState.COMPLETED
    assert len(results) == 1
    issued = [
        row.fact
        for row in run_events(actor, run.id, limit=500)
        if row.kind == "call_issued" and row.fact["call"] == "tool"
    ]
    assert [one["attempt"] for one in issued] == [1, 2, 3]
    assert len({one["key"] for one in issued}) == 1


@pytest.mark.parametrize(
    ("verb", "edited", "says"),
    [
        ("edit", {"floor": 12}, "the answer does not fit the form: floor: at most 9 is taken"),
        ("edit", {"floor": "one"}, "floor: a whole number is wanted"),
        ("edit", {"stairs": 2}, "stairs: the form has no such field; it has: floor"),
        ("edit", None, "a JSON object is wanted"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_at_the_door(run, open_item, decide, verb, edited, says):
    with pytest.raises(Refused) as caught:
        decide(open_item(), verb, edited=edited)
    assert (caught.value.code, caught.value.field) == ("invalid", "edited")
    assert says in caught.value.message


def test_a_form_without_its_answers_is_not_approved(actor, run, open_item, decide):
    floor = open_item()
    decide(floor, "approve")
    go_on(actor, floor)
    with pytest.raises(Refused, match="the form is not filled in yet; edit it: sure: fill it in"):
        decide(open_item(), "approve")
