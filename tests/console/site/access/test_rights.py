"""Each role asks for every address that changes something. A member without the right reads so and changes nothing; a member with it is not stopped.

The matrix comes from the declarations (``console.site.access.rights``, ``callers.SCOPES``, ``route_policies.ROUTES``): every address, every method, every role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import resolve

from console.site.access import actors as access
from console.site.access import callers
from console.site.access.actors import AccessMiddleware
from console.site.access.callers import SCOPES
from console.site.access.policies import ROUTES, Policy
from console.site.access.rights import _LOOKS, CHANGES, LOOKS, rights_for, roles_for
from fabric.core.people.roles import RIGHTS, Right, Role, holders
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import (
    AuditLine,
    Inbox,
    JobAction,
    Member,
    MemoryEntry,
    ModelTest,
    ProviderKey,
    Revision,
    Run,
    RunJob,
)
from fabric.selectors.models.breakers import list_breaker_views
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.query.choices import RunChoice
from fabric.services.audit.holds import hold_place
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.models.catalogue import models_list
from fabric.services.people.invitations import invitation_create
from fabric.services.runs.jobs.requests import job_begin
from fabric.services.runs.saved_views import view_save
from fabric.services.runs.stops import stop_new_runs
from simulator.drills.library.services import scenario_save
from simulator.drills.models.tables import Drill, Schedule, StoredScenario
from simulator.drills.schedules.services import schedule_create
from simulator.drills.services.drills import drill_ask
from tests.console.bad_input import channel_of
from tests.console.site.access import test_actors as test_access
from tests.fabric.services.memories.test_changes import REMEMBERING
from tests.fabric.services.world import SMALL, change_waits, ran
from tests.people import member, signed_in, token_of
from tests.simulator.drills.management.sources import source

WHY = {"reason": "To see."}
SOURCE = {"source": source("another")}
SCHEDULE = {"fabric": "small", "cron": "0 3 * * *", "cells": "all"}
MOVE = {"generation": 0, **WHY}
ROLES = {"roles": ["viewer"]}
CELL = {"failure": "cost_overrun", "tier": "interactive"}
PLACE = {"provider": "openai", "host": "https://api.example.org/v1"}
SECRET = {**PLACE, "key": "sk-0123456789abcdef"}
KEY = {"memory": "notes", "key": "k", **WHY}

PAGES: Mapping[str, Mapping[str, Any]] = {
    "start": {"fabric": "small", "text": "What do the notes say?"},
    "run-cancel": WHY,
    "run-terminate": WHY,
    "run-pause": WHY,
    "run-say": {"text": "Mind the VAT."},
    "run-fork": {"what": "", "value": "", "start_key": "k"},
    "run-context": {"name": "k", "value": "1"},
    "run-labels": {"label_key": "team", "label_value": "ops"},
    "run-scenario": {"name": "kept"},
    "run-stops": {"fabric": "doubtful", "running": "finish", **WHY},
    "runs-jobs-new": {"action": "cancel", "all": "1", "q": "fabric:doubtful"},
    "runs-views": {"name": "mine"},
    "reviews-export": {"form": "csv"},
    "audit-export": {"form": "csv"},
    "audit-holds": {"act": "place", "about": "fabric", "name": "small", **WHY},
    "drills-ask": {"fabric": "small", "cells": "cost_overrun:batch"},
    "drills-batch-stop": {"fabric": "small"},
    "drill-stop": {"act": "pull", **WHY},
    "drills-schedules": {"fabric": "small", "cron": "0 3 * * *", "what": "all"},
    "drills-schedule": {"act": "pause", "version": 1},
    "scenario-new": SOURCE,
    "scenario-ask": {"fabric": "small", "tier": ["batch"], "do": "run", "mode": "virtual"},
    "scenario-edit": {"source": source("mine"), "version": 1},
    "scenario-duplicate": {"to": "copied"},
    "scenario-delete": {"version": 1},
    "breaker": {"act": "open", "generation": 0, **WHY},
    "fabric-draft": {"step": 0, "f.title": "Another"},
    "fabric-new": {"template": "blank"},
    "fabric-import": {"source": SMALL, "name": "another"},
    "fabric-duplicate": {"to": "another"},
    "fabric-draft-beat": {"part": "Fabric"},
    "fabric-draft-undo": {"step": 0},
    "fabric-draft-redo": {"step": 0},
    "fabric-draft-discard": {"step": 0},
    "fabric-draft-publish": {"step": 0, "act": "publish"},
    "fabric-draft-drills": {"step": 0, "cells": "all"},
    "fabric-draft-tool": {"arguments": "{}"},
    "fabric-draft-agent": {"prompt": "Who are you?"},
    "fabric-draft-merge": {"step": 0, "base": 1},
    "fabric-request": {"act": "reject", **WHY},
    "fabric-revert": {"number": 1, "expect": 1, "act": "revert"},
    "fabric-memory": {"act": "write", "key": "k", "version": 0, "value": "1", **WHY},
    "fabric-memory-reveal": {"key": "k", "version": 1},
    "model-key": SECRET,
    "policy": {"expect": 0, "hosts": "crm.example.com"},
    "model-key-delete": PLACE,
    "model-test": {"at_most": "1000"},
    "member-invite": ROLES,
    "member-service": {"name": "nightly", "roles": ["operator"]},
    "member-sign-ins": {"act": "end"},
    "member": {"act": "roles", "before": "viewer", "roles": ["auditor"]},
}
"""What is posted to a page, where it is not nothing."""

API: Mapping[str, Mapping[str, Any]] = {
    "api-runs": {"fabric": "small", "text": "What do the notes say?"},
    "api-run-cancel": WHY,
    "api-run-terminate": WHY,
    "api-run-pause": WHY,
    "api-run-say": {"text": "Mind the VAT."},
    "api-run-context": {"set": {"k": 1}},
    "api-run-labels": {"set": {"team": "ops"}},
    "api-run-fork": {"seq": 1},
    "api-run-event-reveal": {"seq": 1},
    "api-runs-jobs": {"action": "cancel", "query": "fabric:doubtful"},
    "api-breakers-open": MOVE,
    "api-breakers-reset": MOVE,
    "api-fabrics": {"source": SMALL},
    "api-drafts": {"source": SMALL, "name": "another"},
    "api-changes": {"source": SMALL},
    "api-change-approve": {"digest": "0" * 32},
    "api-change-reject": WHY,
    "api-fabric-lint": {"source": SMALL},
    "api-fabric-revert": {"revision": 1},
    "api-fabric-memory-write": {**KEY, "version": 0, "value": 1},
    "api-fabric-memory-delete": {**KEY, "version": 1},
    "api-fabric-memory-reveal": {"memory": "notes", "key": "k", "version": 1},
    "api-fabric-drills": {"cells": [CELL]},
    "api-scenarios": SOURCE,
    "api-scenarios-check": SOURCE,
    "api-stops": {"fabric": "small", **WHY},
    "api-drill-stop-pull": WHY,
    "api-drill-stop-release": WHY,
    "api-drills-schedules": SCHEDULE,
    "api-drills-schedule": {**SCHEDULE, "version": 1},
    "api-drills-schedule-pause": {"version": 1},
    "api-drills-schedule-resume": {"version": 1},
    "api-drills-schedule-delete": {"version": 1},
    "api-audit-holds": {"about": "fabric", "name": "small", **WHY},
    "api-audit-hold-lift": WHY,
    "api-audit-export": {},
    "api-model-key": SECRET,
    "api-policy": {"policy": {"hosts": ["crm.example.com"]}, "expect": 0},
    "api-model-key-delete": PLACE,
    "api-invitations": ROLES,
    "api-member-services": {"name": "nightly", "roles": ["operator"]},
    "api-member-roles": {"roles": ["auditor"]},
}
"""What is posted to an operation, likewise."""


class World(NamedTuple):
    """The owner's things, and a client for each role, in the browser and of the API."""

    of: Mapping[str, Any]
    """Ids and names of what was made, by their place in addresses."""
    browsers: Mapping[Role, Client]
    programs: Mapping[Role, Client]


