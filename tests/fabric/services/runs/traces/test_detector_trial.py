"""The detectors over recorded runs: what must never fire does not, and the goal on the traces that are here (docs/reference/detectors.md)."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from fabric.services.runs.traces.detector_trial import NAMES, OURS, catch, evaluate, hung, stopped_by
from fabric.services.runs.traces.reader import Trace, TraceStep

TRACES = Path(__file__).parents[4] / "data" / "traces"
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


def runs_between_edits(results: list[str], others: int = 1) -> list[TraceStep]:
    """One command again and again, with new edits before each."""
    return [
        one
        for n, result in enumerate(results)
        for one in (
            *(step(tool="edit", args=f"edit line {n}, part {m}", masked="ok") for m in range(others)),
            step(tool="run", args="run tests", masked=result),
        )
    ]


def swarm(agents: int, brief: str, chars: int) -> list[TraceStep]:
    """Handoffs in a ring, each recorded once more as what its agent said."""
    return [
        step(kind, f"agent {n % agents}", args="", masked=f"{brief}{(n + 1) % agents}", chars=chars)
        for n in range(40)
        for kind in ("handoff", "message")
    ]


def talk(*said: str, agents: tuple[str, str] = ("user", "agent")) -> list[TraceStep]:
    return [step("message", agents[n % 2], masked=word) for n, word in enumerate(said)]


NEVER = {
    "edit-test": edit_test(),
    "edit-test, a result that comes and goes": runs_between_edits([f"{n % 2} failed" for n in range(40)]),
    "edit-test, four equal results and then another one": runs_between_edits([f"{n // 4} failed" for n in range(40)], others=3),
    "edit-test, other errors each time": [one for n in range(20) for one in (step(tool="edit", args=f"line {n}", masked="ok"), step(tool="run", args="tests", masked=f"r{n}", error=f"{'x' * (n + 1)} is not defined"))],
    "edit-test-lint, all clean": [one for n in range(20) for one in (step(tool="edit", args=f"line {n}", masked="ok"), step(tool="run", args="tests", masked=f"r{n}"), step(tool="run", args="lint", masked="clean"))],
    "dates": scan(*(f"2024-01-{n:02}" for n in range(1, 30))),
    "months": scan("January", "February", "March", "April", "May", "June", "July"),
    "pages": scan(*(f"page {n}" for n in range(30))),
    "pages, 50 of them": scan(*(f"page {n}" for n in range(50))),
    "names": scan("Ada", "Berta", "Carl", "Dora", "Emil", "Frieda", "Georg", "Hanna"),
    "dates, two tools in turn": [one for n in range(1, 29) for one in (step(tool="direct", args=f"2024-01-{n:02}", masked="[]"), step(tool="onestop", args=f"2024-01-{n:02}", masked="[]"))],
    "days and back": scan(*(f"2024-01-{n:02}" for n in (*range(1, 29), 3, 12, 20))),
    "swarm": [step("handoff", f"agent {n % 3}", args="", masked="empty", chars=0) for n in range(30)],
    "swarm, in words": swarm(3, "Transferred to ", 62),
    "swarm of two, in words": swarm(2, "Transferred to ", 62),
    "swarm, its words without handoffs": swarm(3, "", 0),
    "dialogue": [step("message", ("user", "agent")[n % 2], masked=f"m{n}") for n in range(40)],
    "the same polite words": [step("message", ("user", "agent")[n % 2], masked="anything else?") for n in range(40)],
    "an agent's polite words": talk(*(("anything else?", f"m{n}")[n % 2] for n in range(40)), agents=("clerk", "buyer")),
    "a customer's agent": talk(*(("welcome", f"m{n}")[n % 2] for n in range(40)), agents=("customer_service", "caller")),
    "the same look after each word": [one for n in range(30) for one in (step("message", "user", masked=f"m{n}"), step())],
    "short words": [step("message", "a", masked="ok", chars=2) for _ in range(20)],
    "words on the way to calls": [one for n in range(9) for one in (step("model", masked="next"), step(args=f"n{n}", masked=f"r{n}"))],
    "a tool that fails three times": [step(args=f"try {n}", masked=f"m{n}", error="" if n % 4 == 3 else "x" * (n + 1)) for n in range(40)],
}  # fmt: skip


@pytest.mark.parametrize("steps", NEVER.values(), ids=NEVER)
def test_what_must_never_fire_does_not(steps):
    assert not fired(*steps) & {"ours", *OURS}


CAUGHT = {
    "identical_calls": [step()] * 3,
    "repeated_cycle": [step(args=q, masked=q) for q in "abab"],
    "near_identical_calls": [step(args=f"find one more old record about these famous lighthouse keepers {last}", masked="none") for last in ("please", "now", "again")],
    "same_call_in_a_row": [step(masked=str(n)) for n in range(5)],
    "same_words_before_calls": [
        one
        for query in ("old keepers of the tower", "names of keepers of the tower", "keepers and families of the tower")
        for one in (
            replace(step("model", masked=query), said="Let me look this up in the register of all the towers."),
            step(args=json.dumps({"q": query}), masked="none"),
        )
    ],
    "same_answer": [step("message", masked="same") for _ in range(3)],
    "nothing_new_in_a_row": [step(args=q, masked=q) for q in "abcdabcda"],
    "near_identical_calls_in_the_long_run": [*runs_between_edits(["5 failed"]), *runs_between_edits(["5 failed"] * 5, others=2)],
    "nothing_but_errors": [step(tool=f"get {word}", args=word, masked=word, error=f"no {word} here") for word in ("bread", "milk", "salt", "rice", "oil")],
    "failure_signature": [step(args=f"try {n}", masked=f"m{n}", error=f"no such file: line {n}") for n in range(3)],
    "fabro": [step(args="abc"[n % 3], masked=str(n)) for n in range(10)],
    "flow": [step(masked=str(n)) for n in range(3)],
    "ag2": [step(masked=str(n)) for n in range(3)],
}  # fmt: skip


@pytest.mark.parametrize("name", CAUGHT)
def test_each_rule_fires_at_its_threshold_and_not_before(name):
    assert name in fired(*CAUGHT[name])
    assert name not in fired(*CAUGHT[name][1:])


def word(n: int, agent: str = "user") -> TraceStep:
    return step("message", agent, masked=f"go on {n}")


def test_a_persons_word_starts_a_new_step_for_ours_and_not_for_the_documents_rules():
    found = fired(step(error="no"), word(1), step(error="no"), word(2), step(error="no"))
    assert "ours" not in found
    assert {"documents", "flow", "signature_of_document"} <= found


def test_a_persons_word_lets_one_failure_pass_twice_and_no_further():
    spoken = [one for n in range(5) for one in (step(args=f"try {n}", masked=f"m{n}", error="no"), word(n))]
    assert not fired(*spoken[:-3]) & set(OURS)
    assert fired(*spoken) & set(OURS) == {"failure_signature"}


@pytest.mark.parametrize(
    ("agent", "begins"),
    [("user", True), ("UserProxyAgent", True), ("human_2", True), ("customer_service", False), ("UserStory_Expert", False)],
)  # fmt: skip
def test_a_person_is_known_by_a_name_that_says_nothing_else(agent, begins):
    assert ("identical_calls" not in fired(step(), step(), word(1, agent), step(), step())) is begins


def test_a_program_that_says_the_same_again_and_again_in_a_persons_place_begins_nothing_anew():
    said = step("message", "user", masked="please go on")
    assert "identical_calls" not in fired(said, step(), step(), word(1), step())
    assert "identical_calls" in fired(said, step(), said, step(), said, step())
    assert "identical_calls" in fired(step(), step("message", "user", masked="", chars=0), step(), step())


def test_an_answer_is_one_to_what_was_said_last():
    same = step("message", "clerk", masked="same")
    assert "same_answer" not in fired(
        same, step("message", "other", masked="x"), same, step("message", "other", masked="y"), same
    )
    again = step("message", "other", masked="x")
    assert "same_answer" in fired(same, again, same, again, same, again, same), (
        "who says the same again has no new brief"
    )


def test_the_goal_on_the_recorded_traces():
    out = StringIO()
    call_command("evaluate_detectors", str(TRACES), stdout=out)
    found = json.loads(out.getvalue().splitlines()[-1])
    assert set(found) == {"total", "files", "by_detector", "hung", "catches"}
    assert set(found["by_detector"]) == set(NAMES)
    assert len(found["files"]) == 4
    total, documents = found["total"], found["by_detector"]["documents"]
    assert (total["good"]["runs"], total["failed"]["runs"], total["halted"]["runs"]) == (136, 242, 0)
    assert total["good"]["stopped"] <= 0.01 * total["good"]["runs"]
    assert total["failed"]["stopped"] > documents["failed"]["stopped"]


def test_on_each_file_no_more_good_runs_are_stopped_than_by_the_documents_rules():
    for figures in evaluate(TRACES)["files"].values():
        documents = figures["by_detector"]["documents"]
        assert figures["good"]["stopped"] <= documents["good"]["stopped"]


PASSED = "Please look into the booking of the customer and say whether it can be moved."


def handed(*ways: str, said: str = PASSED) -> list[TraceStep]:
    """Handoffs, each ``a>b``."""
    return [
        replace(step("handoff", way[0], args="", masked=str(n)), said=said, target=way[2]) for n, way in enumerate(ways)
    ]


def test_the_deadlock_monitor_judges_handoffs_and_no_notices_of_them():
    assert "deadlock_monitor" in fired(*handed("a>b", "b>a", "a>b"))
    assert "deadlock_monitor" not in fired(*handed("a>b", "b>a"))
    notice = handed("a>b", "b>a", "a>b", "b>a", "a>b", said="Transferred to b, adopting the role of b immediately.")
    assert "deadlock_monitor" not in fired(*notice)
    assert "deadlock_monitor" not in fired(*handed("a>b", "b>a"), word(1), *handed("a>b"))


def run(*steps: TraceStep) -> Trace:
    return Trace("t", success=False, halted=False, steps=steps)


def test_a_catch_says_what_was_left_and_where_the_next_trip_was():
    steps = [replace(step(args="a"), tokens=10, cost=0.25) for _ in range(5)]
    assert catch(run(*steps, step("message", "user"))) == {
        "step": 2,
        "steps": 6,
        "rules": ["identical_calls", "near_identical_calls"],
        "calls_left": 3,
        "tokens_left": 30,
        "usd_left": 0.75,
        "second": 3,
    }
    assert catch(run(*steps[:3]))["second"] is None
    assert catch(run(*steps[:2])) is None


def test_a_run_hung_whose_last_three_calls_brought_nothing_new():
    new, again, wrong = step(masked="new"), step(masked="old"), step(masked="x", error="no")
    assert hung(run(step(masked="old"), again, wrong, again))
    assert not hung(run(step(masked="old"), again, wrong, again, new))
    assert not hung(run(step(masked="old"), again, wrong))


def test_a_unjudged_run_is_neither_good_nor_failed(tmp_path):
    steps = [STEP | {"agent": None, "tool": None, "args": None}] * 3
    records = [{"success": None, "labels": {"halted": halted}, "steps": steps} for halted in (False, True)]
    (tmp_path / "ä.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    assert evaluate(tmp_path)["total"] == {
        "good": {"runs": 0, "stopped": 0},
        "failed": {"runs": 0, "stopped": 0},
        "halted": {"runs": 1, "stopped": 1},
    }


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


def recorded(folder: Path, *results: str, **more) -> int:
    """How many runs the evaluation stops of one in which each search is another paraphrase, and each result is recorded so."""
    words = ("please", "now", "again")
    asked = [f"find one more old record about these famous lighthouse keepers {word}" for word in words]
    steps = [
        {
            **STEP,
            "args": json.dumps({"query": query}),
            "masked_hash": f"h{n}",
            "content_excerpt": (said := result.replace("QUERY", query)),
            "raw_len": len(said),
            **more,
        }
        for n, (query, result) in enumerate(zip(asked, results, strict=True))
    ]
    line = {"trace_id": "t", "success": False, "labels": {}, "steps": steps}
    (folder / "one.jsonl").write_text(json.dumps(line), "utf-8")
    return evaluate(folder)["by_detector"]["near_identical_calls"]["failed"]["stopped"]


def test_results_of_traces_are_compared_without_the_arguments_that_they_repeat(tmp_path):
    found_nothing = json.dumps({"query": "QUERY", "results": []})
    assert recorded(tmp_path, *[found_nothing] * 3) == 1
    assert recorded(tmp_path, *["Nothing on QUERY."] * 3) == 1
    assert recorded(tmp_path, "QUERY: a", "QUERY: b", "QUERY: c") == 0


def test_a_result_that_was_not_recorded_whole_is_what_the_trace_says_that_it_is(tmp_path):
    assert recorded(tmp_path, *["Nothing on QUERY."] * 3, raw_len=9_999) == 0
