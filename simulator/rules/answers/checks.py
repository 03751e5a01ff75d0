"""Checks answers in the simulator: streamed and typed ones. Has planted bugs and draws for the swarm too.

Invariants are counted anew from the facts alone, and typed data is read from journaled contents by an implementation of
its own. For some fabrics of the swarm it draws output schemas, planned calls, memories in which the last write wins,
and tool rules. A generator of its own draws them, so that fabrics without them stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from random import Random
from typing import Any

from fabric.core.events.envelope import Event
from fabric.core.state.run import Run
from fabric.core.steps import streamed
from fabric.core.values.fingerprint import decode, encode
from fabric.core.values.flow import Stage
from fabric.core.values.saga import Effect
from fabric.core.values.units import JSON
from simulator.cast.services import CANCEL, FIND
from simulator.rules import planting
from simulator.rules.calls.checks import RULES
from simulator.rules.facts.journals import WatchedRun, register_check


@register_check("call_issued", "call_streamed", "model_answered", "call_aborted", "input_requested")
def nothing_is_made_twice(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """No call of an answer goes out more often than the answer proposes it. Each attempt at an answer is
    counted anew.
    """
    if fact.kind in ("call_aborted", "input_requested"):  # Neither was made.
        for begun in seen.begun.values():
            begun["made"].pop(fact.command_id, None)
        return ""
    if fact.kind == "call_issued" and fact.call == "model":
        seen.begun[fact.step_id] = {"made": {}, "coming": {}, "command": fact.command_id}
    known = seen.begun.get(fact.step_id)
    if known is None:
        return ""
    if fact.kind == "call_streamed":
        known["coming"][fact.call_id] = (fact.tool, fact.args_hash)
    elif fact.kind == "model_answered":
        return _check_streamed(known, fact)
    elif fact.call == "tool" and fact.attempt == 1:
        return _check_made(known, fact, after)
    return ""


def _check_streamed(known: dict[str, Any], fact: Any) -> str:
    """Everything that was taken from a streaming answer is part of the complete answer."""
    said = {call.call_id: (call.tool, call.args_hash) for call in fact.calls}
    missing = next((call_id for call_id, call in known["coming"].items() if said.get(call_id) != call), "")
    return f"{missing} had streamed in otherwise" if missing else ""


def _check_made(known: dict[str, Any], fact: Any, after: Run) -> str:
    call = (fact.target, fact.args_hash)
    made = [one for one in known["made"].values() if one == call]
    known["made"][fact.command_id] = call
    step = after.steps[fact.step_id]
    coming = known["command"] in after.pending
    proposed = 1 if coming else sum((one.tool, one.args_hash) == call for one in step.history[-1].calls)
    return (
        f"{fact.target} goes out {len(made) + 1} times, and is proposed {proposed} times"
        if len(made) >= proposed
        else ""
    )


@register_check("call_issued")
def only_what_reads_begins_early(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """While a model is answering a step, the step's first attempts of calls use only tools that read."""
    if fact.call != "tool" or fact.attempt > 1:
        return ""
    asked = [one for one in after.pending.values() if one.issued.step_id == fact.step_id and one.issued.call == "model"]
    tool = seen.compiled.spec.tool(fact.target)
    return (
        f"{fact.target} is {tool.effect}, and its answer is not whole" if asked and tool.effect != "read_only" else ""
    )


