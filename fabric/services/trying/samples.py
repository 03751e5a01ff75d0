"""Samples as they come from a form, and examples to begin with."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fabric.core.flow import Stage
from fabric.core.text import clean, nesting
from fabric.services.errors import Refused
from fabric.services.trying.parts import RUN_ID, tier, workers
from fabric.services.trying.shapes import Draft, Given, Sample, SampleField

JSON = Any
SAMPLE_BYTES_MAX = 256 * 1024
"""Of all boxes together."""
NUMBER_CHARS_MAX = 40
DEPTH_MAX = 64
DOCUMENT = "ledger.md"
PASSAGE = "The balance stood at 1,250 euros on the last day of the year."
ANSWER = f"The balance was 1,250 euros [{DOCUMENT}]."


def read(fields: Iterable[SampleField], sample: Sample) -> Given:
    """A sample as values. Refused with one sentence that names the box that cannot be read."""
    known = {field.name: field for field in fields}
    for name in sample:
        if name not in known:
            message = f"sample: there is no box {name[:40]!r} here; there are: {', '.join(known)}"
            raise Refused(message, code="invalid", field="sample")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in sample.values())
    if size > SAMPLE_BYTES_MAX:
        message = f"the sample has {size:,} bytes, and at most {SAMPLE_BYTES_MAX:,} are tried; make it shorter"
        raise Refused(message, code="too_large", field="sample")
    return {name: _value(field, sample.get(name, field.example)) for name, field in known.items()}


def _value(field: SampleField, text: str) -> JSON:
    if field.kind == "json":
        return json_of(field.name, text)
    if field.kind == "number":
        return number_of(field.name, text)
    if field.kind == "choice" and text not in field.choices:
        raise refused(field.name, f"{text[:60]!r} cannot be chosen; there are: {', '.join(field.choices)}")
    return clean(text)[0]


def json_of(name: str, text: str) -> JSON:
    """A JSON value of a box, as a run would keep it. Refused with where it ends to be JSON."""
    if not text.strip():
        raise refused(name, "it is empty; write a JSON value")
    if nesting(text) > DEPTH_MAX:
        raise refused(name, f"it is nested deeper than {DEPTH_MAX} levels; make it flatter")
    try:
        return clean(json.loads(text, parse_constant=_no_constant))[0]
    except json.JSONDecodeError as error:
        raise refused(name, f"no JSON, line {error.lineno}, column {error.colno}: {error.msg.lower()}") from None
    except (ValueError, RecursionError) as error:
        raise refused(name, str(error)) from None


def number_of(name: str, text: str) -> float:
    """A number of a box. Refused for what is none."""
    try:
        found = float(text) if len(text) <= NUMBER_CHARS_MAX else math.nan
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise refused(name, f"{text[:NUMBER_CHARS_MAX]!r} is no number")
    return found


def object_of(name: str, given: JSON, known: Mapping[str, type | tuple[type, ...]], kinds: str) -> dict[str, JSON]:
    """An object with no other fields than these, of these types. Refused for anything else; ``kinds``: what it holds, in words."""
    if not isinstance(given, dict):
        raise refused(name, f"it is no JSON object; write one with {kinds}")
    for key, value in given.items():
        if key not in known:
            raise refused(name, f"there is no {key[:60]!r}; there are: {', '.join(known)}")
        wanted = known[key]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
            raise refused(f"{name}.{key}", f"it is of another type than in a run; write {kinds}")
    return given


def refused(name: str, sentence: str) -> Refused:
    """The refusal of one box."""
    return Refused(f"{name}: {sentence}", code="invalid", field=name)


def _no_constant(name: str) -> JSON:
    raise ValueError(f"{name} is no JSON number")


# -- examples ----------------------------------------------------------------------------------------------------------


def shown(value: JSON) -> str:
    """A value as it stands in a box."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def payload(draft: Draft, stage: Stage) -> JSON:
    """What a stage of this fabric might pass on."""
    if stage is Stage.PLAN:
        return _plan(draft)
    if stage is Stage.FAN_OUT:
        briefs = enumerate(_plan(draft)["briefs"])
        return [{"branch": n, "agent": one["agent"], "title": one["title"], "ref": f"{n:032x}"} for n, one in briefs]
    answer: dict[str, JSON] = {"text": ANSWER, "citations": [DOCUMENT], **_data(draft, stage)}
    return {**answer, "gaps": []} if stage is Stage.FINALIZE else answer


def _data(draft: Draft, stage: Stage) -> dict[str, JSON]:
    """Data that fits the output schema of whoever writes it; none where they have no schema."""
    topology, agents = draft.get("topology"), draft.get("agents")
    roles = topology if isinstance(topology, dict) else {}
    writer = roles.get("aggregator")
    if stage is Stage.FINALIZE:
        writer = roles.get("finalizer") or writer
    for one in agents if isinstance(agents, list) else ():
        if isinstance(one, dict) and writer is not None and one.get("name") == writer:
            return {"data": of_schema(schema)} if isinstance(schema := one.get("output_schema"), dict) else {}
    return {}


def _plan(draft: Draft) -> JSON:
    names = workers(draft)[:2]
    briefs = [{"agent": name, "title": f"Part {n}", "instructions": f"Do part {n}."} for n, name in enumerate(names, 1)]
    return {"goal": "Answer the request.", "briefs": briefs, "exit_criteria": ["It answers the request."]}


def request(draft: Draft) -> str:
    """What a caller might ask this fabric for."""
    written = draft.get("example")
    return written if isinstance(written, str) and written.strip() else "What was the balance at the end of the year?"


def run(draft: Draft) -> dict[str, JSON]:
    """The facts of a run as expressions see them."""
    about = {"id": RUN_ID, "tier": str(tier(draft)), "epoch": 0, "depth": 1}
    return {**about, "request": request(draft), "documents": [DOCUMENT]}


def of_schema(schema: JSON, depth: int = 0) -> JSON:
    """A value that a JSON schema probably takes: what it names as an example, else the simplest of its type."""
    if not isinstance(schema, dict) or depth > 8:
        return "text"
    for known in ("examples", "enum"):
        if isinstance(schema.get(known), list) and schema[known]:
            return schema[known][0]
    for known in ("default", "const"):
        if known in schema:
            return schema[known]
    return _of_type(schema, depth)


def _of_type(schema: Mapping[str, JSON], depth: int) -> JSON:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or (kind is None and isinstance(schema.get("properties"), dict)):
        properties = schema.get("properties")
        items = properties.items() if isinstance(properties, dict) else ()
        return {str(name): of_schema(one, depth + 1) for name, one in items}
    if kind == "array":
        return [of_schema(schema.get("items", {}), depth + 1)]
    least = schema.get("minimum", 1)
    number = least if isinstance(least, int | float) else 1
    return {"integer": number, "number": number, "boolean": True, "null": None}.get(str(kind), "text")
