"""The tests of bad input share every page and form, a world with something to show, and the rules of a good answer."""

from __future__ import annotations

import html
import re
import time
from dataclasses import replace
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver, get_resolver

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.spec.policies.breakers import BreakerScope, endpoint
from fabric.core.texts.notifications import build_key
from fabric.models import (
    AuditLine,
    ChangeRequest,
    ChatRoute,
    Event,
    Fabric,
    Inbox,
    Invitation,
    JobAction,
    Member,
    MemoryEntry,
    Review,
    Run,
    RunJob,
    SavedView,
    StartStop,
)
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.query.choices import RunChoice
from fabric.services.audit.holds import hold_place
from fabric.services.drafts.changes import draft_change, draft_of_fabric
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.edits import InsertEdit, PutEdit
from fabric.services.models.catalogue import models_list
from fabric.services.people.invitations import invitation_create
from fabric.services.runs.jobs.requests import job_begin
from fabric.services.runs.saved_views import view_save
from fabric.services.runs.start import run_start
from fabric.services.runs.stops import stop_new_runs
from fabric.worker.nudges.listener import NullNudge
from simulator.drills.library.services import scenario_save
from simulator.drills.models.tables import Drill, Schedule
from simulator.drills.schedules.services import schedule_create
from simulator.drills.services.drills import drill_ask
from tests.fabric.services.notifications.scenes import HOOK, notification_row
from tests.fabric.services.world import DOUBTFUL, NOTES, SMALL, change_waits, ran
from tests.people import member
from tests.simulator.drills.management.sources import plain

BREAKER = endpoint().kind.partition(":")[2]
"""The digest of a provider's breaker."""

TOOL = {
    "name": "pay",
    "kind": "http",
    "effect": "irreversible",
    "description": "Pays somebody.",
    "target": "https://pay.invalid/payments",
    "parameters": {"type": "object", "properties": {"usd": {"type": "integer"}}, "required": ["usd"]},
}


def guarded(name, scope):
    """A fabric whose calls a breaker stands in front of."""
    breakers = f"policy:\n  breakers: [{{preset: endpoint, scope: {scope}}}]\n"
    return SMALL.replace("name: small", f"name: {name}").replace("policy:\n", breakers)


@pytest.fixture
def run(actor, doubtful):
    """Another member's run that waits for a person, a circuit breaker, a memory and a notification that failed, so that every page has something to show."""
    fabric_publish(actor=actor, source=guarded("guarded", "provider"))
    fabric_publish(actor=actor, source=f"{DOUBTFUL}memories:\n  - {{name: notes, scope: fabric}}\n")
    remember(fabric_get(actor, doubtful).id)
    found = ran(replace(actor, name="cleo"), doubtful)
    notification_row(actor, found.id)
    drilled(actor, "guarded")
    drafted(actor, doubtful)
    change_waits(actor, doubtful)
    acted_on_many(actor)
    scenario_save(actor=actor, source=plain("doubtful"))
    member("colleague", "viewer")
    invitation_create(actor=actor, roles=["viewer"])
    return found


def channel_of(workspace_id):
    """The id of a channel of a chat to which the reviews of a fabric go."""
    same = {"workspace_id": workspace_id, "channel": "slack", "host": "https://hooks.slack.com", "sealed": b"sealed"}
    found = ChatRoute.objects.get_or_create(fabric="doubtful", defaults={"added_at": 1, "added_by": "owner"}, **same)
    return found[0].id


def acted_on_many(actor):
    """A job that waits, and a saved view: their ids."""
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    return {"job_id": job.id, "view_id": view_save(actor=actor, name="Kept").id}


def drafted(actor, fabric):
    """A draft of a fabric that was changed once, with a tool of which no test request is sent."""
    begun = draft_of_fabric(actor=actor, name=fabric)
    edits = [PutEdit(("title",), "Changed"), InsertEdit(("tools", 1), TOOL)]
    draft_change(actor=actor, name=begun.name, step=begun.step, edits=edits, what="title")


