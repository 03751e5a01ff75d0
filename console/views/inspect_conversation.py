"""Events of conversations, in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.views.sections import Pair, Section, content, pairs
from fabric.core.words import words

if TYPE_CHECKING:
    from console.views.inspect import Seen


def speaker_chosen(seen: Seen) -> list[Section]:
    """The next speaker and the reason."""
    fact = seen.fact
    rule = fact["transition"]
    facts = pairs(
        "Next speaker",
        Pair("turns so far", fact["turn"], "count"),
        Pair("spoke", fact["from_agent"]),
        Pair("speaks next", fact["speaker"] or "nobody"),
        Pair("decided by", words(fact["why"])),
        Pair("rule", "none" if rule is None else str(rule)),
        Pair("routing tool", fact["tool"] or "none"),
        Pair("closed with", fact["close_reason"] or "not closed"),
        Pair("outcome", words(fact["outcome"])),
        Pair("class of failure", words(fact["failure_class"]) if fact["failure_class"] else "none"),
        Pair("names that lead to nobody", "; ".join(fact["errors"]) or "none"),
    )
    return [facts, *content(seen.record, "Context variables from now on")]


def person_said(seen: Seen) -> list[Section]:
    """A person's message."""
    return [pairs("Message", Pair("from", seen.fact["actor"])), *content(seen.record, "What whoever speaks next reads")]


def context_written(seen: Seen) -> list[Section]:
    """Context variables that somebody outside wrote."""
    fact = seen.fact
    facts = pairs("Context variables", Pair("from", fact["actor"]), Pair("written", str(fact["writes"])))
    return [facts, *content(seen.record, "What was written, and the variables as they stood then")]


def turn_overdue(seen: Seen) -> list[Section]:
    """A turn that takes longer than is expected."""
    fact = seen.fact
    facts = pairs(
        "Expectation",
        Pair("speaker", fact["speaker"]),
        Pair("step", fact["step_id"], "code"),
        Pair("bound", f"{fact['seconds']:g} s"),
        Pair("has taken", f"{fact['elapsed_us'] / 1_000_000:g} s"),
        Pair("then", words(fact["on_violation"])),
    )
    return [facts]
