"""Shows a review on a terminal: its content, the consequence of each answer, and the digest that an answer names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from fabric.core.people.eligibility import asked_words, list_reviewers
from fabric.core.values.units import JSON
from fabric.core.values.words import instant
from fabric.program.name import program
from fabric.selectors.database_time import store_now
from fabric.selectors.reviews.answers import ReviewAnswer, answered_sentence, answers_waiting, is_over
from fabric.selectors.reviews.eligibility import build_review_rules
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.reviews.subjects import AskedAbout, build_subject_json, find_review_subject
from fabric.selectors.visible_text import visible, visible_line

DIGEST_CHARS = 12
"""Characters of a digest in a suggested command."""
ARGUMENTS_CHARS = 160
"""Characters of the arguments in a line of a list."""
WIDTH = 12
_plain = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def review_lines(item: ReviewView) -> list[str]:
    """Return an open review as lines for a terminal: its content, and the command that answers it. A pending answer has
    the command that undoes it.
    """
    if (given := answers_waiting([item]).get(item.id)) is not None:
        said = _field("answered", answered_sentence(item, given, store_now()))
        undo = f"Undo the answer with: {program()} review undo {item.id}"
        return [f"Review {item.id}: {visible_line(item.reason)}", *said, *card(item), undo]
    waits = f"waits for {asked_words(list_reviewers(build_review_rules(item)))}, until {instant(item.due_at)}"
    if is_over(item):
        waits = f"was due at {instant(item.due_at)}, and takes no answer any more"
    return [f"Review {item.id} {waits}: {visible_line(item.reason)}", *card(item), command(item)]


def command(item: ReviewView) -> str:
    """Return the command that answers a review."""
    verbs = "|".join(item.verbs)
    named = "" if item.follow_up else f" --digest {item.digest[:DIGEST_CHARS]}"
    return f"Decide it with: {program()} review decide {item.id} {verbs}{named} [--message TEXT]"


def card(item: ReviewView) -> list[str]:
    """Return the content of the review, the consequence of each answer, and the digest.

    Nothing is left out; hidden characters are shown by number.
    """
    about = find_review_subject(item)
    return [
        *_call_lines(about),
        *_asks(about),
        *_payload(item, about),
        *_field("agreed", ", ".join(item.agreed)),
        *(line for verb, follows in about.follows for line in _field(verb, follows)),
        *_field("no answer", about.expiry),
        *_field("digest", item.digest),
    ]


def in_line(item: ReviewView) -> str:
    """Return the call with its arguments, on a part of a line; empty: it is no call."""
    about = find_review_subject(item)
    if not about.tool:
        return ""
    args = about.payload if about.asks is None else about.asks.args
    pairs = args.items() if isinstance(args, dict) else ()
    said = ", ".join(f"{_name(name)}: {_value(value)}" for name, value in pairs)
    if len(said) > ARGUMENTS_CHARS:
        said = f"{said[:ARGUMENTS_CHARS]}... {len(said) - ARGUMENTS_CHARS:,} more characters"
    return f"{visible_line(about.tool)}({said})"


def reviews_json(items: Sequence[ReviewView]) -> list[dict[str, JSON]]:
    """Return open reviews with their contents, as programs read them."""
    waiting = answers_waiting(items)
    return [content_json(item, waiting.get(item.id)) for item in items]


def content_json(item: ReviewView, waiting: ReviewAnswer | None, now: int | None = None) -> dict[str, JSON]:
    """Return a review with its content, as programs read it. ``waiting``: an answer that its run has not taken.
    ``now``: as for ``is_over``.
    """
    same = ("id", "run_id", "item", "stage", "reason", "required_role", "digest", "due_at")
    said = {name: getattr(item, name) for name in same}
    said |= {"verbs": list(item.verbs), "late": waiting is None and is_over(item, now)}
    named = ("verb", "decided_by", "decided_at", "takes_at")
    given = None if waiting is None else {name: getattr(waiting, name) for name in named}
    return said | {"answer": given, **build_subject_json(find_review_subject(item))}


def _call_lines(about: AskedAbout) -> Iterator[str]:
    if about.tool:
        word = f" ({about.effect_word})" if about.effect else ""
        instead = f", in place of {about.instead_of}" if about.instead_of else ""
        undoes = f", which undoes {about.undoes}" if about.undoes else ""
        yield from _field("call", f"{about.tool}{word}{instead}{undoes}")
        yield from _field("it does", about.description)
    yield from _field("proposed by", about.proposed_by)
    yield from _field("because", about.because)


def _asks(about: AskedAbout) -> Iterator[str]:
    """Yield the arguments of the tool's call, and then the question of its server."""
    if about.asks is None:
        return
    yield from label_lines("with", payload_lines(about.asks.args, about))
    yield from _field("server", about.asks.server)
    yield from label_lines("asks", visible(about.asks.message).split("\n"))
    yield from label_lines("fields", [f"{_name(name)}: {visible_line(takes)}" for name, takes in about.asks.fields])
    yield from _field("it said", about.asks.said)


def _payload(item: ReviewView, about: AskedAbout) -> Iterator[str]:
    if about.payload is None:
        if not item.content:
            yield from _field("asks", "retention erased this content")
        return
    name = "answer" if about.asks is not None else "with" if about.tool else "result to release"
    yield from label_lines(name, payload_lines(about.payload, about))


def payload_lines(payload: JSON, about: AskedAbout | None = None) -> list[str]:
    """Return arguments, or a payload, a line each. A longer text of a payload has lines of its own, each after a
    bar.
    """
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
    """Return a value as JSON, which shows where it begins and ends."""
    return visible(json.dumps(value, ensure_ascii=False, indent=indent))


def _field(name: str, says: str) -> Iterator[str]:
    """Yield one line; none for an empty text."""
    if says:
        yield from label_lines(name, [visible_line(says)])


def label_lines(name: str, lines: list[str]) -> Iterator[str]:
    """Yield lines with a name before the first."""
    for number, line in enumerate(lines):
        yield f"  {'' if number else name:<{WIDTH}}{line}".rstrip()
