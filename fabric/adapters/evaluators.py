"""JSON schemas compiled once into callables that say in sentences what does not fit, each with a digest of its rules.

Nothing is fetched for a schema: references outside it are an error. Patterns run on a linear-time engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs

from fabric.core.fingerprint import digest, encode, fingerprint
from fabric.core.text import clean_text

JSON = Any

PROBLEMS_MAX = 10
"""Problems told of one value; a model mends a few at a time."""
SENTENCE_CHARS = 300


class SchemaProblem(ValueError):
    """A schema that does not compile. The message is one sentence; mend the schema."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """One compiled schema: call it with a value to get its problems, empty when it fits."""

    digest: str
    _validator: Any

    def __call__(self, value: JSON) -> list[str]:
        """``path: what is wrong`` for each problem, the first ten in the schema's order."""
        try:
            return [_sentence(error) for error in islice(self._validator.iter_errors(value), PROBLEMS_MAX)]
        except (ValueError, TypeError, OverflowError) as error:
            # Lone surrogates, huge numbers, nesting beyond the library's bound: what cannot be read does not fit.
            return [f"the value cannot be checked: {clean_text(str(error))[0][:SENTENCE_CHARS]}"]


def compile_schema(schema: Mapping[str, JSON], *, mask: str = "") -> Evaluator:
    """Compiles a JSON schema (any draft, 2020-12 when it names none). SchemaProblem when it is none or refers outside itself.

    ``mask``: what stands in sentences where the value does not fit, in place of the value: for those that a journal keeps for good.
    """
    try:
        raw = encode(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaProblem(f"the schema is no JSON: {error}") from None
    return _compiled(raw, mask)


@lru_cache(maxsize=1_024)
def _compiled(raw: bytes, mask: str) -> Evaluator:
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
    """One digest over named evaluators, whatever their order: the rules that a decision was taken under."""
    return digest(*(part for name, one in sorted(evaluators, key=lambda pair: pair[0]) for part in (name, one.digest)))


def _sentence(error: Any) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path).lstrip(".")
    message = clean_text(" ".join(str(error.message).split()))[0]
    if len(message) > SENTENCE_CHARS:
        message = f"{message[:SENTENCE_CHARS]}..."
    return f"{path}: {message}" if path else message
