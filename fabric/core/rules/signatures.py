"""Failure signatures: identify repeated failures, and limit their number (S1 "Failure signatures and circuit
breakers").

A signature is ``node|class|message`` with the variable parts of the message taken out. Only deterministic and
structural failures count. A success never resets a count, so "work succeeds, verify fails, again and again" ends at
the third verify failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from fabric.core.values.fingerprint import digest
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import ErrorClass
from fabric.core.values.units import JSON

MESSAGE_BYTES_MAX = 240
"""Bytes of UTF-8 that are kept of a normalised message (S1)."""
LIMIT = 3
"""Default number of failures with one signature until the run is stopped (S1 ``loop_restart_signature_limit``)."""
ROUNDS = 2
"""Default number of reviews whose answer lets one signature pass (docs/specification/reviews.md: 2 rounds, then
abort).
"""
NO_REASON = "unknown"
COUNTED: frozenset[ErrorClass] = frozenset({ErrorClass.DETERMINISTIC, ErrorClass.STRUCTURAL})
"""Classes that count. A transient failure may resolve by itself; the others are bounded by mechanisms of their own."""

# In this order: a word of seven digits is a hex word. One of more than 64 is none: no hash is longer. Words are
# delimited by anything but letters, digits and the underscore.
_RULES = (
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "<hex>"),
    (re.compile(r"\b[0-9]+\b"), "<n>"),
    (re.compile(r"\s+"), " "),
    (re.compile(r", "), ","),
)
_ROUND = re.compile(r"(?<=\d)\.r\d+")
_APART = re.compile(r"\W+")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s+[^\sa-z]|\s*$)")
ARGUMENT = "<argument>"
"""Replaces an argument of its call in an error."""
ARGUMENT_CHARS_MIN = 3
"""Fewest characters of an argument to replace; a shorter one is in an error by chance."""
SENTENCE_WORDS_MIN = 3
"""Fewest words of a sentence that names a problem; after a shorter one ("Error.") the next counts too."""


def normalise_message(message: str) -> str:
    """Return ``message`` without the parts that differ between two failures of one cause. It has at most 240 bytes of
    UTF-8, cut between characters; an empty one is ``unknown``.
    """
    text = message.strip().lower()
    for pattern, name in _RULES:
        text = pattern.sub(name, text)
    return text.encode("utf-8", "replace")[:MESSAGE_BYTES_MAX].decode("utf-8", "ignore") or NO_REASON


def signature(node: str, error_class: ErrorClass, message: str, hint: str | None = None) -> str:
    """Return ``node|class|message``; the failing node's ``hint`` takes precedence over its message."""
    reason = hint if hint and hint.strip() else message
    return f"{node}|{error_class}|{normalise_message(reason)}"


def read_hint(code: str) -> str:
    """Return an error code as a hint: one word, so that its digits are not masked as a variable number. Empty for
    none.
    """
    word = _APART.sub("_", code.strip().lower()).strip("_")
    return f"code_{word}" if word else ""


def effective_limit(limit: int) -> int:
    """Return the limit in force: the argument, or 3 if it is 0 or less."""
    return limit if limit > 0 else LIMIT


def tool_signature(node: str, tool: str, error: str, code: str = "", args: JSON = None) -> str:
    """Return the signature of an error that a tool returns to its model, as ``node/tool|fingerprint``. It counts as
    a deterministic failure of that tool in one conversation, whichever agent calls it.

    ``node``: the conversation, a stage's branch in a run; other branches never see the error, and cannot learn from
    it. ``code``: the tool's own error code, which takes precedence over the message. ``args``: its call's arguments
    (``without_arguments``). The result is a fingerprint, so that its fact contains none of the tool's text.
    """
    where, said = f"{node}/{tool}", without_arguments(error, args)
    return f"{where}|{digest(signature(where, ErrorClass.DETERMINISTIC, said, read_hint(code)))[:16]}"


