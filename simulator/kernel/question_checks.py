"""Checks the questions that a tool's server asks a person: invariants as in ``invariants.py``."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import Event
from fabric.core.fingerprint import decode
from fabric.core.requested_input import QUESTIONS_MAX
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on


@on("input_requested", "input_given", "call_issued")
def answers_go_out_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A call that asked goes out again only with an answer, once more under its key, and asks so often at most."""
    asked = seen.server_questions.get(fact.command_id)
    if fact.kind == "input_requested":
        seen.server_questions[fact.command_id] = (fact.asked, fact.attempt, False)
        return f"question {fact.number}" if fact.number > QUESTIONS_MAX else ""
    if asked is None:
        return ""
    digest, attempt, _ = asked
    if fact.kind == "input_given":
        seen.server_questions[fact.command_id] = (digest, attempt, True)
        about = decode(seen.content)["asked"]
        return "" if about == digest else f"an answer to {about}, and {digest} was asked"
    if fact.attempt == attempt + 1 and not asked[2]:
        return f"{fact.command_id} goes out again without an answer"
    return "" if fact.attempt > attempt else f"attempt {fact.attempt} after {attempt}"
