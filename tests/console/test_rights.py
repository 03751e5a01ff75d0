"""Every address that changes something, as each of the eight roles: who may not is told so and changes nothing, and who may is not stopped.

Total over the addresses: a new one that takes a POST needs a row in ``ASKED``, which says the right that it wants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from django.test import Client

from console.access import ROUTES, Policy
from console.api.callers import SCOPES
from fabric.core.roles import RIGHTS, Right, Role, holders
from fabric.core.taxonomy import FailureType, Tier
from fabric.models import AuditLine, Inbox, Member, MemoryEntry, ModelTest, ProviderKey, Revision, Run
from fabric.selectors.breakers import breakers_of
from fabric.selectors.escalations import escalations_open
from fabric.services.fabrics import fabric_publish
from fabric.services.invitations import invitation_create
from fabric.services.model_list import models_list
from fabric.services.tokens import Scope, token_create
from simulator.drills.models import Drill, Schedule, StoredScenario
from simulator.drills.schedules import schedule_create
from simulator.drills.services import drill_ask
from simulator.library.services import scenario_save
from tests.console import test_access
from tests.fabric.services.test_memories import REMEMBERING
from tests.fabric.services.world import SMALL, change_waits, ran
from tests.people import member, signed_in
from tests.simulator.library.sources import source

QUESTION = "it is for whoever the question asks"
OWN = "it is about one's own sign-in, or an invitation"
LOOK, RUN, CONTROL, EDIT, OPERATE, MEMBERS, KEYS, AUDIT, REVEAL = (
    Right.LOOK, Right.RUN, Right.CONTROL, Right.EDIT, Right.OPERATE, Right.MEMBERS, Right.KEYS, Right.AUDIT, Right.REVEAL,
)  # fmt: skip
BYTES = (AUDIT, REVEAL)
"""Either lets somebody take a journal away byte for byte."""


class Asked(NamedTuple):
    """What is posted to an address, and the right that it wants, or one of several; a sentence: rights are not what decides there."""

    wants: Right | tuple[Right, ...] | str
    body: Mapping[str, Any] = {}

    @property
    def rights(self) -> tuple[Right, ...]:
        """The rights of which one is enough."""
        if isinstance(self.wants, tuple):
            return self.wants
        return (self.wants,) if isinstance(self.wants, Right) else ()

    @property
    def roles(self) -> frozenset[Role]:
        """Who has one of them."""
        return frozenset().union(*(RIGHTS[right] for right in self.rights))


WHY = {"reason": "To see."}
SOURCE = {"source": source("another")}
SCHEDULE = {"fabric": "small", "cron": "0 3 * * *", "cells": "all"}
MOVE = {"generation": 0, **WHY}
ROLES = {"roles": ["viewer"]}
CELL = {"failure": "cost_overrun", "tier": "interactive"}
PLACE = {"provider": "openai", "host": "https://api.example.org/v1"}
SECRET = {**PLACE, "key": "sk-0123456789abcdef"}
KEY = {"memory": "notes", "key": "k", **WHY}

PAGES: Mapping[str, Asked] = {
    "login": Asked(OWN),
    "login-link": Asked(OWN),
    "logout": Asked(OWN),
    "invitation": Asked(OWN),
    "start": Asked(RUN, {"fabric": "small", "text": "What do the notes say?"}),
    "run-cancel": Asked(CONTROL, WHY),
    "run-terminate": Asked(CONTROL, WHY),
    "run-pause": Asked(CONTROL, WHY),
    "run-resume": Asked(CONTROL),
    "run-say": Asked(CONTROL, {"text": "Mind the VAT."}),
    "run-fork": Asked(RUN, {"what": "", "value": "", "start_key": "k"}),
    "run-export": Asked(BYTES),
    "run-context": Asked(CONTROL, {"name": "k", "value": "1"}),
    "run-event-reveal": Asked(REVEAL),
    "review-reveal": Asked(REVEAL),
    "run-scenario": Asked(EDIT, {"name": "kept"}),
    "decide": Asked(QUESTION),
    "decision-undo": Asked(QUESTION),
    "decision-continue": Asked(QUESTION),
    "reviews-next": Asked(QUESTION),
    "reviews-together": Asked(QUESTION),
    "reviews-export": Asked(AUDIT, {"form": "csv"}),
    "review-changes": Asked(QUESTION),
    "review-claim": Asked(QUESTION),
    "review-release": Asked(QUESTION),
    "review-reassign": Asked(QUESTION),
    "review-beat": Asked(QUESTION),
    "review-close": Asked(QUESTION),
    "drills-ask": Asked(RUN, {"fabric": "small", "cells": "cost_overrun:batch"}),
    "drills-stop": Asked(OPERATE, {"fabric": "small"}),
    "drills-lever": Asked(OPERATE, {"act": "pull", **WHY}),
    "drills-schedules": Asked(OPERATE, {"fabric": "small", "cron": "0 3 * * *", "what": "all"}),
    "drills-schedule": Asked(OPERATE, {"act": "pause", "version": 1}),
    "scenario-new": Asked(EDIT, SOURCE),
    "scenario-ask": Asked(RUN, {"fabric": "small", "tier": ["batch"], "do": "run", "mode": "virtual"}),
    "scenario-edit": Asked(EDIT, {"source": source("mine"), "version": 1}),
    "scenario-duplicate": Asked(EDIT, {"to": "copied"}),
    "scenario-delete": Asked(EDIT, {"version": 1}),
    "breaker": Asked(OPERATE, {"act": "open", "generation": 0, **WHY}),
    "fabric-draft": Asked(EDIT, {"step": 0, "f.title": "Another"}),
    "fabric-draft-begin": Asked(EDIT),
    "fabric-new": Asked(EDIT, {"template": "blank"}),
    "fabric-import": Asked(EDIT, {"source": SMALL, "name": "another"}),
    "fabric-duplicate": Asked(EDIT, {"to": "another"}),
    "fabric-draft-beat": Asked(EDIT, {"part": "Fabric"}),
    "fabric-draft-undo": Asked(EDIT, {"step": 0}),
    "fabric-draft-redo": Asked(EDIT, {"step": 0}),
    "fabric-draft-discard": Asked(EDIT, {"step": 0}),
    "fabric-draft-publish": Asked(EDIT, {"step": 0, "act": "publish"}),
    "fabric-draft-drills": Asked(RUN, {"step": 0, "cells": "all"}),
    "fabric-draft-merge": Asked(EDIT, {"step": 0, "base": 1}),
    "fabric-request": Asked(EDIT, {"act": "reject", **WHY}),
    "fabric-revert": Asked(EDIT, {"number": 1, "expect": 1, "act": "revert"}),
    "fabric-memory": Asked(OPERATE, {"act": "write", "key": "k", "version": 0, "value": "1", **WHY}),
    "fabric-memory-export": Asked(LOOK),
    "notification-resend": Asked(OPERATE),
    "notifications-mine": Asked("it is about one's own mail"),
    "model-key": Asked(KEYS, SECRET),
    "model-key-delete": Asked(KEYS, PLACE),
    "model-test": Asked(EDIT, {"at_most": "1000"}),
    "member-invite": Asked(MEMBERS, ROLES),
    "member-service": Asked(MEMBERS, {"name": "nightly", "roles": ["operator"]}),
    "member": Asked(MEMBERS, {"act": "roles", "before": "viewer", "roles": ["auditor"]}),
    "invitation-revoke": Asked(MEMBERS),
    "token-create": Asked(MEMBERS, {"name": "another", "scopes": ["read"]}),
    "token-revoke": Asked("one's own are for oneself, those of others for owners"),
    "account": Asked(OWN),
}
"""Pages that take a POST."""

API: Mapping[str, Asked] = {
    "api-runs": Asked(RUN, {"fabric": "small", "text": "What do the notes say?"}),
    "api-run-cancel": Asked(CONTROL, WHY),
    "api-run-terminate": Asked(CONTROL, WHY),
    "api-run-pause": Asked(CONTROL, WHY),
    "api-run-resume": Asked(CONTROL),
    "api-run-say": Asked(CONTROL, {"text": "Mind the VAT."}),
    "api-run-context": Asked(CONTROL, {"set": {"k": 1}}),
    "api-run-fork": Asked(RUN, {"seq": 1}),
    "api-run-export": Asked(BYTES),
    "api-run-event-reveal": Asked(REVEAL, {"seq": 1}),
    "api-escalation-reveal": Asked(REVEAL),
    "api-run-scenario": Asked(EDIT),
    "api-escalation-decision": Asked(QUESTION),
    "api-escalation-undo": Asked(QUESTION),
    "api-escalation-continue": Asked(QUESTION),
    "api-escalations-decide": Asked(QUESTION),
    "api-escalation-next": Asked(QUESTION),
    "api-escalation-claim": Asked(QUESTION),
    "api-escalation-reassign": Asked(QUESTION),
    "api-escalation-heartbeat": Asked(QUESTION),
    "api-escalation-release": Asked(QUESTION),
    "api-escalation-close": Asked(QUESTION),
    "api-decisions-export": Asked(AUDIT),
    "api-breakers-open": Asked(OPERATE, MOVE),
    "api-breakers-reset": Asked(OPERATE, MOVE),
    "api-fabrics": Asked(EDIT, {"source": SMALL}),
    "api-drafts": Asked(EDIT, {"source": SMALL, "name": "another"}),
    "api-changes": Asked(EDIT, {"source": SMALL}),
    "api-change-approve": Asked(EDIT, {"digest": "0" * 32}),
    "api-change-reject": Asked(EDIT, WHY),
    "api-change-withdraw": Asked("it is for whoever asked"),
    "api-fabric-lint": Asked(EDIT, {"source": SMALL}),
    "api-fabric-revert": Asked(EDIT, {"revision": 1}),
    "api-fabric-memories-export": Asked(LOOK),
    "api-fabric-memory-write": Asked(OPERATE, {**KEY, "version": 0, "value": 1}),
    "api-fabric-memory-delete": Asked(OPERATE, {**KEY, "version": 1}),
    "api-fabric-drills": Asked(RUN, {"cells": [CELL]}),
    "api-scenarios": Asked(EDIT, SOURCE),
    "api-scenarios-check": Asked(RUN, SOURCE),
    "api-scenario-drills": Asked(RUN),
    "api-drills-stop": Asked(OPERATE),
    "api-drills-lever-pull": Asked(OPERATE, WHY),
    "api-drills-lever-release": Asked(OPERATE, WHY),
    "api-drills-schedules": Asked(OPERATE, SCHEDULE),
    "api-drills-schedule": Asked(OPERATE, {**SCHEDULE, "version": 1}),
    "api-drills-schedule-pause": Asked(OPERATE, {"version": 1}),
    "api-drills-schedule-resume": Asked(OPERATE, {"version": 1}),
    "api-drills-schedule-delete": Asked(OPERATE, {"version": 1}),
    "api-drills-schedule-run": Asked(OPERATE),
    "api-notification-resend": Asked(OPERATE),
    "api-model-key": Asked(KEYS, SECRET),
    "api-model-key-delete": Asked(KEYS, PLACE),
    "api-model-test": Asked(EDIT),
    "api-invitations": Asked(MEMBERS, ROLES),
    "api-invitation-revoke": Asked(MEMBERS),
    "api-tokens": Asked(MEMBERS, {"name": "another", "user": "target", "scopes": ["read"]}),
    "api-token-revoke": Asked("one's own are for oneself, those of others for owners"),
    "api-notifications-mine": Asked("it is about one's own mail"),
    "api-member-services": Asked(MEMBERS, {"name": "nightly", "roles": ["operator"]}),
    "api-member-roles": Asked(MEMBERS, {"roles": ["auditor"]}),
    "api-member-remove": Asked(MEMBERS),
}
"""Operations that take a POST."""


class World(NamedTuple):
    """What there is, and who looks at it."""

    of: Mapping[str, Any]
    """What stands in addresses."""
    browsers: Mapping[Role, Client]
    programs: Mapping[Role, Client]


@pytest.fixture
def world(actor, owner, small, doubtful, monkeypatch) -> World:
    """A run that waits, drills that wait, a schedule, a scenario, an invitation, a member: all the owner's; and a member of each role alone."""
    fabric_publish(actor=actor, source=REMEMBERING.replace("name: remembering", "name: small"))
    run = ran(actor, doubtful)
    batch = drill_ask(actor=actor, fabric="small", cells=[(FailureType.PROVIDER, Tier.BATCH)]).batch
    scenario_save(actor=replace(actor, name="the-editor"), source=source("mine"))
    breaker = next(one for one in breakers_of(actor) if one.over == "provider")
    target = member("target", "viewer")
    there = {
        "run_id": run.id,
        "escalation_id": escalations_open(actor, run.id)[0].id,
        "name": "small",
        "batch": batch,
        "schedule_id": schedule_create(actor=actor, **SCHEDULE).id,
        "scenario_name": "mine",
        "invitation_id": invitation_create(actor=actor, roles=["viewer"]).id,
        "model_id": models_list(actor).models[0].id,
        "member_id": Member.objects.get(name=target.username).id,
        "memory": "notes",
        "scope": breaker.scope,
        "digest": breaker.kind.partition(":")[2],
        "kind": breaker.kind,
        "change_id": change_waits(actor, "small"),
    }
    browsers, programs = {}, {}
    for role in Role:
        user = member(f"the-{role}", role)
        browsers[role] = signed_in(user)
        secret = token_create(actor=actor, name=f"of-{role}", user=user.username, scopes=tuple(Scope)).secret
        programs[role] = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {secret}")
    monkeypatch.setattr(test_access, "SAMPLE", {**test_access.SAMPLE, **there})
    return World(there, browsers, programs)


