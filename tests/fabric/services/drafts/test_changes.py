"""Drafts: what is saved, undone, merged and refused."""

from __future__ import annotations

import pytest

from fabric.core.people.actor import Actor
from fabric.models import AuditLine, Draft, DraftStep
from fabric.selectors.drafts.lookup import draft_get, drafts_list, steps_around
from fabric.selectors.errors import Refused
from fabric.services.actors import find_actor, owner_actor, owner_ensure
from fabric.services.drafts import changes as drafts
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.edits import DropEdit, PutEdit
from fabric.services.fabrics.yaml.tree import BYTES_MAX, read_yaml
from tests.fabric.services.world import SMALL
from tests.people import member

pytestmark = pytest.mark.django_db
TAU = ("policy", "tau")


@pytest.fixture
def actor() -> Actor:
    owner_ensure()
    return owner_actor()


@pytest.fixture
def name(actor: Actor) -> str:
    """A published fabric that the actor has begun a draft of."""
    published = fabric_publish(actor=actor, source=SMALL).name
    return drafts.draft_of_fabric(actor=actor, name=published).name


def tau_set(actor: Actor, name: str, tau: object, step: int | None = None, page: str = "") -> None:
    here = draft_get(actor, name).step if step is None else step
    edits = [PutEdit(TAU, tau)]
    drafts.draft_change(actor=actor, name=name, step=here, edits=edits, what="tau", page=page, place="policy.tau")


def tau_of(actor: Actor, name: str) -> object:
    return read_yaml(draft_get(actor, name).text).value["policy"].get("tau")


def test_a_draft_begins_with_the_text_that_was_published(actor: Actor, name: str) -> None:
    draft = draft_get(actor, name)
    assert draft.text == SMALL
    assert (draft.base, draft.published, draft.moved) == (1, 1, False)
    assert drafts.draft_of_fabric(actor=actor, name=name) == draft


def test_a_change_leaves_every_other_byte(actor: Actor, name: str) -> None:
    before = draft_get(actor, name).text
    tau_set(actor, name, 0.9)
    after = draft_get(actor, name).text
    assert tau_of(actor, name) == 0.9
    assert [line for line in before.splitlines() if line not in after.splitlines() and "tau" not in line] == []


def test_each_change_can_be_undone_and_brought_back(actor: Actor, name: str) -> None:
    begin = draft_get(actor, name).text
    for tau in (0.5, 0.6):
        tau_set(actor, name, tau)
    drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)
    assert tau_of(actor, name) == 0.5
    undoing, redoing = steps_around(draft_get(actor, name))
    assert undoing is not None
    assert redoing is not None
    assert (undoing.what, redoing.what) == ("tau", "tau")
    drafts.draft_redo(actor=actor, name=name, step=draft_get(actor, name).step)
    assert tau_of(actor, name) == 0.6
    for _ in range(2):
        drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)
    assert draft_get(actor, name).text == begin
    with pytest.raises(Refused, match="nothing to undo"):
        drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)


def test_a_change_after_an_undo_ends_what_could_be_brought_back(actor: Actor, name: str) -> None:
    tau_set(actor, name, 0.5)
    drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)
    tau_set(actor, name, 0.6)
    with pytest.raises(Refused, match="nothing to redo"):
        drafts.draft_redo(actor=actor, name=name, step=draft_get(actor, name).step)


def test_what_a_page_types_in_a_row_is_undone_together(actor: Actor, name: str) -> None:
    begin = draft_get(actor, name)
    for tau in (0.5, 0.55, 0.555):
        tau_set(actor, name, tau, step=begin.step, page="p1")
    assert tau_of(actor, name) == 0.555
    drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)
    assert draft_get(actor, name).text == begin.text


def test_a_stale_page_is_refused_whatever_it_changes(actor: Actor, name: str) -> None:
    shown = draft_get(actor, name).step
    tau_set(actor, name, 0.5, page="p1")
    for act in (
        lambda: tau_set(actor, name, 0.9, step=shown, page="p2"),
        lambda: drafts.draft_change(
            actor=actor, name=name, step=shown, edits=[PutEdit(("title",), "Other")], what="title"
        ),
        lambda: drafts.draft_replace(actor=actor, name=name, step=shown, text=SMALL, page="p2"),
    ):
        with pytest.raises(drafts.PageStale, match="was changed since this page was loaded") as raised:
            act()
        assert raised.value.code == "conflict"
    assert tau_of(actor, name) == 0.5


def test_a_page_that_is_older_by_its_own_changes_is_not_stale(actor: Actor, name: str) -> None:
    shown = draft_get(actor, name).step
    for tau in (0.5, 0.9):
        tau_set(actor, name, tau, step=shown, page="p1")
    assert tau_of(actor, name) == 0.9


