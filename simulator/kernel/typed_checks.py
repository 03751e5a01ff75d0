"""What must be true of data: invariants as in ``invariants.py``, read from contents as they were journaled, by rules said anew."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fabric.core.envelope import Event
from fabric.core.fingerprint import decode, encode
from fabric.core.flow import Stage
from fabric.core.run import Run
from simulator.kernel.seen import Seen, on


@on("model_answered")
def data_fits(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What was taken as an answer has data where whoever has the role promised it, and it fits; and nobody else's has any."""
    if not seen.content or not seen.compiled.spec.typed or fact.verdict == "rejected":
        return ""
    content, step = decode(seen.content), after.steps.get(fact.step_id)
    if step is None or "output" not in content:
        return ""
    promised = seen.compiled.spec.typed.get(_whose(seen, after, step)) if not step.branch or _works(step) else None
    output = content["output"]
    if promised is None:
        return "data that nobody promised" if "data" in output else ""
    if "data" not in output:
        return "the data is missing"
    return "" if _fits(encode(promised), encode(output["data"])) else "the data does not fit"


def _works(step: Any) -> bool:
    return bool(step.stage is Stage.FAN_OUT)


def _whose(seen: Seen, run: Run, step: Any) -> str:
    """Whose work a step is: its brief's worker, the aggregator, the finalizer."""
    topology = seen.compiled.spec.topology
    if step.turn is not None and step.turn.choices:  # Who decides a debate promises no data.
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
