"""Drafts become revisions: what keeps one from it, what is taken along, and what was published meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core.people.actor import Actor
from fabric.models import AuditLine, Draft, DraftStep, Fabric, Revision
from fabric.selectors.drafts.lookup import draft_get
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.actors import find_actor
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.merges import DraftConflict
from fabric.services.drafts.publication import draft_bring_in, draft_incoming, draft_publish
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.edits import PutEdit
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.fabric.services.world import SMALL
from tests.people import member

pytestmark = pytest.mark.django_db
COMMENTED = SMALL.replace("title: A small fabric", "title: Another title  # said by ana")


@pytest.fixture
def ana(actor: Actor) -> Actor:
    return find_actor(member("ana"))


@pytest.fixture
def name(ana: Actor) -> str:
    """A published fabric that ana has begun a draft of."""
    return drafts.draft_of_fabric(actor=ana, name=fabric_publish(actor=ana, source=SMALL).name).name


def put(actor: Actor, name: str, path: tuple[str, ...], value: object) -> int:
    step = draft_get(actor, name).step
    return drafts.draft_change(actor=actor, name=name, step=step, edits=[PutEdit(path, value)], what=path[-1]).step


def raises(code: str, match: str):
    return pytest.raises(Refused, match=match, check=lambda error: error.code == code)


def test_a_draft_becomes_the_published_revision_with_its_text_and_is_none_any_more(ana, name):
    step = drafts.draft_replace(actor=ana, name=name, step=0, text=COMMENTED).step
    done = draft_publish(actor=ana, name=name, step=step)
    assert (done.number, done.changed, done.was) == (2, True, 1)
    page = revision_get(ana, name)
    assert (page.number, page.source, page.spec.title) == (2, COMMENTED, "Another title")
    assert (Draft.objects.count(), DraftStep.objects.count()) == (0, 0)
    assert AuditLine.objects.filter(kind="fabric_published", actor="ana").count() == 2
    again = drafts.draft_of_fabric(actor=ana, name=name)
    assert (again.base, again.text, again.step) == (2, COMMENTED, 0)


def test_a_new_fabric_is_published_where_none_was(ana):
    drafts.draft_begin(actor=ana, name="small", text=SMALL)
    assert draft_publish(actor=ana, name="small", step=0).number == 1
    assert Fabric.objects.get().published.number == 1


def test_everything_that_keeps_it_is_said_at_once(ana, name):
    broken = SMALL.replace("model: script", "model: big")
    step = drafts.draft_replace(actor=ana, name=name, step=0, text=broken).step
    with raises("invalid", "line") as caught:
        draft_publish(actor=ana, name=name, step=step)
    assert len(caught.value.problems) == 2
    assert any("no model is named 'big'" in one for one in caught.value.problems)
    assert draft_get(ana, name).text == broken
    assert Revision.objects.count() == 1


def test_a_draft_is_published_under_its_own_name(ana, name):
    step = drafts.draft_replace(actor=ana, name=name, step=0, text=SMALL.replace("name: small", "name: other")).step
    with raises("invalid", "this is a draft of 'small'"):
        draft_publish(actor=ana, name=name, step=step)
    assert [fabric.name for fabric in Fabric.objects.all()] == ["small"]


def test_the_same_content_is_said_to_be_so(ana, name):
    with raises("conflict", "has the content of r1, which is published"):
        draft_publish(actor=ana, name=name, step=0)
    commented = drafts.draft_replace(actor=ana, name=name, step=0, text=f"# A comment.\n{SMALL}").step
    with raises("conflict", "has the content of r1"):
        draft_publish(actor=ana, name=name, step=commented)
    assert (revision_get(ana, name).source, Draft.objects.count()) == (SMALL, 1)


def test_what_the_page_did_not_show_is_not_published(ana, name):
    shown = put(ana, name, ("title",), "Seen")
    put(ana, name, ("title",), "Unseen")
    with raises("conflict", "changed since this page was loaded"):
        draft_publish(actor=ana, name=name, step=shown)
    assert revision_get(ana, name).spec.title == "A small fabric"


def test_another_persons_revision_is_brought_in_first(actor, ana, name):
    """Two authors, one after the other: nothing of either is lost."""
    drafts.draft_of_fabric(actor=actor, name=name)
    draft_publish(actor=actor, name=name, step=put(actor, name, ("policy", "tau"), 0.9))
    step = put(ana, name, ("title",), "Of ana")
    with raises("conflict", "r2 was published by owner .* ago: bring it in first"):
        draft_publish(actor=ana, name=name, step=step)
    draft, coming = draft_incoming(actor=ana, name=name)
    assert (draft.published, coming.taken, coming.conflicts) == (2, ("policy.tau",), ())
    after = draft_bring_in(actor=ana, name=name, step=step, base=2, choices={})
    assert (after.base, after.moved) == (2, False)
    done = draft_publish(actor=ana, name=name, step=after.step)
    spec = revision_get(actor, name).spec
    assert (done.number, done.was, spec.title, spec.policy.tau) == (3, 2, "Of ana", 0.9)


@pytest.mark.parametrize(("side", "stands"), [("mine", "Of ana"), ("theirs", "Of the owner")])
def test_what_both_changed_is_chosen(actor, ana, name, side, stands):
    drafts.draft_of_fabric(actor=actor, name=name)
    draft_publish(actor=actor, name=name, step=put(actor, name, ("title",), "Of the owner"))
    step = put(ana, name, ("title",), "Of ana")
    ((title,), found) = (draft_incoming(actor=ana, name=name)[1].conflicts, draft_get(ana, name))
    assert (title.path, title.base, title.mine, title.theirs) == ("title", "A small fabric", "Of ana", "Of the owner")
    with pytest.raises(DraftConflict):
        draft_bring_in(actor=ana, name=name, step=step, base=2, choices={})
    assert draft_get(ana, name) == found
    after = draft_bring_in(actor=ana, name=name, step=step, base=2, choices={"title": side})
    assert read_yaml(after.text).value["title"] == stands
    with raises(
        "conflict", "there is nothing to undo"
    ):  # Or the draft would take back, unasked, what a colleague published.
        drafts.draft_undo(actor=ana, name=name, step=after.step)


def test_what_is_brought_in_is_what_was_shown(actor, ana, name):
    drafts.draft_of_fabric(actor=actor, name=name)
    draft_publish(actor=actor, name=name, step=put(actor, name, ("policy", "tau"), 0.9))
    with raises("conflict", "r2 is published by now"):
        draft_bring_in(actor=ana, name=name, step=0, base=1, choices={})
    put(ana, name, ("title",), "Of ana")
    with raises("conflict", "changed since this page"):
        draft_bring_in(actor=ana, name=name, step=0, base=2, choices={})
    drafts.draft_replace(actor=ana, name=name, step=1, text="name: [")
    with raises("conflict", "is no YAML just now"):
        draft_bring_in(actor=ana, name=name, step=2, base=2, choices={})


def test_nothing_came_meanwhile(ana, name):
    with raises("conflict", "there is nothing to bring in"):
        draft_incoming(actor=ana, name=name)


def test_who_may_not_publish_does_not(ana, name):
    looks = replace(ana, roles=frozenset({"viewer"}))
    with raises("forbidden", "may not publish"):
        draft_publish(actor=looks, name=name, step=0)
    with raises("forbidden", "may not change"):
        draft_bring_in(actor=looks, name=name, step=0, base=1, choices={})


def test_what_is_published_twice_is_published_once(ana, name):
    """The second author finds that the draft is gone, and publishes nothing twice."""
    step = put(ana, name, ("title",), "Once")
    draft_publish(actor=ana, name=name, step=step)
    with raises("not_found", "has no draft"):
        draft_publish(actor=ana, name=name, step=step)
    assert Revision.objects.count() == 2
