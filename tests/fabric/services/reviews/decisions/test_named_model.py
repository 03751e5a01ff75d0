"""A person names the other model when they approve a failure in high-stakes: over the service, and what it is refused for."""

from __future__ import annotations

import pytest

from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import DOUBTFUL, SPARED, SPARED_STRICT, ran


def facts(actor, run_id, kind):
    return [row.fact for row in run_events(actor, run_id, limit=500) if row.kind == kind]


def asked_by(actor, source):
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=source).name).id)
    return found


@pytest.fixture
def decide(store, nudge, actor):
    def decided(item, verb="approve", **changes):
        asked = {
            "store": store,
            "nudge": nudge,
            "actor": actor,
            "review_id": item.id,
            "digest": item.digest,
            "verb": verb,
        }
        return decide_review(**asked, **{"message": "Yes.", **changes})

    return decided


def test_interactive_goes_on_with_the_other_model_by_itself(actor):
    run = ran(actor, fabric_publish(actor=actor, source=SPARED).name)
    assert run.state is RunState.COMPLETED
    swapped = facts(actor, run.id, "model_changed")
    assert {(one["before"], one["model"], one["cause"], one["actor"]) for one in swapped} == {
        ("script", "spare", "server_error", "")
    }


def test_high_stakes_goes_on_with_the_model_that_a_person_named(decide, actor):
    item = asked_by(actor, SPARED_STRICT)
    assert (item.content["takes_model"]["model"], item.content["takes_model"]["before"]) == ("spare", "script")
    assert facts(actor, item.run_id, "model_changed") == []
    assert decide(item, model="spare").created
    assert decide(item, model="spare").created is False
    with pytest.raises(Refused, match="was answered by owner"):
        decide(item)
    Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    (swapped,) = facts(actor, item.run_id, "model_changed")
    assert (swapped["model"], swapped["actor"]) == ("spare", "owner")


def test_a_model_that_was_not_asked_about_is_refused(decide, actor):
    item = asked_by(actor, SPARED_STRICT)
    with pytest.raises(Refused, match="asks about model 'spare', not about 'script'") as caught:
        decide(item, model="script")
    assert (caught.value.code, caught.value.field) == ("invalid", "model")
    with pytest.raises(Refused, match="another model goes with the approval"):
        decide(item, "reject", message="no", model="spare")
    with pytest.raises(Refused, match="takes none"):
        decide(asked_by(actor, DOUBTFUL), model="spare")
