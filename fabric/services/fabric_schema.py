"""The JSON Schema of a fabric's YAML, for editors: what may stand where, its default and its unit (draft 2020-12).

It says what a schema can say. Names that do not exist, prices that nobody knows and people who are not there are told by ``fabric lint``.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from fabric.core.breaker.policy import PRESETS
from fabric.core.policy import FlowPolicy
from fabric.core.spec import FabricSpec
from fabric.core.spec_topologies import KINDS
from fabric.core.spec_topology import DEFAULT_KIND
from fabric.selectors.limits import LIMITS
from fabric.services.fabric_text import HEADINGS, KEPT_IN

JSON = Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID = "urn:fabric-flow:fabric"
"""A name and no address: nothing is fetched for it."""
MEDIA_TYPE = "application/schema+json"


def fabric_schema() -> JSON:
    """The schema, the same bytes for the same version."""
    return deepcopy(_schema())


@cache
def _schema() -> JSON:
    made = FabricSpec.model_json_schema()
    _told(made)
    _policy(made["$defs"])
    _breakers(made["$defs"])
    _kinds(made["$defs"])
    _sets(made)
    title = "A fabric of Fabric Flow"
    return {"$schema": DIALECT, "$id": SCHEMA_ID, **made, "title": title}


def _told(made: JSON) -> None:
    """A line for each group that has none of its own."""
    for name, heading in HEADINGS.items():
        made["properties"][name].setdefault("description", heading)
    made["properties"]["name"]["description"] = "What runs are started with: lower-case letters, digits, - and _."


def _policy(defs: JSON) -> None:
    """Each limit under the label that pages give it, with its unit."""
    for path, (label, unit) in LIMITS.items():
        group, _, name = path.rpartition(".")
        part = defs["FlowPolicy"]["properties"]
        if group:
            field = FlowPolicy.model_fields[group]
            owner = "Deadlines" if group == "deadlines" else getattr(field.annotation, "__name__", "")
            part = defs[owner]["properties"]
        one = part[name]
        one["title"] = label
        said = [one.get("description", f"{label}.")]
        if unit in KEPT_IN:
            said.append(f"Unit: {KEPT_IN[unit]}.")
        one["description"] = " ".join(said)


def _kinds(defs: JSON) -> None:
    """Of a topology that says no kind there is one: every other says its own."""
    for kind in KINDS:
        if kind.model_fields["kind"].default != DEFAULT_KIND:
            part = defs[kind.__name__]
            part["required"] = sorted({*part.get("required", ()), "kind"})


def _breakers(defs: JSON) -> None:
    """A breaker may be a preset and what differs from it: then it needs no field of its own."""
    breaker = defs["Breaker"]
    description = "A breaker that comes ready; what stands beside it differs from it."
    breaker["properties"]["preset"] = {"enum": sorted(PRESETS), "title": "Preset", "description": description}
    breaker["anyOf"] = [{"required": ["preset"]}, {"required": breaker.pop("required")}]


def _sets(node: JSON) -> None:
    """What is said twice in a set is taken for once, so it is no mistake."""
    if isinstance(node, dict):
        node.pop("uniqueItems", None)
        for one in node.values():
            _sets(one)