@pytest.fixture
def world(actor, owner, small, doubtful, monkeypatch) -> World:
    """Makes what addresses name (a run, drills, a schedule and so on) as the owner, and one member for each role."""
    fabric_publish(actor=actor, source=REMEMBERING.replace("name: remembering", "name: small"))
    run = ran(actor, doubtful)
    batch = drill_ask(actor=actor, fabric="small", cells=[(FailureType.PROVIDER, Tier.BATCH)]).batch
    halted = fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: halted")).name
    scenario_save(actor=replace(actor, name="the-editor"), source=source("mine"))
    breaker = next(one for one in list_breaker_views(actor) if one.over == "provider")
    target = member("target", "viewer")
    there = {
        "run_id": run.id,
        "review_id": list_open_reviews(actor, run.id)[0].id,
        "name": "small",
        "batch": batch,
        "schedule_id": schedule_create(actor=actor, **SCHEDULE).id,
        "stop_id": stop_new_runs(actor=actor, fabric=halted, reason="For a lift.").id,
        "scenario_name": "mine",
        "invitation_id": invitation_create(actor=actor, roles=["viewer"]).id,
        "model_id": models_list(actor).models[0].id,
        "member_id": Member.objects.get(name=target.username).id,
        "memory": "notes",
        "tool": "read_document",
        "scope": breaker.scope,
        "digest": breaker.kind.partition(":")[2],
        "kind": breaker.kind,
        "change_id": change_waits(actor, "small"),
        "hold_id": hold_place(actor=actor, about="person", name="target", reason="A case.").id,
        "channel_id": channel_of(actor.workspace_id),
        "job_id": job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job.id,
        "view_id": view_save(actor=actor, name="mine").id,
        "record_id": AuditLine.objects.filter(workspace_id=actor.workspace_id).values_list("id", flat=True)[0],
    }
    browsers, programs = {}, {}
    for role in Role:
        user = member(f"the-{role}", role)
        browsers[role] = signed_in(user)
        secret = token_of(user, f"of-{role}")
        programs[role] = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {secret}")
    monkeypatch.setattr(test_access, "SAMPLE", {**test_access.SAMPLE, **there})
    return World(there, browsers, programs)


