"""The detectors over recorded runs: what must never fire does not, and the goal on the traces that are here (docs/detectors.md)."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from fabric.services.detector_trial import NAMES, OURS, evaluate, stopped_by
from fabric.services.traces import Trace, TraceStep

TRACES = Path(__file__).parents[2] / "data" / "traces"
STEP = {
    "i": 0,
    "agent": "a",
    "kind": "tool",
    "tool": "look",
    "args": "{}",
    "masked_hash": "h",
    "raw_len": 9,
    "error": None,
}


def step(kind="tool", agent="a", tool="look", args="{}", masked="h", chars=100, error="") -> TraceStep:
    return TraceStep(agent, kind, tool if kind == "tool" else "", args, masked, chars, error)


def fired(*steps: TraceStep) -> frozenset[str]:
    return stopped_by(Trace("t", success=True, halted=False, steps=steps))


def edit_test() -> list[TraceStep]:
    """The same command, another result."""
    return [
        one
        for n in range(15)
        for one in (
            step(tool="edit", args=f"edit line {n}", masked="ok"),
            step(tool="run", args="run tests", masked=f"{15 - n} failed"),
        )
    ]


def scan(*values: str) -> list[TraceStep]:
    return [
        step(tool="search", args=json.dumps({"query": "all open orders of the north region", "at": v}), masked="[]")
        for v in values
    ]


NEVER = {
    "edit-test": edit_test(),
    "dates": scan(*(f"2024-01-{n:02}" for n in range(1, 30))),
    "months": scan("January", "February", "March", "April", "May", "June", "July"),
    "pages": scan(*(f"page {n}" for n in range(30))),
    "swarm": [step("handoff", f"agent {n % 3}", args="", masked="empty", chars=0) for n in range(30)],
    "dialogue": [step("message", ("user", "agent")[n % 2], masked=f"m{n}") for n in range(40)],
    "the same polite words": [step("message", ("user", "agent")[n % 2], masked="anything else?") for n in range(40)],
    "short words": [step("message", "a", masked="ok", chars=2) for _ in range(20)],
    "words on the way to calls": [one for n in range(9) for one in (step("model", masked="next"), step(args=f"n{n}", masked=f"r{n}"))],
}  # fmt: skip


@pytest.mark.parametrize("steps", NEVER.values(), ids=NEVER)
def test_what_must_never_fire_does_not(steps):
    assert not fired(*steps) & {"ours", *OURS}


CAUGHT = {
    "A": [step()] * 3,
    "B": [step(args=q, masked=q) for q in "abab"],
    "C": [step(args=f"find one more old record about these famous lighthouse keepers {last}", masked="none") for last in ("please", "now", "again")],
    "D": [step(masked=str(n)) for n in range(6)],
    "E": [step("message", ("a", "b")[n % 2], masked=("same", f"other {n}")[n % 2]) for n in range(6)],
    "failure_signature": [step(args=f"try {n}", masked=f"m{n}", error=f"no such file: line {n}") for n in range(3)],
    "fabro": [step(args="abc"[n % 3], masked=str(n)) for n in range(10)],
    "flow": [step(masked=str(n)) for n in range(3)],
    "ag2": [step(masked=str(n)) for n in range(3)],
}  # fmt: skip


@pytest.mark.parametrize("name", CAUGHT)
def test_each_rule_fires_at_its_threshold_and_not_before(name):
    assert name in fired(*CAUGHT[name])
    assert name not in fired(*CAUGHT[name][1:])


def test_a_persons_word_starts_a_new_step_for_ours_and_not_for_the_documents_rules():
    said = step("message", "user", masked="go on")
    found = fired(step(error="no"), said, step(error="no"), said, step(error="no"))
    assert "ours" not in found
    assert {"documents", "flow", "signature_of_document"} <= found


def test_the_goal_on_the_recorded_traces():
    out = StringIO()
    call_command("evaluate_detectors", str(TRACES), stdout=out)
    found = json.loads(out.getvalue().splitlines()[-1])
    assert set(found) == {"total", "files", "by_detector"}
    assert set(found["by_detector"]) == set(NAMES)
    assert len(found["files"]) == 4
    total, documents = found["total"], found["by_detector"]["documents"]
    assert (total["good"]["runs"], total["failed"]["runs"], total["halted"]["runs"]) == (136, 242, 0)
    assert total["good"]["stopped"] <= 0.01 * total["good"]["runs"]
    assert total["failed"]["stopped"] > documents["failed"]["stopped"]


def test_halted_runs_count_as_failed_too(tmp_path):
    record = {"trace_id": "x", "success": False, "labels": {"halted": True}, "steps": [STEP] * 3}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n\n")
    total = evaluate(tmp_path)["total"]
    assert total == {
        "good": {"runs": 0, "stopped": 0},
        "failed": {"runs": 1, "stopped": 1},
        "halted": {"runs": 1, "stopped": 1},
    }


BROKEN = {
    "not json": ("{", "it is no JSON"),
    "a list": ("[]", "it is no JSON object"),
    "no success": ('{"steps": []}', "success is missing"),
    "success": ('{"success": 1, "steps": []}', "give true or false"),
    "a step": ('{"success": true, "steps": [7]}', "steps[0]: it is no object"),
    "a kind": ('{"success": true, "steps": [{"kind": "x"}]}', "kind is 'x'"),
    "bytes": (b"\xff\xfe", "is no UTF-8"),
    "deep": ("[" * 100_000, "it is no JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_line_is_named(name, tmp_path):
    line, what = BROKEN[name]
    good = json.dumps({"success": True, "steps": []}).encode() + b"\n"
    (tmp_path / "a.jsonl").write_bytes(good + (line if isinstance(line, bytes) else line.encode()))
    refused(tmp_path, what, "a.jsonl, line 2")


def test_no_folder_and_no_files_are_said(tmp_path):
    refused(tmp_path / "nowhere", "is no folder")
    refused(tmp_path, "has no *.jsonl file")


def refused(folder, *words):
    err = StringIO()
    with pytest.raises(SystemExit) as stopped:
        call_command("evaluate_detectors", str(folder), stderr=err)
    assert stopped.value.code == 2
    assert err.getvalue().count("\n") == 1
    assert all(word in err.getvalue() for word in words)