def without_arguments(error: str, args: JSON) -> str:
    """Return the first sentence of a tool's error, without the texts of its call's arguments. So a tool that repeats
    its arguments has one signature for all of them.

    An argument with a digit stays: a scan over ids fails differently for each. Plain numbers are masked with all
    others (``normalise_message``). ``args``: JSON of any shape.
    """
    said = first_sentence(error)
    lower = said.lower()
    found = {text for text in _texts(args) if len(text) >= ARGUMENT_CHARS_MIN and text in lower}
    if not found:
        return said
    any_of = "|".join(re.escape(text) for text in sorted(found, key=lambda text: (-len(text), text)))
    return re.sub(rf"(?<!\w)(?:{any_of})(?!\w)", ARGUMENT, said, flags=re.IGNORECASE)


def first_sentence(error: str) -> str:
    """Return the first sentence of an error with three words or more, and the text before it. Without one, return the
    whole error.
    """
    for end in _SENTENCE_END.finditer(error):
        if len(error[: end.start()].split()) >= SENTENCE_WORDS_MIN:
            return error[: end.end()]
    return error


def _texts(args: JSON) -> Iterator[str]:
    """Yield the texts of arguments that have no digit, in lower case."""
    if isinstance(args, dict):
        args = list(args.values())
    if isinstance(args, list):
        for item in args:
            yield from _texts(item)
    elif isinstance(args, str) and not any(char.isdigit() for char in args):
        yield args.strip().lower()


@value()
class Failures:
    """Counts of each signature in a run, and the signatures that a review has answered since.

    A review's answer reduces no count. It only lets the next failure of that kind pass, since the person saw the one
    before and sent the run on. That is limited: with two rounds and a limit of three, the fifth failure stops the run
    in any case.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    heard: tuple[str, ...] = ()
    turns: Mapping[str, str] = field(default_factory=dict)
    """By signature: the last counted turn of a tool's error, or visit of another failure."""
    crossings: Mapping[str, int] = field(default_factory=dict)
    """Crossings of restart edges by failures with each signature; counted apart from the others."""
    speakers: Mapping[str, str] = field(default_factory=dict)
    """For workers that take turns by a graph: the speaker of each branch."""


def count_failure(counts: Mapping[str, int], key: str) -> Mapping[str, int]:
    """Return the counts after one more failure with this signature. Nothing ever takes one off."""
    return {**counts, key: counts.get(key, 0) + 1}


def add_failure(before: Failures, key: str, turn: str = "") -> Failures:
    """Return the failures after one more with this signature. ``turn``: for a tool's error, the answer that proposed
    the call; the calls of one answer fail together, before its model could learn from it, and count once. For
    another failure, its visit (``read_visit``), whose attempts count once.
    """
    if turn and before.turns.get(key) == turn:
        return before
    turns = {**before.turns, key: turn} if turn else before.turns
    heard = tuple(one for one in before.heard if one != key)
    return replace(before, counts=count_failure(before.counts, key), heard=heard, turns=turns)


def add_crossing(before: Failures, key: str) -> Failures:
    """Return the failures after one with this signature crossed a restart edge."""
    return replace(before, crossings=count_failure(before.crossings, key))


def forget_answered(before: Failures) -> Failures:
    """Return the failures after a review's answer: later ones are no attempts of an earlier failure."""
    return replace(before, heard=tuple(before.counts), turns={})


def read_visit(command_id: str, step_id: str) -> str:
    """Return the common id of one failure's attempts: its call, or its step without the round. "" stands for a stage as
    a whole, where each attempt counts.
    """
    return _ROUND.sub("", command_id or step_id)


def reaches_limit(before: Failures, key: str, limit: int = LIMIT, turn: str = "", rounds: int = ROUNDS) -> bool:
    """Return True if one more failure with this signature stops the run: a threshold, it acts at the limit itself.
    ``turn``: see ``add_failure``. ``rounds``: number of reviews whose answer lets a failure at the limit pass.
    """
    if turn and before.turns.get(key) == turn:
        return False
    came, most = before.counts.get(key, 0) + 1, effective_limit(limit)
    return came >= most and (key not in before.heard or came >= most + rounds)