def standing() -> Mapping[str, int]:
    """Counts the rows of everything that an address can make."""
    counted = (
        Revision,
        Run,
        RunJob,
        Inbox,
        Drill,
        Schedule,
        StoredScenario,
        Member,
        MemoryEntry,
        ModelTest,
        ProviderKey,
    )
    found = {model.__name__: model.objects.count() for model in counted}
    # That they were refused is recorded.
    return found | {"AuditLine": AuditLine.objects.exclude(kind="request_refused").count()}


def page(world: World, role: Role, name: str) -> Any:
    return world.browsers[role].post(test_access.address(name), PAGES.get(name, {}))


def where(name: str) -> str:
    found = test_access.address(name)
    return found.replace("/members/small/", "/members/target/") if name.startswith("api-member-") else found


def operation(world: World, role: Role, name: str) -> Any:
    body = dict(API.get(name, {}))
    if name.startswith("api-breakers-"):
        body |= {"scope": world.of["scope"], "kind": world.of["kind"]}
    return world.programs[role].post(where(name), json.dumps(body), content_type="application/json")


DOORS: Mapping[str, Callable[[World, Role, str], Any]] = {"pages": page, "api": operation}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def changes(door: str) -> Mapping[str, tuple[Right, ...]]:
    """Return what is changed through a door, with the rights of which one is enough."""
    return {name: rights_for(name, "POST") for name in CHANGES if name.startswith("api-") is (door == "api")}


def declared() -> set[tuple[str, str]]:
    """The methods that an address takes, as the tables of the product say."""
    looked = {(name, method) for name in LOOKS for method in ("GET", "HEAD")}
    return looked | {(name, "POST") for name in CHANGES if ROUTES[name] is not Policy.API} | set(SCOPES)


def through(user: Any, name: str, method: str) -> Any:
    """Return what the door says by itself: None lets through."""
    request = RequestFactory(HTTP_HOST="127.0.0.1").generic(method, test_access.address(name))
    request.user, request.resolver_match = user, resolve(test_access.address(name))
    return AccessMiddleware(lambda asked: HttpResponse()).process_view(request, HttpResponse, (), {})


@pytest.mark.parametrize("behind", ["the door", "the service"])
@pytest.mark.parametrize("door", DOORS)
def test_who_has_not_the_right_is_told_who_has_it_and_changes_nothing(door, behind, world, monkeypatch):
    """At the door; and, were it open, by the service."""
    if behind == "the service":
        for module in (access, callers):
            monkeypatch.setattr(module, "explain_refusal", lambda *asked: "")
    before, wrong = standing(), []
    for name, rights in changes(door).items():
        for role in set(Role) - roles_for(name, "POST") if rights else ():
            answer = DOORS[door](world, role, name)
            said = answer.content.decode() if answer.status_code == 403 else ""
            if not all(holders(right) in said for right in rights):
                wrong.append(f"{name} as {role}: {answer.status_code}")
    assert sorted(wrong) == []
    assert standing() == before


@pytest.mark.parametrize("door", DOORS)
def test_who_has_the_right_is_not_stopped(door, world):
    wrong = []
    for name, rights in changes(door).items():
        for role in sorted(roles_for(name, "POST")) if rights else ():
            answer = DOORS[door](world, role, name)
            if answer.status_code in (401, 403, 405) or answer.status_code >= 500:
                wrong.append(f"{name} as {role}: {answer.status_code}")
    assert sorted(wrong) == []


