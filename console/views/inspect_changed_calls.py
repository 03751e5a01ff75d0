"""The inspector of calls that are not made as their model proposed them, or not at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.views.sections import Pair, Section, pairs, part

if TYPE_CHECKING:
    from console.views.inspect import Seen


def worded(seen: Seen) -> list[Section]:
    """A call that a person changed, or answered in the tool's stead."""
    edited = "proposed_hash" in seen.fact
    instead = seen.fact.get("proposed_tool")
    more = [Pair("in place of", instead, "code")] if instead else []
    facts = _otherwise(
        "Changed by a person" if edited else "Answered by a person", seen, *more, Pair("by", seen.fact["actor"])
    )
    shown = part(seen.record, "calls", "Arguments", "as they run") if edited else part(seen.record, "result", "Result")
    return [facts, *shown]


def requested(seen: Seen) -> list[Section]:
    """Returns the question of a tool's server to a person, or the person's answer."""
    if "actor" in seen.fact:
        facts = _otherwise("Answered by a person", seen, Pair("by", seen.fact["actor"]))
        return [facts, *part(seen.record, "answer", "Answer", "as the server gets it")]
    facts = _otherwise("Asked by the server", seen, Pair("question of the call", str(seen.fact["number"])))
    return [
        facts,
        *part(seen.record, "message", "Question"),
        *part(seen.record, "schema", "Form"),
        *part(seen.record, "said", "What it said without an answer"),
    ]


def planned(seen: Seen) -> list[Section]:
    """A call with the results that it refers to, or one that its plan left out."""
    known = "proposed_hash" in seen.fact
    facts = _otherwise("What it refers to" if known else "Left out", seen)
    shown = part(seen.record, "calls", "Arguments", "as they run") if known else part(seen.record, "skipped", "Why")
    return [facts, *shown]


def streamed(seen: Seen) -> list[Section]:
    """A call of an answer that was still coming in."""
    fact = seen.fact
    waits = Pair("waits for", ", ".join(fact["after"]) or None, "code")
    facts = _otherwise("Asked for while the answer came in", seen, Pair("attempt", fact["attempt"]), waits)
    return [facts, *part(seen.record, "calls", "Arguments", "as they came")]


def _otherwise(title: str, seen: Seen, *more: Pair) -> Section:
    """A call that is not made as it was proposed."""
    fact = seen.fact
    proposed = [Pair("proposed were", fact["proposed_hash"], "code")] if "proposed_hash" in fact else []
    hashed = Pair("arguments hash", fact["args_hash"], "code")
    return pairs(
        title, Pair("tool", fact["tool"], "code"), *more, Pair("call id", fact["call_id"], "code"), hashed, *proposed
    )
