"""One reader of JSON schemas. The editor reads a fabric's schema with it, and reviews the schemas of agents
and tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.values.units import JSON

Schema = Mapping[str, JSON]
SEVERAL = ("anyOf", "oneOf", "allOf")
NULLABLE = "x-null"
"""Noted in a resolved schema: null may stand there too."""
REFS_MAX = 8


def resolve(root: Schema, schema: JSON) -> Schema:
    """Return a schema without references, and without choices of which only one is not null. What stands
    beside wins.
    """
    null: dict[str, JSON] = {}
    for _ in range(REFS_MAX):
        if not isinstance(schema, dict):
            return {}
        if isinstance(schema.get("$ref"), str):
            schema = {**_at(root, schema["$ref"]), **{k: v for k, v in schema.items() if k != "$ref"}}
            continue
        several = next((schema[key] for key in SEVERAL if isinstance(schema.get(key), list)), None)
        real = [one for one in several or [] if isinstance(one, dict) and one.get("type") != "null"]
        null = null or ({NULLABLE: True} if several and len(real) != len(several) else {})
        if len(real) != 1:
            return schema if not null else {**schema, **null}
        rest = {key: each for key, each in schema.items() if key not in SEVERAL}
        schema = {**real[0], **rest, **null}
    return {}


def _at(root: Schema, ref: str) -> dict[str, JSON]:
    found: JSON = root
    for part in ref.removeprefix("#").split("/"):
        if part:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if isinstance(found, dict) and ref.startswith("#") else {}


def types_of(schema: Schema) -> list[str]:
    """Return the types that a schema names."""
    named = schema.get("type")
    listed = named if isinstance(named, list) else [named]
    found = [one for one in listed if isinstance(one, str)]
    return [*found, "null"] if schema.get(NULLABLE) and "null" not in found else found


def allowed_of(schema: Schema) -> list[JSON]:
    """Return the only values that a schema allows; an empty list where it lists none."""
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else []


def properties_of(schema: Schema) -> dict[str, JSON]:
    """Return the parts that a schema names, each with its own schema."""
    named = schema.get("properties")
    return dict(named) if isinstance(named, dict) else {}


def required_of(schema: Schema) -> set[str]:
    """Return the names of the parts that have to be given."""
    listed = schema.get("required")
    return {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else set()


def choices_of(root: Schema, schema: Schema) -> Iterator[Schema]:
    """Yield the schemas of which a value has to fit one, resolved; the schema itself where it is no choice."""
    several = next((schema[key] for key in SEVERAL if isinstance(schema.get(key), list)), None)
    if several is None:
        yield schema
    for one in several or ():
        if isinstance(one, dict) and one.get("type") != "null":
            yield from choices_of(root, resolve(root, one))


def inner_of(schema: Schema) -> JSON:
    """Return the schema of what stands in a list or under the keys of a table; None for anything else."""
    if isinstance(schema.get("items"), dict):
        return schema["items"]
    patterned = schema.get("patternProperties")
    if isinstance(patterned, dict) and patterned:
        return next(iter(patterned.values()))
    return schema["additionalProperties"] if isinstance(schema.get("additionalProperties"), dict) else None
