"""Old audit records are removed as their rules say: the chain verifies on, from a signed marker; and nothing that is held goes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fabric.core.audit.acts import ACTS
from fabric.core.audit.lines import Act
from fabric.models import AuditCut, AuditForward, AuditLine, Event, Hold, Run, Workspace
from fabric.secrets.signing import read_signer, verify_signature
from fabric.selectors.audit.files import file_verify
from fabric.selectors.audit.journal_verification import AuditFault, VerifiedCounts
from fabric.selectors.audit.lookup import AuditFilter, stream_end
from fabric.selectors.audit.stream_verification import verify_checkpoints, verify_streams
from fabric.services.actors import owner_actor
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal, checkpoint_make
from fabric.services.audit.export import audit_export
from fabric.services.audit.holds import hold_lift, hold_place
from fabric.services.audit.retention import ALL, DAY_US, _cut, _ranges, audit_retain, audit_rule_set, audit_rules
from fabric.services.errors import Refused
from fabric.services.installation.retention import retention_apply, retention_set
from tests.fabric.services.world import ran
from tests.people import member
from tests.servers.unguarded import unguarded

LATER = 40 * DAY_US


@pytest.fixture
def signer(tmp_path):
    return read_signer(tmp_path)


@pytest.fixture
def fresh(actor):
    return owner_actor()


def told(actor, act=Act.SIGNED_OUT, *, times=1, subject="x"):
    for _ in range(times):
        audit_record(actor=actor, act=act, subject=subject)
    audit_seal()


def findings(signer, *, trusted=True):
    keys = {signer.public} if trusted else set()
    return [one.fault for one in verify_streams(VerifiedCounts(), verified=verify_signature, trusted=keys)]


def later():
    return time.time_ns() // 1_000 + LATER


def test_records_of_a_kind_go_and_the_chain_goes_on_from_the_marker(actor, fresh, signer):
    told(fresh, times=3)
    told(fresh, Act.SIGNED_IN, times=2)
    told(fresh, times=2)
    audit_rule_set(actor=fresh, kind="signed_out", days=30)
    checkpoint_make(workspace_id=actor.workspace_id, signer=signer)
    assert audit_retain(signer=signer) == 0, "they are not thirty days old"
    assert audit_retain(signer=signer, now=later(), dry_run=True) == 5
    assert AuditLine.objects.filter(kind="signed_out").count() == 5
    assert audit_retain(signer=signer, now=later()) == 5
    assert set(AuditLine.objects.values_list("kind", flat=True)) >= {"signed_in", "audit_rule_set", "audit_cut"}
    assert not AuditLine.objects.filter(kind="signed_out").exists()
    assert AuditCut.objects.count() == 2
    audit_seal()
    assert findings(signer) == []
    checked = verify_checkpoints(VerifiedCounts(), verified=verify_signature, trusted={signer.public})
    assert [one.fault for one in checked] == []
    assert findings(signer, trusted=False)[:1] == [AuditFault.CUT_CHANGED]


def test_a_file_verifies_by_its_markers_and_not_by_others(actor, fresh, signer):
    told(fresh, times=3)
    told(fresh, Act.SIGNED_IN)
    audit_rule_set(actor=fresh, kind="signed_out", days=30)
    audit_retain(signer=signer, now=later())
    lines = b"".join(audit_export(actor=fresh, wanted=AuditFilter(), form="ndjson").pages()).splitlines(keepends=True)
    (mark,) = [line for line in lines if line.startswith(b'{"cut"')]

    def problems(given, *, trusted=True):
        return file_verify(given, verified=verify_signature, trusted={signer.public} if trusted else set()).problems

    assert problems(lines) == []
    assert "which is not this installation's" in " ".join(problems(lines, trusted=False))
    assert "what was between them is missing" in problems([line for line in lines if line != mark])[0]
    forged = mark.replace(b'\\"at\\":', b'\\"at\\":1')
    assert forged != mark
    assert "its signature is not over what it says" in " ".join(
        problems([forged if line == mark else line for line in lines])
    )


def test_what_verifying_and_erasing_go_by_stays_whatever_the_rule(actor, fresh, signer):
    kept = [act for act, said in ACTS.items() if said.kept]
    assert Act.RUN_ERASED in kept
    for act in (*kept, Act.SIGNED_OUT):
        told(fresh, act)
    audit_rule_set(actor=fresh, kind=ALL, days=30)
    audit_seal()
    audit_retain(signer=signer, now=later())
    left = set(AuditLine.objects.values_list("kind", flat=True))
    assert {act.value for act in kept} <= left
    assert Act.SIGNED_OUT.value not in left


def test_an_act_with_a_rule_of_its_own_is_none_of_the_rest(fresh, signer):
    told(fresh)
    told(fresh, Act.SIGNED_IN)
    audit_rule_set(actor=fresh, kind=ALL, days=30)
    audit_rule_set(actor=fresh, kind="signed_in", days=90)
    audit_retain(signer=signer, now=later())
    left = AuditLine.objects.filter(kind__in=("signed_in", "signed_out"))
    assert list(left.values_list("kind", flat=True)) == ["signed_in"]


def test_a_hold_that_comes_between_looking_and_removing_holds(actor, fresh, signer):
    member("vera", "viewer")
    told(fresh, times=2, subject="vera")
    audit_rule_set(actor=fresh, kind="signed_out", days=30)
    ((first, last),) = _ranges(actor.workspace_id, later())
    hold_place(actor=fresh, about="person", name="vera", reason="A case.")
    assert not _cut(actor.workspace_id, first, last, signer, later())
    assert AuditLine.objects.filter(kind="signed_out").count() == 2
    assert not AuditCut.objects.exists()


def test_the_stream_goes_on_after_its_end_was_removed(actor, fresh, signer):
    told(fresh, times=2)
    audit_rule_set(actor=fresh, kind=ALL, days=30)
    audit_seal()
    end = stream_end(actor.workspace_id)
    told(fresh, times=2)
    last = stream_end(actor.workspace_id)
    audit_retain(signer=signer, now=later())
    assert stream_end(actor.workspace_id) == last != end
    audit_seal()
    assert findings(signer) == []


def test_what_was_removed_without_a_marker_is_found_and_what_a_marker_lies_about_too(actor, fresh, signer):
    told(fresh, times=4)
    audit_rule_set(actor=fresh, kind="signed_out", days=30)
    audit_retain(signer=signer, now=later())
    told(fresh, Act.SIGNED_IN)
    with unguarded():
        AuditCut.objects.update(body=bytes(AuditCut.objects.get().body).replace(b'"head":"', b'"head":"0', 1))
    assert AuditFault.CUT_CHANGED in findings(signer)
    assert AuditFault.STREAM_GAP in findings(signer)
    with unguarded():
        AuditCut.objects.all().delete()
    assert AuditFault.STREAM_GAP in findings(signer)


@pytest.mark.parametrize(
    ("kind", "days", "says"),
    [("signed_out", 29, "30 to 36,500"), ("nothing", 90, "is no act"), ("run_erased", 90, "always kept"), (ALL, 0, "30")],
)  # fmt: skip
def test_a_rule_that_is_none_is_refused(fresh, kind, days, says):
    with pytest.raises(Refused, match=says):
        audit_rule_set(actor=fresh, kind=kind, days=days)


def test_a_rule_wants_a_fresh_sign_in(actor, fresh):
    with pytest.raises(Refused, match="sign in again") as caught:
        audit_rule_set(actor=replace(fresh, signed_in_at=1), kind="signed_out", days=30)
    assert (caught.value.field, audit_rules(fresh)) == ("sign_in", {})
    audit_rule_set(actor=fresh, kind="signed_out", days=30)
    assert audit_rules(fresh) == {"signed_out": 30}


def test_what_a_receiver_has_not_taken_stays(actor, fresh, signer, settings):
    """A receiver that was never sent anything included."""
    told(fresh, times=3)
    audit_rule_set(actor=fresh, kind="signed_out", days=30)
    settings.FABRIC_AUDIT_SYSLOG = "tcp://127.0.0.1:1"
    assert audit_retain(signer=signer, now=later()) == 0
    first, last = AuditLine.objects.filter(kind="signed_out").order_by("seq").values_list("seq", flat=True)[0:3:2]
    AuditForward.objects.create(target="syslog", workspace_id=actor.workspace_id, seq=first)
    assert audit_retain(signer=signer, now=later()) == 1
    AuditForward.objects.update(seq=last)
    assert audit_retain(signer=signer, now=later()) == 2


def test_what_is_held_stays_until_the_hold_is_lifted(actor, fresh, doubtful, signer):
    run = ran(fresh, doubtful)
    Run.objects.filter(id=run.id).update(state="completed", ended_at=1)
    member("vera", "viewer")
    told(fresh, subject="vera")
    told(fresh, subject=run.id)
    told(fresh, subject="somebody-else")
    holds = [hold_place(actor=fresh, about=about, name=name, reason="A case.") for about, name in (("run", run.id), ("person", "vera"))]  # fmt: skip
    with pytest.raises(Refused, match="has a legal hold already"):
        hold_place(actor=fresh, about="run", name=run.id, reason="Again.")
    retention_set(actor=fresh, days=1)
    audit_rule_set(actor=fresh, kind="signed_out", days=30)
    kept = Event.objects.filter(run_id=run.id, payload__isnull=False).count()
    assert kept
    assert retention_apply() == []
    assert audit_retain(signer=signer, now=later()) == 1
    assert Event.objects.filter(run_id=run.id, payload__isnull=False).count() == kept
    assert Workspace.objects.get(id=actor.workspace_id).erased_until > 0
    for hold in holds:
        hold_lift(actor=fresh, hold_id=hold.id, reason="It is over.")
    with pytest.raises(Refused, match="owner lifted this hold before"):
        hold_lift(actor=fresh, hold_id=holds[0].id, reason="Again.")
    assert [one.run_id for one in retention_apply()] == [run.id]
    assert audit_retain(signer=signer, now=later()) == 2
    kinds = AuditLine.objects.filter(kind__startswith="hold_").values_list("kind", flat=True)
    assert sorted(kinds) == ["hold_lifted"] * 2 + ["hold_placed"] * 2


@pytest.mark.parametrize("about", ["fabric", "person"])
def test_a_run_is_held_by_its_fabric_and_by_who_started_it(actor, fresh, doubtful, about):
    run = ran(fresh, doubtful)
    Run.objects.filter(id=run.id).update(state="completed", ended_at=1)
    retention_set(actor=fresh, days=1)
    hold_place(actor=fresh, about=about, name={"fabric": doubtful, "person": "owner"}[about], reason="A case.")
    assert retention_apply(dry_run=True) == retention_apply() == []
    Hold.objects.update(lifted_at=1)
    Workspace.objects.update(erased_until=0)
    assert len(retention_apply()) == 1


def test_who_may_not_read_the_stream_holds_nothing(actor, doubtful):
    operator = replace(actor, name="oskar", roles=frozenset({"operator"}))
    with pytest.raises(Refused, match="auditor or owner"):
        hold_place(actor=operator, about="fabric", name=doubtful, reason="A case.")
    placed = hold_place(actor=actor, about="fabric", name=doubtful, reason="A case.")
    with pytest.raises(Refused, match="auditor or owner"):
        hold_lift(actor=operator, hold_id=placed.id, reason="Over.")
    assert Hold.objects.get().lifted_at is None
    with pytest.raises(Refused, match="auditor or owner"):
        audit_export(actor=operator, wanted=AuditFilter(), form="ndjson")
    assert not AuditLine.objects.filter(kind="audit_exported").exists()
    with pytest.raises(Refused, match="that is for owner"):
        audit_rule_set(actor=operator, kind=ALL, days=30)
