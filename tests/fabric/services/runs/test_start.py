"""Starting and cancelling: everything a run pins, one run for one start key, and a sentence for what is refused."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from fabric.core.events.inputs import INBOX, CancelRequested, RunRequested
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.management.run_follower import Following
from fabric.models import Inbox, Run
from fabric.runtime.ports.journal import Document
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.runs.lookup import run_get
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.control import run_cancel
from fabric.services.runs.start import TEXT_BYTES_MAX, StartedRun, run_start
from tests.fabric.services.world import NOTES, SMALL, ran

NOW = 1_800_000_000_000_000


@pytest.fixture
def start(store, nudge, actor, small):
    """Starts a run of the small fabric; keywords change what is asked."""

    def started(**changes) -> StartedRun:
        asked = {"store": store, "nudge": nudge, "actor": actor, "fabric": small, "text": "What do the notes say?"}
        return run_start(**{**asked, **changes})

    return started


def refused(start, **changes) -> Refused:
    with pytest.raises(Refused) as caught:
        start(**changes)
    assert not Run.objects.exists()
    return caught.value


def requested(run_id: str) -> RunRequested:
    (row,) = Inbox.objects.filter(run_id=run_id)
    asked = INBOX.validate_json(bytes(row.body))
    assert isinstance(asked, RunRequested)
    return asked


# -- what a run pins ---------------------------------------------------------------------------------------------------


def test_a_run_pins_revision_seed_deadline_and_trace_and_a_host_is_woken(start, actor, nudge):
    started = start(documents=[NOTES], now=lambda: NOW)
    assert started.created
    run = Run.objects.get()
    assert run.id == started.run_id
    assert run.revision_id == fabric_get(actor, "small").revision_id
    assert run.deadline_at == NOW + 300_000_000
    assert (run.tier, run.state, run.created_by, run.title) == (
        "interactive",
        "queued",
        "owner",
        "What do the notes say?",
    )
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", run.id)
    assert re.fullmatch(r"[0-9a-f]{32}", run.trace_id)
    assert int(run.trace_id, 16)
    assert 0 <= run.seed < 2**63
    assert nudge.woken == [run.id]
    asked = requested(run.id)
    assert asked.request == {
        "text": "What do the notes say?",
        "documents": ["notes.md"],
        "document_bytes": [len(NOTES.text)],
    }
    assert (asked.deadline_at, asked.requested_by) == (run.deadline_at, "owner")
    assert run_get(actor, run.id).documents == ("notes.md",)


def test_two_runs_have_their_own_ids_seeds_and_traces(start):
    start(), start()
    rows = Run.objects.values_list("id", "seed", "trace_id")
    assert all(len(set(column)) == 2 for column in zip(*rows, strict=True))


def test_a_run_that_was_started_runs(actor, small):
    run = ran(actor, small)
    assert (run.state, run.reason) == (RunState.COMPLETED, "finished")
    assert run.cost_usd_micros > 0


@pytest.mark.parametrize(
    ("tier", "priority"), [(Tier.INTERACTIVE, "high"), (Tier.BATCH, "low"), (Tier.HIGH_STAKES, "critical")]
)
def test_a_tier_brings_its_priority_and_its_deadline(start, actor, tier, priority):
    run = run_get(actor, start(tier=str(tier), now=lambda: NOW).run_id)
    assert (run.tier, run.priority) == (tier, priority)
    assert run.deadline_at - NOW == {"interactive": 300, "batch": 86_400, "high_stakes": 3_600}[tier] * 1_000_000


def test_priority_session_and_queue_are_the_callers(start, actor):
    run = run_get(actor, start(priority="normal", session_key="s-1", queue="slow").run_id)
    assert (run.priority, run.session_key, run.queue) == ("normal", "s-1", "slow")


def test_the_fabrics_own_deadline_counts(start, actor, small):
    own = SMALL.replace("policy:\n", "policy:\n  deadlines:\n    interactive: {call_s: 1, stage_s: 2, run_s: 4.5}\n")
    fabric_publish(actor=actor, source=own)
    assert run_get(actor, start(now=lambda: NOW).run_id).deadline_at == NOW + 4_500_000


def test_the_request_is_cleaned_and_its_first_line_is_the_title(start, actor):
    run_id = start(text=f"  Tell\0 me \ud800 {'all ' * 60}\nand more\n").run_id
    run = run_get(actor, run_id)
    assert run.title.startswith("Tell\ufffd me \ufffd all all")
    assert len(run.title) == 120
    assert requested(run_id).request["text"].endswith("and more")


def test_documents_get_clean_and_unique_names(start, actor):
    documents = [Document("a/notes.md", "one"), Document("notes.md", "two\0"), Document("[x].txt", "three")]
    assert run_get(actor, start(documents=documents).run_id).documents == ("notes.md", "notes (2).md", "_x_.txt")


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "field", "said"),
    [
        ({"fabric": "smal"}, "not_found", "fabric", "no fabric is named 'smal'; there are: small"),
        ({"fabric": "\0"}, "not_found", "fabric", "there are: small"),
        ({"text": ""}, "invalid", "text", "the request is empty"),
        ({"text": " \n\t "}, "invalid", "text", "the request is empty"),
        ({"text": "x" * (TEXT_BYTES_MAX + 1)}, "too_large", "text", "65,537 bytes; at most 65,536"),
        ({"text": "x" * 10_000_000}, "too_large", "text", "attach long texts as documents"),
        ({"text": "\u20ac" * 30_000}, "too_large", "text", "90,000 bytes"),
        ({"tier": "fast"}, "invalid", "tier", "it allows: interactive, batch, high_stakes"),
        ({"priority": "urgent"}, "invalid", "priority", "there are: critical, high, normal, low"),
        ({"queue": "No Such"}, "invalid", "queue", "is no queue"),
        ({"session_key": "k" * 201}, "too_large", "session_key", "at most 200"),
        ({"start_key": "k" * 201}, "too_large", "start_key", "at most 200"),
        ({"documents": [NOTES] * 9}, "too_large", "documents", "at most 8 files"),
        (
            {"documents": [Document("big.txt", "x" * 1_000_001)]},
            "too_large",
            "documents",
            "big.txt has 1,000,001 bytes",
        ),
        ({"documents": [Document("e.txt", " ")]}, "invalid", "documents", "e.txt is empty"),
    ],
)
def test_what_is_refused_is_said_in_one_sentence_and_leaves_nothing(start, nudge, changes, code, field, said):
    error = refused(start, **changes)
    assert (error.code, error.field) == (code, field)
    assert said in error.message
    assert "\n" not in error.message
    assert nudge.woken == []


def test_a_tier_that_the_fabric_does_not_allow_is_refused(start, actor):
    fabric_publish(actor=actor, source=f"{SMALL}tiers: {{default: batch, allowed: [batch]}}\n")
    assert "it allows: batch" in refused(start, tier="interactive").message


def test_a_fabric_of_another_workspace_is_not_there(start, stranger):
    assert "none is published yet" in refused(start, actor=stranger).message


def test_without_tables_a_store_says_so_and_nothing_else(start, store, tmp_path):
    from fabric.stores.sqlite.journal import SqliteStore

    error = refused(start, store=SqliteStore(tmp_path / "gone.sqlite3"))
    assert error.code == "unavailable"
    assert "cannot be opened" in error.message


# -- start keys --------------------------------------------------------------------------------------------------------


def test_the_same_key_with_the_same_request_is_the_same_run(start):
    first = start(start_key="k", documents=[NOTES])
    assert start(start_key="k", documents=[NOTES]) == StartedRun(first.run_id, created=False)
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    "changes", [{"text": "Another?"}, {"tier": "batch"}, {"documents": [NOTES]}, {"priority": "low"}]
)
def test_the_same_key_with_another_request_is_a_conflict(start, changes):
    first = start(start_key="k")
    with pytest.raises(Refused, match=first.run_id) as caught:
        start(start_key="k", **changes)
    assert (caught.value.code, caught.value.field) == ("conflict", "start_key")
    assert Run.objects.count() == 1


def test_the_key_still_finds_its_run_when_the_fabric_has_changed_and_the_run_has_ended(start, actor, small):
    first = start(start_key="k")
    ran(actor, small)
    assert run_get(actor, first.run_id).terminal
    fabric_publish(actor=actor, source=f"{SMALL}tiers: {{default: batch, allowed: [batch]}}\n")
    assert start(start_key="k") == StartedRun(first.run_id, created=False)


def test_keys_of_two_workspaces_do_not_meet(start, stranger):
    fabric_publish(actor=stranger, source=SMALL)
    assert start(start_key="k").run_id != start(start_key="k", actor=stranger).run_id


def test_many_at_once_with_one_key_make_one_run(start):
    def one(_: int) -> StartedRun:
        try:
            return start(start_key="k")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(16)))
    assert len({started.run_id for started in found}) == 1
    assert sum(started.created for started in found) == 1


# -- cancelling --------------------------------------------------------------------------------------------------------


def test_cancelling_asks_once(start, store, nudge, actor):
    run_id = start().run_id
    asked = {"store": store, "nudge": nudge, "actor": actor, "run_id": run_id}
    assert run_cancel(**asked, reason="Wrong\0 file") is True
    assert run_cancel(**asked) is False
    (row,) = Inbox.objects.filter(run_id=run_id, input_id="cancel")
    assert INBOX.validate_json(bytes(row.body)) == CancelRequested(
        input_id="cancel", actor="owner", reason="Wrong\ufffd file"
    )
    assert nudge.woken == [run_id] * 3


def test_a_cancellation_is_no_error_when_the_run_has_ended_of_it(start, store, nudge, actor):
    asked = {"store": store, "nudge": nudge, "actor": actor, "run_id": start().run_id}
    assert run_cancel(**asked) is True
    assert Following(actor, asked["run_id"]).to_rest().state == "cancelled"
    assert run_cancel(**asked) is False


def test_a_run_that_has_ended_cannot_be_cancelled(store, nudge, actor, small):
    run = ran(actor, small)
    with pytest.raises(Refused, match=r"already ended \(completed\)") as caught:
        run_cancel(store=store, nudge=nudge, actor=actor, run_id=run.id)
    assert caught.value.code == "conflict"


def test_no_member_cancels_a_run_of_another_workspace(start, store, nudge, stranger):
    run_id = start().run_id
    for wrong in (run_id, "nothing", "\0"):
        with pytest.raises(Refused) as caught:
            run_cancel(store=store, nudge=nudge, actor=stranger, run_id=wrong)
        assert caught.value.code == "not_found"
    assert not Inbox.objects.filter(input_id="cancel").exists()
