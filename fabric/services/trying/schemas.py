"""Trials of shapes: what a stage passes on, what a tool is called with, what a memory keeps, and how long an answer may be."""

from __future__ import annotations

from typing import Any

from fabric.adapters.evaluators import SchemaProblem, compile_schema
from fabric.adapters.tools.registry import offers, validator_of
from fabric.core.flow import TRANSITIONS, End, Stage, StageOutcome
from fabric.core.gates import Gates
from fabric.core.mechanisms import validation_gate
from fabric.core.mechanisms.validation_gate import POST_CHECKS
from fabric.core.memory import Change, Found, judged, said
from fabric.core.policy import FlowPolicy
from fabric.core.spec_memories import MemorySpec, Verb, parameters
from fabric.core.spec_parts import Name
from fabric.core.spec_tools import ToolSpec
from fabric.services.errors import Refused
from fabric.services.fabric_yaml import Problem
from fabric.services.trying import parts, samples
from fabric.services.trying.shapes import Draft, Given, SampleField, Trial, Tried, TriedLine, at_path, told

JSON = Any
_CHECKS = dict(POST_CHECKS)


def stage_of(path: str) -> Stage:
    """The stage that a path names. Refused not_found for another word."""
    name = path.rpartition(".")[2]
    if name not in tuple(Stage):
        message = f"no stage is named {name[:40]!r}; there are: {', '.join(Stage)}"
        raise Refused(message, code="not_found", field="path")
    return Stage(name)


# -- stages ------------------------------------------------------------------------------------------------------------


def _stage_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    stage = stage_of(path)
    example = samples.shown(samples.payload(draft, stage))
    return (SampleField("payload", "json", f"What {stage} passes on", example),)


def _stage_tried(draft: Draft, path: str, given: Given) -> Tried:
    stage = stage_of(path)
    if stage is Stage.PLAN:  # What follows takes briefs for its own workers, so many at most: both have to be read.
        parts.part(draft, "topology.workers", tuple[Name, ...])
        parts.field_part(draft, "policy.limits", FlowPolicy)
    view = parts.view_of(parts.sketch(draft, Gates()))
    proposal = parts.output(stage, given["payload"])
    found = _CHECKS["schema"](validation_gate.Config(), proposal, view)
    following = TRANSITIONS[stage, StageOutcome.PASSED]
    then = "a caller can take it" if isinstance(following, End) else f"{following} can begin with it"
    passed = TriedLine("passes", f"It has the shape of what {stage} passes on, and {then}.", "payload")
    return told([at_path(one) for one in found.problems], passed=passed)


STAGE = Trial("Does this fit what the stage passes on?", ("stages.STAGE",), _stage_fields, _stage_tried)


# -- arguments of tools ------------------------------------------------------------------------------------------------


def _tool_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    try:
        schema: JSON = offers(parts.part(draft, _whole(path), ToolSpec)).parameters
    except (parts.PartBroken, KeyError):
        schema = {"type": "object"}
    example = samples.shown(samples.of_schema(schema))
    return (SampleField("arguments", "json", "Arguments of a call", example),)


def _tool_tried(draft: Draft, path: str, given: Given) -> Tried:
    if not isinstance(given["arguments"], dict):
        raise samples.refused("arguments", "they are no JSON object; a tool is called with one")
    tool: ToolSpec = parts.part(draft, _whole(path), ToolSpec)
    try:
        validate = validator_of(tool)
    except KeyError:
        message = f"there is no built-in {tool.target or tool.name!r}"
        raise parts.PartBroken(Problem(f"{_whole(path)}.target", message)) from None
    except SchemaProblem as problem:
        raise parts.PartBroken(Problem(f"{_whole(path)}.parameters", str(problem))) from None
    passed = TriedLine("passes", f"{tool.name} can be called with them.", "arguments")
    return told([at_path(one) for one in validate(given["arguments"])], passed=passed)


ARGUMENTS = Trial(
    "May this tool be called with these arguments?",
    ("tools.N", "tools.N.parameters"),
    _tool_fields,
    _tool_tried,
    apart=True,
)


# -- memories ----------------------------------------------------------------------------------------------------------


def _memory_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    schema = parts.found_at(draft, f"{_whole(path)}.value_schema")
    return (
        SampleField("key", "text", "Key", "a-key"),
        SampleField("value", "json", "Value", samples.shown(samples.of_schema(schema))),
    )


def _memory_tried(draft: Draft, path: str, given: Given) -> Tried:
    memory: MemorySpec = parts.part(draft, _whole(path), MemorySpec)
    try:
        validate = compile_schema(parameters(Verb.WRITE, memory))
    except SchemaProblem as problem:
        raise parts.PartBroken(Problem(f"{_whole(path)}.value_schema", str(problem))) from None
    entry = {"key": given["key"], "value": given["value"]}
    lines = [at_path(one) for one in validate(entry)]
    change, empty = Change(key=given["key"], value=given["value"]), Found()
    if not lines and (refused := judged(change, empty, memory)) is not None:
        lines = [TriedLine("fails", said(refused, change, empty, memory), "value")]
    passed = TriedLine("passes", f"The memory {memory.name} takes it while it has room.", "value")
    return told(lines, passed=passed)


REMEMBERED = Trial(
    "Does the memory take this value?",
    ("memories.N", "memories.N.value_schema"),
    _memory_fields,
    _memory_tried,
    apart=True,
)


def _whole(path: str) -> str:
    """``tools.0`` for ``tools.0.parameters``."""
    return ".".join(path.split(".")[:2])


# -- length ------------------------------------------------------------------------------------------------------------


def _length_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    return (SampleField("answer", "text", "Answer", samples.ANSWER),)


def _length_tried(draft: Draft, path: str, given: Given) -> Tried:
    gates = Gates(max_outcome_chars=parts.field_part(draft, "gates.max_outcome_chars", Gates))
    proposal = parts.output(Stage.FINALIZE, {"text": given["answer"], "citations": [], "gaps": []})
    found = _CHECKS["invariants"](validation_gate.Config(), proposal, parts.view_of(parts.sketch(draft, gates)))
    within = "there is no limit" if gates.max_outcome_chars is None else f"at most {gates.max_outcome_chars:,}"
    passed = TriedLine("passes", f"It has {len(given['answer']):,} characters.", "text", within)
    return told([at_path(one) for one in found.problems], passed=passed)


LENGTH = Trial("Is this answer short enough?", ("gates.max_outcome_chars",), _length_fields, _length_tried)
