"""Finance names a new cap: over the service, and what it is refused for."""

from __future__ import annotations

import pytest

from fabric.core.flow import RunState
from fabric.management.following import Following
from fabric.selectors.escalations import escalations_open
from fabric.selectors.runs import run_events
from fabric.services.errors import Refused
from fabric.services.escalations import escalation_decide
from fabric.services.fabrics import fabric_publish
from tests.fabric.services.world import COSTLY, DOUBTFUL, ran


def asked_by(actor, source):
    (found,) = escalations_open(actor, ran(actor, fabric_publish(actor=actor, source=source).name).id)
    return found


@pytest.fixture
def item(actor):
    found = asked_by(actor, COSTLY)
    assert (found.required_role, found.content["takes_cap"], found.content["cap_usd_micros"]) == ("finance", True, 100)
    return found


@pytest.fixture
def decide(store, nudge, actor):
    def decided(item, verb="approve", **changes):
        asked = {"store": store, "nudge": nudge, "actor": actor, "escalation_id": item.id, "verb": verb}
        return escalation_decide(**asked, **changes)

    return decided


def test_the_run_goes_on_with_more_money(decide, actor, item):
    assert decide(item, cap_usd_micros=1_000_000).created
    assert decide(item, cap_usd_micros=1_000_000).created is False
    with pytest.raises(Refused, match="was answered by owner"):
        decide(item, cap_usd_micros=2_000_000)
    run = Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    assert run.state is RunState.COMPLETED
    (raised,) = [row.fact for row in run_events(actor, item.run_id, limit=500) if row.kind == "cap_raised"]
    assert (raised["cap_usd_micros"], raised["before_usd_micros"], raised["actor"]) == (1_000_000, 100, "owner")


@pytest.mark.parametrize("cap", [1, 100, 5_000_001])
def test_too_little_and_more_than_the_session_has(decide, item, cap):
    with pytest.raises(Refused, match="more than the present 100 micro-dollars, and 5,000,000 at most") as caught:
        decide(item, cap_usd_micros=cap)
    assert (caught.value.code, caught.value.field) == ("invalid", "cap_usd_micros")


def test_other_answers_and_questions_take_none(decide, actor, item):
    with pytest.raises(Refused, match="a new cap goes with the approval"):
        decide(item, "reject", message="no", cap_usd_micros=1_000_000)
    with pytest.raises(Refused, match="takes none"):
        decide(asked_by(actor, DOUBTFUL), cap_usd_micros=1_000_000)
