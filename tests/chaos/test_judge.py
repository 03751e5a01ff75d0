"""The judge sees what it is there to see."""

from simulator.chaos.harness import judge


def issued(command, attempt=1, call="model"):
    return {"kind": "call_issued", "call": call, "command_id": command, "attempt": attempt}


def answered(command, attempt=1):
    return {"kind": "model_answered", "command_id": command, "attempt": attempt}


def asked(command, attempt=1, run="run"):
    return {"run": run, "command": command, "attempt": attempt}


ENDED = {"kind": "run_ended", "state": "completed"}
INTERRUPTED = {"kind": "attempt_interrupted", "command_id": "plan", "attempt": 1}


def test_a_clean_run():
    found = judge([asked("plan")], {"run": [issued("plan"), answered("plan"), ENDED]}, 0)
    assert (found.runs, found.ended, found.asked, found.answered) == (1, {"completed": 1}, 1, 1)
    assert found.asked_twice == found.asked_after_journaled == found.not_intended == []


def test_a_call_that_was_lost_with_its_process_and_sent_again():
    facts = [issued("plan"), INTERRUPTED, issued("plan", 2), answered("plan", 2), ENDED]
    found = judge([asked("plan"), asked("plan", 2)], {"run": facts}, 1)
    assert (found.asked, found.answered, found.interrupted, found.kills) == (2, 1, 1, 1)
    assert found.asked_twice == found.asked_after_journaled == found.not_intended == []


def test_an_attempt_sent_by_two_owners():
    found = judge([asked("plan"), asked("plan")], {"run": [issued("plan"), answered("plan"), ENDED]}, 0)
    assert found.asked_twice == ["('run', 'plan', 1)"]


def test_a_call_asked_again_although_its_answer_was_journaled():
    facts = [issued("plan"), answered("plan"), issued("plan", 2), ENDED]
    found = judge([asked("plan"), asked("plan", 2)], {"run": facts}, 0)
    assert found.asked_after_journaled == ["('run', 'plan', 2)"]


def test_a_call_without_an_intent():
    found = judge([asked("plan")], {"run": [issued("plan", call="tool"), ENDED]}, 0)
    assert found.not_intended == ["('run', 'plan', 1)"]
    found = judge([asked("plan", run="unknown")], {"run": [issued("plan"), ENDED]}, 0)
    assert found.not_intended == ["('unknown', 'plan', 1)"]


def test_runs_that_did_not_complete_are_counted_as_what_they_are():
    journals = {"a": [ENDED], "b": [{"kind": "run_ended", "state": "failed"}], "c": []}
    found = judge([], journals, 0)
    assert (found.runs, found.ended) == (3, {"completed": 1, "failed": 1})
