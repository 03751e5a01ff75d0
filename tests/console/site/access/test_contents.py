"""A caller without the right to contents gets none, by any address, export or socket; with it, those of one table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from django.test import Client
from django.urls import reverse

from console.pages.runs.page import VIEWS
from console.site.access.callers import SCOPES
from console.site.access.policies import ROUTES, Policy
from console.site.access.rights import CHANGES, LOOKS, OWN
from fabric.composition import engine as wiring
from fabric.core.people.roles import Role
from fabric.management.run_follower import Following
from fabric.models import Event, Member, Notification, Review, Run
from fabric.runtime.ports.journal import Document
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.drafts.changes import draft_of_fabric
from fabric.services.memories.changes import memory_write
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.control import run_say
from fabric.services.runs.start import run_start
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill
from tests import sets
from tests.console.site.access import test_actors as test_access
from tests.console.site.access.contents_marked import MARKS, mark, mark_all
from tests.console.site.access.test_rights import DOORS, World, world
from tests.fabric.services.world import HeardNudge, ran
from tests.people import fresh

__all__ = ["world"]

DOCUMENT = Document("notes.txt", "What the notes say.")
HX = {"HX-Request": "true"}
FRAGMENTS = ("fabric-draft-drills", "overview-card", "run-event")
"""Routes that answer a page's script alone, beside those of what goes on."""


@pytest.fixture
def told(world: World, actor, paying, talking, monkeypatch) -> World:
    """A world with contents of every kind, each marked: runs that wait, ended, talked and were decided, and a memory."""
    store, nudge = wiring.store(), HeardNudge()
    ran(actor, paying)
    ran(actor, "small", documents=(DOCUMENT,))
    talks = run_start(store=store, nudge=nudge, actor=actor, fabric=talking, text="What is owed?").run_id
    run_say(store=store, nudge=nudge, actor=actor, run_id=talks, text="Mind the VAT.")
    Following(actor, talks).to_rest()
    decided = ran(actor, "doubtful")
    (item,) = list_open_reviews(actor, decided.id)
    decide = partial(decide_review, store=store, nudge=nudge, actor=fresh(Member.objects.get(name="the-owner").user))
    decide(review_id=item.id, verb="approve", digest=item.digest, message="It reads well.")
    Following(actor, decided.id).to_rest()
    waits = run_start(store=store, nudge=nudge, actor=actor, fabric=talking, text="What is owed?").run_id
    run_say(store=store, nudge=nudge, actor=actor, run_id=waits, text="Mind the VAT.")
    memory_write(actor=actor, fabric="small", memory="notes", key="k", value="v", version=0, reason="Known.")
    told = {"told": "review", "channel": "webhook", "shown": "a hook", "target": "t", "at": 1, "made_at": 1}
    content = b'{"fabric": "doubtful", "reason": "Why."}'
    Notification.objects.create(
        id="0" * 32, workspace_id=actor.workspace_id, run_id=decided.id, seq=1, next_at=1, content=content, **told
    )
    batch_drill(world.of["batch"], "h")
    drill_id = Drill.objects.filter(batch=world.of["batch"]).values_list("id", flat=True)[0]
    monkeypatch.setitem(test_access.SAMPLE, "drill_id", drill_id)
    draft_of_fabric(actor=fresh(Member.objects.get(name="the-editor").user), name="small")
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
        if "review_id" in names:
            for item in Review.objects.values_list("id", flat=True):
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
    "run": (
        *(f"?view={name}" for name, _ in VIEWS),
        "?fold=off",
        "?view=events&events=raw",
        "?part=io",
        *(f"?as_of={seq}&view={view}" for seq, view in ((1, "timeline"), (5, "protections"), (9, "timeline"))),
    ),
    "api-run-at": ("?seq=1", "?seq=5", "?seq=9"),
    "run-events-download": ("?form=readable", "?form=journal"),
    "fabric": ("", "?tab=memory", "?tab=runs"),
    "drill": ("", "?at=1"),
    "drills-coverage": ("?fabric=small",),
    "drills-live": ("?fabric=small",),
    "drills-report": ("?fabric=small",),
    "fabric-memory": ("?key=k",),
    "api-fabric-memory-history": ("?memory=notes&key=k",),
    "search": ("?q=CANARY", "?q=notes"),
    "runs": ("", "?q=CANARY", "?q=-CANARY", "?q=why:CANARY", "?q=-why:CANARY"),
    "dashboards": ("", "?q=CANARY", "?q=-CANARY", "?q=why:CANARY", "?q=-why:CANARY"),
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
    """What a caller was shown at every address of one door."""

    found: dict[str, set[str]]
    """The marks by the route that shows them."""
    wrong: list[str]
    opened: set[str]
    """Routes that answered with what is there."""