def standing() -> Mapping[str, int]:
    """How much there is of what can be made."""
    counted = (
        AuditLine,
        Revision,
        Run,
        Inbox,
        Drill,
        Schedule,
        StoredScenario,
        Member,
        MemoryEntry,
        ModelTest,
        ProviderKey,
    )
    return {model.__name__: model.objects.count() for model in counted}


def page(world: World, role: Role, name: str) -> Any:
    return world.browsers[role].post(test_access.address(name), PAGES[name].body)


def operation(world: World, role: Role, name: str) -> Any:
    where = test_access.address(name)
    if name.startswith("api-member-"):
        where = where.replace("/members/small/", "/members/target/")
    body = dict(API[name].body)
    if name.startswith("api-breakers-"):
        body |= {"scope": world.of["scope"], "kind": world.of["kind"]}
    return world.programs[role].post(where, json.dumps(body), content_type="application/json")


DOORS: Mapping[str, tuple[Mapping[str, Asked], Callable[[World, Role, str], Any]]] = {
    "pages": (PAGES, page),
    "api": (API, operation),
}


@pytest.mark.parametrize("door", DOORS)
def test_who_has_not_the_right_is_told_who_has_it_and_changes_nothing(door, world):
    table, ask = DOORS[door]
    before, wrong = standing(), []
    for name, asked in table.items():
        for role in set(Role) - asked.roles if asked.rights else ():
            answer = ask(world, role, name)
            said = answer.content.decode() if answer.status_code == 403 else ""
            if not all(holders(right) in said for right in asked.rights):
                wrong.append(f"{name} as {role}: {answer.status_code}")
    assert sorted(wrong) == []
    assert standing() == before


