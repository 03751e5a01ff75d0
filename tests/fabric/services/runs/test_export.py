"""An exported run verifies with nothing but Python, and shows whatever was done to it."""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest

from fabric.core.audit.lines import Act
from fabric.management.run_follower import Following
from fabric.models import AuditLine, Event, Revision
from fabric.secrets.signing import read_signer
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.installation.retention import retention_apply, retention_set
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.export import run_export
from fabric.services.runs.start import run_start
from tests.fabric.management.console import command
from tests.fabric.services.world import DOUBTFUL, published_by_two, ran
from tests.people import member

FILES = [
    "audit.ndjson",
    "chain.json",
    "checkpoint.json",
    "decisions.ndjson",
    "events.ndjson",
    "revision.json",
    "verify.py",
]


def verify(folder, *options):
    """Runs the bundle's own program with a Python that has nothing installed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "verify.py"), *options], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def signer(tmp_path):
    return read_signer(tmp_path)


@pytest.fixture
def export(actor, signer, tmp_path):
    def export(run_id):
        return run_export(actor=actor, run_id=run_id, to=tmp_path / "bundle", signer=signer)

    return export


@pytest.fixture
def decided(actor, doubtful, store, nudge):
    """A run that a person answered."""
    run = ran(actor, doubtful)
    (item,) = list_open_reviews(actor, run.id)
    decide_review(
        store=store, nudge=nudge, actor=actor, review_id=item.id, digest=item.digest, verb="approve", message="Fine"
    )
    return Following(actor, run.id, wait=True).to_rest()


def test_it_verifies_offline(export, decided, signer):
    folder = export(decided.id)
    assert sorted(path.name for path in folder.iterdir()) == FILES
    code, said = verify(folder, "--key", signer.public)
    assert code == 0
    assert said.splitlines() == [
        f"Run {decided.id}: {decided.last_seq} events. Chain, contents, revision, decisions and signature are whole.",
        "The key is the one you gave.",
    ]
    assert f"Signed by key {signer.public}" in verify(folder)[1]
    told = [json.loads(line) for line in (folder / "decisions.ndjson").read_text().splitlines()]
    assert [(one["kind"], one["fact"].get("actor")) for one in told] == [
        ("review_opened", None),
        ("review_decided", "owner"),
    ]
    assert AuditLine.objects.get(kind="run_exported").subject == decided.id
    audited = [json.loads(line) for line in (folder / "audit.ndjson").read_text().splitlines()]
    assert [one["act"] for one in audited] == ["run_started", "decision_sent", "run_exported"]
    assert all(one["hash"] for one in audited)


def test_who_may_not_read_the_audit_stream_has_none_of_it_in_a_bundle(actor, decided, signer, tmp_path):
    safety = replace(actor, name="sam", roles=frozenset({"safety"}))
    folder = run_export(actor=safety, run_id=decided.id, to=tmp_path / "bundle", signer=signer)
    assert sorted(path.name for path in folder.iterdir()) == [name for name in FILES if name != "audit.ndjson"]
    assert verify(folder)[0] == 0


def test_the_moves_of_breakers_that_a_run_made_are_in_its_bundle(actor, export, decided):
    other = {"run": "another", "was": "closed", "is": "open"}
    for body in ({"run": decided.id, "was": "closed", "is": "open", "counted": "2 x ERROR"}, other):
        audit_record(actor=actor, act=Act.BREAKER_MOVED, subject="provider:scripted", **body)
    folder = export(decided.id)
    audited = [json.loads(line) for line in (folder / "audit.ndjson").read_text().splitlines()]
    moved = [one for one in audited if one["act"] == "breaker_moved"]
    assert [(one["subject"], one["more"]["counted"]) for one in moved] == [("provider:scripted", "2 x ERROR")]


class Agreed(Exception):
    """The run has taken an approval."""


def until_agreed(event):
    if event.kind == "review_approved":
        raise Agreed


def test_a_review_that_two_agreed_on_verifies_too(export, actor, store, nudge):
    source = DOUBTFUL.replace("reviewers: [owner]", "reviewers: [reviewer]").replace(
        "run_usd_micros: 1000000}", "run_usd_micros: 1000000}\n  humans: {four_eyes: [interactive]}"
    )
    people = [replace(actor, name=name, roles=frozenset({"reviewer"})) for name in ("ann", "ben")]
    for person in people:
        member(person.name, "reviewer")
    run = ran(actor, published_by_two(actor, source).name)
    (item,) = list_open_reviews(actor, run.id)
    for person in people:
        decide_review(
            store=store,
            nudge=nudge,
            actor=person,
            review_id=item.id,
            digest=item.digest,
            verb="approve",
            message="",
        )
        with suppress(Agreed):
            Following(actor, run.id, say=until_agreed, wait=True).to_rest()
    folder = export(run.id)
    assert verify(folder)[0] == 0, verify(folder)[1]
    kinds = [json.loads(line)["kind"] for line in (folder / "decisions.ndjson").read_text().splitlines()]
    assert kinds == ["review_opened", "review_approved", "review_decided"]


class Reminded(Exception):
    """Its person was reminded of a review."""


def until_reminded(event):
    if event.kind == "review_reminded":
        raise Reminded


def test_a_review_that_was_reminded_of_verifies_too(export, actor, store, nudge):
    soon = "run_usd_micros: 1000000}\n  humans: {due_s: 200, reminder_at: 0.001}"
    fabric = fabric_publish(actor=actor, source=DOUBTFUL.replace("run_usd_micros: 1000000}", soon)).name
    run_id = run_start(store=store, nudge=nudge, actor=actor, fabric=fabric, text="What do the notes say?").run_id
    with pytest.raises(Reminded):
        Following(actor, run_id, say=until_reminded, wait=True).to_rest()
    folder = export(run_id)
    assert verify(folder)[0] == 0, verify(folder)[1]
    kinds = [json.loads(line)["kind"] for line in (folder / "decisions.ndjson").read_text().splitlines()]
    assert kinds == ["review_opened", "review_reminded"]


def damaged(name, change):
    def damage(folder):
        raw = (folder / name).read_bytes()
        after = change(raw)
        assert after != raw
        (folder / name).write_bytes(after)

    return damage


def line(number, change):
    """Changes one event; whatever else hangs on it stays."""

    def damage(raw):
        lines = raw.splitlines(keepends=True)
        row = json.loads(lines[number])
        change(row)
        lines[number] = json.dumps(row).encode() + b"\n"
        return b"".join(lines)

    return damaged("events.ndjson", damage)


def bump(name):
    return lambda row: row.update({name: row[name] + 1})


DAMAGE = [
    (line(0, lambda row: row.update(payload=row["payload"].replace("What", "Who"))), "event 1 has another content"),
    (line(1, lambda row: row.update(header=row["header"].replace('"d"', '"d" '))), "event 4 does not have the hash"),
    (line(1, lambda row: row.update(kind="run_ended")), "event 4 does not have the hash"),
    (line(1, bump("version")), "event 4 does not have the hash"),
    (line(1, bump("more")), "event 4 has another number of events"),
    (line(1, bump("at")), "event 4 has another instant"),
    (line(1, lambda row: row.update(hash="00" * 32)), "event 4 does not have the hash"),
    (line(1, lambda row: row.update(run_id="other")), "event 4 is of run other"),
    (damaged("events.ndjson", lambda raw: b"".join(raw.splitlines(True)[:1] + raw.splitlines(True)[2:])), "event 4 is missing: "),
    (damaged("events.ndjson", lambda raw: b"".join(raw.splitlines(True)[:-1])), "its end was cut off"),
    (damaged("events.ndjson", lambda raw: raw[:-20]), "cannot be read"),
    (damaged("revision.json", lambda raw: raw.replace(b"Plan.", b"Plot.")), "revision.json is not the revision"),
    (damaged("decisions.ndjson", lambda raw: raw.replace(b'"approve"', b'"reject"')), "something else than the event"),
    (damaged("decisions.ndjson", lambda raw: raw.splitlines(True)[0]), "is a decision in events.ndjson alone"),
    (damaged("chain.json", lambda raw: raw.replace(b'"last_seq": ', b'"last_seq": 1')), "its end was cut off"),
    (damaged("checkpoint.json", lambda raw: raw.replace(b'\\"number\\":1', b'\\"number\\":2')), "signature is not over"),
    (damaged("checkpoint.json", lambda raw: raw.replace(b'"signature": "', b'"signature": "00')), "signature is not over"),
]  # fmt: skip


def test_whatever_is_changed_shows(export, decided, tmp_path):
    folder = export(decided.id)
    for number, (damage, found) in enumerate(DAMAGE):
        copy = tmp_path / f"copy-{number}"
        copy.mkdir()
        for name in FILES:
            (copy / name).write_bytes((folder / name).read_bytes())
        damage(copy)
        code, said = verify(copy)
        assert (code, found in said) == (1, True), (found, said)
        assert all(line.startswith("WRONG: ") for line in said.splitlines())


def test_a_bundle_signed_by_another_key_shows_by_the_key(actor, decided, signer, tmp_path):
    forged = read_signer(tmp_path, "11" * 32)
    folder = run_export(actor=actor, run_id=decided.id, to=tmp_path / "forged", signer=forged)
    assert verify(folder)[0] == 0
    code, said = verify(folder, "--key", signer.public)
    assert (code, said) == (1, f"WRONG: the checkpoint is signed by key {forged.public}, not by the one you gave\n")


def test_an_erased_run_verifies_and_says_so(actor, export, decided):
    retention_set(actor=actor, days=1)
    retention_apply(now=2**62)
    count = Event.objects.filter(run_id=decided.id).exclude(payload_hash=b"").count()
    code, said = verify(export(decided.id))
    assert code == 0
    assert f"{decided.last_seq} events, the contents of {count} of which were erased. Chain" in said


def test_a_run_that_waits_and_one_that_has_not_begun(actor, export, doubtful, small, store, nudge, signer, tmp_path):
    assert verify(export(ran(actor, doubtful).id))[0] == 0
    queued = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="Later").run_id
    folder = run_export(actor=actor, run_id=queued, to=tmp_path / "queued", signer=signer)
    assert verify(folder)[1].startswith(f"Run {queued}: 0 events.")


def test_a_revision_that_this_program_reads_otherwise_is_given_as_it_is_stored(export, decided):
    Revision.objects.update(digest="of an older program")
    code, said = verify(export(decided.id))
    assert code == 0
    assert "its hash was not compared" in said


def test_a_bundle_names_no_other_run(actor, export, decided, small):
    other = ran(actor, small)
    folder = export(decided.id)
    assert all(other.id not in path.read_text() for path in folder.iterdir())


def test_bad_input(actor, stranger, signer, tmp_path, small):
    run = ran(actor, small)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(Refused, match="is there and not empty"):
        run_export(actor=actor, run_id=run.id, to=tmp_path / "full", signer=signer)
    with pytest.raises(Refused, match="not empty"):
        run_export(actor=actor, run_id=run.id, to=tmp_path / "full" / "file", signer=signer)
    with pytest.raises(Refused, match="no run"):
        run_export(actor=stranger, run_id=run.id, to=tmp_path / "new", signer=signer)
    assert not (tmp_path / "new").exists()
    assert not AuditLine.objects.filter(kind="run_exported").exists()


def test_the_command(actor, small, tmp_path):
    run = ran(actor, small)
    done = command("export_run", run.id, "--to", str(tmp_path / "new"))
    assert done.code == 0
    *_, public = done.out.split()
    assert verify(tmp_path / "new", "--key", public)[0] == 0
    assert command("verify_audit", "--json").last["faults"] == 0
    again = command("export_run", run.id, "--to", str(tmp_path / "new"))
    assert (again.code, again.err) == (2, f"{tmp_path / 'new'} is there and not empty; name a new directory\n")
