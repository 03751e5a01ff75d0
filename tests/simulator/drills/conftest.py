"""A member who is there, and a fabric of theirs to drill."""

from __future__ import annotations

import pytest

from fabric.core.people.actor import Actor
from fabric.models import Workspace
from fabric.services.actors import OWNER_ROLES, owner_actor, owner_ensure
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL
from tests.people import UNTIL_NOW


@pytest.fixture
def actor(transactional_db: None) -> Actor:
    """The owner. What drills has a thread and a connection of its own, so nothing is held back in a transaction."""
    owner_ensure()
    return owner_actor()


@pytest.fixture
def small(actor: Actor) -> str:
    """The name of a published fabric."""
    return fabric_publish(actor=actor, source=SMALL).name


@pytest.fixture
def vera(actor: Actor) -> Actor:
    """A member of the same workspace who is no operator."""
    return Actor(name="vera", workspace_id=actor.workspace_id, roles=frozenset(UNTIL_NOW))


@pytest.fixture
def stranger(actor: Actor) -> Actor:
    """A member of another workspace."""
    return Actor(name="mallory", workspace_id=Workspace.objects.create(name="elsewhere").id, roles=OWNER_ROLES)
