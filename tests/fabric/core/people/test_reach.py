"""Roles hold at places, and a member sees these alone who has no role in the whole workspace."""

from __future__ import annotations

import pytest

from fabric.core.people.actor import Actor, may
from fabric.core.people.roles import Right, is_place, roles_at


def who(*roles: str, fabrics: tuple[str, ...] = ()) -> Actor:
    return Actor(name="rosa", workspace_id="w", roles=frozenset(roles), fabrics=fabrics)


@pytest.mark.parametrize("place", ["refunds", "payments-*", "pay_*", "a"])
def test_a_place_is_a_fabric_or_a_folder(place):
    assert is_place(place)


@pytest.mark.parametrize(
    "place", ["", "*", "pay*", "-*", "Refunds", "a/*", "payments-*x", "a" * 64, "payments-**", "é"]
)
def test_what_is_no_place(place):
    assert not is_place(place)


def test_roles_hold_where_they_were_given():
    held = {"viewer", "editor@payments-*", "operator@refunds"}
    assert roles_at(held, "payments-eu") == {"viewer", "editor"}
    assert roles_at(held, "payments") == {"viewer"}, "the folder's name alone is no fabric of it"
    assert roles_at(held, "refunds") == {"viewer", "operator"}


@pytest.mark.parametrize(
    ("actor", "fabric", "sees", "edits"),
    [
        (who("editor"), "refunds", True, True),
        (who("editor@payments-*"), "payments-eu", True, True),
        (who("editor@payments-*"), "refunds", False, False),
        (who("viewer", "editor@payments-*"), "refunds", True, False),
        (who("viewer", "editor@payments-*"), "payments-eu", True, True),
        (who("reviewers@refunds"), "refunds", True, False),
        (who("editor", fabrics=("refunds",)), "refunds", True, True),
        (who("editor", fabrics=("refunds",)), "payments-eu", False, False),
        (who("editor@payments-*", fabrics=("refunds",)), "refunds", False, False),
    ],
)
def test_who_sees_and_edits_what(actor, fabric, sees, edits):
    assert (actor.sees(fabric), may(actor, Right.EDIT, fabric)) == (sees, edits)


def test_a_right_at_some_fabric_is_none_in_the_workspace():
    actor = who("editor@payments-*")
    assert not actor.may(Right.EDIT)
    assert actor.may_somewhere(Right.EDIT)
    assert not who("owner", fabrics=("refunds",)).may(Right.MEMBERS), "nor is one of a token that is confined"
    assert who("owner").may(Right.MEMBERS)


def test_who_acts_at_one_fabric_has_nothing_of_it_at_another():
    there = who("editor@payments-*", "viewer").place_at("payments-eu")
    assert there.may(Right.EDIT)
    assert not there.place_at("refunds").may(Right.EDIT)
    assert there.place_at("refunds").may(Right.LOOK)
