"""The JSON Schema of a fabric's YAML, for editors: allowed values, defaults and units (draft 2020-12).

``fabric lint`` reports problems that a schema cannot state: unknown names, missing prices and missing people.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache

from fabric.core.schema.limits import Unit
from fabric.core.schema.topology import DEFAULT_KIND
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import PRESETS
from fabric.core.spec.topologies.kinds import KINDS
from fabric.core.values.units import JSON

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID = "urn:fabric-flow:fabric"
"""A name and no address: nothing is fetched for it."""
MEDIA_TYPE = "application/schema+json"


def fabric_schema() -> JSON:
    """Return the schema for editors of text, the same bytes for the same version."""
    return deepcopy(_schema())


@cache
def form_schema() -> JSON:
    """Return the schema that the console's editor makes its forms of. It is shared: change nothing in it."""
    made = FabricSpec.model_json_schema()
    breaker = made["$defs"]["Breaker"]
    breaker["properties"] = {"preset": PRESET, **breaker["properties"]}
    _kinds(made["$defs"])
    _sets(made)
    return made


@cache
def _schema() -> JSON:
    made = deepcopy(form_schema())
    _units(made["$defs"])
    _breakers(made["$defs"])
    title = "A fabric of Fabric Flow"
    return {"$schema": DIALECT, "$id": SCHEMA_ID, **made, "title": title}


PRESET: JSON = {
    "enum": list(PRESETS),
    "title": "Preset",
    "description": "A breaker that comes ready; what stands beside it differs from it.",
}
"""The field of a breaker that is gone once a fabric is read: a preset's name."""


def _units(node: JSON) -> None:
    """Say the unit of each number in its description, where editors show it."""
    if isinstance(node, dict):
        if isinstance(unit := node.get("x-unit"), str):
            node["description"] = f"{node.get('description', '')} Unit: {Unit(unit).file_unit}.".strip()
        for one in node.values():
            _units(one)


def _kinds(defs: JSON) -> None:
    """Kind of a topology that names none."""
    for kind in KINDS:
        if kind.model_fields["kind"].default != DEFAULT_KIND:
            part = defs[kind.__name__]
            part["required"] = sorted({*part.get("required", ()), "kind"})


def _breakers(defs: JSON) -> None:
    """A breaker may be a preset and what differs from it: then it needs no field of its own."""
    breaker = defs["Breaker"]
    breaker["anyOf"] = [{"required": ["preset"]}, {"required": breaker.pop("required")}]


def _sets(node: JSON) -> None:
    """Sets drop repeated entries, so repetition is no mistake."""
    if isinstance(node, dict):
        node.pop("uniqueItems", None)
        for one in node.values():
            _sets(one)
