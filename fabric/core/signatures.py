"""Failure signatures: what makes two failures the same failure, and how often one may come (S1 "Failure signatures and circuit breakers").

A signature is ``node|class|message`` with what differs from one time to the next taken out of the message. Only deterministic and structural
failures count; a success never resets a count, so "work succeeds, verify fails, again and again" ends at the third verify failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from fabric.core.fingerprint import digest
from fabric.core.frozen import replace, value
from fabric.core.taxonomy import ErrorClass

JSON = Any
MESSAGE_BYTES_MAX = 240
"""Bytes of UTF-8 that are kept of a normalised message (S1)."""
LIMIT = 3
"""Default of how often one signature is met until the run is stopped (S1 ``loop_restart_signature_limit``)."""
ROUNDS = 2
"""Default of how often a person's word lets one signature pass (semantics.md 4 "Human waits": 2 rounds, then abort)."""
NO_REASON = "unknown"
COUNTED: frozenset[ErrorClass] = frozenset({ErrorClass.DETERMINISTIC, ErrorClass.STRUCTURAL})
"""A transient failure may resolve by itself; the others are bounded by mechanisms of their own."""

# In this order: a word of seven digits is a hex word. One of more than 64 is none: no hash is longer. Words are delimited by anything but letters, digits and the underscore.
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
"""Stands where an error repeats an argument of its call."""
ARGUMENT_CHARS_MIN = 3
"""A shorter argument stands in an error by chance."""
SENTENCE_WORDS_MIN = 3
"""A shorter sentence ("Error.") does not say what is wrong, and the next one counts too."""


def normalised(message: str) -> str:
    """``message`` without what differs between two failures of one cause, at most 240 bytes of UTF-8, cut between characters; ``unknown`` for an empty one."""
    text = message.strip().lower()
    for pattern, name in _RULES:
        text = pattern.sub(name, text)
    return text.encode("utf-8", "replace")[:MESSAGE_BYTES_MAX].decode("utf-8", "ignore") or NO_REASON


def signature(node: str, error_class: ErrorClass, message: str, hint: str | None = None) -> str:
    """``node|class|message``; a ``hint`` that the failing node gives beats its message."""
    reason = hint if hint and hint.strip() else message
    return f"{node}|{error_class}|{normalised(reason)}"


def hint_of(code: str) -> str:
    """The hint that an error code is: one word, so that its digits are no number that differs from one time to the next. Empty for none."""
    word = _APART.sub("_", code.strip().lower()).strip("_")
    return f"code_{word}" if word else ""


def effective_limit(limit: int) -> int:
    """The limit in force: the one given, 3 where it is 0 or less."""
    return limit if limit > 0 else LIMIT


def of_tool(node: str, tool: str, error: str, code: str = "", args: JSON = None) -> str:
    """An error that a tool gives its model, as ``node/tool|fingerprint``: a deterministic failure of that tool in one conversation, whoever of it calls.
    ``node``: the conversation, which is a stage's branch in a run: those who hear of an error may learn from it, and those of another branch do not.
    ``code``: what the tool itself calls the error; it beats what it says. ``args``: what its call was made with (``without_arguments``). A fingerprint, so
    that the fact that carries it holds nothing of what the tool said.
    """
    where, said = f"{node}/{tool}", without_arguments(error, args)
    return f"{where}|{digest(signature(where, ErrorClass.DETERMINISTIC, said, hint_of(code)))[:16]}"


def without_arguments(error: str, args: JSON) -> str:
    """The first sentence of a tool's error, without the texts of its call's arguments: a tool that repeats what it was asked fails the same way each time.

    An argument with a digit stays: a scan over ids fails differently for each. Plain numbers are masked with all others (``normalised``). ``args``: JSON of any shape.
    """
    said = first_sentence(error)
    lower = said.lower()
    found = {text for text in _texts(args) if len(text) >= ARGUMENT_CHARS_MIN and text in lower}
    if not found:
        return said
    any_of = "|".join(re.escape(text) for text in sorted(found, key=lambda text: (-len(text), text)))
    return re.sub(rf"(?<!\w)(?:{any_of})(?!\w)", ARGUMENT, said, flags=re.IGNORECASE)


def first_sentence(error: str) -> str:
    """The first sentence of an error that has three words or more, with what stands before it; the whole error where it has none."""
    for end in _SENTENCE_END.finditer(error):
        if len(error[: end.start()].split()) >= SENTENCE_WORDS_MIN:
            return error[: end.end()]
    return error


def _texts(args: JSON) -> Iterator[str]:
    """The texts of arguments that have no digit, in lower case."""
    if isinstance(args, dict):
        args = list(args.values())
    if isinstance(args, list):
        for item in args:
            yield from _texts(item)
    elif isinstance(args, str) and not any(char.isdigit() for char in args):
        yield args.strip().lower()


@value()
class Failures:
    """How often each signature was met in a run, and which a person has spoken since.

    A person's word takes nothing off a count. It only lets the very next failure of that kind pass: the person saw the one before and sent the run on. Not for
    ever: with two rounds and a limit of three, the fifth is stopped whatever was said.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    heard: tuple[str, ...] = ()
    turns: Mapping[str, str] = field(default_factory=dict)
    """By signature: the turn of a tool's error, or the visit of another failure, that counted it last."""
    crossings: Mapping[str, int] = field(default_factory=dict)
    """Restart edges: how often a failure with that signature crossed one. A count apart from the others."""
    turn: tuple[str, str] = ("", "")
    """Of workers that take turns by a graph: the branch that the last turn is, and whose it is."""


def counted(counts: Mapping[str, int], key: str) -> Mapping[str, int]:
    """The counts after one more failure with this signature. Nothing ever takes one off."""
    return {**counts, key: counts.get(key, 0) + 1}


def failed(before: Failures, key: str, turn: str = "") -> Failures:
    """After one more failure with this signature. ``turn``: of a tool's error, the answer that proposed the call; the calls of one answer fail together,
    before its model could learn from it, and count once. Of another failure, its visit (``visit_of``): what is tried again in it counts once.
    """
    if turn and before.turns.get(key) == turn:
        return before
    turns = {**before.turns, key: turn} if turn else before.turns
    heard = tuple(one for one in before.heard if one != key)
    return replace(before, counts=counted(before.counts, key), heard=heard, turns=turns)


def crossed(before: Failures, key: str) -> Failures:
    """After a failure with this signature crossed a restart edge."""
    return replace(before, crossings=counted(before.crossings, key))


def spoken(before: Failures) -> Failures:
    """After a person's word: what comes then is no try of before."""
    return replace(before, heard=tuple(before.counts), turns={})


def visit_of(command_id: str, step_id: str) -> str:
    """What the tries of one failure have in common: its call, else its step, whichever round of the epoch it is; empty: a stage as a whole, where each counts."""
    return _ROUND.sub("", command_id or step_id)


def reached(before: Failures, key: str, limit: int = LIMIT, turn: str = "", rounds: int = ROUNDS) -> bool:
    """Whether one more failure with this signature stops the run: a threshold, it acts at the limit itself. ``turn`` as in ``failed``; ``rounds``: how often
    a person's word lets one pass that had reached the limit.
    """
    if turn and before.turns.get(key) == turn:
        return False
    came, most = before.counts.get(key, 0) + 1, effective_limit(limit)
    return came >= most and (key not in before.heard or came >= most + rounds)
