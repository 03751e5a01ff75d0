"""Compiles JSON schemas once into callables that report misfits in sentences, each with a digest of its rules.

Nothing is fetched for a schema: references outside it are an error. Patterns run on a linear-time engine. Agents have
output schemas: each misfit of an answer's ``data`` has its path from ``data`` on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from fabric.core.spec.fabric import FabricSpec
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import digest, encode, fingerprint
from fabric.core.values.units import JSON

PROBLEMS_MAX = 10
"""Largest number of reported problems of one value; a model corrects a few at a time."""
SENTENCE_CHARS = 300


class SchemaProblem(ValueError):
    """A schema that does not compile. The message is one sentence; correct the schema."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """One compiled schema: a call with a value returns its problems, empty when it fits."""

    digest: str
    _validator: Any

    def __call__(self, value: JSON) -> list[str]:
        """Return ``path: fault`` for each problem, the first ten in the schema's order."""
        try:
            return [_sentence(error) for error in islice(self._validator.iter_errors(value), PROBLEMS_MAX)]
        except (ValueError, TypeError, OverflowError) as error:
            # Lone surrogates, huge numbers, nesting beyond the library's bound: what cannot be read does not fit.
            return [f"the value cannot be checked: {clean_text(str(error))[0][:SENTENCE_CHARS]}"]


def compile_schema(schema: Mapping[str, JSON], *, mask: str = "") -> Evaluator:
    """Compile a JSON schema (any draft, 2020-12 when it names none). Raises SchemaProblem for an invalid one, or a
    reference outside itself.

    ``mask``: replaces the value in sentences that a journal keeps for good.
    """
    try:
        raw = encode(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaProblem(f"the schema is no JSON: {error}") from None
    return _compile_schema(raw, mask)


@lru_cache(maxsize=1_024)
def _compile_schema(raw: bytes, mask: str) -> Evaluator:
    import jsonschema_rs  # 4 MB, which a process without schemas does not need.

    schema = json.loads(raw)
    try:
        validator = jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=True,
            mask=mask or None,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=1_000_000, dfa_size_limit=1_000_000),
        )
    except (ValueError, TypeError, RecursionError) as error:
        said = " ".join(str(error).split())[:SENTENCE_CHARS]
        raise SchemaProblem(f"the schema does not compile: {said}") from None
    return Evaluator(fingerprint(schema), validator)


def evaluators_digest(evaluators: Iterable[tuple[str, Evaluator]]) -> str:
    """Return one digest over named evaluators in any order: the rules that a decision was made under."""
    return digest(*(part for name, one in sorted(evaluators, key=lambda pair: pair[0]) for part in (name, one.digest)))


def _sentence(error: Any) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path).lstrip(".")
    message = clean_text(" ".join(str(error.message).split()))[0]
    if len(message) > SENTENCE_CHARS:
        message = f"{message[:SENTENCE_CHARS]}..."
    return f"{path}: {message}" if path else message


def problems(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` for each schema that does not compile, or refers to another. A schema stands inside
    that of the whole answer, where references do not work.
    """
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


def map_fits(spec: FabricSpec) -> dict[str, Evaluator]:
    """Return the compiled schemas by the name of their agent. Raises SchemaProblem for errors that ``problems``
    reports.
    """
    return {name: compile_data(schema) for name, schema in spec.output_schemas.items()}


def compile_data(schema: Mapping[str, JSON]) -> Evaluator:
    """Compile a data schema in its place, so that paths begin there, and in its author's draft. No problem quotes a
    model's words: facts keep problems for good. Raises SchemaProblem.
    """
    draft = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return compile_schema({**draft, "properties": {"data": schema}}, mask="it")