def test_text_that_is_no_yaml_is_kept_and_keeps_forms_out(actor: Actor, name: str) -> None:
    broken = "name: [unclosed"
    drafts.draft_replace(actor=actor, name=name, step=draft_get(actor, name).step, text=broken)
    assert draft_get(actor, name).text == broken
    with pytest.raises(Refused, match="mend it in the YAML part") as raised:
        tau_set(actor, name, 0.5)
    assert raised.value.code == "conflict"
    drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)
    assert draft_get(actor, name).text == SMALL


def test_text_that_is_too_large_is_refused_and_what_was_saved_stays(actor: Actor, name: str) -> None:
    with pytest.raises(Refused, match="what was saved before is kept") as raised:
        drafts.draft_replace(actor=actor, name=name, step=0, text="x" * (BYTES_MAX + 1))
    assert raised.value.code == "too_large"
    assert draft_get(actor, name).text == SMALL


def test_a_path_that_is_not_there_is_refused(actor: Actor, name: str) -> None:
    with pytest.raises(Refused) as raised:
        drafts.draft_change(actor=actor, name=name, step=0, edits=[DropEdit(("agents", 99))], what="agents.99")
    assert raised.value.code == "invalid"
    assert "agents.99" in raised.value.message


def test_drafts_are_their_authors_alone(actor: Actor, name: str) -> None:
    other = find_actor(member("erik", "editor"))
    with pytest.raises(Refused) as raised:
        draft_get(other, name)
    assert raised.value.code == "not_found"
    drafts.draft_of_fabric(actor=other, name=name)
    tau_set(other, name, 0.1)
    assert draft_get(actor, name).text == SMALL
    assert [(line.name, line.author) for line in drafts_list(other)] == [(name, "erik"), (name, "owner")]


def test_who_may_not_edit_begins_no_draft(actor: Actor, name: str) -> None:
    looker = find_actor(member("vera", "viewer"))
    for act in (
        lambda: drafts.draft_of_fabric(actor=looker, name=name),
        lambda: drafts.draft_begin(actor=looker, name="mine", text="name: mine"),
        lambda: drafts.draft_discard(actor=looker, name=name, step=0),
        lambda: tau_set(looker, name, 0.5, step=0),
        lambda: drafts.draft_undo(actor=looker, name=name, step=0),
    ):
        with pytest.raises(Refused) as raised:
            act()
        assert raised.value.code == "forbidden"


@pytest.mark.parametrize("bad", ["", "Desk", "9lives", "a b", "-x", "x" * 64, "ümlaut", "a/b"])
def test_a_name_that_no_fabric_can_have_is_refused(actor: Actor, bad: str) -> None:
    with pytest.raises(Refused, match="is no name of a fabric"):
        drafts.draft_begin(actor=actor, name=bad, text="")


def test_a_second_draft_of_the_same_author_is_refused(actor: Actor, name: str) -> None:
    with pytest.raises(Refused) as raised:
        drafts.draft_begin(actor=actor, name=name, text="")
    assert raised.value.code == "conflict"


def test_a_discarded_draft_is_gone_with_its_steps_and_audited(actor: Actor, name: str) -> None:
    tau_set(actor, name, 0.5)
    with pytest.raises(Refused, match="draft changed since"):
        drafts.draft_discard(actor=actor, name=name, step=0)
    drafts.draft_discard(actor=actor, name=name, step=draft_get(actor, name).step)
    assert not Draft.objects.exists()
    assert not DraftStep.objects.exists()
    assert AuditLine.objects.filter(kind="draft_discarded", subject=name).count() == 1


def test_the_oldest_steps_go_and_the_text_stays(actor: Actor, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "STEPS_MAX", 3)
    for n in range(1, 8):
        tau_set(actor, name, n / 10)
    assert tau_of(actor, name) == 0.7
    assert DraftStep.objects.count() == 3
    with pytest.raises(drafts.PageStale):
        tau_set(actor, name, 0.9, step=1, page="old")


def test_what_was_brought_in_is_not_undone(actor: Actor, name: str) -> None:
    tau_set(actor, name, 0.5)
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "Another title"))
    seen = draft_get(actor, name)
    assert seen.moved
    assert seen.published_id is not None
    text = seen.text.replace("A small fabric", "Another title")
    drafts.draft_rebase(actor=actor, name=name, step=seen.step, text=text, base_id=seen.published_id, base_text=SMALL)
    assert not draft_get(actor, name).moved
    assert steps_around(draft_get(actor, name)) == (None, None)
    with pytest.raises(Refused, match="nothing to undo"):
        drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)
    tau_set(actor, name, 0.6)
    drafts.draft_undo(actor=actor, name=name, step=draft_get(actor, name).step)
    assert draft_get(actor, name).text == text
