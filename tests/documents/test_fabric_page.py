"""docs/reference/fabric.md is made of the schema of a fabric: each field with its type, default, bounds and words."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fabric.core.schema.limits import OWN
from fabric.core.values.units import JSON
from fabric.services.fabrics.schema import fabric_schema
from tests.documents.written import REFERENCE, cell, hold

HEAD = """# The fabric's YAML, field by field

A fabric is one YAML file. These are its fields, in the order of the file, and below them the parts that they are made of.
A field without a default has to be there. `manage.py fabric schema` writes the same for editors.

Names of cells, rungs and reasons: [decision table](../specification/decision-table.md).
Names of causes: [reasons](reasons.md).

This page is made from `FabricSpec` by `tests/documents/test_fabric_page.py`.
"""
BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "`{}`",
}
CHOICES_MAX = 12


def of_ref(one: JSON) -> str:
    return str(one["$ref"].rpartition("/")[2])


def kind(one: JSON) -> str:
    """How a value is written, in words."""
    if one.get("$ref", "").endswith("/JsonValue"):
        return "any"
    if "$ref" in one:
        return f"[{of_ref(one)}](#{of_ref(one).lower()})"
    if "const" in one:
        return f"`{one['const']}`"
    if "enum" in one:
        return " or ".join(f"`{value}`" for value in one["enum"][:CHOICES_MAX])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in one:
            return " or ".join(dict.fromkeys(kind(each) for each in one[several] if each.get("type") != "null"))
    if one.get("type") == "array":
        return f"list of {kind(one['items'])}" if isinstance(one.get("items"), dict) else "list"
    if one.get("type") == "object":
        inner = one.get("additionalProperties")
        return f"table of {kind(inner)}" if isinstance(inner, dict) and inner else "table"
    return str(one.get("type", "any"))


def bounds(one: JSON) -> str:
    found = [
        said.format(one[name]).replace(" 1 characters", " 1 character") for name, said in BOUNDS.items() if name in one
    ]
    for each in one.get("anyOf", ()):
        found += [bounds(each)] if bounds(each) else []
    return ", ".join(found)


def default(one: JSON, name: str, needed: list[str]) -> str:
    if name in needed or "default" not in one:
        return ""
    value = json.dumps(one["default"])
    return "`null`" if value == "null" else f"`{value}`" if len(value) <= 40 else "see below"


def said(one: JSON) -> str:
    """Return the declaration of a field: title, description, effect at a limit, and the source of its default."""
    declared = "x-unit" in one or "x-source" in one
    found = [f"*{one['title']}.*"] if declared else []
    found += [one["description"]] if "description" in one else []
    found += [f"At the limit: {one['x-at-limit']}."] if "x-at-limit" in one else []
    found += [f"Source: {one['x-source']}."] if one.get("x-source", OWN) != OWN else []
    return " ".join(found)


def rows(part: JSON) -> Iterator[str]:
    needed = part.get("required", [])
    for name, one in part.get("properties", {}).items():
        cells = (kind(one), default(one, name, needed), bounds(one), said(one))
        yield f"| `{name}` | " + " | ".join(cell(each) for each in cells) + " |"


def section(title: str, part: JSON) -> str:
    said = cell(part.get("description", ""))
    below = f"\n{said}\n" if said else ""
    if "enum" in part:
        return f"\n## {title}\n{below}\nOne of: {kind(part)}.\n"
    head = "| field | value | default | bounds | |\n|---|---|---|---|---|\n"
    return f"\n## {title}\n{below}\n{head}" + "\n".join(rows(part)) + "\n"


def page() -> str:
    made = fabric_schema()
    parts = [section(name, part) for name, part in made["$defs"].items() if part.get("properties") or "enum" in part]
    return HEAD + section("The file", {"properties": made["properties"], "required": made["required"]}) + "".join(parts)


def test_the_page_says_what_the_types_say() -> None:
    hold(REFERENCE / "fabric.md", page())


def test_each_part_that_is_named_has_its_section() -> None:
    made = page()
    assert [
        name for name in fabric_schema()["$defs"] if f"(#{name.lower()})" in made and f"\n## {name}\n" not in made
    ] == []
