"""The samples of a debate, a procedure and teams, played by the worker itself, and the pages of their runs."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client

from fabric.core.values.flow import RunState
from fabric.models import Run
from fabric.runtime.ports.journal import Document
from fabric.selectors.runs.lookup import run_events, run_get, run_outcome
from fabric.services.actors import login_link_create
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.composition.installation import installation
from tests.fabric.services.world import ran, sample

VENDOR = Document(
    "vendor.md",
    "Northwind delivered on time in eleven of twelve months and its quality was reliable. The agreed price is fixed until May. "
    "In March a delay of nine days cost us a penalty of 4,000 euros. The price will increase by 12 percent after May. "
    "The contract renews for another year unless notice is given three months before its end.",
)


def played(actor, name):
    """A run of a sample at once, and its events."""
    fabric_publish(actor=actor, source=sample(name).replace("delay_s: 0.3", "delay_s: 0"))
    run = ran(actor, name, "Should we renew with the vendor for another year, or leave?", (VENDOR,))
    assert run.state is RunState.COMPLETED
    return run, list(run_events(actor, run.id, limit=500)), run_outcome(actor, run.id)


def test_two_sides_argue_from_the_same_document_and_a_judge_decides(actor):
    run, events, outcome = played(actor, "vendor-debate")
    turns = [one.fact["agent"] for one in events if one.kind == "turn_opened"]
    assert turns == ["stay", "leave", "sceptic", "stay", "leave", "sceptic", "judge"]
    said = [one.content["output"] for one in events if one.kind == "model_answered" and "output" in one.content]
    first, second = said[0]["text"], said[1]["text"]
    assert first != second, "each has its own case"
    assert "delivered on time" in first
    assert "delay of nine days" in second
    assert outcome["text"].startswith("The verdict is for ")
    assert outcome["citations"] == ["vendor.md"]


def test_a_contract_is_checked_item_by_item_with_a_typed_artifact(actor):
    run, events, outcome = played(actor, "contract-check")
    turns = [(one.fact["agent"], one.fact["hears"]) for one in events if one.kind == "turn_opened"]
    assert turns == [("clerk", []), ("lawyer", [0]), ("accountant", [0]), ("clerk", [0, 1, 2])]
    said = [one.content["output"] for one in events if one.kind == "model_answered" and "output" in one.content]
    assert [sorted(one["data"]) for one in said if "data" in one] == [["clauses", "risk"]]
    assert outcome["citations"] == ["vendor.md"]


@pytest.mark.parametrize("name", ["vendor-debate", "contract-check"])
def test_the_pages_of_its_run_are_there_and_each_decision_derives(actor, name, capsys):
    run, *_ = played(actor, name)
    looked_at(run.id)
    call_command("explain", run.id)
    assert "differ" not in capsys.readouterr().out.lower().replace("nothing differs", "")


def looked_at(run_id):
    """The pages of a run, as its owner sees them."""
    client = Client(HTTP_HOST="127.0.0.1")
    client.post("/login/link", {"token": login_link_create(get_user_model().objects.get())})
    for path in ("", "?tab=graph", "?tab=timeline"):
        assert client.get(f"/runs/{run_id}{path}").status_code == 200, path
    return client


@pytest.mark.django_db(transaction=True)
def test_teams_answer_as_runs_of_their_own_within_their_caps():
    with installation() as site:
        source = sample("research-teams").replace("delay_s: 0.3", "delay_s: 0")
        fabric_publish(actor=site.actor, source=source)
        run_id = site.start("research-teams", "What do we know of the vendor?", (VENDOR,))
        row = site.rest(run_id)
        assert row.state == "completed", row.reason
        spawned = [one.fact for one in site.events(run_id) if one.kind == "child_spawned"]
        assert {one["reserved_usd_micros"] for one in spawned} == {15_000}
        below = [run_get(site.actor, str(one["child_id"])) for one in spawned]
        assert [one.state for one in below] == ["completed"] * 3
        assert Run.objects.count() == 4
        passed = [e.fact for one in below for e in site.events(one.id) if e.kind == "handed_off"]
        assert [(one["from_agent"], one["to_agent"]) for one in passed] == [("clerk", "contracts")]
        assert site.outcome(run_id)["citations"] == ["vendor.md"]
        for one in (row, *below):
            client = looked_at(one.id)
            call_command("explain", str(one.id))
        talked = next(one.id for one in below if any(e.kind == "handed_off" for e in site.events(one.id)))
        shown = client.get(f"/runs/{talked}?view=graph").content.decode()
        assert 'Agent graph</h2><span class="sub">peer handoff' in shown
        assert "clerk handed over by transfer" in shown
        assert "analyst" not in shown, "its own team's topology is shown, and not the fabric's"
        page = client.get("/fabrics/research-teams?tab=topology").content.decode()
        assert "leads searcher, checker" in page
        assert "team of counsel: peer handoff, at most 5 hops" in page
