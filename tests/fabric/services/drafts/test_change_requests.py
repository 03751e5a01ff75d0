"""A second person: where one is needed, who that may be, what the agreement is bound to, and by which ways one cannot get round it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from fabric.core.people.actor import Actor
from fabric.core.spec.second_person import second_wanted
from fabric.models import AuditLine, ChangeRequest, Draft, Fabric, Member, Revision
from fabric.selectors.drafts.change_requests import ChangeState, change_request_get, change_requests
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.actors import find_actor
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.change_requests import (
    DONE,
    change_approve,
    change_reject,
    change_request_open,
    change_withdraw,
)
from fabric.services.drafts.publication import draft_publish, draft_request
from fabric.services.fabrics.comparison import fabric_dry_run
from fabric.services.fabrics.revisions import fabric_publish, fabric_revert
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.edits import PutEdit
from tests.fabric.services.world import EYES, SMALL, published_by_two
from tests.people import member

pytestmark = pytest.mark.django_db
OTHER = EYES.replace("title: A small fabric", "title: Another title")


@pytest.fixture
def ana() -> Actor:
    return find_actor(member("ana", "editor", "reviewer"))


@pytest.fixture
def ben() -> Actor:
    return find_actor(member("ben", "editor", "reviewer"))


@pytest.fixture
def eyes(actor: Actor, ana: Actor, ben: Actor) -> str:
    """A published fabric to whose changes two people agree."""
    return published_by_two(actor, EYES).name


def title_now(actor: Actor, name: str = "small") -> str:
    return revision_get(actor, name).spec.title


def raises(code: str, match: str):
    return pytest.raises(Refused, match=match, check=lambda error: error.code == code)


@pytest.mark.parametrize(
    ("before", "after", "tiers"),
    [
        (None, SMALL, ()),
        (SMALL, SMALL, ()),
        (None, EYES, ("interactive",)),
        (EYES, SMALL, ("interactive",)),
        (SMALL, EYES, ("interactive",)),
        # A tier that no run can ask for has no second pair of eyes.
        (None, EYES.replace("title:", "tiers: {allowed: [batch], default: batch}\ntitle:"), ()),
        (EYES, SMALL.replace("title:", "tiers: {allowed: [batch], default: batch}\ntitle:"), ("interactive",)),
    ],
)
def test_two_are_needed_where_either_side_has_four_eyes(before, after, tiers):
    stored = fabric_read(before).spec.model_dump(mode="json", by_alias=True) if before else None
    assert second_wanted(stored, fabric_read(after).spec) == tiers


def test_no_way_of_publishing_gets_round_it(actor, ana, eyes):
    said = "each change of fabric 'small' needs two people"
    for source in (OTHER, SMALL):  # Changing it, and taking the four eyes away.
        with raises("conflict", said):
            fabric_publish(actor=actor, source=source)
        with raises("conflict", said):
            fabric_publish(actor=actor, source=source, expect=1)
        assert fabric_dry_run(actor=actor, source=source).second
    drafts.draft_of_fabric(actor=ana, name=eyes)
    step = drafts.draft_replace(actor=ana, name=eyes, step=0, text=OTHER).step
    with raises("conflict", said):
        draft_publish(actor=ana, name=eyes, step=step)
    assert (title_now(actor), Revision.objects.count()) == ("A small fabric", 1)
    asked = draft_request(actor=ana, name=eyes, step=step)
    change_approve(actor=actor, request_id=asked.id, digest=asked.digest)
    with raises("conflict", said):
        fabric_revert(actor=actor, name=eyes, number=1)
    assert title_now(actor) == "Another title"


def test_an_agreement_publishes_exactly_what_was_asked_for(actor, ana, ben, eyes):
    drafts.draft_of_fabric(actor=ana, name=eyes)
    step = drafts.draft_replace(actor=ana, name=eyes, step=0, text=OTHER).step
    asked = draft_request(actor=ana, name=eyes, step=step, message="The old title was dull.")
    assert (asked.state, asked.author, asked.base, asked.message) == ("open", "ana", 1, "The old title was dull.")
    assert title_now(actor) == "A small fabric"
    done = change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    assert (done.number, done.digest, done.changed, done.was) == (2, asked.digest, True, 1)
    assert (title_now(actor), revision_get(actor, eyes).source) == ("Another title", OTHER)
    assert revision_get(actor, eyes).published_by == "ana"
    found = change_request_get(actor, asked.id)
    assert (found.state, found.decided_by, found.published) == ("published", "ben", 2)
    assert not Draft.objects.exists()
    assert change_requests(actor) == []
    (line,) = AuditLine.objects.filter(kind="fabric_published", actor="ben")
    assert b'"author":"ana"' in line.body.replace(b" ", b"")
    assert asked.id.encode() in line.body


@pytest.mark.parametrize(
    ("digest", "code", "said"),
    [
        (
            "",
            "invalid",
            "an approval names the content it approves: give the digest of the change, or at least its first 8 characters",
        ),
        ("{:.7}", "invalid", "an approval names the content it approves"),
        ("0" * 32, "conflict", "is about another content than was shown"),
    ],
    ids=["none", "too short", "another"],
)
def test_no_person_agrees_to_unseen_content(actor, ana, ben, eyes, digest, code, said):
    asked = change_request_open(actor=ana, source=OTHER)
    with raises(code, said):
        change_approve(actor=ben, request_id=asked.id, digest=digest.format(asked.digest))
    assert change_request_get(actor, asked.id).waits
    assert title_now(actor) == "A small fabric"
    assert change_approve(actor=ben, request_id=asked.id, digest=asked.digest[:8]).number == 2


def test_a_draft_that_was_changed_since_stays(ana, ben, eyes):
    """The command's request differs from the draft."""
    drafts.draft_of_fabric(actor=ana, name=eyes)
    asked = change_request_open(actor=ana, source=OTHER)
    drafts.draft_change(actor=ana, name=eyes, step=0, edits=[PutEdit(("title",), "Mine")], what="title")
    assert change_request_get(ana, asked.id).waits
    change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    assert Draft.objects.get().text != OTHER


