"""Trials of schemas: a stage's output, a tool's arguments, a memory's value, and the length of an answer."""

from __future__ import annotations

from fabric.core.conversations.memory import Change, WriteFacts, judge_change, refusal_sentence
from fabric.core.mechanisms import validation_gate
from fabric.core.mechanisms.validation_gate import POST_CHECKS
from fabric.core.schema.parts import Name
from fabric.core.spec.memories import MemorySpec, Verb, parameters
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.policies.gates import Gates
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.flow import TRANSITIONS, End, Stage, StageOutcome
from fabric.core.values.units import JSON
from fabric.policies.schemas.evaluators import SchemaProblem, compile_schema
from fabric.services.errors import Refused
from fabric.services.fabrics.trials import parts, samples
from fabric.services.fabrics.trials.shapes import (
    CheckTrial,
    Draft,
    Given,
    SampleField,
    TrialResult,
    TriedLine,
    make_result,
    place_sentence,
)
from fabric.services.fabrics.yaml.document import FabricProblem
from fabric.tools.runner import build_validator, offers

_CHECKS = dict(POST_CHECKS)


def read_stage(path: str) -> Stage:
    """Return the stage in a path. Raises Refused not_found for another word."""
    name = path.rpartition(".")[2]
    if name not in tuple(Stage):
        message = f"no stage is named {name[:40]!r}; there are: {', '.join(Stage)}"
        raise Refused(message, code="not_found", field="path")
    return Stage(name)


# -- stages ------------------------------------------------------------------------------------------------------------


def _stage_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    stage = read_stage(path)
    example = samples.box_text(samples.payload(draft, stage))
    return (SampleField("payload", "json", f"Output of {stage}", example),)


def _stage_tried(draft: Draft, path: str, given: Given) -> TrialResult:
    stage = read_stage(path)
    if stage is Stage.PLAN:  # The next stage takes briefs for its own workers, up to its limit: both must be readable.
        parts.part(draft, "topology.workers", tuple[Name, ...])
        parts.field_part(draft, "policy.limits", FlowPolicy)
    view = parts.build_view(parts.sketch(draft, Gates()))
    proposal = parts.output(stage, given["payload"])
    found = _CHECKS["schema"](validation_gate.Config(), proposal, view)
    following = TRANSITIONS[stage, StageOutcome.PASSED]
    then = "a caller can take it" if isinstance(following, End) else f"{following} can begin with it"
    passed = TriedLine("passes", f"It has the shape of what {stage} passes on, and {then}.", "payload")
    return make_result([place_sentence(one) for one in found.problems], passed=passed)


STAGE = CheckTrial("Does this fit what the stage passes on?", ("stages.STAGE",), _stage_fields, _stage_tried)


# -- arguments of tools ------------------------------------------------------------------------------------------------


def _tool_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    try:
        schema: JSON = offers(parts.part(draft, _whole(path), ToolSpec)).parameters
    except (parts.PartBroken, KeyError):
        schema = {"type": "object"}
    example = samples.box_text(samples.build_sample(schema))
    return (SampleField("arguments", "json", "Arguments of a call", example),)


def _tool_tried(draft: Draft, path: str, given: Given) -> TrialResult:
    if not isinstance(given["arguments"], dict):
        raise samples.refuse_box("arguments", "they are no JSON object; a tool is called with one")
    tool: ToolSpec = parts.part(draft, _whole(path), ToolSpec)
    try:
        validate = build_validator(tool)
    except KeyError:
        message = f"there is no built-in {tool.target or tool.name!r}"
        raise parts.PartBroken(FabricProblem(f"{_whole(path)}.target", message)) from None
    except SchemaProblem as problem:
        raise parts.PartBroken(FabricProblem(f"{_whole(path)}.parameters", str(problem))) from None
    passed = TriedLine("passes", f"{tool.name} can be called with them.", "arguments")
    return make_result([place_sentence(one) for one in validate(given["arguments"])], passed=passed)


ARGUMENTS = CheckTrial(
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
        SampleField("value", "json", "Value", samples.box_text(samples.build_sample(schema))),
    )


def _memory_tried(draft: Draft, path: str, given: Given) -> TrialResult:
    memory: MemorySpec = parts.part(draft, _whole(path), MemorySpec)
    try:
        validate = compile_schema(parameters(Verb.WRITE, memory))
    except SchemaProblem as problem:
        raise parts.PartBroken(FabricProblem(f"{_whole(path)}.value_schema", str(problem))) from None
    entry = {"key": given["key"], "value": given["value"]}
    lines = [place_sentence(one) for one in validate(entry)]
    change, empty = Change(key=given["key"], value=given["value"]), WriteFacts()
    if not lines and (refused := judge_change(change, empty, memory)) is not None:
        lines = [TriedLine("fails", refusal_sentence(refused, change, empty, memory), "value")]
    passed = TriedLine("passes", f"The memory {memory.name} takes it while it has room.", "value")
    return make_result(lines, passed=passed)


REMEMBERED = CheckTrial(
    "Does the memory take this value?",
    ("memories.N", "memories.N.value_schema"),
    _memory_fields,
    _memory_tried,
    apart=True,
)


def _whole(path: str) -> str:
    """Return the path of the whole part: ``tools.0`` for ``tools.0.parameters``."""
    return ".".join(path.split(".")[:2])


# -- length ------------------------------------------------------------------------------------------------------------


def _length_fields(draft: Draft, path: str) -> tuple[SampleField, ...]:
    return (SampleField("answer", "text", "Answer", samples.ANSWER),)


def _length_tried(draft: Draft, path: str, given: Given) -> TrialResult:
    gates = Gates(max_outcome_chars=parts.field_part(draft, "gates.max_outcome_chars", Gates))
    proposal = parts.output(Stage.FINALIZE, {"text": given["answer"], "citations": [], "gaps": []})
    found = _CHECKS["invariants"](validation_gate.Config(), proposal, parts.build_view(parts.sketch(draft, gates)))
    within = "there is no limit" if gates.max_outcome_chars is None else f"at most {gates.max_outcome_chars:,}"
    passed = TriedLine("passes", f"It has {len(given['answer']):,} characters.", "text", within)
    return make_result([place_sentence(one) for one in found.problems], passed=passed)


LENGTH = CheckTrial("Is this answer short enough?", ("gates.max_outcome_chars",), _length_fields, _length_tried)
