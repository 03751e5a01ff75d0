"""What an operation wants to see of who asks, as headers whose values come from the environment: names alone, never a value."""

from __future__ import annotations

import re
from typing import Any

import httpx2

from fabric.adapters.tools.outbound import authority
from fabric.adapters.tools.permits import RESERVED
from fabric.services.openapi_import.document import Document, Unreadable

JSON = Any
_not_in_names = re.compile(r"[^A-Z0-9]+")
_token = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def headers_of(
    document: Document, operation: dict[str, JSON], where: str, base: str
) -> tuple[dict[str, str], list[str]]:
    """Header to variable, and what its author has to do about it. Raises Unreadable where nothing that can be sent is enough."""
    wanted = operation.get("security", document.tree.get("security")) or []
    if not isinstance(wanted, list):
        raise Unreadable(f"{where}.security", "is no list of ways to say who asks")
    if not wanted or {} in wanted:
        return {}, []
    reasons = []
    for one in wanted:
        try:
            headers = dict(_header(document, name, where) for name in (one if isinstance(one, dict) else {}))
        except Unreadable as error:
            reasons.append(error.reason)
            continue
        allowed = ",".join(f"{name}@{authority(httpx2.URL(base))}" for name in headers.values())
        sentences = [
            f"{header} is sent from the variable {name}: the whole value, such as 'Bearer ...' for a token"
            for header, name in headers.items()
        ]
        return headers, [*sentences, f"the operator allows it with FABRIC_TOOL_VARIABLES={allowed}"]
    raise Unreadable(f"{where}.security", "; ".join(dict.fromkeys(reasons)) or "says nothing that can be sent")


def _header(document: Document, name: str, where: str) -> tuple[str, str]:
    path = f"components.securitySchemes.{name}"
    schemes = (document.tree.get("components") or {}).get("securitySchemes") or {}
    scheme = document.resolved(schemes.get(name), path) if isinstance(schemes, dict) else None
    if not isinstance(scheme, dict):
        raise Unreadable(path, f"wants {name}, which is not described")
    variable = _not_in_names.sub("_", f"{document.title} {name}".upper()).strip("_")[:100]
    variable = variable if variable[:1].isalpha() else f"API_{variable}"
    kind = scheme.get("type")
    if kind == "apiKey" and scheme.get("in") == "header":
        header = scheme.get("name")
        if isinstance(header, str) and _token.fullmatch(header) and header.lower() not in RESERVED:
            return header, variable
        raise Unreadable(path, f"wants a key in the header {str(header)[:50]!r}, which cannot be set")
    if kind in ("oauth2", "openIdConnect") or (
        kind == "http" and str(scheme.get("scheme")).lower() in ("bearer", "basic")
    ):
        return "Authorization", variable
    how = f"a key in the {scheme.get('in')}" if kind == "apiKey" else f"{kind} {scheme.get('scheme', '')}".strip()
    raise Unreadable(path, f"wants {how}, and tools say who asks in headers alone")