@pytest.mark.parametrize("who", ["the author", "a service account", "a viewer", "the system", "the owner alone"])
def test_who_may_not_agree(actor, ana, eyes, who):
    by = actor if who == "the owner alone" else ana
    asked = change_request_open(actor=by, source=OTHER)
    them = {
        "the author": ana,
        "a service account": replace(ana, name="ci", kind="service"),
        "a viewer": replace(ana, name="vi", roles=frozenset({"viewer"})),
        "the system": replace(ana, name="system", kind="system"),
        "the owner alone": actor,
    }[who]
    for act in (partial(change_approve, digest=asked.digest), partial(change_reject, reason="No.")):
        with raises("forbidden", "cannot approve it|is no person|may not agree"):
            act(actor=them, request_id=asked.id)
    assert change_request_get(actor, asked.id).waits
    assert title_now(actor) == "A small fabric"


def test_an_author_who_may_publish_no_more_is_no_second_person(actor, ana, ben, eyes):
    asked = change_request_open(actor=ana, source=OTHER)
    Member.objects.filter(name="ana").update(roles="viewer")
    with raises("conflict", "ana, who asked for this, may not publish fabrics any more"):
        change_approve(actor=ben, request_id=asked.id, digest=asked.digest)


def test_a_changed_draft_voids_its_request(actor, ana, ben, eyes):
    drafts.draft_of_fabric(actor=ana, name=eyes)
    step = drafts.draft_replace(actor=ana, name=eyes, step=0, text=OTHER).step
    ways = (
        lambda at: drafts.draft_change(
            actor=ana, name=eyes, step=at, edits=[PutEdit(("title",), "Third")], what="title"
        ),
        lambda at: drafts.draft_undo(actor=ana, name=eyes, step=at),
        lambda at: drafts.draft_redo(actor=ana, name=eyes, step=at),
        lambda at: drafts.draft_discard(actor=ana, name=eyes, step=at),
    )
    for way in ways:
        asked = draft_request(actor=ana, name=eyes, step=step)
        after = way(step)
        step = after.step if after else 0
        found = change_request_get(ben, asked.id)
        assert (found.state, found.reason.startswith("the draft was")) == ("voided", True)
        with raises("conflict", "was voided by ana already"):
            change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    assert AuditLine.objects.filter(kind="change_voided").count() == len(ways)


