"""Traces: spans that no two runs share, a child under the call that spawned it, and the headers that come in and go out."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.events.envelope import envelope
from fabric.core.values.tracing import BAGGAGE_MAX, STATE_MAX, Caller, Trace, find_trace, read_caller
from tests.fabric.core.family_scenes import household

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_no_two_runs_of_a_family_share_a_span_and_a_child_stands_under_its_parents_call() -> None:
    family = household(10).go()
    assert len(family.children) == 3
    by_run = {}
    for run_id, member in family.runs.items():
        parent, command = member.parent or (None, "")
        trace = find_trace("t" * 32, run_id, parent_run_id=parent, parent_command=command)
        shown = [envelope(trace, event) for event in member.events]
        by_run[run_id] = {one["span_id"] for one in shown}
        outermost = {one["parent_span_id"] for one in shown if one["span_id"] == trace.root}
        assert len(outermost) == 1
        if parent is not None:
            spawned = {fact.command_id: fact for fact in family.root.of(ev.ChildSpawned)}
            assert outermost == {Trace("t" * 32, parent).place(spawned[command])[0]}
    spans = [span for found in by_run.values() for span in found]
    assert len(spans) == len(set(spans))
    sent = [request.trace_headers["traceparent"] for _, request in family.requests]
    assert len(sent) == len(set(sent))


def test_a_run_goes_on_with_its_callers_trace() -> None:
    caller = read_caller(f" {PARENT} ", "vendor=1", "team=acme")
    assert caller == Caller(TRACE, SPAN, "01", "vendor=1", "team=acme")
    trace = find_trace(caller.trace_id, "run-1", context=caller.pack())
    assert trace.place(ev.InputIgnored(input_kind="x", reason="y")) == (trace.root, SPAN)
    assert trace.write_headers("c" * 16) == {
        "traceparent": f"00-{TRACE}-{'c' * 16}-01",
        "tracestate": "vendor=1",
        "baggage": "team=acme",
    }


def test_a_callers_choice_not_to_sample_is_carried_on() -> None:
    caller = read_caller(f"00-{TRACE}-{SPAN}-02")
    trace = find_trace(caller.trace_id, "run-1", context=caller.pack())
    assert trace.write_headers("c" * 16) == {"traceparent": f"00-{TRACE}-{'c' * 16}-00"}


def test_a_later_version_is_read_as_far_as_this_one_knows_it() -> None:
    assert read_caller(f"01-{TRACE}-{SPAN}-01-more").trace_id == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        "x",
        PARENT.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"{PARENT}-more",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        "\u0660" * 55,
    ],
)
def test_a_broken_traceparent_counts_as_absent(header: str) -> None:
    assert read_caller(header, "vendor=1") == Caller()


@pytest.mark.parametrize("bad", ["a=1\nb: 2", "x" * (STATE_MAX + 1), "a=\u00e9", "a=\x00"])
def test_a_tracestate_or_baggage_that_no_header_carries_is_left_out(bad: str) -> None:
    assert read_caller(PARENT, bad).state == ""
    assert read_caller("", "", bad if len(bad) < 20 else "x" * (BAGGAGE_MAX + 1)) == Caller()


def test_baggage_is_carried_without_a_trace() -> None:
    caller = read_caller(baggage="team=acme")
    trace = find_trace("t" * 32, "run-1", context=caller.pack())
    assert trace.above == ""
    assert trace.write_headers("c" * 16)["baggage"] == "team=acme"
