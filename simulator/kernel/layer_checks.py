"""What must be true of nodes that run again and of gaps that are accepted: invariants as in ``invariants.py``. Counted anew from the facts alone."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import Event
from fabric.core.fingerprint import decode
from fabric.core.flow import ANSWERED, Stage
from fabric.core.retry_presets import CAP_S, JITTER
from fabric.core.run import Run
from fabric.core.taxonomy import CLASSIFY
from simulator.kernel.seen import Seen, on


@on("node_retry_scheduled")
def node_retries_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A node runs again as often as its stage says, after a wait of its preset's, for what goes away by itself, and because it was decided."""
    node, decision = fact.step_id.rpartition(".r")[0], seen.decided
    stage = node.partition(".")[0]
    step = after.steps.get(fact.step_id)
    worker = "" if step is None else step.agent if step.turn is None else step.turn.agent
    preset = seen.compiled.spec.policy.retry_layers.retries_of(stage, worker)
    seen.node_retries[node] += 1
    again = seen.node_retries[node]
    seen.node_not_before[fact.step_id] = fact.not_before
    if again >= preset.attempts or (fact.attempt, fact.attempts) != (again + 1, preset.attempts):
        return f"attempt {fact.attempt} of {fact.attempts}, the {again + 1}th of {preset.attempts}"
    if decision is None or (decision.reaction, decision.step_id) != ("retry_node", fact.step_id):
        return "no decision says so"
    if not CLASSIFY[decision.cause.cause].retried:
        return f"{decision.cause.cause} is not retried"
    least = min(CAP_S, preset.base_s * preset.factor ** (again - 1) * JITTER[0])
    return "" if least <= fact.delay_s <= CAP_S else f"it waits {fact.delay_s} s, at least {least} and at most {CAP_S}"


@on("step_opened")
def nodes_wait(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What runs again does so at its instant, not before; the wait is over with it."""
    branch = f"{fact.step_id.rpartition('.r')[0]}.r{fact.round - 1}"
    due = seen.node_not_before.pop(branch, None)
    if due is None:
        return ""
    if event.at < due:
        return f"it runs {due - event.at} us before its time"
    return "its wait is not over" if branch in after.timers else ""


@on("call_issued", "model_answered", "tool_answered", "input_requested")
def nobody_works_while_a_node_waits(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A step whose node waits for its next attempt asks nobody and is answered by nobody."""
    return f"{fact.step_id} waits to run again" if fact.step_id in seen.node_not_before else ""


@on("replanned", "step_failed")
def waits_end(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What is over waits for nothing."""
    if fact.kind == "replanned":
        seen.node_not_before.clear()
    else:
        seen.node_not_before.pop(fact.step_id, None)
    return f"{fact.step_id} is over and waits" if getattr(fact, "step_id", "") in after.timers else ""


@on("step_failed")
def gaps_are_allowed(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A gap is accepted where the fabric says so, of a branch that could not be retried any more, by a decision."""
    if not fact.partial:
        return ""
    stage, decision = fact.step_id.partition(".")[0], seen.decided
    layers = seen.compiled.spec.policy.retry_layers
    if stage != "fan_out" or not layers.layered or not layers.node(stage).allow_partial:
        return "its fabric accepts no gaps there"
    said = decision is not None and (decision.reaction, decision.step_id) == ("accept_partial", fact.step_id)
    return "" if said and CLASSIFY[fact.cause].retried else f"no decision about {fact.cause} says so"


@on("stage_left")
def nothing_is_no_part(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A fan-out with accepted gaps that passes has brought something, and nothing is missing of it but those gaps."""
    steps = [step for step in seen.run.steps.values() if step.stage == "fan_out"]
    gaps = [step for step in steps if step.partial]
    if fact.stage != "fan_out" or fact.outcome != "passed" or not gaps:
        return ""
    if seen.run.family.lineage is not None and seen.run.family.lineage.purpose == "slice":
        return ""  # It judges nothing: what its branches brought, and what failed of them for good, is its parent's to see.
    # A turn that failed and was led on by a rule is missing to nobody: who spoke after it had the word instead.
    missing = [step.id for step in steps if step.status == "failed" and not (step.partial or step.routed)]
    if missing:
        return f"{', '.join(missing)} failed for good"
    return "" if any(step.status == "done" for step in steps) else "no branch brought anything"


@on("child_answered", "replanned")
def gaps_of_slices(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A slice leaves gaps to go on without where its fabric accepts them, and such a brief is missing."""
    if fact.kind == "replanned":
        seen.done_without.clear()
        return ""
    content = decode(seen.content) if seen.content and not fact.late else {}
    for part in content.get("parts", ()):
        seen.done_without.discard(part["brief"])
        if part.get("accepted"):
            seen.done_without.add(part["brief"])
    if not seen.done_without:
        return ""
    layers = seen.compiled.spec.policy.retry_layers
    if not layers.layered or not layers.node(Stage.FAN_OUT).allow_partial:
        return "its fabric accepts no gaps there"
    given = {part["brief"] for part in content.get("parts", ()) if part.get("accepted")}
    return "" if given <= set(fact.missing) else f"it goes on without {sorted(given)}, and is missing {fact.missing}"


@on("content_kept")
def gaps_of_forks(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A fork goes on without what its origin went on without, as far as its fan-out is kept."""
    content = decode(seen.content)
    if fact.what == Stage.FAN_OUT:
        seen.done_without.update(part["branch"] for part in content["output"] if part.get("accepted"))
    for part in content.get("parts", ()):
        seen.done_without.update([part["brief"]] if part.get("accepted") else ())
    return ""


@on("run_ended")
def partial_success_is_said(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run that completed without branches says so, and no other does."""
    if fact.state not in ANSWERED or fact.reaction == "safe_fallback":
        return ""
    gaps = bool(seen.done_without) or any(step.partial for step in seen.run.steps.values())
    return "" if fact.partial == gaps else f"it says partial {fact.partial}, and there are gaps: {gaps}"
