"""The schema of the data that an agent's answer is to have, as far as a request says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fabric.runtime.prompt_shapes import DATA_SCHEMA

JSON = Any


def data_schema(opening: str, schema: Mapping[str, JSON] | None) -> Mapping[str, JSON] | None:
    """The author's own, from the request's first message; where that says nothing, from the schema that the answer is held to. None: no data is wanted."""
    for line in opening.splitlines():
        if line.startswith(DATA_SCHEMA):
            try:
                found = json.loads(line.removeprefix(DATA_SCHEMA))
            except ValueError:
                break
            return found if isinstance(found, Mapping) else None
    fields = (schema or {}).get("properties")
    held = fields.get("data") if isinstance(fields, Mapping) else None
    return held if isinstance(held, Mapping) else None
