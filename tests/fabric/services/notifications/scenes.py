"""Runs that tell of something: journals with an alert, a review, a reminder, and targets to tell."""

from __future__ import annotations

from fabric.adapters.notifications.webhook import Webhooks
from fabric.composition import engine as wiring
from fabric.core import events as ev
from fabric.core.texts.notifications import Channel, Target, build_key
from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause
from fabric.models import Event as EventRow
from fabric.models import Notification, Review
from fabric.services.notifications.creation import notifications_make
from fabric.services.notifications.delivery import NotificationChannels, notifications_send
from fabric.services.runs.start import run_start
from fabric.worker.process.duties import database_us
from tests.fabric.selectors.journals import Teller, write

S = 1_000_000
OPS = Target(channel=Channel.EMAIL, address="ops@example.org")
HOOK = Target(channel=Channel.WEBHOOK, address="https://hooks.example.org/secret")
ALERT = ev.AlertRaised(
    mechanism="retry", cause=Cause.RATE_LIMIT, message="429 from the provider", reaction="fallback_model"
)
KEY = bytes(32)
BASE = "http://testserver"


def telling(
    actor, nudge, fabric, *, at=None, alert=ALERT, review="esc-1", reminded=(), became=(), item="failure", **row
):
    """A run whose journal tells of an alert and a review, that many seconds before or after now; its id."""
    run_id = run_start(store=wiring.store(), nudge=nudge, actor=actor, fabric=fabric, text="Why?").run_id
    teller = Teller()
    teller.at = (database_us() if at is None else at) + S
    teller.start().enter(Stage.PLAN, "planner")
    if alert is not None:
        teller.react("fallback_model", "retry", scope="stage:plan").tell(alert)
    if review:
        teller.put_to("owner", Stage.PLAN, name=review, item=item)
        teller.tell(*(ev.ReviewReminded(review_id=review, step=step) for step in reminded))
        teller.tell(*became)
    write(run_id, teller.events)
    if review:
        asked = {"item": item, "reason": "it failed", "verbs": "approve,reject", "digest": "d", "content": b"{}"}
        Review.objects.create(
            id=review,
            workspace_id=actor.workspace_id,
            run_id=run_id,
            opened_at=teller.at,
            due_at=teller.at + 3_600 * S,
            failure_type="provider",
            **{**asked, **row},
        )
    return run_id


def known(*targets):
    """Makes targets known: they are told what comes from now on."""
    assert notifications_make(targets, now=database_us()) == 0


def made(*targets):
    return notifications_make(targets, now=database_us())


def post_to(*targets, sends=None, now=database_us):
    sends = sends if sends is not None else {Channel.WEBHOOK: Webhooks(KEY, deadline_s=5.0).send}
    return NotificationChannels(targets=targets, sends=sends, base=BASE, now=now)


def sent(*targets, **more):
    return notifications_send(post_to(*targets, **more))


def told_events(run_id):
    kinds = ("alert_raised", "review_opened", "review_reminded")
    return list(EventRow.objects.filter(run_id=run_id, kind__in=kinds).order_by("seq").values_list("seq", flat=True))


def notification_row(actor, run_id, state="failed"):
    """A notification of a run that could not be sent; its id."""
    row = Notification.objects.create(
        id=build_key(run_id, 1, HOOK.id),
        workspace_id=actor.workspace_id,
        run_id=run_id,
        seq=1,
        told="review",
        channel=HOOK.channel,
        target=HOOK.id,
        shown=HOOK.public_address,
        content=encode({"run_id": run_id, "fabric": "small", "reason": "it failed"}),
        at=1,
        state=state,
        attempts=1,
        made_at=1,
        next_at=1,
        error="https://hooks.example.org answered HTTP 410",
    )
    return row.id
