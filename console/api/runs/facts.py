"""Describes the payload of each kind of event as JSON Schema, for generators of clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from fabric.core import events
from fabric.core.values.units import JSON

_AT = "#/components/schemas/Fact"
_UNREAD = "FactUnread"
_COMMON: Mapping[str, JSON] = {
    "seq": {"type": "integer", "description": "The event's place in the journal, from 1."},
    "content_ref": {"type": "string", "description": "Reference of the content beside the fact; may be empty."},
}


def describe_payloads() -> tuple[JSON, dict[str, JSON]]:
    """Return the schema of any payload, and the components that it refers to by name.

    ``kind`` tells which one a payload is. A payload with ``unread`` belongs to an event that this version cannot read.
    """
    facts = get_args(events.Fact)
    references, definitions = msgspec.json.schema_components(facts, ref_template=_AT + "{name}")
    components = {f"Fact{name}": _tidy(f"Fact{name}", shape) for name, shape in definitions.items()}
    named = {fact.kind: reference["$ref"] for fact, reference in zip(facts, references, strict=True)}
    for fact in facts:
        _complete(components[f"Fact{fact.__name__}"], fact)
    components[_UNREAD] = {
        "title": _UNREAD,
        "description": "The payload of an event that this version of Fabric Flow cannot read.",
        "type": "object",
        "required": [*_COMMON, "kind", "version", "unread"],
        "properties": {
            **_COMMON,
            "kind": {"type": "string"},
            "version": {"type": "integer"},
            "unread": {"const": True},
        },
    }
    among = [*named.values(), f"#/components/schemas/{_UNREAD}"]
    union = {
        "anyOf": [{"$ref": one} for one in among],
        "discriminator": {"propertyName": "kind", "mapping": named},
    }
    return union, components


def _complete(shape: JSON, fact: type[Any]) -> None:
    """Add the fields that the API writes beside the fact's own. It leaves out none."""
    own = {"kind": {"const": fact.kind}, "version": {"const": fact.version}}
    shape["properties"] = {**_COMMON, **own, **shape["properties"]}
    shape["required"] = list(shape["properties"])


def _tidy(name: str, given: JSON) -> JSON:
    """Return a definition with a title of its own, by which generators name types, and a description of one line."""
    shape: JSON = {**json.loads(json.dumps(given)), "title": name}
    shape["description"] = " ".join(shape["description"].replace("``", "`").split())
    return shape
