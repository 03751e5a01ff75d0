"""The audit stream: every act is told in the transaction that does it, and sealed into one chain a workspace."""

import json
from dataclasses import replace

import pytest
from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.models import AuditLine
from fabric.selectors.audit.journal_verification import VerifiedCounts
from fabric.selectors.audit.lookup import build_hash, stream_end
from fabric.selectors.audit.stream_verification import verify_streams
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.actors import login_link_consume, login_link_create, owner_ensure
from fabric.services.acts import audit_record
from fabric.services.audit import checkpoints as sealing
from fabric.services.audit.checkpoints import audit_seal, audit_waits
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.people.tokens import token_create, token_revoke
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.control import run_cancel, run_pause, run_resume, run_terminate
from fabric.services.runs.start import run_start
from tests.fabric.services.world import SMALL, ran


def acts(*kinds):
    rows = AuditLine.objects.filter(**({"kind__in": kinds} if kinds else {})).order_by("at", "id")
    return [(row.actor, row.via, row.kind, row.subject, json.loads(bytes(row.body))) for row in rows]


def test_an_installation_begins_with_its_workspace_and_its_owner(actor):
    assert acts() == [
        ("system", "", "workspace_created", "default", {}),
        ("system", "", "user_created", "owner", {}),
    ]
    owner_ensure()
    assert len(acts()) == 2, "what is there already is no act"


def test_what_is_done_is_told_once_and_what_is_not_done_is_not(actor, store, nudge):
    for source in (SMALL, SMALL, SMALL.replace("Plan.", "Plan well.")):
        fabric_publish(actor=actor, source=source)
    with pytest.raises(Refused):
        fabric_publish(actor=actor, source="name: nothing")
    token_create(actor=actor, name="ci", scopes=["read", "start"])
    with pytest.raises(Refused):
        token_create(actor=actor, name="ci")
    assert token_revoke(actor=actor, name="ci")
    assert not token_revoke(actor=actor, name="ci")
    published = [told for *_, told in acts("fabric_published")]
    assert [told["revision"] for told in published] == [1, 2]
    assert len({told["digest"] for told in published}) == 2
    assert [(who, kind, name) for who, _, kind, name, _ in acts("token_created", "token_revoked")] == [
        ("owner", "token_created", "ci"),
        ("owner", "token_revoked", "ci"),
    ]
    assert acts("token_created")[0][-1] == {
        "user": "owner",
        "scopes": ["read", "start"],
        "expires_at": acts("token_created")[0][-1]["expires_at"],
    }


def test_signing_in_is_told_with_its_link(actor):
    token = login_link_create(owner_ensure())
    assert login_link_consume(token) is not None
    assert login_link_consume(token) is None
    (made,), (used,) = acts("login_link_created"), acts("signed_in")
    assert made[:4] == ("system", "command_line", "login_link_created", "owner")
    assert used[:4] == ("owner", "", "signed_in", "owner")
    assert token not in str(acts())


def test_a_decision_and_a_cancellation_are_told_with_their_input(actor, doubtful, store, nudge):
    run = ran(actor, doubtful)
    (item,) = list_open_reviews(actor, run.id)
    programs = replace(actor, via="token:ci")
    for _ in range(2):
        decide_review(
            store=store,
            nudge=nudge,
            actor=programs,
            review_id=item.id,
            digest=item.digest,
            verb="approve",
            message="sesame",
        )
    for _ in range(2):
        run_cancel(store=store, nudge=nudge, actor=actor, run_id=run.id, reason="sesame")
    (decided,), (cancelled,) = acts("decision_sent"), acts("cancel_sent")
    assert decided[:4] == ("owner", "token:ci", "decision_sent", run.id)
    assert decided[4] == {
        "item": item.id, "verb": "approve", "digest": item.digest, "input_id": f"decision:{item.id}:0",
    }  # fmt: skip
    assert cancelled == ("owner", "", "cancel_sent", run.id, {"input_id": "cancel"})
    assert "sesame" not in str(acts()), "what people say belongs to the run, whose contents can be erased"


def test_taking_hold_of_a_run_is_told(actor, small, store, nudge):
    run_id = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="What?").run_id
    given = {"store": store, "nudge": nudge, "actor": actor, "run_id": run_id}
    assert (run_pause(**given), run_pause(**given)) == (True, False)
    assert (run_resume(**given), run_resume(**given)) == (True, False)
    assert (run_terminate(**given, reason="sesame"), run_terminate(**given, reason="again")) == (True, False)
    told = acts("pause_sent", "resume_sent", "terminate_sent")
    assert [(who, kind, subject) for who, _, kind, subject, _ in told] == [
        ("owner", "pause_sent", run_id),
        ("owner", "resume_sent", run_id),
        ("owner", "terminate_sent", run_id),
    ]
    assert "sesame" not in str(told)


def test_a_run_is_told_once_however_often_it_is_asked_for(actor, small, store, nudge):
    given = {"store": store, "nudge": nudge, "actor": actor, "fabric": small, "text": "sesame", "start_key": "k"}
    first, again = run_start(**given), run_start(**given)
    ((who, _, _, subject, told),) = acts("run_started")
    assert (who, subject, again.run_id) == ("owner", first.run_id, first.run_id)
    assert told["tier"] == "interactive"
    assert "sesame" not in str(told)


def test_an_act_that_is_rolled_back_was_none(actor):
    with transaction.atomic():
        undo = transaction.savepoint()
        audit_record(actor=actor, act=Act.RETENTION_SET, subject="x")
        transaction.savepoint_rollback(undo)
    assert acts("retention_set") == []


def test_sealing_gives_each_line_its_place_once(actor, stranger):
    for number in range(3):
        for who in (actor, stranger):
            audit_record(actor=who, act=Act.RETENTION_SET, subject=f"{number}")
    assert audit_waits()
    assert audit_seal() == 8
    assert not audit_waits()
    before = list(AuditLine.objects.order_by("id").values_list("workspace_id", "seq", "hash"))
    assert audit_seal() == 0
    audit_record(actor=actor, act=Act.RETENTION_SET, subject="later")
    assert audit_seal() == 1
    after = list(AuditLine.objects.order_by("id").values_list("workspace_id", "seq", "hash"))
    assert after[: len(before)] == before
    mine = AuditLine.objects.filter(workspace_id=actor.workspace_id).order_by("seq")
    assert [line.seq for line in mine] == [1, 2, 3, 4, 5, 6]
    head = b"\0" * 32
    for line in mine:
        head = build_hash(line, line.seq, head)
        assert bytes(line.hash) == head
    assert stream_end(actor.workspace_id) == (6, head)
    assert list(verify_streams(VerifiedCounts())) == []


def test_more_than_fits_into_one_transaction_is_sealed_as_well(actor, monkeypatch):
    monkeypatch.setattr(sealing, "LINES", 3)
    for number in range(10):
        audit_record(actor=actor, act=Act.RETENTION_SET, subject=f"{number}")
    assert audit_seal() == 12
    counted = VerifiedCounts()
    assert list(verify_streams(counted)) == []
    assert (counted.lines, counted.unsealed) == (12, 0)


def test_every_act_has_a_line_somewhere():
    """An act that nothing tells would be one that is never seen."""
    from tests.test_tidy import ROOT

    acting = [path for part in ("fabric", "simulator", "console") for path in (ROOT / part).rglob("*.py")]
    sources = "".join(path.read_text() for path in acting if path.name != "audit.py")
    assert {act.name for act in Act if f"Act.{act.name}" not in sources} == set()
