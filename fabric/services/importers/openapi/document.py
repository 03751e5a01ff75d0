"""Reads an OpenAPI document from a file or an address, JSON or YAML, and resolves references inside it only."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from fabric.core.texts.text import DEPTH_MAX, count_nesting
from fabric.core.values.units import JSON
from fabric.http.transport import Gate
from fabric.services.errors import Refused
from fabric.tools.answers.outcome import CallBroken, ToolError
from fabric.tools.http.exchange import exchange, url_for_message

BYTES_MAX = 5_000_000
VALUES_MAX, YAML_VALUES_MAX = 300_000, 50_000
"""Largest number of values and fields of a document, about. A parser of YAML holds each in a kilobyte."""
FETCH_S = 30.0
HOPS_MAX = 20
"""Largest number of references that lead to references."""
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A text, or the beginning or separator of values."""


class UnreadablePart(Exception):
    """A part of a document with a wrong shape: its place, and the reason why it is of no use."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True)
class OpenApiDocument:
    """A whole document. ``version`` is 3.0 or 3.1; ``origin`` a file's name or the address that it came from."""

    tree: Mapping[str, JSON]
    version: str
    origin: str
    resolver: Any

    @property
    def title(self) -> str:
        """Return the document's name of the API."""
        info = self.tree.get("info")
        found = info.get("title") if isinstance(info, dict) else None
        return found.strip()[:200] if isinstance(found, str) and found.strip() else "API"

    def resolve(self, node: JSON, path: str) -> JSON:
        """Return a node, or the target of its reference. Raises UnreadablePart."""
        for _ in range(HOPS_MAX):
            if not (isinstance(node, dict) and isinstance(node.get("$ref"), str)):
                return node
            node = self.lookup(node["$ref"], path)
        raise UnreadablePart(path, f"its references lead on and on, more than {HOPS_MAX} times")

    def lookup(self, reference: str, path: str) -> JSON:
        """Return the target of a reference inside the document. Raises UnreadablePart."""
        if not reference.startswith("#"):
            raise UnreadablePart(path, f"refers to another document ({reference[:100]}); put that into this one first")
        try:
            return self.resolver.lookup(reference).contents
        except (Unresolvable, ValueError, LookupError, TypeError):
            raise UnreadablePart(path, f"refers to {reference[:100]}, which is not there") from None


def document_at(given: str, gate: Gate) -> OpenApiDocument:
    """Return the document of a file or an address. Raises Refused with one sentence."""
    if given.startswith(("http://", "https://")):
        return read_document(_fetch_document(given, gate), origin=given)
    path = Path(given)
    try:
        if path.stat().st_size > BYTES_MAX:
            raise _refuse_document(path.name, f"has more than {BYTES_MAX:,} bytes; take parts out")
        return read_document(path.read_bytes().decode("utf-8-sig"), origin=path.name)
    except OSError as error:
        raise Refused(f"{given} cannot be read: {error.strerror}", code="invalid", field="file") from None
    except UnicodeDecodeError as error:
        raise _refuse_document(path.name, f"is no UTF-8 text (byte {error.start:,} is not)") from None


def _fetch_document(url: str, gate: Gate) -> str:
    accept = {"Accept": "application/json, application/yaml, text/*;q=0.9"}
    try:
        text = asyncio.run(exchange(gate, "GET", url, deadline_s=FETCH_S, headers=accept)).text
    except (ToolError, CallBroken) as error:
        raise Refused(f"{error}; or save it and name the file", code="invalid", field="file") from None
    if text is None:
        raise Refused(f"{url_for_message(url)} answered with what is no text", code="invalid", field="file")
    return text


def read_document(text: str, *, origin: str) -> OpenApiDocument:
    """Return the document in a text. Raises Refused with one sentence."""
    tree = _tree(text, origin)
    if not isinstance(tree, dict):
        raise _refuse_document(origin, "is no OpenAPI document, which is fields with values: openapi, info, paths")
    if "swagger" in tree:
        raise _refuse_document(origin, "is Swagger 2.0; convert it to OpenAPI 3, which is what is read")
    version = tree.get("openapi")
    if not isinstance(version, str):
        raise _refuse_document(origin, "openapi: is missing; it says the version, such as 3.1.0")
    if not version.startswith(("3.0.", "3.1.")) and version not in ("3.0", "3.1"):
        raise _refuse_document(origin, f"openapi: is {version[:20]!r}; 3.0 and 3.1 are read")
    if not isinstance(tree.get("paths"), dict):
        raise _refuse_document(origin, "paths: has to be a group of paths, each with its operations")
    resource = DRAFT202012.create_resource(tree)
    resolver = Registry().with_resource("urn:document", resource).resolver("urn:document")
    return OpenApiDocument(tree, version[:3], origin, resolver)


def _tree(text: str, origin: str) -> JSON:
    if text.lstrip()[:1] == "{":
        if count_nesting(text) > DEPTH_MAX:
            raise _refuse_document(origin, f"is nested deeper than {DEPTH_MAX} levels")
        if sum(found[0][0] != '"' for found in _MARK.finditer(text)) > VALUES_MAX:
            raise _refuse_document(origin, f"has more than {VALUES_MAX:,} values; take parts out")
        try:
            return json.loads(text)
        except ValueError as error:
            raise _refuse_document(origin, f"is no JSON: {error}") from None
    yaml = YAML(typ="safe", pure=True)
    try:
        # A name that stands for what was written before can make a short text endless.
        _count(yaml.parse(text), origin)
        return _plain(yaml.load(text))
    except RecursionError:
        raise _refuse_document(origin, "is nested too deeply") from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) if isinstance(error, MarkedYAMLError) else None
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise _refuse_document(
            origin, f"is neither JSON nor YAML: {getattr(error, 'problem', None) or error}{where}"
        ) from None


def _count(events: Iterable[Any], origin: str) -> None:
    """Raise Refused for aliases, and for a document that is too deep or too large, during parsing. The parser bounds
    neither.
    """
    depth = 0
    for count, event in enumerate(events):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if isinstance(event, AliasEvent):
            raise _refuse_document(origin, "has YAML aliases (*name), which are not followed; write them out")
        if depth > DEPTH_MAX:
            raise _refuse_document(origin, f"is nested deeper than {DEPTH_MAX} levels")
        if count > YAML_VALUES_MAX:
            raise _refuse_document(
                origin, f"has more than {YAML_VALUES_MAX:,} values; save it as JSON, or take parts out"
            )


def _plain(node: Any) -> JSON:
    """Return names as text, 200 as well as '200', and values as JSON has them: a date is its text."""
    if isinstance(node, dict):
        return {str(name): _plain(item) for name, item in node.items()}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    return node if node is None or isinstance(node, str | int | float | bool) else str(node)


def _refuse_document(origin: str, sentence: str) -> Refused:
    return Refused(
        f"{origin} {sentence}" if sentence.startswith(("is ", "has ")) else f"{origin}, {sentence}",
        code="invalid",
        field="file",
    )