def found_by(client: Client, door: str, each: int = 1) -> Crawl:
    """Opens the addresses of a door: of each route the first, and one of ``each`` of the rest; in `nightly` all."""
    runs = list(Run.objects.exclude(workspace__drills_of__isnull=False).values_list("id", flat=True))
    found: dict[str, set[str]] = {}
    wrong, opened = [], set()
    whole = list(addresses(door, runs))
    chosen = [*dict(reversed(whole)).items(), *sets.sample(whole, each, door)]
    for route, address in dict.fromkeys(chosen):
        answer = client.get(address, headers=HX if route in FRAGMENTS or route.endswith("-live") else {})
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
    "drill": "sentence",
    "drill-live": "sentence",
    "fabric": "memory sentence title",
    "fabric-memory": "memory words",
    "notifications": "title told",
    "overview": "sentence title",
    "overview-live": "sentence title",
    "review": "answer arguments review sentence title words",
    "reviews": "review title",
    "reviews-history": "sentence title",
    "run": "document message outcome request review sentence title words",
    "run-cancel": "title",
    "run-compare": "outcome sentence title",
    "run-context": "title",
    "run-labels": "title",
    "run-event": "answer arguments message outcome prompt request result sentence",
    "run-fork": "answer outcome request title",
    "run-event-json": "answer arguments message outcome prompt request result",
    "run-events-download": "answer arguments message outcome prompt request result sentence",
    "run-pause": "title",
    "run-review": "review",
    "run-resume": "title",
    "run-say": "message title words",
    "run-scenario": "title",
    "run-terminate": "title",
    "runs": "sentence title",
    "runs-export": "sentence title",
    "drills-runs": "sentence",
    "search": "title",
    "start": "request words",
    "api-decisions": "sentence",
    "api-review": "review sentence title",
    "api-reviews": "sentence title",
    "api-fabric-memories": "memory",
    "api-fabric-memory-history": "memory words",
    "api-notifications": "told",
    "api-run": "document outcome sentence title",
    "api-run-events": "answer arguments message outcome prompt request result sentence",
    "api-run-at": "sentence",
    "api-run-explain": "sentence",
    "api-run-stream": "answer arguments message outcome prompt request result sentence",
    "api-runs": "sentence title",
    "api-runs-export": "sentence title",
}
"""Every address that tells contents to who may read them, with the kinds that it tells (``contents_marked``)."""


def clients(told: World, door: str) -> Mapping[Role, Client]:
    return told.browsers if door == "pages" else told.programs


def shown_by(door: str) -> Mapping[str, set[str]]:
    return {route: set(kinds.split()) for route, kinds in SHOWN.items() if route.startswith("api-") is (door == "api")}


UNOPENED: Mapping[str, str] = {
    "login-password": "strangers follow a link there",
    "login-second": "a sign-in goes on there",
    "login-sso": "a sign-in begins there, where a provider is set",
    "login-sso-back": "a sign-in comes back there",
    "runs-jobs-new": "it wants an action, and names runs by their number alone",
}
"""Addresses that the crawl does not open, so that it cannot see what they show: why that is no gap."""


@pytest.mark.parametrize("door", ["pages", "api"])
def test_contents_are_told_by_the_addresses_of_one_table_to_who_may_read_them_alone(told, door):
    read = found_by(clients(told, door)[Role.EDITOR], door)
    assert read.wrong == []
    assert read.found == shown_by(door)
    opened = read.opened
    for role in (Role.VIEWER, Role.AUDITOR):
        crawl = found_by(clients(told, door)[role], door, each=4)
        assert (crawl.found, crawl.wrong) == ({}, []), role
        opened |= crawl.opened
    expected = {route for route in UNOPENED if route.startswith("api-") is (door == "api")}
    assert routes_of(door) - opened == expected


@pytest.mark.parametrize("role", [Role.VIEWER, Role.AUDITOR])
def test_no_change_answers_a_member_with_contents_that_they_may_not_read(told, role):
    """Every address that takes a POST is sent what is sent in the matrix of rights, and nothing; ends of sign-ins come last."""
    answered = []
    for route in sorted(CHANGES, key=lambda route: (CHANGES[route] == OWN, route)):
        door = "api" if ROUTES[route] is Policy.API else "pages"
        for answer in (DOORS[door](told, role, route), clients(told, door)[role].post(test_access.address(route))):
            answered.append(answer.status_code)
            assert answer.status_code < 500, route
            said = body(answer)
            assert [name for name in MARKS if mark(name) in said] == [], route
    assert {200, 403} <= set(answered)
