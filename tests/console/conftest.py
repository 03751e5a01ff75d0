"""The tests of the pages share a member who is signed in, and fabrics to run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.models import Workspace
from fabric.services.actors import OWNER_ROLES, login_link_create, owner_actor, owner_ensure
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.lookups import missed_lookups
from tests.fabric.selectors.journals import Teller, write
from tests.fabric.services.world import DOUBTFUL, PAYING, SMALL, TALKING


@pytest.fixture(autouse=True)
def _fresh_wiring() -> None:
    """A store must not outlive the database it was made for."""
    for cached in (wiring.store, wiring.memories, wiring.compile_published, wiring._revision):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _every_lookup_is_met(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with missed_lookups(monkeypatch) as missed:
        yield
    assert missed == set(), "a template shows nothing where its object has no such name"


@pytest.fixture
def owner(transactional_db: None) -> User:
    """The local owner. The stores have connections of their own, so nothing is held back in a transaction."""
    return owner_ensure()


@pytest.fixture
def actor(owner: User) -> Actor:
    return owner_actor()


@pytest.fixture
def browser(owner: User) -> Client:
    """A browser that has signed in by a one-time link."""
    client = Client(HTTP_HOST="127.0.0.1")
    client.post("/login/link", {"token": login_link_create(owner)})
    return client


@pytest.fixture
def small(actor: Actor) -> str:
    return fabric_publish(actor=actor, source=SMALL).name


@pytest.fixture
def talking(actor: Actor) -> str:
    """A published fabric whose workers take turns."""
    return fabric_publish(actor=actor, source=TALKING).name


@pytest.fixture
def paying(actor: Actor) -> str:
    """A published fabric whose runs wait for a person's word before a call."""
    return fabric_publish(actor=actor, source=PAYING).name


@pytest.fixture
def doubtful(actor: Actor) -> str:
    """A fabric whose runs wait for a person."""
    return fabric_publish(actor=actor, source=DOUBTFUL).name


@pytest.fixture
def stranger(owner: User) -> Actor:
    """A member of another workspace."""
    return Actor(name="mallory", workspace_id=Workspace.objects.create(name="elsewhere").id, roles=OWNER_ROLES)


@pytest.fixture
def journaled(actor, small):
    """Gives a run the journal that a test tells."""

    def make(teller: Teller, **written: object) -> str:
        run_id = run_start(
            store=wiring.store(),
            nudge=NullNudge(),
            actor=actor,
            fabric=small,
            text="What do the notes say?",
            session_key="october",
        ).run_id
        write(run_id, teller.events, **written)  # type: ignore[arg-type]
        return run_id

    return make
