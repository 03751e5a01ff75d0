"""A person with an open editor is seen by the others, and forgotten after a while."""

from __future__ import annotations

import pytest

from fabric.core.people.actor import Actor
from fabric.models import FabricEditor
from fabric.selectors.drafts.lookup import EDITOR_S, Editor, list_editors
from fabric.selectors.errors import Refused
from fabric.services.actors import find_actor, owner_actor, owner_ensure
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.editors import editor_beat, editor_gone
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL
from tests.people import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def two() -> tuple[Actor, Actor, str]:
    """Two who have a draft of the same fabric."""
    owner_ensure()
    owner = owner_actor()
    name = fabric_publish(actor=owner, source=SMALL).name
    ana = find_actor(member("ana", "editor"))
    for one in (owner, ana):
        drafts.draft_of_fabric(actor=one, name=name)
    return owner, ana, name


def test_each_sees_the_other_and_not_themselves(two: tuple[Actor, Actor, str]) -> None:
    owner, ana, name = two
    assert editor_beat(actor=ana, fabric=name, part="Budgets and limits") == ()
    assert editor_beat(actor=owner, fabric=name, part="YAML") == (Editor("ana", "Budgets and limits"),)
    editor_beat(actor=ana, fabric=name, part="Fabric")
    assert list_editors(owner, name) == (Editor("ana", "Fabric"),)
    assert FabricEditor.objects.count() == 2


def test_who_closes_the_page_is_forgotten_at_once_and_who_falls_silent_soon(two: tuple[Actor, Actor, str]) -> None:
    owner, ana, name = two
    editor_beat(actor=ana, fabric=name, part="Fabric")
    editor_gone(actor=ana, fabric=name)
    assert list_editors(owner, name) == ()
    editor_beat(actor=ana, fabric=name, part="Fabric")
    silent = FabricEditor.objects.get(name="ana").seen_at - (EDITOR_S + 1) * 1_000_000
    FabricEditor.objects.filter(name="ana").update(seen_at=silent)
    assert editor_beat(actor=owner, fabric=name, part="Fabric") == ()
    assert not FabricEditor.objects.filter(name="ana").exists()


def test_a_window_that_closes_takes_no_other_one_along(two: tuple[Actor, Actor, str]) -> None:
    owner, ana, name = two
    editor_beat(actor=ana, fabric=name, part="Fabric", page="left")
    editor_beat(actor=ana, fabric=name, part="YAML", page="right")
    assert list_editors(owner, name) == (Editor("ana", "YAML"),)
    editor_beat(actor=ana, fabric=name, part="Fabric", page="left")
    assert list_editors(owner, name) == (Editor("ana", "Fabric"),)
    editor_gone(actor=ana, fabric=name, page="left")
    assert list_editors(owner, name) == (Editor("ana", "YAML"),)
    editor_gone(actor=ana, fabric=name, page="right")
    assert list_editors(owner, name) == ()


def test_a_sign_of_life_needs_a_draft_and_the_right(two: tuple[Actor, Actor, str]) -> None:
    owner, _, name = two
    with pytest.raises(Refused, match="has no draft"):
        editor_beat(actor=owner, fabric="nothing", part="")
    looker = find_actor(member("vera", "viewer"))
    for act in (
        lambda: editor_beat(actor=looker, fabric=name, part=""),
        lambda: editor_gone(actor=looker, fabric=name),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert caught.value.code == "forbidden"
