"""What passes between stages, typed: each stage's output and the next stage's input (S0 "Stage Anatomy").

A model's answer is validated against one of these; what does not fit costs the step a correction and is told to the model
field by field. Unknown fields are ignored rather than refused: a small model decorates its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200_000)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Brief(_Payload):
    """One agent's share of the plan."""

    agent: Line
    """Name of the worker that gets it."""
    title: Line = "Untitled"
    instructions: Text


class Plan(_Payload):
    """Output of the plan stage: who does what, and when it is good enough."""

    goal: Line = "Answer the request."
    briefs: Annotated[tuple[Brief, ...], Field(min_length=1, max_length=1_000)]
    exit_criteria: Annotated[tuple[Line, ...], Field(min_length=1, max_length=50)]
    """What must be true of the outcome. A plan without one is malformed (semantics.md 1)."""


class Summary(_Payload):
    """Output of one branch, and of an aggregator or finalizer agent."""

    text: Text
    citations: tuple[Line, ...] = ()
    """Names of the attached documents that the text rests on."""


class Critique(_Payload):
    """Output of the critic: a score that never comes from the agent that produced the payload."""

    score: Annotated[float, Field(ge=0.0, le=1.0)]
    reasons: tuple[Line, ...] = ()


class Judgement(_Payload):
    """Output of who judges a plan, an answer's grounding or a finished outcome: accepted, or what is wrong with it."""

    accept: bool
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """How sure; None: it was not said."""
    findings: Annotated[tuple[Line, ...], Field(max_length=20)] = ()
    """What is wrong, a sentence each; at least one where it is not accepted, none where it is."""
    evidence: Annotated[tuple[Line, ...], Field(min_length=1, max_length=20)]
    """What the verdict rests on."""

    @model_validator(mode="after")
    def _says_why(self) -> Judgement:
        if self.accept and self.findings:
            raise ValueError("it is accepted and has findings; say accept false, or leave the findings out")
        if not self.accept and not self.findings:
            raise ValueError("it is not accepted and has no finding; say what is wrong")
        return self


class Verdict(Summary):
    """Output of who decides a debate, and of each vote: for whom, and in ``text`` why."""

    winner: Line
    """The side that it is for, by its name."""


class Part(_Payload):
    """One branch's place in the fan-out's output: where its summary stands, or the gap it left."""

    branch: int
    brief: int = -1
    """Which brief of the plan a turn did, from 0: several turns may do one. -1: it is no turn, and does the brief of its branch's number."""
    agent: Line
    title: Line = "Untitled"
    ref: str = ""
    """Content reference of the branch's answer; empty when there is none."""
    gap: str = ""
    """Why there is no summary; empty when there is one."""
    accepted: bool = False
    """The fabric goes on without it: its retries are exhausted, and gaps are allowed."""


class Aggregate(_Payload):
    """Output of the fan-in stage."""

    text: Text
    citations: tuple[Line, ...] = ()


class Outcome(_Payload):
    """Output of the finalize stage, and what a caller gets."""

    text: Text
    citations: tuple[Line, ...] = ()
    gaps: tuple[Line, ...] = ()


class TypedSummary(Summary):
    """The same of an agent with an ``output_schema``."""

    data: Any
    """JSON; that it fits the author's schema is checked beside this (``answers``, ``edits``)."""


class TypedAggregate(Aggregate):
    """What an aggregator with an ``output_schema`` left."""

    data: Any


class TypedOutcome(Outcome):
    """An outcome that was written by an agent with an ``output_schema``."""

    data: Any


TYPED: Mapping[type[BaseModel], type[BaseModel]] = {
    Summary: TypedSummary,
    Aggregate: TypedAggregate,
    Outcome: TypedOutcome,
}
"""Each payload that may have ``data`` -> the same with it. Without a schema there is no such field, so that nothing of before reads otherwise."""


def typed_model(model: type[BaseModel], payload: Any) -> type[BaseModel]:
    """What reads a payload that may have data."""
    return TYPED[model] if isinstance(payload, Mapping) and "data" in payload else model


class Request(_Payload):
    """What a caller asked for, as the run keeps it."""

    text: Text
    documents: tuple[Line, ...] = ()
    """Names of the attached documents, in the order they were attached."""
    document_bytes: tuple[int, ...] = ()
    """Their sizes, in the same order."""
    note: str = ""
    """Of a child run that is tried once more: what was wrong, or what a person said of it. Agents read it behind the text; it is nothing that an answer may rest on."""


AGENT_OUTPUT: dict[str, type[BaseModel]] = {
    "plan": Plan,
    "summary": Summary,
    "critique": Critique,
    "judgement": Judgement,
    "verdict": Verdict,
}
"""The shapes an agent may be asked for, by name (``Step.output``)."""


@cache
def json_schema(name: str) -> Mapping[str, Any]:
    """The JSON schema of an agent output as a model is asked for it; raises KeyError for an unknown name. Not to be changed.

    Without titles and without bounds on lengths: endpoints turn a schema into a grammar, and large repetitions break small ones. The bounds hold
    all the same, when the answer is validated here.
    """
    schema: dict[str, Any] = _plain(AGENT_OUTPUT[name].model_json_schema())
    return schema


LEFT_OUT = frozenset({"title", "description", "maxLength", "minLength", "maxItems", "default"})
"""Schema keywords that a model is not asked for. A property may bear one of these names, so only scalar values are left out."""


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        kept = {
            key: value for key, value in node.items() if not (key in LEFT_OUT and isinstance(value, str | int | list))
        }
        return {key: _plain(value) for key, value in kept.items()}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    return node


def typed_json_schema(model: type[BaseModel], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The whole schema of a payload with data, the author's schema in it word for word."""
    found = TYPED[model].model_json_schema()
    draft = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return {**draft, **found, "properties": {**found["properties"], "data": dict(schema)}}


def asked_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a summary with data as a model is asked for it, without what endpoints cannot take of the author's.

    What is left out makes it wider, never narrower: it holds all the same, when the answer is validated here.
    """
    summary = json_schema("summary")
    return {
        **summary,
        "properties": {**summary["properties"], "data": _asked(schema)},
        "required": [*summary.get("required", ()), "data"],
    }


NOT_ASKED = LEFT_OUT | {
    *("$schema", "$id", "$anchor", "$comment", "examples", "deprecated", "readOnly", "writeOnly"),
    *("pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"),
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
    *("contains", "minContains", "maxContains", "uniqueItems", "unevaluatedItems"),
}
"""Keywords of an author's schema that a model is not asked for: no endpoint's grammar knows them all."""
_VALUES = frozenset({"const", "enum", "required"})
_NAMED = frozenset({"properties", "$defs", "definitions"})


def _asked(node: Any) -> Any:
    """An author's schema without them. Names of properties and values are no keywords, whatever they are called."""
    if isinstance(node, list):
        return [_asked(one) for one in node]
    if not isinstance(node, Mapping):
        return node
    left_out = NOT_ASKED | ({"additionalProperties"} if "patternProperties" in node else frozenset())
    found: dict[str, Any] = {}
    for key, value in node.items():
        if key in _VALUES:
            found[key] = value
        elif key in _NAMED and isinstance(value, Mapping):
            found[key] = {name: _asked(one) for name, one in value.items()}
        elif key not in left_out:
            found[key] = _asked(value)
    return found
