"""Operations of a document as declarations of HTTP tools, and everything that is not taken over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from pydantic import ValidationError

from fabric.adapters.evaluators import SchemaProblem, compile_schema
from fabric.adapters.tools import http_endpoint
from fabric.core.fingerprint import encode
from fabric.core.spec_tools import ToolSpec
from fabric.core.text import clean_text
from fabric.services.errors import Refused
from fabric.services.openapi_import.arguments import arguments_of
from fabric.services.openapi_import.document import Document, Unreadable
from fabric.services.openapi_import.security import headers_of
from fabric.services.tool_declarations import Declared, LeftOut, tool_name

JSON = Any
METHODS = ("get", "put", "post", "delete", "patch")
OTHERS = ("head", "options", "trace", "query")
"""Methods that no HTTP tool has."""
DESCRIPTION_CHARS, SCHEMA_BYTES = 2_000, 100_000
OPERATIONS_MAX = 1_000
EFFECTS = {
    "get": ("read_only", "GET changes nothing by HTTP's rules; look whether this one keeps to them"),
    "put": (
        "irreversible",
        "a person is asked before each call; declare it mutating with a compensation, or idempotent where nothing of it has to be undone",
    ),
    "post": ("irreversible", "a person is asked before each call; declare it mutating where a tool of yours undoes it"),
}
EFFECTS |= {"delete": EFFECTS["put"], "patch": EFFECTS["post"]}
"""What a method is supposed to do to the world, and what its author decides: HTTP calls PUT and DELETE idempotent, which says nothing of undoing."""


@dataclass(slots=True)
class Imported:
    """What a document gave."""

    title: str
    base: str
    tools: list[Declared] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation with what stands around it."""

    path: str
    method: str
    item: dict[str, JSON]
    node: dict[str, JSON]

    @property
    def where(self) -> str:
        return f"paths.{self.path}.{self.method}"

    @property
    def id(self) -> str:
        given = self.node.get("operationId")
        return given if isinstance(given, str) and given.strip() else f"{self.method} {self.path}"


def tools_of(document: Document, *, wanted: Sequence[str] = (), base: str = "") -> Imported:
    """Declarations of the document's operations. ``wanted``: ids of operations, or ``METHOD /path``; none: all. Refused where nothing can be had."""
    found = Imported(document.title, base or _base(document, document.tree.get("servers")))
    operations = _chosen(list(_operations(document, found)), wanted, document.origin)
    if not operations:
        raise Refused(f"{document.origin}, paths: there is no operation", code="invalid", field="file")
    if len(operations) > OPERATIONS_MAX:
        sentence = f"{document.origin}, paths: there are {len(operations)} operations; name those that you want with --operation"
        raise Refused(sentence, code="invalid", field="operation")
    for one in operations:
        try:
            found.tools.append(_declared(document, one, found, base))
        except Unreadable as error:
            found.left_out.append(LeftOut(error.path, error.reason))
    if not found.tools:
        why = "; ".join(map(str, found.left_out[:5]))
        raise Refused(
            f"{document.origin} has no operation that a tool can be made of: {why}", code="invalid", field="file"
        )
    if "webhooks" in document.tree:
        found.left_out.append(LeftOut("webhooks", "nothing here is called by the API"))
    return found


def _operations(document: Document, found: Imported) -> Iterator[_Operation]:
    for path, given in document.tree["paths"].items():
        where = f"paths.{path}"
        try:
            item = document.resolved(given, where)
        except Unreadable as error:
            found.left_out.append(LeftOut(error.path, error.reason))
            continue
        if not isinstance(item, dict) or not path.startswith("/"):
            if not path.startswith("x-"):
                found.left_out.append(LeftOut(where, "is no path with operations"))
            continue
        for method in (*METHODS, *OTHERS):
            node = item.get(method)
            if node is None:
                continue
            if method in OTHERS:
                found.left_out.append(LeftOut(f"{where}.{method}", f"no tool asks with {method.upper()}"))
            elif not isinstance(node, dict):
                found.left_out.append(LeftOut(f"{where}.{method}", "is no operation"))
            else:
                yield _Operation(path, method, item, node)


def _chosen(operations: list[_Operation], wanted: Sequence[str], origin: str) -> list[_Operation]:
    if not wanted:
        return operations
    named = {f"{one.method} {one.path}": one for one in operations} | {one.id: one for one in operations}
    for name in wanted:
        if name not in named and _spelled(name) not in named:
            there = ", ".join(one.id for one in operations[:20]) or "none"
            raise Refused(f"{origin} has no operation {name!r}; there are: {there}", code="invalid", field="operation")
    return [named.get(name) or named[_spelled(name)] for name in dict.fromkeys(wanted)]


def _spelled(name: str) -> str:
    method, _, path = name.partition(" ")
    return f"{method.lower()} {path.strip()}"


def _base(document: Document, servers: JSON) -> str:
    """The address that paths are below; empty: the document says none."""
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url") if isinstance(first, dict) else None
    if not isinstance(url, str):
        return ""
    variables = first.get("variables") if isinstance(first, dict) else None
    for name, one in (variables if isinstance(variables, dict) else {}).items():
        if isinstance(one, dict) and "default" in one:
            url = url.replace(f"{{{name}}}", str(one["default"]))
    return urljoin(document.origin, url) if document.origin.startswith(("http://", "https://")) else url


def _declared(document: Document, one: _Operation, found: Imported, base: str) -> Declared:
    where = base or _base(document, one.node.get("servers") or one.item.get("servers")) or found.base
    if not where.startswith(("http://", "https://")):
        raise Unreadable(one.where, "the document names no address of the API; give it with --base")
    arguments = arguments_of(document, one.item, one.node, one.where)
    headers, told = headers_of(document, one.node, one.where, where)
    found.left_out += arguments.left_out
    effect, why = EFFECTS[one.method]
    fields = {
        "name": tool_name(one.id, [each.tool.name for each in found.tools]),
        "kind": "http",
        "effect": effect,
        "description": _description(one),
        "parameters": arguments.schema,
        "target": f"{where.rstrip('/')}{one.path}",
        "method": one.method.upper(),
        **({"places": arguments.places} if arguments.places else {}),
        **({"headers_from": headers} if headers else {}),
    }
    if (size := len(encode(arguments.schema))) > SCHEMA_BYTES:
        raise Unreadable(
            one.where, f"its arguments take {size:,} bytes as a schema; at most {SCHEMA_BYTES:,} are offered to a model"
        )
    try:
        compile_schema(arguments.schema)
        tool = ToolSpec.model_validate(fields)
    except SchemaProblem as error:
        raise Unreadable(one.where, str(error)) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise Unreadable(one.where, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if problem := next(http_endpoint.problems(tool), ""):
        raise Unreadable(one.where, f"it {problem}")
    return Declared(tool, (f"{one.method.upper()} {one.path}: {why}", *told))


def _description(one: _Operation) -> str:
    said = [
        text.strip()
        for name in ("summary", "description")
        if isinstance(text := one.node.get(name), str) and text.strip()
    ]
    first = " ".join(dict.fromkeys(text if text.endswith((".", "!", "?")) else f"{text}." for text in said))
    return clean_text(first)[0][:DESCRIPTION_CHARS] or f"{one.method.upper()} {one.path}."
