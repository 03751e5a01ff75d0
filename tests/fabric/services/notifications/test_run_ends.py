"""Webhooks about runs that ended: of the named fabrics, once each, signed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fabric.adapters.notifications.webhook import Webhooks, secret_bytes, signature
from fabric.core.texts.notifications import ENDS, EVERY_FABRIC, Channel, Target, build_key, rfc3339
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace as changed
from fabric.management.run_follower import Following
from fabric.models import Notification, NotificationTarget, Run
from fabric.services.actors import drills_workspace_ensure
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.notifications import run_ends as module
from fabric.services.notifications.delivery import NotificationChannels, notifications_send
from fabric.services.notifications.run_ends import run_ends_make, run_ends_wanted
from fabric.services.runs.control import run_cancel
from fabric.services.runs.labels import run_label
from fabric.services.runs.start import run_start
from fabric.worker.process.duties import database_us
from tests.fabric.adapters.notifications.receivers import webhook_receiver
from tests.fabric.services.notifications.scenes import HOOK
from tests.fabric.services.world import GIVEN_UP, ran

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ALL = changed(HOOK, ends=frozenset({EVERY_FABRIC}))
SMALL = changed(HOOK, ends=frozenset({"small"}))


def made(*targets):
    return run_ends_make(targets, now=database_us())


def rows():
    return [(one.run_id, one.told) for one in Notification.objects.order_by("at")]


def test_ends_are_told_of_the_named_fabrics_alone_and_once(actor, small):
    assert not run_ends_wanted([HOOK]), "who wants no ends"
    assert run_ends_wanted([SMALL]), "a target is new"
    assert (made(SMALL), run_ends_wanted([SMALL])) == (0, False)
    run = ran(actor, small)
    ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    assert run_ends_wanted([SMALL])
    assert (made(SMALL, HOOK), made(SMALL, HOOK)) == (1, 0)
    assert rows() == [(run.id, "run_completed")]
    assert Notification.objects.get().id == build_key(run.id, run.last_seq, HOOK.id)
    assert not run_ends_wanted([SMALL])


def test_an_end_has_the_labels_of_its_run(actor, small):
    made(SMALL)
    run = ran(actor, small)
    run_label(actor=actor, run_id=run.id, set={"team": "ops", "case": "12"})
    made(SMALL)
    assert json.loads(bytes(Notification.objects.get().content))["labels"] == {"case": "12", "team": "ops"}


def test_a_fabric_that_is_named_later_is_told_of_from_then_on(actor, small):
    made(SMALL)
    given_up = fabric_publish(actor=actor, source=GIVEN_UP).name
    ran(actor, given_up)
    more = changed(HOOK, ends=frozenset({small, given_up}))
    assert made(more) == 0
    late = ran(actor, given_up)
    assert made(more) == 1
    assert rows() == [(late.id, "run_failed")]


def test_each_end_has_its_kind_and_runs_that_go_on_or_are_children_or_drills_have_none(actor, small):
    made(ALL)
    runs = {state: ran(actor, small).id for state in ENDS}
    for state, run_id in runs.items():
        Run.objects.filter(id=run_id).update(state=state)
    live, child, drilled = (ran(actor, small).id for _ in range(3))
    Run.objects.filter(id=live).update(state=RunState.RUNNING, ended_at=None)
    Run.objects.filter(id=child).update(parent_run_id=live)
    Run.objects.filter(id=drilled).update(workspace_id=drills_workspace_ensure(actor.workspace_id))
    assert made(ALL) == len(ENDS)
    assert dict(rows()) == {run_id: ENDS[state] for state, run_id in runs.items()}


def test_what_is_told_is_what_may_be_told(actor, small):
    made(ALL)
    run = ran(actor, small, text="A secret request")
    Run.objects.filter(id=run.id).update(
        reason="the key sk-proj-Zq3x9Lm2Vb7Nc5Tf8Rd1Wy6K was refused", cause="rate_limit"
    )
    made(ALL)
    row, content = Run.objects.get(), json.loads(bytes(Notification.objects.get().content))
    assert content == {
        "run_id": run.id,
        "fabric": "small",
        "revision": 1,
        "tier": run.tier,
        "stage": row.stage,
        "cost_usd_micros": row.cost_usd_micros,
        "tokens": row.tokens,
        "state": "completed",
        "reason": content["reason"],
        "cause": "rate_limit",
        "failure_type": "",
        "recovered": False,
        "truncated": False,
        "labels": {},
        "started_by": "owner",
        "created_at": rfc3339(row.created_at),
        "ended_at": rfc3339(row.ended_at),
    }
    assert "sk-proj" not in content["reason"]
    assert "was refused" in content["reason"]


def test_more_than_are_read_at_once_are_all_told(actor, small, monkeypatch):
    monkeypatch.setattr(module, "EVENTS_MAX", 2)
    made(ALL)
    for _ in range(5):
        ran(actor, small)
    assert made(ALL) == 5
    assert Notification.objects.count() == 5


def test_an_end_that_is_seen_late_is_told_within_the_lookback(actor, small):
    made(ALL)
    run = ran(actor, small)
    NotificationTarget.objects.update(since_at=0, read_to=database_us() + 10_000_000)
    assert made(ALL) == 1, "its commit came after the look"
    Notification.objects.all().delete()
    NotificationTarget.objects.update(read_to=Run.objects.get(id=run.id).ended_at + module.LOOKBACK_US + 1)
    assert made(ALL) == 0


@pytest.mark.parametrize(("answers", "state", "attempts"), [(204, "sent", 1), (503, "waiting", 1), (410, "failed", 1)])
def test_a_receiver_gets_it_signed_and_what_it_answers_is_kept(store, nudge, actor, small, answers, state, attempts):
    with webhook_receiver() as hook:
        hook.answers.append((answers, {}, b""))
        target = Target(channel=Channel.WEBHOOK, address=hook.url, ends=frozenset({small}))
        made(target)
        run_id = run_start(store=store, nudge=nudge, actor=replace(actor, name="ana"), fabric=small, text="Why?").run_id
        run_cancel(store=store, nudge=nudge, actor=actor, run_id=run_id, reason="Not needed.")
        Following(actor, run_id, wait=True).to_rest()
        made(target)
        sends = {Channel.WEBHOOK: Webhooks(secret_bytes(SECRET)).send}
        channels = NotificationChannels(
            targets=[target], sends=sends, base="https://fabric.example.org", now=database_us
        )
        assert notifications_send(channels) == 1
    (got,) = hook.got
    signed = (got.headers["webhook-id"], int(got.headers["webhook-timestamp"]), got.body)
    assert got.headers["webhook-signature"] == signature(secret_bytes(SECRET), *signed)
    body = json.loads(got.body)
    assert (body["type"], body["data"]["state"]) == ("fabric_flow.run_cancelled", "cancelled")
    assert body["data"]["link"] == f"https://fabric.example.org/runs/{run_id}"
    assert body["data"]["started_by"] == "ana"
    row = Notification.objects.get()
    assert (row.state, row.attempts, row.id) == (state, attempts, got.headers["webhook-id"])
