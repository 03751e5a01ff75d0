"""References among the calls of an agent: an argument that is an earlier call's result, and a condition on what earlier calls gave (S2; semantics.md 6).

A reference is ``{"$ref": "calls.<id>.result.<path>"}`` and nothing beside it; a path goes by keys and positions, ``.error`` stands for ``.result`` where
the call failed. Anything else under ``$ref`` is the tool's own (JSON schema writes ``#/...`` there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fabric.core.frozen import value

JSON = Any
KEY = "$ref"
_OURS = "calls."
_REFERENCE = re.compile(r"calls\.(?P<call>[^.\s]+)\.(?P<part>result|error)(?:\.(?P<path>.+))?", re.DOTALL)
_NAMED = re.compile(r"""(?<![\w.])calls\s*(?:\.\s*(\w+)|\[\s*(?:'([^']*)'|"([^"]*)")\s*\])""")
DEEPEST = 64
"""How deep arguments are looked through; parsed JSON is no deeper (``text.nesting``)."""


@value()
class Reference:
    """Which part of which call's answer stands somewhere in the arguments."""

    call_id: str
    part: str
    """``result`` or ``error``."""
    path: tuple[str, ...]
    at: str
    """Where in the arguments it stands."""


class Unresolved(ValueError):
    """A reference that stands for nothing. The message is one sentence for the model."""


def references_of(args: JSON) -> list[Reference]:
    """Every reference in a call's arguments, in order. Raises Unresolved for one that is spelt so that it can mean nothing."""
    return [_read(text, at) for text, at in _found(args)]


def named_in(condition: str) -> tuple[str, ...]:
    """The calls that a condition names, each once."""
    found = (next(one for one in match.groups() if one is not None) for match in _NAMED.finditer(condition))
    return tuple(dict.fromkeys(found))


def resolved(args: JSON, answer_of: Callable[[str], Mapping[str, JSON]]) -> JSON:
    """The arguments with what their references stand for. ``answer_of``: a call's answer, ``{"result": ...}`` or ``{"error": ...}``, by its id.
    Raises Unresolved for a path that the answer has not.
    """

    def one(node: JSON, at: str) -> JSON:
        if (text := _text(node)) is not None:
            return _at(_read(text, at), answer_of)
        if isinstance(node, dict):
            return {key: one(held, f"{at}.{key}" if at else key) for key, held in node.items()}
        if isinstance(node, list):
            return [one(held, f"{at}.{n}" if at else str(n)) for n, held in enumerate(node)]
        return node

    return one(args, "")


def _text(node: JSON) -> str | None:
    """What a node refers to; None: it is no reference."""
    if not isinstance(node, dict) or len(node) != 1:
        return None
    text = node.get(KEY)
    return text if isinstance(text, str) and text.startswith(_OURS) else None


def _found(node: JSON, at: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > DEEPEST:
        return
    if (text := _text(node)) is not None:
        yield text, at
    elif isinstance(node, dict):
        for key, held in node.items():
            yield from _found(held, f"{at}.{key}" if at else key, depth + 1)
    elif isinstance(node, list):
        for n, held in enumerate(node):
            yield from _found(held, f"{at}.{n}" if at else str(n), depth + 1)


def _read(text: str, at: str) -> Reference:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise Unresolved(f"{at}: {text!r} is no reference; write calls.ID.result or calls.ID.result.PATH")
    path = tuple((match["path"] or "").split(".")) if match["path"] else ()
    return Reference(match["call"], match["part"], path, at)


def _at(reference: Reference, answer_of: Callable[[str], Mapping[str, JSON]]) -> JSON:
    answer = answer_of(reference.call_id)
    if reference.part not in answer and reference.part == "error":
        return None  # It came back without one: that is what a plan's unhappy path asks for.
    node: JSON = answer.get(reference.part)
    gone = f"calls.{reference.call_id}.{reference.part}"
    for part in reference.path:
        node, known = _step(node, part)
        if not known:
            raise Unresolved(f"{reference.at}: {gone} has no {part!r}{_offered(node)}")
        gone = f"{gone}.{part}"
    return node


def _step(node: JSON, part: str) -> tuple[JSON, bool]:
    """What is one step further, and whether there is anything; what there was where there is not."""
    if isinstance(node, dict) and part in node:
        return node[part], True
    if isinstance(node, list) and part.isdecimal() and len(part) < 10 and int(part) < len(node):
        return node[int(part)], True
    return node, False


def _offered(node: JSON) -> str:
    if isinstance(node, dict):
        names = ", ".join(str(key)[:40] for key in list(node)[:8])
        return f"; it has: {names}" if names else "; it is empty"
    if isinstance(node, list):
        return f"; it is a list of {len(node)}"
    return f"; it is {'nothing' if node is None else 'a text' if isinstance(node, str) else 'a plain value'}"
