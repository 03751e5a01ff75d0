"""Turns of a conversation, and what people write into it."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.values.words import count, cut, duration, words
from fabric.selectors.runs.display.row import EventDisplay, Fact, Parts


def _turn_opened(fact: Fact) -> Parts:
    heard = f"it reads {count(len(fact['hears']), 'turn')}" if fact["hears"] else ""
    return Parts(fact["agent"], f"began turn {fact['branch'] + 1}", heard)


def _speaker_chosen(fact: Fact) -> Parts:
    turn = f"after turn {fact['turn']} of {fact['from_agent']}" if fact["step_id"] else "before the first turn"
    by = f"by {words(fact['why'])}"
    if not fact["speaker"]:
        return Parts("The conversation", f"ended {turn}", by, cut(fact["close_reason"]))
    rule = f" {fact['transition']}" if fact["transition"] is not None else ""
    wrong = cut(fact["errors"][0]) if fact["errors"] else ""
    return Parts("The engine", f"chose {fact['speaker']} to speak {turn}", f"{by}{rule}", wrong)


def _turn_overdue(fact: Fact) -> Parts:
    closed = ", and the conversation was closed" if fact["on_violation"] == "auto_close" else ""
    numbers = f"{duration(fact['elapsed_us'] / 1_000_000)} of {duration(fact['seconds'])} expected"
    return Parts(fact["speaker"], f"took too long for the turn{closed}", numbers)


ROWS: Mapping[str, EventDisplay] = {
    "turn_opened": EventDisplay("Turn", "info", "agent", 1, _turn_opened, content="Message to the agent"),
    "speaker_chosen": EventDisplay(
        "Next speaker", "info", "agent", 2, _speaker_chosen, content="Context variables from now on"
    ),
    "turn_overdue": EventDisplay("Turn overdue", "warn", "late", 2, _turn_overdue),
    "person_said": EventDisplay(
        "Message", "human", "answer", 2,
        lambda fact: Parts(fact["actor"], "wrote a message to the next speaker"), content="Message",
    ),
    "context_written": EventDisplay(
        "Context written", "human", "answer", 2,
        lambda fact: Parts(fact["actor"], f"wrote {count(fact['writes'], 'context variable')}"),
        content="Written value, and the variables after it",
    ),
    "handed_off": EventDisplay(
        "Handed over", "info", "handoff", 2,
        lambda fact: Parts(fact["from_agent"], f"handed over to {fact['to_agent']}"),
    ),
}  # fmt: skip
