"""Forking a run from one of its events."""

import json

import pytest

from fabric.core.state.kept_work import answer_named
from fabric.core.values.flow import RunState, Stage
from fabric.management.run_follower import Following
from fabric.models import Event, Run
from fabric.selectors.runs.lookup import run_get, run_outcome
from fabric.selectors.runs.replay import replay_run
from fabric.selectors.stored_events import read_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.forks import ForkEdit, fork_origin, run_fork
from tests.fabric.services.world import NOTES, SMALL, ran


@pytest.fixture
def ports(store, nudge, actor):
    return {"store": store, "nudge": nudge, "actor": actor}


@pytest.fixture
def origin(actor, small):
    return ran(actor, small)


def seq_of(run_id, kind, stage=""):
    return event_of(run_id, kind, stage).seq


def event_of(run_id, kind, stage=""):
    found = read_events(Event.objects.filter(run_id=run_id), kinds=(kind,))
    return next(one for one in found if f'"{stage}"'.encode() in one.header or not stage)


def entered(run_id):
    found = read_events(Event.objects.filter(run_id=run_id), kinds=("stage_entered",))
    return [stage for one in found for stage in Stage if f'"stage":"{stage}"'.encode() in one.header]


def test_a_fork_goes_on_where_its_origin_stood_and_leaves_it_as_it_was(ports, actor, origin):
    before = list(Event.objects.filter(run_id=origin.id).values_list("hash", flat=True))
    seq = seq_of(origin.id, "stage_entered", "fan_in")
    started = run_fork(**ports, run_id=origin.id, seq=seq)
    run = Following(actor, started.run_id).to_rest()
    assert run.state is RunState.COMPLETED
    assert entered(run.id) == [Stage.FAN_IN, Stage.VALIDATE, Stage.FINALIZE]
    assert run_outcome(actor, run.id)["text"] == run_outcome(actor, origin.id)["text"]
    assert (run.fabric_name, run.revision_id, run.tier) == (origin.fabric_name, origin.revision_id, origin.tier)
    assert run_get(actor, run.id).documents == (NOTES.name,)
    row = Run.objects.get(id=run.id)
    assert (row.origin_run_id, row.origin_seq) == (origin.id, seq)
    assert list(Event.objects.filter(run_id=origin.id).values_list("hash", flat=True)) == before
    assert replay_run(actor, run.id).differences == ()


def test_the_same_start_key_is_the_same_fork_and_another_request_under_it_is_refused(ports, origin):
    first = run_fork(**ports, run_id=origin.id, seq=1, start_key="k")
    again = run_fork(**ports, run_id=origin.id, seq=1, start_key="k")
    assert (again.run_id, again.created) == (first.run_id, False)
    with pytest.raises(Refused) as caught:
        run_fork(**ports, run_id=origin.id, seq=2, start_key="k")
    assert caught.value.code == "conflict"


def test_an_edited_request_begins_at_the_plan(ports, actor, origin):
    edit = ForkEdit("request", "What is the deadline?")
    started = run_fork(**ports, run_id=origin.id, seq=origin.last_seq - 2, edit=edit)
    run = Following(actor, started.run_id).to_rest()
    assert run.title == "What is the deadline?"
    assert entered(run.id) == list(Stage)


def test_an_edited_plan_is_what_the_fork_follows_and_what_came_after_it_is_done_anew(ports, actor, origin):
    there = fork_origin(store=ports["store"], actor=actor, run_id=origin.id, seq=origin.last_seq - 2)
    assert there.editable == ("request", "plan", "fan_in", "validate")
    plan = there.output("plan")
    plan["briefs"] = [{**plan["briefs"][0], "title": "Only this"}]
    started = run_fork(**ports, run_id=origin.id, seq=there.seq, edit=ForkEdit("plan", plan))
    run = Following(actor, started.run_id).to_rest()
    assert run.state is RunState.COMPLETED
    assert entered(run.id) == list(Stage)[1:]
    assert event_of(run.id, "stage_entered", "fan_out").header.count(b'"reader"') == 1


def taken_over(run_id):
    """Return what answers of tools a fork took over, by stage and tool."""
    rows = Event.objects.filter(run_id=run_id, kind="content_kept").order_by("seq").values_list("header", flat=True)
    return [named for header in rows if (named := answer_named(json.loads(bytes(header).split(b"\n")[0])["d"]["what"]))]


def test_what_tools_answered_goes_with_it_where_answers_are_held_against_that(ports, actor):
    source = SMALL.replace("policy:", "gates: {grounding: quotes}\npolicy:")
    origin = ran(actor, fabric_publish(actor=actor, source=source).name)
    there = fork_origin(store=ports["store"], actor=actor, run_id=origin.id, seq=origin.last_seq - 2)
    whole = Following(actor, run_fork(**ports, run_id=origin.id, seq=there.seq).run_id).to_rest()
    assert whole.state is RunState.COMPLETED
    assert set(taken_over(whole.id)) == {(Stage.FAN_OUT, "read_document")}
    assert replay_run(actor, whole.id).differences == ()
    told = ForkEdit("fan_in", there.output("fan_in"))
    joined = run_fork(**ports, run_id=origin.id, seq=there.seq, edit=told)
    run = Following(actor, joined.run_id).to_rest()
    assert taken_over(run.id) == taken_over(whole.id)
    planned = run_fork(**ports, run_id=origin.id, seq=there.seq, edit=ForkEdit("plan", there.output("plan")))
    again = Following(actor, planned.run_id).to_rest()
    assert again.state is RunState.COMPLETED
    assert taken_over(again.id) == []


def test_what_does_not_fit_is_refused_with_its_path_and_nothing_is_started(ports, origin):
    seq = origin.last_seq - 2
    for edit, said in (
        (ForkEdit("plan", {"briefs": []}), "the edited output of plan does not fit: .*"),
        (
            ForkEdit("finalize", {}),
            "'finalize' cannot be edited at event .*; possible are: request, plan, fan_in, validate",
        ),
        (ForkEdit("request", "  "), "the request is empty"),
    ):
        with pytest.raises(Refused, match=said):
            run_fork(**ports, run_id=origin.id, seq=seq, edit=edit)
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("seq", "said"), [(0, "has events 1 to"), (10_000, "and no event 10000"), (None, "nothing is left to do")]
)
def test_an_event_that_cannot_be_forked_is_named(ports, origin, seq, said):
    with pytest.raises(Refused, match=said):
        run_fork(**ports, run_id=origin.id, seq=origin.last_seq if seq is None else seq)


def test_no_member_forks_a_run_of_another_workspace(ports, origin, stranger):
    with pytest.raises(Refused) as caught:
        run_fork(**ports | {"actor": stranger}, run_id=origin.id, seq=1)
    assert caught.value.code == "not_found"


def test_a_run_that_waits_can_be_forked_while_it_waits(ports, actor, doubtful):
    origin = ran(actor, doubtful)
    assert origin.state is RunState.WAITING
    started = run_fork(**ports, run_id=origin.id, seq=origin.last_seq)
    assert Following(actor, started.run_id).to_rest().state is RunState.WAITING
    assert run_get(actor, origin.id).state is RunState.WAITING