@pytest.mark.parametrize("door", DOORS)
def test_who_has_the_right_is_not_stopped(door, world):
    table, ask = DOORS[door]
    wrong = []
    for name, asked in table.items():
        for role in sorted(asked.roles):
            answer = ask(world, role, name)
            if answer.status_code in (401, 403) or answer.status_code >= 500:
                wrong.append(f"{name} as {role}: {answer.status_code}")
    assert sorted(wrong) == []


def test_every_address_that_takes_a_post_says_which_right_it_wants(world):
    taking = {
        name
        for name, policy in ROUTES.items()
        if policy is not Policy.API
        and name not in {*PAGES, "styleguide"}
        and world.browsers[Role.VIEWER].post(test_access.address(name)).status_code != 405
    }
    assert taking == set()
    assert {route for route, method in SCOPES if method != "GET"} == set(API)
    assert set(PAGES) <= set(ROUTES)
    assert {method for _, method in SCOPES} == {"GET", "POST"}


READABLE = {"run-events-download": "?form=readable"}
"""What everybody sees of an address that gives more to some."""


def test_everybody_sees_every_page(world):
    wrong = []
    for name, policy in ROUTES.items():
        if policy is not Policy.SIGNED_IN:
            continue
        for role in (Role.VIEWER, Role.AUDITOR, Role.FINANCE):
            answer = world.browsers[role].get(test_access.address(name) + READABLE.get(name, ""))
            if answer.status_code == 403:
                wrong.append(f"{name} as {role}")
    assert sorted(wrong) == []


@pytest.mark.parametrize(
    ("path", "button", "who"),
    [
        ("/start", "Start the run", Right.RUN),
        ("/runs/{run_id}/cancel", "Cancel the run", Right.CONTROL),
        ("/drills/library/endpoint-down?fabric=small", "Run", Right.RUN),
        ("/drills/library/new", "Keep it in the library", Right.EDIT),
        ("/drills/schedules", "Make the schedule", Right.OPERATE),
    ],
)
def test_a_button_that_does_nothing_for_who_looks_on_says_for_whom_it_is(world, path, button, who):
    for role, off in ((Role.VIEWER, True), (Role.OWNER, False)):
        shown = world.browsers[role].get(path.format(**world.of)).content.decode()
        found = re.search(rf'<button type="submit"([^>]*)>(?:<svg.*?</svg>)?{button}', shown, flags=re.DOTALL)
        assert ('disabled aria-describedby="lacks"' in found[1]) is off
        assert (f'id="lacks">This is for {holders(who)}.' in shown) is off
