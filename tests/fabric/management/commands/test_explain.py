"""`explain`: every decision with its reasons, and exit code 1 where one does not follow from the journal."""

from __future__ import annotations

import json
from typing import get_args

from fabric.core.derivation import compare
from fabric.models import Event, Run, Workspace
from fabric.selectors.explain import VERDICTS
from fabric.services.fabrics import fabric_publish
from fabric.services.retention import retention_apply, retention_set
from tests.fabric.management.console import command
from tests.fabric.services.world import SMALL, ran
from tests.unguarded import unguarded


def test_every_verdict_has_its_words():
    assert set(VERDICTS) == set(get_args(compare.Verdict))


def looping(actor):
    source = SMALL.replace("name: small", "name: looping").replace(
        "    provider: scripted\n",
        "    provider: scripted\n    options: {agents: {reader: {calls: "
        "[[{tool: read_document, args: {name: x}}], [{tool: read_document, args: {name: x}}], [{tool: read_document, args: {name: x}}]]}}}\n",
    )
    return ran(actor, fabric_publish(actor=actor, source=source).name)


def test_a_run_that_needed_nothing(actor, small):
    done = command("explain", ran(actor, small).id)
    assert (done.code, "needed no decision" in done.out) == (0, True)


def test_a_loop_is_explained(actor):
    run = looping(actor)
    done = command("explain", run.id, "--json")
    assert (done.code, done.last["derives"]) == (0, True)
    first = done.last["decisions"][0]
    # semantics.md 3 and 4: the third equal call in five is told about once.
    assert (first["failure_type"], first["reaction"], first["rung"]) == ("infinite_tool_loop", "inject", 1)
    assert tuple(first["trips"][0][name] for name in ("mechanism", "observed", "limit")) == ("loop_detector", 3, 3)
    assert first["classes"] == ["inter_agent_misalignment", "verification_and_termination"]
    assert {one["tier"]: one["reaction"] for one in first["other_tiers"]} == {
        "batch": "inject",
        "high_stakes": "escalate",
    }
    assert first["followed"][0]["kind"] == "message_injected"
    assert first["derivation"] == "equal"
    told = command("explain", run.id).out
    assert "limit 3" in told
    assert "high stakes would have: escalate" in told
    assert VERDICTS["equal"] in told


def test_a_question_and_its_answer_follow(actor, doubtful):
    run = ran(actor, doubtful)
    (one,) = command("explain", run.id, "--json").last["decisions"]
    assert (one["failure_type"], one["reaction"], one["derivation"]) == (None, "escalate", "equal")
    assert one["followed"][0]["kind"] == "escalation_opened"


def test_what_was_tampered_with_does_not_derive(actor):
    run = looping(actor)
    decided = Event.objects.filter(run_id=run.id, kind="reaction_decided").order_by("seq").first()
    header = json.loads(bytes(decided.header))
    header["d"]["reaction"] = "abort"
    with unguarded():
        Event.objects.filter(run_id=run.id, seq=decided.seq).update(header=json.dumps(header).encode())
    done = command("explain", run.id)
    assert done.code == 1
    assert "reaction: recorded abort, derived inject" in done.out
    assert command("explain", run.id, "--json").last["decisions"][0]["derivation"] == "different"


def test_what_is_not_there(actor, small):
    done = command("explain", "nothing")
    assert (done.code, done.out) == (2, "")
    assert "there is no run 'nothing' in this workspace" in done.err
    run = ran(actor, small)
    other = Workspace.objects.create(name="other")
    Run.objects.filter(id=run.id).update(workspace_id=other.id)
    done = command("explain", run.id)
    assert (done.code, done.out) == (2, "")
    assert "in this workspace" in done.err


def test_what_was_erased_is_said_and_the_decisions_stay(actor):
    run = looping(actor)
    retention_set(actor=actor, days=1)
    retention_apply(now=(run.ended_at or 0) + 40 * 86_400 * 1_000_000)
    done = command("explain", run.id, "--json")
    assert (done.code, done.last["erased"], done.last["derives"]) == (0, True, True)
    assert "was erased by retention" in done.err
    assert done.last["decisions"][0]["trips"][0]["observed"] == 3


def test_a_journal_with_a_hole_is_one_sentence(actor):
    run = looping(actor)
    with unguarded():
        Event.objects.filter(run_id=run.id, seq=3).delete()
    done = command("explain", run.id)
    assert (done.code, done.out) == (2, "")
    assert "event 3 is missing" in done.err
