"""Reads samples from a form, and makes first examples."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from fabric.core.texts.text import clean, count_nesting
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.fabrics.trials.parts import RUN_ID, tier, workers
from fabric.services.fabrics.trials.shapes import Draft, Given, Sample, SampleField

SAMPLE_BYTES_MAX = 256 * 1024
"""Largest size of all boxes together, in bytes."""
NUMBER_CHARS_MAX = 40
DEPTH_MAX = 64
DOCUMENT = "ledger.md"
PASSAGE = "The balance stood at 1,250 euros on the last day of the year."
ANSWER = f"The balance was 1,250 euros [{DOCUMENT}]."


def read_sample(fields: Iterable[SampleField], sample: Sample) -> Given:
    """Return a sample's values. Raises Refused with one sentence that names the unreadable box."""
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
        return read_json(field.name, text)
    if field.kind == "number":
        return read_number(field.name, text)
    if field.kind == "choice" and text not in field.choices:
        raise refuse_box(field.name, f"{text[:60]!r} cannot be chosen; there are: {', '.join(field.choices)}")
    return clean(text)[0]


def read_json(name: str, text: str) -> JSON:
    """Return the JSON value of a box, as a run would store it. Raises Refused with the place of the error."""
    if not text.strip():
        raise refuse_box(name, "it is empty; write a JSON value")
    if count_nesting(text) > DEPTH_MAX:
        raise refuse_box(name, f"it is nested deeper than {DEPTH_MAX} levels; make it flatter")
    try:
        return clean(json.loads(text, parse_constant=_no_constant))[0]
    except json.JSONDecodeError as error:
        raise refuse_box(name, f"no JSON, line {error.lineno}, column {error.colno}: {error.msg.lower()}") from None
    except (ValueError, RecursionError) as error:
        raise refuse_box(name, str(error)) from None


def read_number(name: str, text: str) -> float:
    """Return the number in a box. Raises Refused for any other text."""
    try:
        found = float(text) if len(text) <= NUMBER_CHARS_MAX else math.nan
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise refuse_box(name, f"{text[:NUMBER_CHARS_MAX]!r} is no number")
    return found


def build_object(name: str, given: JSON, known: Mapping[str, type | tuple[type, ...]], kinds: str) -> dict[str, JSON]:
    """Return the value if it is an object of these fields and types only. Raises Refused for anything else;
    ``kinds``: the fields in words.
    """
    if not isinstance(given, dict):
        raise refuse_box(name, f"it is no JSON object; write one with {kinds}")
    for key, value in given.items():
        if key not in known:
            raise refuse_box(name, f"there is no {key[:60]!r}; there are: {', '.join(known)}")
        wanted = known[key]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
            raise refuse_box(f"{name}.{key}", f"it is of another type than in a run; write {kinds}")
    return given


def refuse_box(name: str, sentence: str) -> Refused:
    """Return the refusal of one box."""
    return Refused(f"{name}: {sentence}", code="invalid", field=name)


def _no_constant(name: str) -> JSON:
    raise ValueError(f"{name} is no JSON number")


# -- examples ----------------------------------------------------------------------------------------------------------


def box_text(value: JSON) -> str:
    """Return a value as a box shows it."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def payload(draft: Draft, stage: Stage) -> JSON:
    """Return a sample payload of a stage of this fabric."""
    if stage is Stage.PLAN:
        return _plan(draft)
    if stage is Stage.FAN_OUT:
        briefs = enumerate(_plan(draft)["briefs"])
        return [{"branch": n, "agent": one["agent"], "title": one["title"], "ref": f"{n:032x}"} for n, one in briefs]
    answer: dict[str, JSON] = {"text": ANSWER, "citations": [DOCUMENT], **_data(draft, stage)}
    return {**answer, "gaps": []} if stage is Stage.FINALIZE else answer


def _data(draft: Draft, stage: Stage) -> dict[str, JSON]:
    """Return data that fits the output schema of the stage's writer; none where it has no schema."""
    topology, agents = draft.get("topology"), draft.get("agents")
    roles = topology if isinstance(topology, dict) else {}
    writer = roles.get("aggregator")
    if stage is Stage.FINALIZE:
        writer = roles.get("finalizer") or writer
    for one in agents if isinstance(agents, list) else ():
        if isinstance(one, dict) and writer is not None and one.get("name") == writer:
            return {"data": build_sample(schema)} if isinstance(schema := one.get("output_schema"), dict) else {}
    return {}


def _plan(draft: Draft) -> JSON:
    names = workers(draft)[:2]
    briefs = [{"agent": name, "title": f"Part {n}", "instructions": f"Do part {n}."} for n, name in enumerate(names, 1)]
    return {"goal": "Answer the request.", "briefs": briefs, "exit_criteria": ["It answers the request."]}


def request(draft: Draft) -> str:
    """Return a sample request for this fabric."""
    written = draft.get("example")
    return written if isinstance(written, str) and written.strip() else "What was the balance at the end of the year?"


def run(draft: Draft) -> dict[str, JSON]:
    """Return the facts of a run as expressions see them."""
    about = {"id": RUN_ID, "tier": str(tier(draft)), "epoch": 0, "depth": 1}
    return {**about, "request": request(draft), "documents": [DOCUMENT]}


def build_sample(schema: JSON, depth: int = 0) -> JSON:
    """Return a value that probably fits a JSON schema: its example, else the simplest value of its type."""
    if not isinstance(schema, dict) or depth > 8:
        return "text"
    for known in ("examples", "enum"):
        if isinstance(schema.get(known), list) and schema[known]:
            return schema[known][0]
    for known in ("default", "const"):
        if known in schema:
            return schema[known]
    return _build_of_type(schema, depth)


def _build_of_type(schema: Mapping[str, JSON], depth: int) -> JSON:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or (kind is None and isinstance(schema.get("properties"), dict)):
        properties = schema.get("properties")
        items = properties.items() if isinstance(properties, dict) else ()
        return {str(name): build_sample(one, depth + 1) for name, one in items}
    if kind == "array":
        return [build_sample(schema.get("items", {}), depth + 1)]
    least = schema.get("minimum", 1)
    number = least if isinstance(least, int | float) else 1
    return {"integer": number, "number": number, "boolean": True, "null": None}.get(str(kind), "text")
