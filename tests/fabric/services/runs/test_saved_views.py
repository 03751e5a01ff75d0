"""Saved views: names, limits, who sees, renames and deletes them; and the columns that a member chose."""

import pytest

from fabric.core.people.actor import Actor
from fabric.models import AuditLine, SavedView
from fabric.selectors.runs.saved_views import COLUMNS, list_chosen_columns, list_saved_views
from fabric.services.errors import Refused
from fabric.services.runs import saved_views
from fabric.services.runs.saved_views import columns_set, view_delete, view_rename, view_save


def colleague(actor: Actor, name: str, *roles: str) -> Actor:
    return Actor(name, actor.workspace_id, roles=frozenset(roles))


def names(actor: Actor) -> list[str]:
    return [view.name for view in list_saved_views(actor)]


def test_a_view_keeps_query_order_and_known_columns(actor):
    saved = view_save(
        actor=actor, name="  Dear \t ones ", query="cost:>1", sort="-cost", columns=["cost", "gone", "state"]
    )
    assert (saved.name, saved.query, saved.sort, saved.columns) == ("Dear ones", "cost:>1", "-cost", ("state", "cost"))
    assert list_saved_views(actor) == [saved]


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ({"name": " \0 ".replace("\0", "")}, "invalid", "a view needs a name"),
        ({"name": "x" * 41}, "invalid", "the name has 41 characters; at most 40"),
        ({"name": "KEPT"}, "conflict", "a view of yours is named 'KEPT' already"),
        ({"query": "state:x"}, "invalid", "at character 7 of the query"),
        ({"query": "state:running", "sort": "-cost"}, "invalid", "lists ended runs alone"),
    ],
)
def test_a_wrong_view_is_one_sentence_and_is_not_saved(actor, given, code, says):
    view_save(actor=actor, name="Kept")
    with pytest.raises(Refused, match=says) as caught:
        view_save(**{"actor": actor, "name": "New"} | given)
    assert caught.value.code == code
    assert names(actor) == ["Kept"]


def test_a_member_has_a_bounded_number_of_views(actor, monkeypatch):
    monkeypatch.setattr(saved_views, "VIEWS_MAX", 2)
    view_save(actor=actor, name="one")
    view_save(actor=actor, name="two")
    with pytest.raises(Refused, match="you have 2 saved views, which is the most: delete one first"):
        view_save(actor=actor, name="three")
    view_save(actor=colleague(actor, "vera", "viewer"), name="three")


def test_private_views_are_their_owners_alone_and_shared_ones_are_seen_by_all(actor, stranger):
    editor, viewer = colleague(actor, "ed", "editor"), colleague(actor, "vera", "viewer")
    view_save(actor=editor, name="Mine")
    view_save(actor=editor, name="Ours", shared=True)
    view_save(actor=viewer, name="Zero")
    assert names(editor) == ["Mine", "Ours"]
    assert names(viewer) == ["Zero", "Ours"], "one's own first"
    assert names(colleague(actor, "ona", "operator@small")) == [], "their queries may name other fabrics"
    assert names(stranger) == []


def test_who_may_not_edit_fabrics_shares_nothing(actor):
    for role, name in (("viewer", "vera"), ("operator", "ona"), ("editor@small", "ed")):
        with pytest.raises(Refused, match=f"{name} may not share views") as caught:
            view_save(actor=colleague(actor, name, role), name="Ours", shared=True)
        assert caught.value.code == "forbidden"
    assert not SavedView.objects.exists()


def test_owners_of_a_view_rename_and_delete_it_and_who_manages_members_a_shared_one(actor):
    editor, other = colleague(actor, "ed", "editor"), colleague(actor, "eva", "editor")
    mine, ours = view_save(actor=editor, name="Mine"), view_save(actor=editor, name="Ours", shared=True)
    for act in (lambda **it: view_rename(**it, name="Theirs"), view_delete):
        with pytest.raises(Refused, match="eva may not") as caught:
            act(actor=other, view_id=ours.id)
        assert caught.value.code == "forbidden"
        for who in (other, actor):
            with pytest.raises(Refused, match="there is no such view") as caught:
                act(actor=who, view_id=mine.id)
            assert caught.value.code == "not_found"
    assert view_rename(actor=actor, view_id=ours.id, name="All of us").name == "All of us"
    assert view_rename(actor=editor, view_id=mine.id, name="MINE").name == "MINE"
    with pytest.raises(Refused, match="is named 'mine' already"):
        view_rename(actor=editor, view_id=ours.id, name="mine")
    view_delete(actor=actor, view_id=ours.id)
    view_delete(actor=editor, view_id=mine.id)
    assert not SavedView.objects.exists()
    kinds = AuditLine.objects.filter(subject=ours.id).order_by("at", "id").values_list("kind", "actor")
    assert list(kinds) == [("view_saved", "ed"), ("view_renamed", "owner"), ("view_deleted", "owner")]


def test_columns_are_each_members_own(actor):
    assert list_chosen_columns(actor) == set(COLUMNS)
    columns_set(actor=actor, columns=["cost", "gone"])
    columns_set(actor=actor, columns=["cost", "state"])
    assert list_chosen_columns(actor) == {"cost", "state"}
    assert list_chosen_columns(colleague(actor, "vera", "viewer")) == set(COLUMNS)
    columns_set(actor=actor, columns=[])
    assert list_chosen_columns(actor) == frozenset(), "nothing but the run itself"
