"""Shows a question on a terminal: its whole content, the consequence of each answer, and the digest that an answer names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fabric.core.eligibility import asked_words, wanted
from fabric.core.words import instant
from fabric.selectors.answers import Answer, answered, answers_waiting
from fabric.selectors.asked_about import AskedAbout, asked_about, asked_about_json
from fabric.selectors.escalations import EscalationView
from fabric.selectors.review_asked import asked_of
from fabric.selectors.review_lateness import is_over
from fabric.selectors.store_time import store_now
from fabric.selectors.visible import visible, visible_line

JSON = Any
DIGEST_CHARS = 12
"""Characters of a digest in a command that is suggested."""
ARGUMENTS_CHARS = 160
"""Characters of the arguments in a line of a list."""
WIDTH = 12
_plain = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def question(item: EscalationView) -> list[str]:
    """An open question with its whole content, and the command that answers it, or undoes the answer that its run has not taken: lines for a terminal."""
    if (given := answers_waiting([item]).get(item.id)) is not None:
        said = _field("answered", answered(item, given, store_now()))
        undo = f"Undo the answer with: manage.py decide {item.id} undo"
        return [f"Item {item.id}: {visible_line(item.reason)}", *said, *card(item), undo]
    waits = f"waits for {asked_words(wanted(asked_of(item)))}, until {instant(item.due_at)}"
    if is_over(item):
        waits = f"was due at {instant(item.due_at)}, and takes no answer any more"
    return [f"Item {item.id} {waits}: {visible_line(item.reason)}", *card(item), command(item)]


def command(item: EscalationView) -> str:
    """The command that answers a question."""
    verbs = "|".join(item.verbs)
    named = "" if item.ticket else f" --digest {item.digest[:DIGEST_CHARS]}"
    return f"Decide it with: manage.py decide {item.id} {verbs}{named} [--message TEXT]"


def card(item: EscalationView) -> list[str]:
    """Returns the content of the question, the consequence of each answer, and the digest. Nothing is left out; hidden characters are shown by number."""
    about = asked_about(item)
    return [
        *_called(about),
        *_asks(about),
        *_payload(item, about),
        *_field("agreed", ", ".join(item.agreed)),
        *(line for verb, follows in about.follows for line in _field(verb, follows)),
        *_field("no answer", about.expiry),
        *_field("digest", item.digest),
    ]


def in_line(item: EscalationView) -> str:
    """The call with its arguments, on a part of a line; empty: it is no call."""
    about = asked_about(item)
    if not about.tool:
        return ""
    args = about.payload if about.asks is None else about.asks.args
    pairs = args.items() if isinstance(args, dict) else ()
    said = ", ".join(f"{_name(name)}: {_value(value)}" for name, value in pairs)
    if len(said) > ARGUMENTS_CHARS:
        said = f"{said[:ARGUMENTS_CHARS]}... {len(said) - ARGUMENTS_CHARS:,} more characters"
    return f"{visible_line(about.tool)}({said})"


def questions_json(items: Sequence[EscalationView]) -> list[dict[str, JSON]]:
    """Open questions with their contents, as programs read them."""
    waiting = answers_waiting(items)
    return [question_json(item, waiting.get(item.id)) for item in items]


def question_json(item: EscalationView, waiting: Answer | None, now: int | None = None) -> dict[str, JSON]:
    """A question with its content, as programs read it. ``waiting``: the answer that its run has not taken. ``now``: as for ``is_over``."""
    same = ("id", "run_id", "item", "stage", "reason", "required_role", "digest", "due_at")
    said = {name: getattr(item, name) for name in same}
    said |= {"verbs": list(item.verbs), "late": waiting is None and is_over(item, now)}
    named = ("verb", "decided_by", "decided_at", "takes_at")
    given = None if waiting is None else {name: getattr(waiting, name) for name in named}
    return said | {"answer": given, **asked_about_json(asked_about(item))}


def _called(about: AskedAbout) -> Iterator[str]:
    if about.tool:
        word = f" ({about.effect_word})" if about.effect else ""
        instead = f", in place of {about.instead_of}" if about.instead_of else ""
        undoes = f", which undoes {about.undoes}" if about.undoes else ""
        yield from _field("call", f"{about.tool}{word}{instead}{undoes}")
        yield from _field("it does", about.description)
    yield from _field("proposed by", about.proposed_by)
    yield from _field("because", about.because)


def _asks(about: AskedAbout) -> Iterator[str]:
    """Returns the arguments of the tool's call, and then the question of its server."""
    if about.asks is None:
        return
    yield from labelled("with", payload_lines(about.asks.args, about))
    yield from _field("server", about.asks.server)
    yield from labelled("asks", visible(about.asks.message).split("\n"))
    yield from labelled("fields", [f"{_name(name)}: {visible_line(takes)}" for name, takes in about.asks.fields])
    yield from _field("it said", about.asks.said)


def _payload(item: EscalationView, about: AskedAbout) -> Iterator[str]:
    if about.payload is None:
        if not item.content:
            yield from _field("asks", "what was asked about was erased by retention")
        return
    name = "answer" if about.asks is not None else "with" if about.tool else "what passes"
    yield from labelled(name, payload_lines(about.payload, about))


def payload_lines(payload: JSON, about: AskedAbout | None = None) -> list[str]:
    """Arguments, or what would pass, a line each. A text that would pass stands on lines of its own, each with a bar before it."""
    if not isinstance(payload, dict):
        return visible(json.dumps(payload, ensure_ascii=False, indent=2)).split("\n")
    if not payload:
        return ["no arguments" if about is not None and about.tool and not about.asks else "nothing"]
    lines: list[str] = []
    for name, value in payload.items():
        if isinstance(value, str) and "\n" in value and not (about and about.tool):
            lines += [f"{_name(name)}:", *(f"| {line}" for line in visible(value).split("\n"))]
        else:
            first, *rest = _value(value, indent=2).split("\n")
            lines += [f"{_name(name)}: {first}", *rest]
    return lines


def _name(name: str) -> str:
    return name if _plain.fullmatch(name) else _value(name)


def _value(value: JSON, indent: int | None = None) -> str:
    """A value as JSON, which shows where it begins and ends."""
    return visible(json.dumps(value, ensure_ascii=False, indent=indent))


def _field(name: str, says: str) -> Iterator[str]:
    """One line; none where there is nothing to say."""
    if says:
        yield from labelled(name, [visible_line(says)])


def labelled(name: str, lines: list[str]) -> Iterator[str]:
    """Lines beside a name."""
    for number, line in enumerate(lines):
        yield f"  {'' if number else name:<{WIDTH}}{line}".rstrip()
