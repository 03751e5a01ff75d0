"""Verdicts and votes of scripted agents: whom a request lets them choose from, and whose proposal speaks most of what was asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fabric.runtime.call_ports import ModelRequest
from simulator.kernel.extract import cites, first_line, listing, shared_words

JSON = Any
_choices = re.compile(r"^The winner is one of: (.+)\.$", re.MULTILINE)
_said = re.compile(r"\A([a-z][a-z0-9_-]*) said:\n(.*)\Z", re.DOTALL)


def choices_in(request: ModelRequest) -> list[str]:
    """Whom a verdict may be for, as the request says."""
    found = [match.group(1) for message in request.messages if (match := _choices.search(message.text))]
    return found[-1].split(", ") if found else []


def verdict(request: ModelRequest, question: str, options: Mapping[str, JSON]) -> dict[str, JSON]:
    """For whom ``winner`` says, else for the side whose last proposal cites something and has most of the words of the question; of equals the first."""
    choices = choices_in(request) or ["nobody"]
    said = (match for message in request.messages if (match := _said.match(message.text)))
    last = {match.group(1): match.group(2) for match in said}

    def weight(name: str) -> tuple[bool, int]:
        proposal = last.get(name, "")
        return bool(cites(proposal)), len(_words(question, proposal))

    named = str(options.get("winner", ""))
    winner = named if named in choices else max(choices, key=weight)
    words = _words(question, last.get(winner, ""))
    why = f"{winner} speaks of {listing(words[:4])}" if words else f"{winner} shows what it rests on"
    others = [name for name in choices if name != winner]
    against = f", and {listing(others)} of less of what was asked" if others and words else ""
    opening = first_line(last.get(winner, ""), 200)
    text = f"{why}{against}." + (f" It holds: {opening}" if opening else "")
    return {"winner": winner, "text": text, "citations": cites(last.get(winner, ""))}


def _words(question: str, text: str) -> Sequence[str]:
    return shared_words(question, text)
