"""Windows over a run's events: densities, filters, both directions, bounds, gaps, folded waits; the journal as a file."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.core.events import (
    AttemptFailed,
    CallIssued,
    InputIgnored,
    ReactionDecided,
    ReviewDecided,
    ReviewReminded,
    ToolAnswered,
)
from fabric.core.events.envelope import KINDS, read_row, to_row, verify_chain
from fabric.core.evolve import fold
from fabric.core.state.run import Run as CoreRun
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.models import Event, Review, Run
from fabric.selectors.errors import Refused
from fabric.selectors.runs.display import DETAILS, EVENT_DISPLAY, FAILING, find_stage, find_step, is_failure
from fabric.selectors.runs.events import windows as run_events
from fabric.selectors.runs.events.windows import EventFilter, Gap, events_after, events_window, neighbours, run_agents
from fabric.selectors.runs.export import bundle as event_export
from fabric.selectors.runs.export.bundle import EventLines
from tests.console.pages.runs.journals import append, every_kind, journal
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded

FULL = EventFilter()
COMPACT = EventFilter(density="compact")


@pytest.fixture
def like(actor, small):
    return ran(actor, small)


@pytest.fixture
def many(actor, like):
    """A run of 1,000 events that are details, and a decision at 500."""
    noise = [(InputIgnored(input_kind="x", reason=f"number {n}"), None) for n in range(1, 1001)]
    noise[499] = next(pair for pair in every_kind() if isinstance(pair[0], ReactionDecided))
    return journal(actor, like.id, noise)


def seqs(window):
    return [row.seq for row in window.rows]


class TestDensities:
    def test_importance_decides_and_is_given_for_every_kind(self):
        assert set(EVENT_DISPLAY) == set(KINDS)
        assert {kind for kind in KINDS if EVENT_DISPLAY[kind].importance < 2} == DETAILS

    def test_compact_is_decisions_trips_edges_reviews_and_results(self):
        shown = set(KINDS) - DETAILS
        wanted = {"reaction_decided", "call_refused", "step_failed", "stage_entered", "stage_left", "review_opened"}
        assert wanted | {"review_decided", "model_answered", "run_started", "run_ended", "retry_scheduled"} <= shown
        assert {"call_issued", "step_opened", "input_ignored", "deadlines_suspended", "tool_answered"} <= DETAILS

    def test_full_is_everything(self, actor, like):
        assert seqs(events_window(actor, like.id, FULL)) == list(range(1, like.last_seq + 1))

    def test_compact_leaves_the_details_out(self, actor, like):
        window = events_window(actor, like.id, COMPACT)
        assert {row.kind for row in window.rows}.isdisjoint(DETAILS)
        assert len(window.rows) < like.last_seq
        assert window.gaps == ()

    def test_a_kind_of_a_newer_version_is_shown(self, actor, like):
        with unguarded():
            Event.objects.filter(run_id=like.id, seq=4).update(kind="agents_voted")
        row = next(row for row in events_window(actor, like.id, COMPACT).rows if row.seq == 4)
        assert not row.known
        assert "agents_voted" in row.summary
        assert row.header

    def test_a_header_that_cannot_be_read_is_a_row(self, actor, like):
        with unguarded():
            Event.objects.filter(run_id=like.id, seq=4).update(header=b"{}", more=0)
        row = next(row for row in events_window(actor, like.id, FULL).rows if row.seq == 4)
        assert not row.known
        assert "cannot be read" in row.summary

    def test_the_hash_and_the_header_are_the_journals_own(self, actor, like):
        row = events_window(actor, like.id, EventFilter(density="raw")).rows[4]
        stored = Event.objects.get(run_id=like.id, seq=4)
        assert (row.seq, row.hash) == (5, bytes(stored.hash))
        assert row.header == bytes(stored.header).split(b"\n")[1].split(b" ", 2)[2]


class TestWindows:
    def test_the_newest_then_further_back(self, actor, many):
        before, found = None, []
        while True:
            window = events_window(actor, many, FULL, before=before, limit=150)
            found = seqs(window) + found
            before = window.earlier
            if before is None:
                break
        assert found == list(range(1, 1001))

    def test_forwards_again(self, actor, many):
        after, found = 0, []
        while after is not None:
            window = events_window(actor, many, FULL, after=after, limit=150)
            found += seqs(window)
            after = window.later
        assert found == list(range(1, 1001))

    def test_both_ways_through_a_filter(self, actor, many):
        wanted = EventFilter(text="NUMBER 77")
        first = events_window(actor, many, wanted, limit=3)
        assert seqs(first) == [777, 778, 779]
        second = events_window(actor, many, wanted, before=first.earlier, limit=3)
        assert seqs(second) == [774, 775, 776]
        assert seqs(events_window(actor, many, wanted, after=second.later, limit=3)) == [777, 778, 779]

    def test_the_newest_has_nothing_later_and_the_oldest_nothing_earlier(self, actor, many):
        assert events_window(actor, many, FULL).later is None
        oldest = events_window(actor, many, FULL, after=0)
        assert oldest.earlier is None
        assert oldest.later == oldest.rows[-1].seq

    def test_a_window_of_a_long_run_reads_as_many_rows_as_it_shows(self, actor, many):
        with CaptureQueriesContext(
            connection,
        ) as asked:
            events_window(actor, many, FULL, limit=50)
        windows = [query["sql"] for query in asked if "header" in query["sql"] and "DESC" in query["sql"]]
        assert len(windows) == 1
        assert "LIMIT 51" in windows[0]

    def test_what_only_headers_know_is_looked_for_in_a_bounded_number(self, actor, many, monkeypatch):
        monkeypatch.setattr(run_events, "SCAN_MAX", 300)
        monkeypatch.setattr(run_events, "CHUNK", 100)
        wanted = EventFilter(text="no such words")
        first = events_window(actor, many, wanted)
        assert (first.rows, first.stopped, first.earlier) == ((), True, 701)
        last = events_window(actor, many, wanted, before=201)
        assert (last.stopped, last.earlier) == (False, None)

    def test_run_of_another_workspace(self, stranger, like):
        for look in (
            lambda: events_window(stranger, like.id, FULL),
            lambda: events_after(stranger, like.id, after=0, limit=1),
            lambda: neighbours(stranger, like.id, FULL, 3),
            lambda: run_agents(stranger, like.id),
            lambda: EventLines(stranger, like.id, "journal"),
        ):
            with pytest.raises(Refused):
                look()


class TestFilters:
    def test_by_stage_agent_and_kind(self, actor, like):
        window = events_window(actor, like.id, EventFilter(stage="fan_out"))
        assert {row.stage for row in window.rows} == {"fan_out"}
        window = events_window(actor, like.id, EventFilter(agent="reader"))
        assert {"call_issued", "model_answered", "tool_answered"} <= {row.kind for row in window.rows}
        assert {row.agent for row in window.rows} == {"reader"}
        assert {row.kind for row in events_window(actor, like.id, EventFilter(kind="call_issued")).rows} == {
            "call_issued"
        }
        assert run_agents(actor, like.id) == ("planner", "reader")

    def test_a_detail_that_is_asked_for_by_kind_is_shown_in_compact_too(self, actor, like):
        assert events_window(actor, like.id, EventFilter(density="compact", kind="call_issued")).rows

    def test_failed_only(self, actor, like):
        assert events_window(actor, like.id, EventFilter(failed=True)).rows == ()
        facts = [fact for fact, _ in every_kind()]
        run_id = journal(actor, like.id, [(fact, None) for fact in facts])
        shown = {row.kind for row in events_window(actor, run_id, EventFilter(density="compact", failed=True)).rows}
        assert {"attempt_failed", "reaction_decided", "step_failed", "call_refused"} <= shown
        assert shown <= set(FAILING) <= set(KINDS)
        assert "run_ended" not in shown  # The example completed.

    @pytest.mark.parametrize(
        ("kind", "fact", "wrong"),
        [
            ("tool_answered", {"error": True}, True),
            ("tool_answered", {"error": False}, False),
            ("model_answered", {"verdict": "rejected"}, True),
            ("model_answered", {"verdict": "calls"}, False),
            ("stage_left", {"outcome": "passed", "gate": None}, False),
            ("stage_left", {"outcome": "replan"}, True),
            ("stage_entered", {"gate": {"cause": "budget_gate"}}, True),
            ("run_ended", {"state": "aborted"}, True),
            ("call_issued", {"error": True}, False),
        ],
    )
    def test_what_a_failure_is(self, kind, fact, wrong):
        assert is_failure(kind, fact) is wrong

    def test_where_a_fact_belongs(self):
        assert find_step({"command_id": "fan_out.1.e0.r0.t2.c1"}) == "fan_out.1.e0.r0"
        assert find_stage({"command_id": "fan_out.1.e0.r0.t2"}) == "fan_out"
        assert find_stage({"scope": "stage:validate", "step_id": ""}) == "validate"
        assert find_stage({"stage": "plan"}) == "plan"
        assert find_stage({}) == ""

    def test_the_next_and_the_one_before_within_the_filter(self, actor, many):
        assert neighbours(actor, many, COMPACT, 300) == (None, 500)
        assert neighbours(actor, many, COMPACT, 501) == (500, None)
        assert neighbours(actor, many, FULL, 1) == (None, 2)

    def test_agents_of_steps_that_open_later_are_found(self, actor, like):
        assert run_agents(actor, like.id) == ("planner", "reader")
        opened = next(fact for fact, _ in every_kind() if fact.kind == "step_opened")
        append(
            like.id,
            actor,
            [(type(opened)(step_id="plan.0.e0.r9", stage=opened.stage, branch=0, agent="late", round=9), None)],
        )
        assert "late" in run_agents(actor, like.id)


class TestGapsAndWaits:
    def test_missing_events_are_named(self, actor, many):
        with unguarded():
            Event.objects.filter(run_id=many, seq__in=[901, 902, 950]).delete()
        window = events_window(actor, many, FULL)
        assert window.gaps == (Gap(901, 902), Gap(950, 950))
        assert events_window(actor, many, COMPACT).gaps == (Gap(901, 902), Gap(950, 950))
        assert events_window(actor, many, FULL, before=900).gaps == ()

    def test_missing_at_the_end(self, actor, many):
        with unguarded():
            Event.objects.filter(run_id=many, seq__gt=990).delete()
        assert events_window(actor, many, FULL).gaps == (Gap(991, 1000),)

    def wait(self, actor, like, *, open_at, decided_at, reminders=0):
        answered = ReviewDecided(review_id="q" + uuid4().hex[:8], verb="approve", actor="ana")
        reminded = ReviewReminded(review_id=answered.review_id, step="reminder")
        facts = [
            (ReviewDecided(review_id="before", verb="approve", actor="ana"), None),
            *[(reminded, None)] * reminders,
            (answered, None),
        ]
        run_id = journal(actor, like.id, facts, step_us=2472 * US)
        first, *_, last = Event.objects.filter(run_id=run_id).order_by("seq").values_list("at", flat=True)
        Review.objects.create(
            id=answered.review_id, run_id=run_id, workspace_id=actor.workspace_id, item="failure", verbs="approve",
            digest="d", opened_at=first + open_at, due_at=last, content=b"{}", decided_at=decided_at and last + decided_at,
        )  # fmt: skip
        return events_window(actor, run_id, COMPACT if reminders else FULL)

    def test_reminders_that_are_not_shown_do_not_divide_the_wait(self, actor, like):
        (wait,) = self.wait(actor, like, open_at=0, decided_at=1, reminders=2).waits
        assert (wait.before, wait.us) == (4, 3 * 2472 * US)

    def test_time_with_nothing_but_a_person_to_wait_for_is_folded(self, actor, like):
        (wait,) = self.wait(actor, like, open_at=0, decided_at=1).waits
        assert (wait.before, wait.us) == (2, 2472 * US)

    def test_time_without_an_open_review_is_not(self, actor, like):
        assert self.wait(actor, like, open_at=600 * US, decided_at=1).waits == ()

    def test_time_after_the_answer_is_not(self, actor, like):
        assert self.wait(actor, like, open_at=0, decided_at=-600 * US).waits == ()


class TestFile:
    def lines(self, actor, run_id, form):
        source, found = EventLines(actor, run_id, form), b""
        while page := source.next_page():
            found += page
        return [json.loads(line) for line in found.splitlines()]

    def test_the_journal_can_be_verified_and_folded_from_the_file_alone(self, actor, like):
        rows = self.lines(actor, like.id, "journal")
        assert [row["seq"] for row in rows] == list(
            Event.objects.filter(run_id=like.id).order_by("seq").values_list("seq", flat=True)
        )
        chain = [
            (r["seq"], r["kind"], r["version"], r["header"].encode(), bytes.fromhex(r["payload_hash"]), bytes.fromhex(r["hash"]))
            for r in rows
        ]  # fmt: skip
        assert verify_chain(chain, ZERO_HASH) is None
        run, prev = CoreRun(like.id, tier=Tier(like.tier), seed=0), ZERO_HASH
        for row in rows:
            event, *more = read_row(row["seq"], row["kind"], row["version"], row["header"].encode())
            content = row["payload"].encode() if row["payload"] is not None else None
            again = to_row(event, content, prev, more=more)
            assert again.hash.hex() == row["hash"]
            run, prev = fold(run, [event, *more]), again.hash
        assert run.state == "completed"

    def test_readable_lines_have_the_envelope_the_content_and_the_sentence(self, actor, like):
        first = self.lines(actor, like.id, "readable")[0]
        assert first["trace_id"] == like.trace_id
        assert first["payload"]["kind"] == "run_started"
        assert first["content"]["text"] == "What do the notes say?"
        assert "started" in first["summary"]

    def test_what_was_erased_says_so(self, actor, like):
        Event.objects.filter(run_id=like.id, seq=1).update(payload=None)
        assert self.lines(actor, like.id, "readable")[0]["content_erased"] is True
        row = self.lines(actor, like.id, "journal")[0]
        assert row["payload"] is None
        assert row["payload_hash"]

    def test_what_cannot_be_read_is_given_as_it_is_stored(self, actor, like):
        with unguarded():
            Event.objects.filter(run_id=like.id, seq=4).update(kind="agents_voted")
        assert "not known" in self.lines(actor, like.id, "readable")[3]["problem"]

    def test_a_page_at_a_time(self, actor, many, monkeypatch):
        monkeypatch.setattr(event_export, "PAGE", 100)
        source = EventLines(actor, many, "journal")
        with CaptureQueriesContext(connection) as asked:
            assert len(source.next_page().splitlines()) == 100
        assert len(asked) == 1

    def test_large_contents_make_small_pages(self, actor, like, monkeypatch):
        monkeypatch.setattr(event_export, "PAGE_BYTES", 100_000)
        answer = ToolAnswered(
            command_id="c", attempt=1, step_id="s", call_id="x", tool="t", args_hash="", masked_hash=""
        )
        run_id = journal(actor, like.id, [(answer, "x" * 60_000)] * 10)
        assert len(EventLines(actor, run_id, "journal").next_page()) < 200_000

    def test_there_are_two_forms(self, actor, like):
        with pytest.raises(Refused, match="journal, readable"):
            EventLines(actor, like.id, "pdf")


def test_rows_for_the_live_page_are_in_order_and_whole(actor, like):
    found = events_after(actor, like.id, after=3, limit=4)
    assert [row.seq for row in found] == [4, 5, 6, 7]
    issued = next(row for row in events_after(actor, like.id, after=0, limit=50) if row.kind == CallIssued.kind)
    assert issued.agent == "planner"
    assert Run.objects.get(id=like.id).last_seq == like.last_seq
    assert AttemptFailed.kind in FAILING