def test_a_base_that_moved_makes_it_stale(actor, ana, ben, eyes):
    first, second = (
        change_request_open(actor=who, source=EYES.replace("A small fabric", f"Of {who.name}")) for who in (ana, ben)
    )
    change_approve(actor=ben, request_id=first.id, digest=first.digest)
    found = change_request_get(ana, second.id)
    assert (found.state, found.waits, found.base, found.now) == (ChangeState.STALE, False, 1, 2)
    with raises("conflict", "r2 is published by now, and this is a change of r1: ben has to bring that in"):
        change_approve(actor=ana, request_id=second.id, digest=second.digest)
    assert title_now(actor) == "Of ana"
    change_reject(actor=ana, request_id=second.id, reason="Bring mine in.")
    assert change_request_get(ben, second.id).reason == "Bring mine in."


def test_rejected_withdrawn_and_asked_again(actor, ana, ben, eyes):
    asked = change_request_open(actor=ana, source=OTHER)
    assert change_request_open(actor=ana, source=OTHER).id == asked.id
    with raises("invalid", "say why"):
        change_reject(actor=ben, request_id=asked.id, reason=" ")
    assert change_reject(actor=ben, request_id=asked.id, reason="Keep it.").state == "rejected"
    again = change_request_open(actor=ana, source=OTHER)
    with raises("forbidden", "only ana"):
        change_withdraw(actor=ben, request_id=again.id)
    newer = change_request_open(actor=ana, source=EYES.replace("A small fabric", "A third"))
    assert change_request_get(ana, again.id).state == "voided"
    assert change_withdraw(actor=ana, request_id=newer.id).state == "withdrawn"
    for act in (partial(change_approve, actor=ben, digest=newer.digest), partial(change_withdraw, actor=ana)):
        with raises("conflict", "was withdrawn by ana already"):
            act(request_id=newer.id)
    assert {one.state for one in change_requests(actor, waiting=False, author="ana")} == {
        "rejected",
        "voided",
        "withdrawn",
    }


def test_what_needs_no_person_is_not_asked_for(actor, ana):
    with raises("conflict", "need no second person"):
        change_request_open(actor=ana, source=SMALL)
    fabric_publish(actor=actor, source=SMALL)
    with raises("conflict", "there is nothing to publish"):
        change_request_open(actor=ana, source=SMALL)
    with raises("conflict", "none was expected"):
        change_request_open(actor=ana, source=EYES, expect=0)
    with raises("invalid", "no model is named"):
        change_request_open(actor=ana, source=EYES.replace("model: script", "model: big"))
    with raises("forbidden", "may not ask for a change"):
        change_request_open(actor=replace(ana, roles=frozenset({"viewer"})), source=EYES)
    with raises("too_large", "at most 4,000"):
        change_request_open(actor=ana, source=EYES, message="x" * 4_001)
    assert not ChangeRequest.objects.exists()


def test_another_workspace_sees_and_does_nothing(stranger, ana, eyes):
    asked = change_request_open(actor=ana, source=OTHER)
    assert change_requests(stranger, waiting=False) == []
    agree, reject = partial(change_approve, digest=asked.digest), partial(change_reject, reason="No.")
    for act in (agree, change_withdraw, reject):
        with raises("not_found", "no change request"):
            act(actor=stranger, request_id=asked.id)


def test_the_text_is_held_against_the_content_that_was_asked_for(actor, ana, ben, eyes):
    asked = change_request_open(actor=ana, source=OTHER)
    ChangeRequest.objects.filter(id=asked.id).update(text=OTHER.replace("Another title", "Smuggled in"))
    with raises("conflict", "reads as another content"):
        change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    assert (Fabric.objects.get().title, Revision.objects.count()) == ("A small fabric", 1)


def test_the_statements_of_a_list_do_not_grow(actor, ana, ben, eyes, django_assert_num_queries):
    for who in (ana, ben, actor):
        change_request_open(actor=who, source=EYES.replace("A small fabric", f"Of {who.name}"))
    with django_assert_num_queries(1):
        assert len(change_requests(actor)) == 3


def test_the_words_for_what_is_over_are_total():
    assert set(DONE) == set(ChangeState) - {ChangeState.OPEN, ChangeState.STALE}
