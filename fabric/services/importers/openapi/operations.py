"""Turns operations of a document into declarations of HTTP tools with their headers. Lists the parts that are not taken
over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urljoin

import httpx2
from pydantic import ValidationError

from fabric.core.spec.tools import ToolSpec
from fabric.core.texts.nearest import list_nearest
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import encode
from fabric.core.values.units import JSON
from fabric.http.transport import authority
from fabric.policies.schemas.evaluators import SchemaProblem, compile_schema
from fabric.services.errors import Refused
from fabric.services.importers.openapi.arguments import build_arguments
from fabric.services.importers.openapi.document import OpenApiDocument, UnreadablePart
from fabric.services.importers.tool_declarations import DeclaredTool, LeftOut, tool_name
from fabric.tools.functions.permits import RESERVED
from fabric.tools.http import endpoint as http_endpoint

# -- security ----------------------------------------------------------------------------------------------------------

_not_in_names = re.compile(r"[^A-Z0-9]+")
_token = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def find_headers(
    document: OpenApiDocument, operation: dict[str, JSON], where: str, base: str
) -> tuple[dict[str, str], list[str]]:
    """Return the variable of each header, never its value, and advice for the author. Raises UnreadablePart where no
    set of headers is enough.
    """
    wanted = operation.get("security", document.tree.get("security")) or []
    if not isinstance(wanted, list):
        raise UnreadablePart(f"{where}.security", "is no list of ways to say who asks")
    if not wanted or {} in wanted:
        return {}, []
    reasons = []
    for one in wanted:
        try:
            headers = dict(_header(document, name, where) for name in (one if isinstance(one, dict) else {}))
        except UnreadablePart as error:
            reasons.append(error.reason)
            continue
        allowed = ",".join(f"{name}@{authority(httpx2.URL(base))}" for name in headers.values())
        sentences = [
            f"{header} is sent from the variable {name}: the whole value, such as 'Bearer ...' for a token"
            for header, name in headers.items()
        ]
        return headers, [*sentences, f"the operator allows it with FABRIC_TOOL_VARIABLES={allowed}"]
    raise UnreadablePart(f"{where}.security", "; ".join(dict.fromkeys(reasons)) or "says nothing that can be sent")


def _header(document: OpenApiDocument, name: str, where: str) -> tuple[str, str]:
    path = f"components.securitySchemes.{name}"
    schemes = (document.tree.get("components") or {}).get("securitySchemes") or {}
    scheme = document.resolve(schemes.get(name), path) if isinstance(schemes, dict) else None
    if not isinstance(scheme, dict):
        raise UnreadablePart(path, f"wants {name}, which is not described")
    variable = _not_in_names.sub("_", f"{document.title} {name}".upper()).strip("_")[:100]
    variable = variable if variable[:1].isalpha() else f"API_{variable}"
    kind = scheme.get("type")
    if kind == "apiKey" and scheme.get("in") == "header":
        header = scheme.get("name")
        if isinstance(header, str) and _token.fullmatch(header) and header.lower() not in RESERVED:
            return header, variable
        raise UnreadablePart(path, f"wants a key in the header {str(header)[:50]!r}, which cannot be set")
    if kind in ("oauth2", "openIdConnect") or (
        kind == "http" and str(scheme.get("scheme")).lower() in ("bearer", "basic")
    ):
        return "Authorization", variable
    how = f"a key in the {scheme.get('in')}" if kind == "apiKey" else f"{kind} {scheme.get('scheme', '')}".strip()
    raise UnreadablePart(path, f"wants {how}, and tools say who asks in headers alone")


# -- operations --------------------------------------------------------------------------------------------------------

METHODS = ("get", "put", "post", "delete", "patch")
OTHERS = ("head", "options", "trace", "query")
"""Methods without a counterpart in HTTP tools."""
DESCRIPTION_CHARS, SCHEMA_BYTES = 2_000, 100_000
OPERATIONS_MAX = 1_000
EFFECTS = {
    "get": ("read_only", "GET changes nothing by HTTP's rules; look whether this one keeps to them"),
    "put": (
        "irreversible",
        "each call needs a review; declare it mutating with a compensation, or idempotent if nothing must be undone",
    ),
    "post": ("irreversible", "each call needs a review; declare it mutating if another tool undoes it"),
}
EFFECTS |= {"delete": EFFECTS["put"], "patch": EFFECTS["post"]}
"""Presumed effect of each method, and the decision left to its author.

