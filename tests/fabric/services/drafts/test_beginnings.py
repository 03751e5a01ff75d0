"""How drafts begin: from templates, as copies, from files; what is refused, and that nothing else is."""

from __future__ import annotations

import pytest

from fabric.core.people.actor import Actor
from fabric.models import Draft
from fabric.selectors.drafts.lookup import draft_get, steps_around
from fabric.selectors.errors import Refused
from fabric.services.actors import find_actor, owner_actor, owner_ensure
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.beginnings import draft_duplicate, draft_from_template, draft_import
from fabric.services.fabrics.checks import check_text
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import template_get
from fabric.services.fabrics.yaml.tree import BYTES_MAX
from fabric.services.installation import facts as here
from tests.fabric.services.world import SMALL
from tests.people import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def actor() -> Actor:
    owner_ensure()
    return owner_actor()


def refused(act: object, *args: object, **more: object) -> Refused:
    with pytest.raises(Refused) as caught:
        act(*args, **more)  # type: ignore[operator]
    return caught.value


# -- from a template ---------------------------------------------------------------------------------------------------


def test_a_template_without_a_name_takes_its_own_and_then_the_next_free_one(actor: Actor) -> None:
    begun = [draft_from_template(actor=actor, template="blank", where=here.installation()) for _ in range(3)]
    assert [one.draft.name for one in begun] == ["blank", "blank-2", "blank-3"]
    assert begun[0].draft.text == template_get("blank").text
    assert check_text(begun[2].draft.text, name="blank-3").errors == ()


@pytest.mark.parametrize(
    ("more", "code", "field"),
    [
        ({"template": "no-such"}, "not_found", "template"),
        ({"name": "Not A Name"}, "invalid", "name"),
        ({"name": "+new"}, "invalid", "name"),
        ({"name": "x" * 64}, "invalid", "name"),
        ({"name": "taken"}, "conflict", "name"),
    ],
)
def test_a_template_is_not_begun_under_a_name_that_it_cannot_have(
    actor: Actor, more: dict[str, str], code: str, field: str
) -> None:
    fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: taken", 1))
    found = refused(
        draft_from_template, **{"actor": actor, "template": "blank", "where": here.installation(), "name": "one", **more}
    )  # fmt: skip
    assert (found.code, found.field) == (code, field)
    assert not Draft.objects.exists()


# -- a copy ------------------------------------------------------------------------------------------------------------


def test_a_copy_keeps_the_author_s_text_under_another_name(actor: Actor) -> None:
    name = fabric_publish(actor=actor, source=SMALL).name
    fabric_publish(actor=actor, source=SMALL.replace("instructions: Read.", "instructions: Read twice."))
    copy = draft_duplicate(actor=actor, name=name, to="other").draft
    assert "Read twice." in copy.text
    assert "title: A small fabric (copy)" in copy.text
    assert copy.base is None
    assert check_text(copy.text, name="other").errors == ()
    older = draft_duplicate(actor=actor, name=name, number=1, to="older").draft
    assert "Read twice." not in older.text


def test_a_copy_needs_a_free_name_and_something_to_copy(actor: Actor) -> None:
    name = fabric_publish(actor=actor, source=SMALL).name
    assert refused(draft_duplicate, actor=actor, name=name, to=name).code == "conflict"
    assert refused(draft_duplicate, actor=actor, name=name, to="").code == "invalid"
    assert refused(draft_duplicate, actor=actor, name="nothing", to="other").code == "not_found"
    draft_duplicate(actor=actor, name=name, to="other")
    assert refused(draft_duplicate, actor=actor, name=name, to="other").code == "conflict"


# -- a file ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "a: [1", "- a list", "just words", "name: 7\n", "\tx: 1", SMALL.replace("models:", "modells:")],
    ids=["empty", "no YAML", "a list", "words", "a number for a name", "a tab", "an unknown field"],
)
def test_what_cannot_be_read_is_a_draft_that_says_so(actor: Actor, text: str) -> None:
    begun = draft_import(actor=actor, text=text, name="mine" if text != SMALL else "", origin="mine.yaml")
    assert begun.draft.name == "mine"
    assert check_text(begun.draft.text, name="mine").errors


def test_the_name_is_the_given_one_then_the_text_s_then_the_file_s(actor: Actor) -> None:
    name = draft_import(actor=actor, text=SMALL, origin="elsewhere.yaml").draft.name
    assert f"name: {name}\n" in SMALL
    given = draft_import(actor=actor, text=SMALL, name="given").draft
    assert given.text == SMALL.replace(f"name: {name}\n", "name: given\n")
    assert draft_import(actor=actor, text="a: [1", origin="C:\\mine\\broken.yaml").draft.name == "broken"
    assert refused(draft_import, actor=actor, text="a: [1", origin="").field == "name"


def test_line_ends_and_a_byte_order_mark_of_other_systems_are_no_change(actor: Actor) -> None:
    assert draft_import(actor=actor, text="\ufeff" + SMALL.replace("\n", "\r\n")).draft.text == SMALL


def test_a_file_of_a_published_fabric_is_a_change_of_what_is_published(actor: Actor) -> None:
    name = fabric_publish(actor=actor, source=SMALL).name
    found = draft_import(actor=actor, text=SMALL.replace("Read.", "Read twice."), origin="small.yaml")
    assert (found.draft.base, found.draft.base_text, found.replaced) == (1, SMALL, False)
    undoing, _ = steps_around(found.draft)
    assert undoing is not None
    assert undoing.what == "small.yaml was imported"
    assert drafts.draft_undo(actor=actor, name=name, step=found.draft.step).text == SMALL


def test_a_draft_is_replaced_only_when_asked_and_that_can_be_undone(actor: Actor) -> None:
    first = draft_import(actor=actor, text=SMALL, name="mine").draft
    again = SMALL.replace("Read.", "Read twice.")
    assert refused(draft_import, actor=actor, text=again, name="mine").code == "conflict"
    assert draft_get(actor, "mine").text == first.text
    found = draft_import(actor=actor, text=again, name="mine", replace=True)
    assert found.replaced
    assert "Read twice." in found.draft.text
    assert drafts.draft_undo(actor=actor, name="mine", step=found.draft.step).text == first.text


@pytest.mark.parametrize(
    ("text", "code"), [("#" * (BYTES_MAX + 1), "too_large"), ("a: \0", "invalid"), ("a: \ud800", "invalid")]
)
def test_size_and_encoding_are_refused(actor: Actor, text: str, code: str) -> None:
    assert refused(draft_import, actor=actor, text=text, name="mine").code == code
    assert not Draft.objects.exists()


def test_who_may_not_edit_begins_nothing(actor: Actor) -> None:
    name = fabric_publish(actor=actor, source=SMALL).name
    looker = find_actor(member("vera", "viewer"))
    assert refused(draft_import, actor=looker, text=SMALL, name="mine").code == "forbidden"
    assert refused(draft_duplicate, actor=looker, name=name, to="other").code == "forbidden"
    assert refused(draft_from_template, actor=looker, template="blank", where=here.installation()).code == "forbidden"
    assert not Draft.objects.exists()
