"""The sample fabrics in which workers take turns, played by the worker itself: who had the word, why, and what came of it."""

import pytest

from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Inbox
from fabric.runtime.ports.journal import Document
from fabric.selectors.runs.families import find_team
from fabric.selectors.runs.lookup import run_events, run_get, run_outcome
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.control import run_say
from fabric.services.runs.forks import run_fork
from fabric.services.runs.start import run_start
from tests.fabric.services.world import HeardNudge, ran, sample

RUNBOOK = Document(
    "runbook.md",
    "When the disk of the database is full, drop the oldest archive first. A replica that lags is not to be promoted. "
    "A release is taken back with the previous tag.",
)
PRICES = Document(
    "terms.md",
    "Shipping is charged once per invoice. A refund is paid within 14 days. The state of a refund stands in your account.",
)


def played(actor, name, text, document, *, change=("", "")):
    """A run of a sample at once: who spoke, in order, and the run."""
    source = sample(name).replace("delay_s: 0.3", "delay_s: 0").replace(*change)
    fabric_publish(actor=actor, source=source)
    run = ran(actor, name, text, (document,))
    events = run_events(actor, run.id)
    return run, [one.fact["agent"] for one in events if one.kind == "turn_opened"], events


@pytest.mark.parametrize(
    ("text", "peers"),
    [
        ("The disk of the database is full and the replica lags.", ["on-call", "database"]),
        ("The disk is full since the last release.", ["on-call", "database", "application"]),
        ("Checkout throws an exception since the deploy.", ["on-call", "application"]),
        ("Somebody has lost a badge.", ["on-call"]),
    ],
)
def test_an_incident_goes_to_whose_it_is(actor, text, peers):
    run, spoken, events = played(actor, "incident-triage", text, RUNBOOK)
    assert (run.state, spoken) == (RunState.COMPLETED, peers)
    assert [one.fact["to_agent"] for one in events if one.kind == "handed_off"] == peers[1:]
    outcome = run_outcome(actor, run.id)
    assert outcome is not None
    assert outcome["citations"] == ["runbook.md"]


@pytest.mark.parametrize(
    ("text", "desk"),
    [
        ("My invoice has the price of May. When is the refund paid?", "billing"),
        ("Where is my parcel?", "shipping"),
        ("The program shows an error when I install it.", "technical"),
        ("Do you have a shop in Lisbon?", "front-office"),
    ],
)
def test_a_message_goes_to_its_desk_and_every_answer_through_the_reviewer(actor, text, desk):
    run, spoken, events = played(actor, "support-routing", text, PRICES)
    assert (run.state, spoken) == (RunState.COMPLETED, ["router", desk, "reviewer"])
    chosen = [one.fact for one in events if one.kind == "speaker_chosen"]
    assert [(one["why"], one["close_reason"]) for one in chosen] == [
        ("transition", ""),
        ("default", ""),
        ("transition", "answered"),
    ]
    outcome = run_outcome(actor, run.id)
    assert outcome is not None
    assert outcome["citations"] == ["terms.md"]
    assert run.reason == "finished"


def test_a_desk_that_fails_is_stood_in_for(actor):
    broken = ("      agents:\n", "      agents:\n        billing: {fail: {cause: auth}}\n")
    run, spoken, events = played(actor, "support-routing", "When is the refund paid?", PRICES, change=broken)
    assert (run.state, spoken) == (RunState.COMPLETED, ["router", "billing", "front-office", "reviewer"])
    assert [one.fact["reaction"] for one in events if one.kind == "reaction_decided"] == ["route"]


def test_a_message_is_sent_into_a_conversation_once_and_nowhere_else(actor):
    source = sample("incident-triage").replace("delay_s: 0.3", "delay_s: 0")
    fabric_publish(actor=actor, source=source)
    ports = {"store": wiring.store(), "nudge": HeardNudge(), "actor": actor}
    run = run_start(**ports, fabric="incident-triage", text="The disk is full.")
    asked = {**ports, "run_id": run.run_id}
    assert run_say(**asked, text=" Mind the archive. ", start_key="one") is True
    assert run_say(**asked, text="Mind the archive.", start_key="one") is False
    with pytest.raises(Refused, match="a message without words"):
        run_say(**asked, text="  ")
    Following(actor, run.run_id).to_rest()
    (said,) = [event for event in run_events(actor, run.run_id) if event.kind == "person_said"]
    assert said.fact["actor"] == "owner"
    with pytest.raises(Refused, match="already ended"):
        run_say(**asked, text="Too late.")
    desk = ran(actor, fabric_publish(actor=actor, source=sample("research-desk")).name)
    with pytest.raises(Refused, match="already ended|no conversation"):
        run_say(**{**asked, "run_id": desk.id}, text="Hello?")


def test_a_message_reaches_a_team_in_its_own_run(actor):
    fabric_publish(actor=actor, source=sample("research-teams"))
    ports = {"store": wiring.store(), "nudge": HeardNudge(), "actor": actor}
    run = run_start(**ports, fabric="research-teams", text="What does the contract bind us to?", documents=(PRICES,))
    sent = {}

    def say(event):
        """While its team is at work: its clerk takes a moment."""
        if event.kind == "child_spawned":
            child = str(event.fact["child_id"])
            try:
                sent[child] = run_say(**ports, run_id=child, text="Mind the annex.", start_key="one")
            except Refused as refused:
                sent[child] = str(refused)

    Following(actor, run.run_id, say=say).to_rest()
    (talks,) = [child for child, taken in sent.items() if taken is True]
    assert len(sent) == 3
    assert all("has no conversation" in taken for child, taken in sent.items() if child != talks)
    assert [one.fact["actor"] for one in run_events(actor, talks) if one.kind == "person_said"] == ["owner"]
    assert not [one for one in run_events(actor, run.run_id) if one.kind == "person_said"]


def test_a_fork_of_a_team_s_run_runs_that_team_s_topology(actor):
    source = sample("research-teams").replace("delay_s: 0.3", "delay_s: 0")
    fabric_publish(actor=actor, source=source)
    run = ran(actor, "research-teams", "What does the contract bind us to?", (PRICES,))
    below = [str(one.fact["child_id"]) for one in run_events(actor, run.id) if one.kind == "child_spawned"]
    team = next(one for one in below if any(e.kind == "handed_off" for e in run_events(actor, one)))
    ports = {"store": wiring.store(), "nudge": HeardNudge(), "actor": actor}
    opened = next(one.seq for one in run_events(actor, team) if one.kind == "turn_opened")
    for seq in (1, opened):
        again = Following(actor, run_fork(**ports, run_id=team, seq=seq).run_id).to_rest()
        assert (again.state, again.reason) == (RunState.COMPLETED, "finished")
        events = run_events(actor, again.id)
        assert [one.fact["agent"] for one in events if one.kind == "turn_opened"] == ["clerk", "contracts"]
        assert not [one for one in events if one.kind == "child_spawned"]
    for one, of in ((run.id, ""), (team, "counsel"), (again.id, "counsel")):
        assert find_team(run_get(actor, one)) == of
        Inbox.objects.filter(run_id=one).update(body=b"")  # What retention does to the inputs of an old run.
        assert find_team(run_get(actor, one)) == of
    asked = run_fork(**ports, run_id=team, seq=opened)
    assert run_say(**ports, run_id=asked.run_id, text="Mind the annex.") is True
