"""Questions to people, as the inspector shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from console.templatetags.marks import FAILURES
from console.views.inspect_models import candidates
from console.views.sections import Pair, Section, content, pairs
from fabric.core.words import words

if TYPE_CHECKING:
    from console.views.inspect import Seen

EXPIRY = {
    "reject": "then rejected by the system",
    "nothing": "and nothing happens by itself",
    "error": "then it is an error of the call",
    "next": "then the call may not be made again, and the next reaction of the decision table follows",
}
"""By what is declared for a question that nobody answers."""


def opened(seen: Seen) -> list[Section]:
    """What is asked, of whom, and until when."""
    fact = seen.fact
    row = fact["failure_type"]
    facts = pairs(
        "Question",
        Pair("to", fact["required_role"], "text", f"round {fact['round']}"),
        Pair("about", words(fact["item"]), "text", f"in {words(fact['stage'])}"),
        Pair(
            "have to agree",
            fact.get("approvals", 1) if fact.get("approvals", 1) > 1 else None,
            "count",
            "different people",
        ),
        Pair("may only reject", _names(fact.get("barred"))),
        Pair("row", FAILURES.get(row, row) if row else None),
        Pair("reason", fact["reason"]),
        Pair("may answer", ", ".join(fact["verbs"])),
        Pair("reminder", fact["remind_at"], "at"),
        Pair("passed on", fact["onward_at"], "at"),
        Pair("due", fact["due_at"], "at", EXPIRY[fact["on_expiry"]]),
        Pair("offers", fact["model"] or None, "code", "in place of the model that failed"),
        Pair("item", fact["escalation_id"], "code"),
        Pair("digest", fact["digest"], "code", "a decision names it"),
    )
    shown = content(seen.record, "What was shown", "as it is journaled")
    for section in shown:
        # The same in words is above, and on the page of the question.
        section.body["folded"] = section.part == "tree"
    return [facts, *candidates(fact.get("weighed")), *shown]


def _asked(seen: Seen) -> tuple[Pair, ...]:
    """The question that this is about, and how long it had waited."""
    found = seen.moment.questions.get(seen.fact["escalation_id"]) if seen.moment else None
    item = Pair("item", seen.fact["escalation_id"], "code")
    if found is None:
        return (item,)
    seq, asked = found
    return (
        Pair("question", seq, "seq", f"{words(asked.item)} in {words(asked.stage)}"),
        Pair("asked", asked.reason),
        item,
    )


def decided(seen: Seen) -> list[Section]:
    """The answer that counts."""
    fact = seen.fact
    facts = pairs(
        "Answer",
        Pair("verb", fact["verb"], tone="human"),
        Pair("by", "the system: nobody answered in time" if fact["system"] else fact["actor"]),
        Pair("agreed before", _names(fact.get("agreed"))),
        Pair("written by", fact.get("proposed_by") or None),
        _held(fact),
        *_asked(seen),
    )
    return [facts, *content(seen.record, "Message")]


def closed(seen: Seen) -> list[Section]:
    """What became of a question without an answer."""
    fact = seen.fact
    return [
        pairs("Question", Pair("reason", fact.get("reason")), Pair("step", words(fact.get("step", ""))), *_asked(seen))
    ]


def approved(seen: Seen) -> list[Section]:
    """Who was the first of two to agree, and to what."""
    fact = seen.fact
    facts = pairs(
        "Agreed",
        Pair("by", fact["actor"], tone="human"),
        Pair("have agreed", _names(fact["agreed"])),
        _held(fact),
        Pair("digest", fact["digest"], "code", "somebody else agrees to exactly this"),
        *_asked(seen),
    )
    return [facts, *content(seen.record, "Message")]


def edited(seen: Seen) -> list[Section]:
    """Who proposes something else, and what is asked about from now on."""
    fact = seen.fact
    facts = pairs(
        "Proposed instead",
        Pair("by", fact["actor"], tone="human"),
        Pair("have agreed", _names(fact["agreed"])),
        Pair("lets pass", "somebody else" if fact["proposed_by"] else None),
        _held(fact),
        Pair("digest", fact["digest"], "code"),
        Pair("before", fact["before"], "code"),
        *_asked(seen),
    )
    return [facts, *content(seen.record, "What is shown from now on", "as it is journaled")]


def output_edited(seen: Seen) -> list[Section]:
    """Who wrote something in place of what was to pass on."""
    fact = seen.fact
    about = (Pair("stage", words(fact["stage"])), Pair("step", fact["step_id"] or None, "code"))
    facts = pairs("Written by hand", Pair("by", fact["actor"], tone="human"), *about, *_asked(seen))
    return [facts, *content(seen.record, "What goes on instead")]


def guided(seen: Seen) -> list[Section]:
    """Who said what is to be done otherwise, and what runs again with it."""
    fact = seen.fact
    again = Pair("runs again", ", ".join(fact["step_ids"]), "code", "it costs its stage one replan")
    facts = pairs("Sent back", Pair("by", fact["actor"], tone="human"), again, *_asked(seen))
    return [facts, *content(seen.record, "What was said")]


def _names(names: Sequence[str] | None) -> str | None:
    return ", ".join(names) if names else None


def _held(fact: Mapping[str, Any]) -> Pair:
    """The roles that were judged on."""
    return Pair("held then", _names(fact.get("roles")))