HTTP calls PUT and DELETE idempotent, which does not mean that they can be undone.
"""


@dataclass(slots=True)
class Imported:
    """Parts that a document gave."""

    title: str
    base: str
    tools: list[DeclaredTool] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation with its context."""

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


def build_tools(document: OpenApiDocument, *, wanted: Sequence[str] = (), base: str = "") -> Imported:
    """Return declarations of the document's operations. ``wanted``: ids of operations, or ``METHOD /path``; none:
    all.

    Raises Refused where none can be made.
    """
    found = Imported(document.title, base or _base(document, document.tree.get("servers")))
    operations = _choose_operations(list(_operations(document, found)), wanted, document.origin)
    if not operations:
        raise Refused(f"{document.origin}, paths: there is no operation", code="invalid", field="file")
    if len(operations) > OPERATIONS_MAX:
        sentence = f"{document.origin}, paths: there are {len(operations)} operations; name those that you want with --operation"
        raise Refused(sentence, code="invalid", field="operation")
    for one in operations:
        try:
            found.tools.append(_declare_operation(document, one, found, base))
        except UnreadablePart as error:
            found.left_out.append(LeftOut(error.path, error.reason))
    if not found.tools:
        why = "; ".join(map(str, found.left_out[:5]))
        raise Refused(
            f"{document.origin} has no operation that a tool can be made of: {why}", code="invalid", field="file"
        )
    if "webhooks" in document.tree:
        found.left_out.append(LeftOut("webhooks", "nothing here is called by the API"))
    return found


def _operations(document: OpenApiDocument, found: Imported) -> Iterator[_Operation]:
    for path, given in document.tree["paths"].items():
        where = f"paths.{path}"
        try:
            item = document.resolve(given, where)
        except UnreadablePart as error:
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


def _choose_operations(operations: list[_Operation], wanted: Sequence[str], origin: str) -> list[_Operation]:
    if not wanted:
        return operations
    named = {f"{one.method} {one.path}": one for one in operations} | {one.id: one for one in operations}
    for name in wanted:
        if name not in named and _spell_operation(name) not in named:
            there = list_nearest(name[:80], [one.id for one in operations], "see the document") or "none"
            raise Refused(f"{origin} has no operation {name!r}; there are: {there}", code="invalid", field="operation")
    return [named.get(name) or named[_spell_operation(name)] for name in dict.fromkeys(wanted)]


def _spell_operation(name: str) -> str:
    method, _, path = name.partition(" ")
    return f"{method.lower()} {path.strip()}"


def _base(document: OpenApiDocument, servers: JSON) -> str:
    """Return the base address of the paths; empty: the document has none."""
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url") if isinstance(first, dict) else None
    if not isinstance(url, str):
        return ""
    variables = first.get("variables") if isinstance(first, dict) else None
    for name, one in (variables if isinstance(variables, dict) else {}).items():
        if isinstance(one, dict) and "default" in one:
            url = url.replace(f"{{{name}}}", str(one["default"]))
    return urljoin(document.origin, url) if document.origin.startswith(("http://", "https://")) else url


def _declare_operation(document: OpenApiDocument, one: _Operation, found: Imported, base: str) -> DeclaredTool:
    where = base or _base(document, one.node.get("servers") or one.item.get("servers")) or found.base
    if not where.startswith(("http://", "https://")):
        raise UnreadablePart(one.where, "the document names no address of the API; give it with --base")
    arguments = build_arguments(document, one.item, one.node, one.where)
    headers, told = find_headers(document, one.node, one.where, where)
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
        raise UnreadablePart(
            one.where, f"its arguments take {size:,} bytes as a schema; at most {SCHEMA_BYTES:,} are offered to a model"
        )
    try:
        compile_schema(arguments.schema)
        tool = ToolSpec.model_validate(fields)
    except SchemaProblem as error:
        raise UnreadablePart(one.where, str(error)) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UnreadablePart(one.where, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if problem := next(http_endpoint.problems(tool), ""):
        raise UnreadablePart(one.where, f"it {problem}")
    return DeclaredTool(tool, (f"{one.method.upper()} {one.path}: {why}", *told))


def _description(one: _Operation) -> str:
    said = [
        text.strip()
        for name in ("summary", "description")
        if isinstance(text := one.node.get(name), str) and text.strip()
    ]
    first = " ".join(dict.fromkeys(text if text.endswith((".", "!", "?")) else f"{text}." for text in said))
    return clean_text(first)[0][:DESCRIPTION_CHARS] or f"{one.method.upper()} {one.path}."
