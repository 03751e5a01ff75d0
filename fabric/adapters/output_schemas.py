"""The output schemas of agents, compiled: what of an answer's ``data`` does not fit, each problem with its path from ``data`` on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabric.adapters.evaluators import Evaluator, SchemaProblem, compile_schema
from fabric.core.fingerprint import encode
from fabric.core.spec import FabricSpec

JSON = Any


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for each that does not compile, or refers to a schema: it stands inside that of the whole answer."""
    for n, agent in enumerate(spec.agents):
        if agent.output_schema is None:
            continue
        path = f"agents.{n}.output_schema"
        try:
            raw = encode(agent.output_schema).decode()
            if '"$ref"' in raw or '"$dynamicRef"' in raw:
                yield path, f"agent {agent.name!r} refers ($ref) to another schema; write it out in its place"
                continue
            compile_schema(agent.output_schema)
        except (SchemaProblem, ValueError, TypeError, RecursionError) as error:
            said = error if isinstance(error, SchemaProblem) else f"the schema is no JSON: {error}"
            yield path, f"agent {agent.name!r}: {said}"


def fits_of(spec: FabricSpec) -> dict[str, Evaluator]:
    """The compiled schemas by the name of their agent. SchemaProblem for what ``problems`` names."""
    return {name: _of_data(schema) for name, schema in spec.typed.items()}


def _of_data(schema: Mapping[str, JSON]) -> Evaluator:
    """In its place, so that paths begin there; in the draft that its author names. What a model said stands in no problem: facts keep those for good."""
    draft = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return compile_schema({**draft, "properties": {"data": schema}}, mask="it")