@register_check("model_answered")
def data_fits(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """An accepted answer has data that fits, if its author's role promised data. No other answer has data."""
    if not seen.content or not seen.compiled.spec.output_schemas or fact.verdict == "rejected":
        return ""
    content, step = decode(seen.content), after.steps.get(fact.step_id)
    if step is None or "output" not in content:
        return ""
    promised = (
        seen.compiled.spec.output_schemas.get(_whose(seen, after, step)) if not step.branch or _works(step) else None
    )
    output = content["output"]
    if promised is None:
        return "data that the fabric does not declare" if "data" in output else ""
    if "data" not in output:
        return "the data is missing"
    return "" if _fits(encode(promised), encode(output["data"])) else "the data does not fit"


def _works(step: Any) -> bool:
    return bool(step.stage is Stage.FAN_OUT)


def _whose(seen: WatchedRun, run: Run, step: Any) -> str:
    """Return the author of a step's work: its brief's worker, the aggregator, or the finalizer."""
    topology = seen.compiled.spec.topology
    if step.turn is not None and step.turn.choices:  # An agent that decides a debate promises no data.
        return ""
    if _works(step):
        return str(run.stages[Stage.FAN_OUT].agents[step.branch] if step.turn is None else step.turn.agent)
    if step.stage is Stage.FAN_IN:
        return topology.aggregator or ""
    return (topology.finalizer or "") if step.stage is Stage.FINALIZE else ""


@lru_cache(maxsize=4_096)
def _fits(schema: bytes, data: bytes) -> bool:
    # Where no library for schemas can be imported, no fabric has one.
    import jsonschema_rs

    return jsonschema_rs.is_valid(decode(schema), decode(data))


STREAM_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "writes_begin_early": lambda: planting.entry(streamed.BEGINS, Effect.IDEMPOTENT, True),
}
"""Plants by name."""

SCHEMAS: tuple[JSON, ...] = (
    {"type": "object", "properties": {"said": {"type": "string"}, "sure": {"type": "boolean"}}, "required": ["said"]},
    {
        "type": "object",
        "properties": {
            "total": {"type": "integer", "minimum": 1, "maximum": 9},
            "kind": {"enum": ["rise", "fall"]},
            "lines": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "pattern": "[a-z]"}},
        },
        "required": ["total", "kind", "lines"],
        "additionalProperties": False,
    },
    {"type": ["integer", "null"]},
)


def draw_schemas(tree: JSON, number: int) -> None:
    """Add output schemas to a fabric, in place."""
    rng = Random(f"typed {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.7:
        return
    topology = tree["topology"]
    named = {*topology["workers"], topology.get("aggregator"), topology.get("finalizer")}
    for agent in tree["agents"]:
        if agent["name"] in named and agent.get("answers", "json") == "json" and rng.random() < 0.7:
            agent["output_schema"] = rng.choice(SCHEMAS)


def draw_planning(tree: JSON, number: int) -> None:
    """Add agents that plan their calls to a fabric, in place."""
    rng = Random(f"planned {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.8:
        return
    for agent in tree["agents"]:
        if agent.get("tools") and agent.get("answers", "json") == "json" and rng.random() < 0.8:
            agent["calls"] = "planned"


def draw_overwriting(tree: JSON, number: int) -> None:
    """Let the last write of an answer win in some memories of a fabric, in place."""
    rng = Random(f"overwritten {number}")  # noqa: S311 - a simulation is to be repeatable
    for memory in tree["memories"]:
        if rng.random() < 0.3:
            memory["conflicts"] = "last_write_wins"


def draw_prices(tree: JSON, number: int) -> None:
    """Give prices to tools of a fabric, in place. Tools that compensate or look up a change get none."""
    rng = Random(f"priced {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.7:
        return
    errands = {tool.get(does) for tool in tree["tools"] for does in ("compensation", "reconcile")}
    for tool in tree["tools"]:
        if tool["name"] not in errands and rng.random() < 0.6:
            tool["usd_per_call"] = rng.choice(("0.0001", "0.002", "0.03"))


def draw_tool_rules(tree: JSON, number: int) -> None:
    """Give tools of a fabric rules that demand a review, in place."""
    rng = Random(f"asked {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.8:
        return
    for tool in tree["tools"]:
        always = tool.get("effect") == "irreversible" and "approval" not in tool
        if tool["name"] not in (CANCEL, FIND) and not always and rng.random() < 0.6:
            tool["approve_when"] = rng.choice(tuple(RULES))
