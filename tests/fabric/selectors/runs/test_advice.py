"""A page advises what to do about a run, by the cause of its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailureType, Tier
from fabric.models import Event
from fabric.selectors.runs.lookup import run_get, write_advice
from tests.fabric.selectors.journals import Teller, write
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded


def decided(cause: Cause, message: str) -> ev.ReactionDecided:
    return ev.ReactionDecided(
        failure_type=FailureType.PROVIDER,
        tier=Tier.INTERACTIVE,
        table="t",
        rung=0,
        reaction="surface",
        scope="stage:fan_out",
        spent=0,
        bound=None,
        cause=ev.TripRecord(mechanism="provider", cause=cause, message=message),
    )


def ended(actor, small, reason, *facts):
    run = ran(actor, small)
    with unguarded():
        Event.objects.filter(run_id=run.id).delete()
    teller = Teller().start().tell(*facts)
    teller.tell(ev.RunEnded(state=RunState.FAILED, reason=reason, reaction="surface"))
    write(run.id, teller.events)
    return run_get(actor, run.id)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ([(Cause.TIMEOUT, "it was slow"), (Cause.AUTH, "the key was refused")], Cause.AUTH),
        ([(Cause.AUTH, "the key was refused"), (Cause.TIMEOUT, "it was slow")], Cause.AUTH),
        ([(Cause.AUTH, "the key was refused"), (Cause.PARTIAL_FAN_IN, "the key was refused")], Cause.AUTH),
        ([(Cause.PARTIAL_FAN_IN, "a: the key was refused (2 of 3)")], Cause.PARTIAL_FAN_IN),
        ([(Cause.TIMEOUT, "it was slow")], Cause.TIMEOUT),
    ],
)
def test_the_cause_that_the_reason_names_says_what_to_do(actor, small, facts, cause):
    run = ended(actor, small, "the key was refused", *(decided(*fact) for fact in facts))
    assert write_advice(run) == CLASSIFY[cause].advice


def test_where_nothing_went_wrong_nothing_is_to_be_done(actor, small):
    run = ended(actor, small, "it is down", decided(Cause.SERVER_ERROR, "it is down"))
    assert write_advice(run)
    assert write_advice(replace(run, state=RunState.COMPLETED)) == ""
    assert write_advice(ended(actor, small, "no person decided")) == ""
