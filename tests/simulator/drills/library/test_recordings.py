"""Real runs of each kind of end are captured with what people did and their child runs, and end so again."""

from __future__ import annotations

import pytest

from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.management.run_follower import Following
from fabric.models import Event
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_get
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.control import run_cancel, run_terminate
from simulator.drills.library.captures import capturable, scenario_capture
from simulator.scenarios.play.player import play
from simulator.scenarios.spec.toml import dump
from simulator.scenarios.spec.words import disturbances_words
from tests.fabric.selectors.test_contents import KEY
from tests.fabric.services.reviews.decisions.test_late_answers import let_time_pass, short
from tests.fabric.services.world import COSTLY, DOUBTFUL, NOTES, PAYING, HeardNudge, ran, sample
from tests.people import fresh, member

BROKEN = """
  - name: broken
    provider: scripted
    base_url: https://broken.example.org/v1
    price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}
    options: {fail: {cause: server_error}}
tools:
"""
"""A model that is down, beside the one that answers."""
QUICK = """
policy:
  breakers: [{preset: outage, cooldown_s: 0.3}]
  retry: {base_s: 0.05}
"""


def answered(actor, run, verb, **more):
    """Answer the open review of a run, and return the run at rest."""
    (item,) = list_open_reviews(actor, run.id)
    asked = {"actor": actor, "review_id": item.id, "digest": item.digest, "verb": verb, **more}
    decide_review(store=wiring.store(), nudge=HeardNudge(), **asked)
    return Following(actor, run.id, answered=frozenset({item.id})).to_rest()


def replayed(actor, run):
    """Capture a run, and return the scenario and how it was played."""
    found = scenario_capture(actor=actor, run_id=run.id)
    one = found.view.readable()
    return found, play(revision_spec(run.revision_id), one, run.tier)


def rejected(actor):
    return answered(actor, ran(actor, fabric_publish(actor=actor, source=DOUBTFUL).name), "reject", message="No.")


def approved(actor):
    return answered(actor, ran(actor, fabric_publish(actor=actor, source=DOUBTFUL).name), "approve")


def payment_rejected(actor):
    return answered(actor, ran(actor, fabric_publish(actor=actor, source=PAYING).name), "reject", message="Too dear.")


def payment_answered(actor):
    run = ran(actor, fabric_publish(actor=actor, source=PAYING).name)
    return answered(actor, run, "respond", message="Paid by hand.")


def money_refused(actor):
    return answered(actor, ran(actor, fabric_publish(actor=actor, source=COSTLY).name), "reject", message="No.")


def expired(actor):
    run = ran(actor, fabric_publish(actor=actor, source=short(PAYING)).name)
    (item,) = list_open_reviews(actor, run.id)
    let_time_pass(item)
    return Following(actor, run.id, wait=True).to_rest()


def cancelled(actor):
    run = ran(actor, fabric_publish(actor=actor, source=DOUBTFUL).name)
    run_cancel(store=wiring.store(), nudge=HeardNudge(), actor=actor, run_id=run.id, reason="Not needed.")
    return Following(actor, run.id, wait=True).to_rest()


def terminated(actor):
    run = ran(actor, fabric_publish(actor=actor, source=DOUBTFUL).name)
    run_terminate(store=wiring.store(), nudge=HeardNudge(), actor=actor, run_id=run.id, reason="Stop.")
    return Following(actor, run.id, wait=True).to_rest()


def key_refused(actor):
    source = PAYING.replace("options: {", "options: {fail: {cause: auth}, ")
    return ran(actor, fabric_publish(actor=actor, source=source).name)


ENDS = {
    "rejected by a person": (rejected, RunState.ABORTED),
    "approved by a person": (approved, RunState.COMPLETED),
    "a payment rejected": (payment_rejected, None),
    "a payment answered in its place": (payment_answered, None),
    "money refused by finance": (money_refused, RunState.ABORTED),
    "expired unanswered": (expired, None),
    "cancelled by a person": (cancelled, RunState.CANCELLED),
    "terminated by a person": (terminated, RunState.ABORTED),
    "a key that the provider refuses": (key_refused, None),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_comes_again_by_its_cause(actor, end):
    making, state = ENDS[end]
    run = making(actor)
    assert run.terminal, run.state
    assert state in (None, run.state)
    found, again = replayed(actor, run)
    assert (again.verdict, again.why) == ("pass", ""), found.view.source
    assert again.during.state == run.state
    assert any("recorded run is replayed" in one for one in disturbances_words(found.view.readable()))


def test_a_child_run_that_failed_fails_again(actor):
    """The model of a team's readers is down."""
    source = sample("research-teams").replace("\ntools:\n", BROKEN, 1).replace("\npolicy:\n", QUICK, 1)
    for agent in ("reader", "searcher"):
        source = source.replace(f"  - name: {agent}\n    model: script\n", f"  - name: {agent}\n    model: broken\n")
    run = ran(actor, fabric_publish(actor=actor, source=source).name)
    assert "server_error" in run.cause or run.state != RunState.COMPLETED, (run.state, run.cause)
    children = Event.objects.filter(run_id=run.id, kind="child_spawned")
    assert children.exists()
    found, again = replayed(actor, run)
    calls = [one for one in found.view.readable().recorded if one.kind == "model"]
    assert {bool(one.child) for one in calls} == {True, False}
    assert (again.verdict, again.why) == ("pass", ""), found.view.source
    # Calls of sisters that were out when one failed may go out in one of the two alone.
    assert children.count() < again.struck["recorded"] <= len(found.view.readable().recorded)


def test_credentials_stay_masked_and_the_scenario_says_so(actor):
    fabric = fabric_publish(actor=actor, source=DOUBTFUL).name
    notes = replace(NOTES, text=f"{NOTES.text} The key is {KEY}.")
    run = answered(actor, ran(actor, fabric, f"What opens {KEY}?", documents=(notes,)), "reject", message="No.")
    found = scenario_capture(actor=actor, run_id=run.id)
    assert KEY not in found.view.source
    assert "holds a credential, which stays masked" in found.view.readable().description
    assert any(one.startswith("a document holds a credential") for one in found.left_out)


def test_contents_that_are_withheld_are_not_copied(actor):
    run = rejected(actor)
    viewer = fresh(member("ben", "viewer"))
    assert not run_get(viewer, run.id).reads
    scenario, left_out = capturable(viewer, run.id)
    assert not scenario.recorded
    assert NOTES.text not in dump(scenario)
    assert "What do the notes say?" not in dump(scenario)
    assert "its contents are withheld from you: its failures are repeated without them" in left_out


def test_contents_that_were_erased_leave_the_failures(actor):
    run = rejected(actor)
    Event.objects.filter(run_id=run.id, kind="model_answered").update(payload=None)
    found = scenario_capture(actor=actor, run_id=run.id)
    assert not found.view.readable().recorded
    assert {one.fault for one in found.view.readable().disturbance} == {"unsure"}
    assert "contents of it were erased: its failures are repeated without them" in found.left_out