@pytest.mark.parametrize("door", DOORS)
def test_others_decisions_are_for_who_audits(door, world):
    """A right decides about the export of one's own answers. Tokens have their own tests (test_tokens, test_step_up)."""
    name = "reviews-export" if door == "pages" else "api-decisions-export"
    for role in Role:
        assert (DOORS[door](world, role, name).status_code == 403) is (role not in RIGHTS[Right.AUDIT])


def test_the_tables_are_sorted_and_have_each_name_once():
    assert list(_LOOKS) == sorted(LOOKS)
    assert list(CHANGES) == sorted(CHANGES)


def test_every_address_says_what_each_method_wants():
    """A page that is there and not declared, or the other way round, shows below: it takes, or refuses, what it should not."""
    assert set(CHANGES) | LOOKS | {name for name, _ in SCOPES} | callers.ANY_CALLER == set(ROUTES)
    assert {route for route, method in SCOPES if method != "GET"} == {
        name for name in CHANGES if name.startswith("api-")
    }
    assert {method for _, method in SCOPES} == {"GET", "POST"}
    assert (set(PAGES) | set(API)) <= set(CHANGES)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OWNER])
def test_what_is_not_declared_is_not_there(role, world):
    """A caller with the fewest and one with the most rights ask: each method of each address that no table has is a 405."""
    there, wrong, cells = declared(), [], 0
    for name, policy in ROUTES.items():
        client = (world.programs if policy is Policy.API else world.browsers)[role]
        for method in METHODS:
            if (name, method) in there or name in callers.ANY_CALLER or name == "logout":
                continue
            cells += 1
            answer = client.generic(method, where(name), "{}", content_type="application/json")
            shut = policy is Policy.STAFF and role is not Role.OWNER  # They are not told what there is.
            if answer.status_code != (403 if shut else 405):
                wrong.append(f"{method} {name}: {answer.status_code}")
    assert sorted(wrong) == []
    others = sum(1 for name, _ in there if name not in callers.ANY_CALLER and name != "logout")
    assert cells + others == len(METHODS) * len(set(ROUTES) - callers.ANY_CALLER - {"logout"})


def test_each_cell_of_the_matrix_is_as_declared(world):
    """Addresses x methods x roles, at the door: 403 for who has none of the rights that are wanted, through for all others."""
    wrong, cells = [], 0
    people = {role: Member.objects.get(name=f"the-{role}").user for role in Role}
    for name, method in sorted(declared()):
        if ROUTES[name] is Policy.API:
            continue
        for role, user in people.items():
            cells += 1
            answer = through(user, name, method)
            lacks = role not in roles_for(name, method)
            staff = ROUTES[name] is Policy.STAFF and role is not Role.OWNER
            if (answer is not None and answer.status_code == 403) is not (lacks or staff):
                wrong.append(f"{method} {name} as {role}")
    assert sorted(wrong) == []
    assert cells == len(Role) * sum(1 for name, _ in declared() if ROUTES[name] is not Policy.API)


READABLE = {"run-events-download": "?form=readable"}
"""By route, the query with which every member may look at an address that gives some people more."""


def test_every_member_sees_every_page(world):
    wrong = []
    for name, policy in ROUTES.items():
        if policy is not Policy.SIGNED_IN:
            continue
        for role in (Role.VIEWER, Role.AUDITOR, Role.FINANCE):
            answer = world.browsers[role].get(test_access.address(name) + READABLE.get(name, ""))
            if (answer.status_code == 403) is not (role not in roles_for(name, "GET")):
                wrong.append(f"{name} as {role}")
    assert sorted(wrong) == []


@pytest.mark.parametrize(
    ("path", "button", "who"),
    [
        ("/runs/start", "Start the run", Right.RUN),
        ("/runs/{run_id}/cancel", "Cancel the run", Right.CONTROL),
        ("/scenarios/endpoint-down?fabric=small", "Run", Right.RUN),
        ("/scenarios/new", "Save scenario", Right.EDIT),
        ("/drills/schedules", "Make the schedule", Right.OPERATE),
        ("/runs/jobs/new?action=cancel&all=1", "Cancel 1 matching run", Right.CONTROL),
    ],
)
def test_a_button_that_does_nothing_for_who_looks_on_says_for_whom_it_is(world, path, button, who):
    for role, off in ((Role.VIEWER, True), (Role.OWNER, False)):
        shown = world.browsers[role].get(path.format(**world.of)).content.decode()
        found = re.search(
            rf'<button type="submit"([^>]*)>(?:<svg(?:(?!</svg>).)*</svg>)?{button}', shown, flags=re.DOTALL
        )
        assert ('disabled aria-describedby="lacks"' in found[1]) is off
        assert (f'id="lacks">This is for {holders(who)}.' in shown) is off
