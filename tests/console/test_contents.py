"""Without the right to contents nobody is given one, by no address, export or socket; with it, by those of one table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from django.test import Client
from django.urls import reverse

from console.api.callers import SCOPES
from console.route_policies import ROUTES, Policy
from console.route_rights import LOOKS
from console.views.run_page import VIEWS
from fabric import wiring
from fabric.core.roles import Role
from fabric.management.following import Following
from fabric.models import Escalation, Event, Member, Notification, Run
from fabric.runtime.ports import Document
from fabric.selectors.escalations import escalations_open
from fabric.services.control import run_say
from fabric.services.escalations import escalation_decide
from fabric.services.memories import memory_write
from fabric.services.runs import run_start
from tests.console import test_access
from tests.console.contents_marked import MARKS, mark, mark_all
from tests.console.test_rights import World, world
from tests.fabric.services.world import HeardNudge, ran
from tests.people import fresh

__all__ = ["world"]

DOCUMENT = Document("notes.txt", "What the notes say.")
HX = {"HX-Request": "true"}


@pytest.fixture
def told(world: World, actor, paying, talking) -> World:
    """A world with contents of every kind, each marked: runs that wait, ended, talked and were decided, and a memory."""
    store, nudge = wiring.store(), HeardNudge()
    ran(actor, paying)
    ran(actor, "small", documents=(DOCUMENT,))
    talks = run_start(store=store, nudge=nudge, actor=actor, fabric=talking, text="What is owed?").run_id
    run_say(store=store, nudge=nudge, actor=actor, run_id=talks, text="Mind the VAT.")
    Following(actor, talks).to_rest()
    decided = ran(actor, "doubtful")
    (item,) = escalations_open(actor, decided.id)
    decide = partial(
        escalation_decide, store=store, nudge=nudge, actor=fresh(Member.objects.get(name="the-owner").user)
    )
    decide(escalation_id=item.id, verb="approve", digest=item.digest, message="It reads well.")
    Following(actor, decided.id).to_rest()
    waits = run_start(store=store, nudge=nudge, actor=actor, fabric=talking, text="What is owed?").run_id
    run_say(store=store, nudge=nudge, actor=actor, run_id=waits, text="Mind the VAT.")
    memory_write(actor=actor, fabric="small", memory="notes", key="k", value="v", version=0, reason="Known.")
    told = {"told": "question", "channel": "webhook", "shown": "a hook", "target": "t", "at": 1, "made_at": 1}
    content = b'{"fabric": "doubtful", "reason": "Why."}'
    Notification.objects.create(
        id="0" * 32, workspace_id=actor.workspace_id, run_id=decided.id, seq=1, next_at=1, content=content, **told
    )
    mark_all()
    return world


def routes_of(door: str) -> set[str]:
    """Every route of a door that is looked at, but those of who looks after the installation."""
    routes = LOOKS if door == "pages" else {route for route, method in SCOPES if method == "GET"}
    return {route for route in routes if ROUTES[route] is not Policy.STAFF}


def addresses(door: str, runs: list[str]) -> Iterator[tuple[str, str]]:
    """``(route, address)`` of everything that is looked at: of a run, each run, and of an event, each event."""
    for route in sorted(routes_of(door)):
        names = set(next(one for one in test_access.patterns() if one.name == route).pattern.converters)
        if "escalation_id" in names:
            for item in Escalation.objects.values_list("id", flat=True):
                yield route, reverse(route, args=[item])
        elif {"run_id", "seq"} <= names:
            for run_id, seq in Event.objects.filter(run_id__in=runs).values_list("run_id", "seq"):
                yield route, reverse(route, args=[run_id, seq])
        elif "run_id" in names:
            for run_id in runs:
                yield from ((route, reverse(route, args=[run_id]) + query) for query in QUERIES.get(route, ("",)))
        elif route == "start":
            yield from ((route, f"{reverse(route)}?from={run_id}") for run_id in runs)
        else:
            yield from ((route, test_access.address(route) + query) for query in QUERIES.get(route, ("",)))


QUERIES: Mapping[str, tuple[str, ...]] = {
    "run": (*(f"?view={name}" for name, _ in VIEWS), "?fold=off", "?view=events&events=raw", "?part=io"),
    "run-events-download": ("?form=readable", "?form=journal"),
    "fabric": ("", "?tab=memory", "?tab=runs"),
    "fabric-memory": ("?key=k",),
    "api-fabric-memory-history": ("?memory=notes&key=k",),
    "search": ("?q=CANARY", "?q=notes"),
    "runs": ("", "?q=CANARY", "?q=-CANARY"),
    "reviews": ("", "?tab=open", "?tab=decided", "?tab=open&text=CANARY"),
    "reviews-history": ("", "?decided=all"),
}


def body(answer: Any) -> str:
    """All that an answer says."""
    if not answer.streaming:
        return answer.content.decode(errors="replace")
    if answer.is_async:
        return b"".join(_all_of(answer)).decode(errors="replace")
    return answer.getvalue().decode(errors="replace")


def _all_of(response: Any) -> list[bytes]:
    async def pieces() -> list[bytes]:
        return [piece async for piece in response.streaming_content]

    return asyncio.run(pieces())


class Crawl(NamedTuple):
    """What somebody was shown at every address of one door."""

    found: dict[str, set[str]]
    """The marks by the route that shows them."""
    wrong: list[str]
    opened: set[str]
    """Routes that answered with what is there."""


def found_by(client: Client, door: str) -> Crawl:
    """Opens every address of a door."""
    runs = list(Run.objects.exclude(workspace__drills_of__isnull=False).values_list("id", flat=True))
    found: dict[str, set[str]] = {}
    wrong, opened = [], set()
    for route, address in addresses(door, runs):
        answer = client.get(address, headers=HX if route == "run-event" else {})
        said = body(answer)
        if answer.status_code >= 500:
            wrong.append(f"{address}: {answer.status_code}")
        if answer.status_code == 200:
            opened.add(route)
        for name in MARKS:
            if mark(name) in said:
                found.setdefault(route, set()).add(name)
    return Crawl(found, wrong, opened)


SHOWN: Mapping[str, str] = {
    "fabric": "memory",
    "fabric-memory": "memory words",
    "notifications": "title told",
    "overview": "sentence title",
    "review": "review sentence title words",
    "reviews": "sentence title",
    "reviews-history": "sentence title",
    "run": "document message outcome request review sentence title words",
    "run-cancel": "title",
    "run-context": "title",
    "run-event": "answer arguments message outcome prompt request result sentence",
    "run-fork": "answer outcome request title",
    "run-event-json": "answer arguments message outcome prompt request result",
    "run-events-download": "answer arguments message outcome prompt request result sentence",
    "run-pause": "title",
    "run-question": "review sentence",
    "run-resume": "title",
    "run-say": "message title words",
    "run-scenario": "title",
    "run-terminate": "title",
    "runs": "title",
    "search": "title",
    "start": "request words",
    "api-decisions": "sentence",
    "api-escalation": "review sentence title",
    "api-escalations": "sentence title",
    "api-fabric-memories": "memory",
    "api-fabric-memory-history": "memory words",
    "api-notifications": "told",
    "api-run": "document outcome sentence title",
    "api-run-events": "answer arguments message outcome prompt request result sentence",
    "api-run-explain": "sentence",
    "api-runs": "sentence title",
}
"""Every address that tells contents to who may read them, with the kinds that it tells (``contents_marked``)."""


def clients(told: World, door: str) -> Mapping[Role, Client]:
    return told.browsers if door == "pages" else told.programs


def shown_by(door: str) -> Mapping[str, set[str]]:
    return {route: set(kinds.split()) for route, kinds in SHOWN.items() if route.startswith("api-") is (door == "api")}


UNOPENED: Mapping[str, str] = {}
"""Addresses that the crawl opens for nobody, so that it cannot see what they show: why that is no gap."""


@pytest.mark.parametrize("door", ["pages", "api"])
def test_contents_are_told_by_the_addresses_of_one_table_to_who_may_read_them_alone(told, door):
    read = found_by(clients(told, door)[Role.EDITOR], door)
    assert read.wrong == []
    assert read.found == shown_by(door)
    opened = read.opened
    for role in (Role.VIEWER, Role.AUDITOR):
        crawl = found_by(clients(told, door)[role], door)
        assert (crawl.found, crawl.wrong) == ({}, []), role
        opened |= crawl.opened
    expected = {route for route in UNOPENED if route.startswith("api-") is (door == "api")}
    assert routes_of(door) - opened == expected