def drilled(actor, fabric):
    """Drills that wait, and a schedule: the names of one of them, of its batch and of the schedule."""
    asked = drill_ask(actor=actor, fabric=fabric, cells="all")
    schedule = schedule_create(actor=actor, fabric=fabric, cron="0 3 * * *")
    return {"drill_id": asked.drills[0], "batch": asked.batch, "schedule_id": schedule.id}


def _drilled(workspace_id):
    one = Drill.objects.filter(workspace_id=workspace_id).first()
    return {"drill_id": one.id, "batch": one.batch} if one else {}


def _invited(workspace_id):
    who = Member.objects.filter(workspace_id=workspace_id, name="colleague").first()
    link = Invitation.objects.filter(workspace_id=workspace_id).first()
    return {"member_id": who.id, "invitation_id": link.id} if who and link else {}


def _recorded(workspace_id):
    one = AuditLine.objects.filter(workspace_id=workspace_id).first()
    return {"record_id": one.id} if one else {}


def _changed(workspace_id):
    one = ChangeRequest.objects.filter(workspace_id=workspace_id).first()
    return {"change_id": one.id} if one else {}


def _acted_on_many(workspace_id):
    job = RunJob.objects.filter(workspace_id=workspace_id).first()
    view = SavedView.objects.filter(workspace_id=workspace_id).first()
    return {"job_id": job.id, "view_id": view.id} if job and view else {}


def _scheduled(workspace_id):
    one = Schedule.objects.filter(workspace_id=workspace_id).first()
    return {"schedule_id": one.id} if one else {}


def _stopped(workspace_id):
    one = StartStop.objects.filter(workspace_id=workspace_id).first()
    return {"stop_id": one.id} if one else {}


def remember(fabric_id, key="budget", version=1, **more):
    """An entry of the memory ``notes``, as a run writes it."""
    written = {"value": "40", "run_id": str(uuid4()), "step_id": "fan_out.0.e0.r0", "agent": "reader"} | more
    at = time.time_ns() // 1_000
    MemoryEntry.objects.create(
        call_key=str(uuid4()), fabric_id=fabric_id, memory="notes", key=key, version=version, at=at, **written
    )


@pytest.fixture
def review(actor, run):
    return list_open_reviews(actor, run.id)[0]


@pytest.fixture
def foreign(stranger):
    """Names of another workspace's things: a run, a review, a fabric."""
    fabric_publish(actor=stranger, source=guarded("theirs", "fabric"))
    of = Fabric.objects.get(name="theirs").id
    fabric_publish(actor=stranger, source=DOUBTFUL)
    scenario_save(actor=stranger, source=plain("theirs"))
    asked = {"store": wiring.store(), "nudge": NullNudge(), "actor": stranger, "documents": (NOTES,)}
    started = run_start(fabric="theirs", text="their secret", **asked)
    theirs = list_open_reviews(stranger, ran(stranger, "doubtful").id)[0]
    breaker = {"scope": f"fabric:{of}", "digest": endpoint(BreakerScope.FABRIC).kind.partition(":")[2]}
    return {
        "run_id": started.run_id,
        "review_id": theirs.id,
        "name": "theirs",
        "scenario_name": "theirs",
        **breaker,
    } | {
        "notification_id": notification_row(stranger, theirs.run_id),
        "model_id": model_of(stranger.workspace_id),
        **drilled(stranger, "theirs"),
        **acted_on_many(stranger),
        **_theirs(stranger.workspace_id),
        "channel_id": channel_of(stranger.workspace_id),
        "stop_id": stop_new_runs(actor=stranger, fabric="theirs", reason="Their case.").id,
        "change_id": change_waits(stranger, "theirs"),
        "hold_id": hold_place(
            actor=replace(stranger, signed_in_at=2**62), about="fabric", name="theirs", reason="Their case."
        ).id,
        **_recorded(stranger.workspace_id),
    }


