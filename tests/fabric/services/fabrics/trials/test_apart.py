"""Trials whose time is the author's to set are made in a process of their own, that ends when its time or memory does."""

from __future__ import annotations

import time

import pytest

from fabric.policies.expressions.processes import NO_ROOM
from fabric.services.errors import Refused
from fabric.services.fabrics.trials.processes import TrialChildren, try_check
from fabric.services.fabrics.trials.table import TRIALS, try_check_here
from tests.fabric.services.fabrics.trials.drafts import CASES, as_json, draft

APART = pytest.mark.parametrize("kind", [kind for kind, trial in TRIALS.items() if trial.apart])
NAMES = as_json({"text": "So.", "citations": [f"{n}" for n in range(300)]})


def invariant(expression: str):
    one = {"stage": "finalize", "name": "own", "expression": expression, "message": "No."}
    return draft(gates__invariants=[one])


@APART
def test_it_says_what_the_same_trial_says_here(kind):
    case = CASES[kind]
    for sample in (case.passes, case.fails):
        assert try_check(draft(), case.path, sample) == try_check_here(draft(), case.path, sample)


@pytest.mark.parametrize("kind", [kind for kind, trial in TRIALS.items() if not trial.apart])
def test_what_is_bounded_by_itself_is_made_at_once(kind):
    began = time.process_time()
    assert try_check(draft(), CASES[kind].path, CASES[kind].passes).verdict == "passes"
    assert time.process_time() - began < 1


def test_a_refusal_comes_back_as_one():
    with pytest.raises(Refused) as refused:
        try_check(draft(), "gates.invariants.0", {"run": "1"})
    assert (refused.value.code, refused.value.field) == ("invalid", "run")
    assert refused.value.message.startswith("run: it is no JSON object")


def test_loops_in_loops_are_stopped():
    inner = "payload.citations.exists(d, a + b + c + d == 'x')"
    nested = f"payload.citations.exists(a, payload.citations.exists(b, payload.citations.exists(c, {inner})))"
    began = time.monotonic()
    found = try_check(invariant(nested), "gates.invariants.0", {"payload": NAMES}, within_s=3)
    assert (found.verdict, len(found.lines)) == ("error", 1)
    assert "took longer than 3 seconds and was stopped" in found.lines[0].said
    assert time.monotonic() - began < 10


def test_a_text_that_doubles_without_end_is_stopped():
    doubled = "[payload.text + payload.text]" + ".map(a, a + a)" * 60 + "[0] == ''"
    found = try_check(invariant(doubled), "gates.invariants.0", {"payload": NAMES}, within_s=60)
    assert (found.verdict, found.lines[0].said) == ("error", NO_ROOM)


def test_after_one_that_was_ended_the_next_is_made_in_another_process():
    endless = invariant("[payload.text + payload.text]" + ".map(a, a + a)" * 60 + "[0] == ''")
    children = TrialChildren(size=1, calls_max=2)
    frame = {"path": "gates.invariants.0", "sample": {}}
    for asked in (draft(), endless, draft(), draft(), draft()):
        found = children.try_frame({"draft": asked, **frame}, 30)
        assert found.verdict == ("error" if asked is endless else "passes")
    children.close()


def test_who_finds_no_process_free_is_told_so():
    full_room = TrialChildren(size=1)
    full_room._room.acquire()
    with pytest.raises(Refused, match="too many others are being tried") as refused:
        full_room.try_frame({}, 0.1)
    assert refused.value.code == "unavailable"


def test_the_process_is_given_none_of_the_servers_settings(monkeypatch):
    monkeypatch.setenv("PYTHONSTARTUP", "unused")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no.such.module")
    assert try_check(draft(), "tools.0", CASES["arguments"].passes).verdict == "passes"