def model_of(workspace_id):
    """The id of a model that a fabric of a workspace names."""
    return models_list(Actor(name="somebody", workspace_id=workspace_id)).models[0].id


def _theirs(workspace_id):
    """A member of another workspace, and an invitation to it."""
    when = {"workspace_id": workspace_id, "created_at": 1, "created_by": "their owner", "roles": "viewer"}
    who = Member.objects.create(user=User.objects.create_user("their-viewer"), name="their-viewer", **when)
    link = Invitation.objects.create(token_hash="their-hash", expires_at=2**62, **when)
    return {"member_id": who.id, "invitation_id": link.id}


def routes():
    """Every page's route: its name, and its address with placeholders. What browsers send by themselves is no page's (test_csp_reports)."""
    found = []

    def walk(patterns, prefix):
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, prefix + str(pattern.pattern))
            elif isinstance(pattern, URLPattern):
                found.append((pattern.name or "", prefix + str(pattern.pattern)))

    walk(get_resolver().url_patterns, "")
    return [(name, address) for name, address in found if not address.startswith(("api/", "installation/"))]


ADDRESSES = dict(routes())
PAGES = [name for name in ADDRESSES if name != "logout"]


LOOKED_FOR = (
    ({"model_id"}, lambda space: {"model_id": model_of(space)}),
    ({"member_id", "invitation_id"}, _invited),
    ({"drill_id", "batch"}, _drilled),
    ({"schedule_id"}, _scheduled),
    ({"stop_id"}, _stopped),
    ({"channel_id"}, lambda space: {"channel_id": channel_of(space)}),
    ({"change_id"}, _changed),
    ({"record_id"}, _recorded),
    ({"job_id", "view_id"}, _acted_on_many),
)
"""What is asked of the workspace, and only where an address has it: thousands are made."""


def filled(address, run, review, **named):
    """A page's address for a run that is there."""
    asked = {*re.findall(r"<(?:\w+:)?(\w+)>", address)}
    by_name = {
        "run_id": str(run.id),
        "seq": "1",
        "review_id": review.id,
        "name": "doubtful",
        "scenario_name": "doubtful",
        "number": "1",
        "token": "nosuchtoken",
        "card": "runs",
        "tool": TOOL["name"],
        "agent": "critic",
        "scope": "provider:scripted",
        "memory": "notes",
        "digest": BREAKER,
        "notification_id": build_key(run.id, 1, HOOK.id),
    }
    for names, found in LOOKED_FOR:
        if names & asked - named.keys():
            by_name |= found(run.workspace_id)
    by_name |= named
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: by_name.get(found[1], "x"), address)


def to(form, run, review, **named):
    """A form's address. Tokens are made by each person for themselves."""
    if form == "token-create" and "member_id" not in named:
        named["member_id"] = Member.objects.get(workspace_id=run.workspace_id, name="owner").id
    return filled(ADDRESSES[form], run, review, **named)


def fine(answer, *, secret="their secret"):
    """Assert that an answer is one that a person may get."""
    assert answer.status_code < 500, answer.status_code
    if answer.streaming:
        return
    body = answer.content.decode("utf-8", "replace")
    assert secret not in body
    assert "Traceback" not in body
    if "html" in answer.headers["Content-Type"]:
        assert "<script>alert(1)" not in body
    if answer.status_code >= 400:
        text = " ".join(re.sub("<[^>]+>", " ", html.unescape(body.partition("<main")[2] or body)).split())
        assert len(text.split()) >= 4, f"{answer.status_code} without a sentence: {text[:200]!r}"


def standing():
    """Return what there is: runs, inputs, events, and how reviews stand."""
    kept = [list(model.objects.order_by("pk").values_list("pk", flat=True)) for model in (Run, Inbox, Event)]
    return [*kept, list(Review.objects.order_by("pk").values_list("pk", "decided_at", "verb"))]
