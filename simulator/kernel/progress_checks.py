"""What must be true of steps that get nowhere and of those who take over: invariants as in ``invariants.py``. Counted anew from the facts alone."""

from __future__ import annotations

import json
from typing import Any

from fabric.core.envelope import Event
from fabric.core.flow import Stage
from fabric.core.run import Run
from simulator.kernel.judge_checks import judges
from simulator.kernel.loop_checks import place_of
from simulator.kernel.seen import Fruitless, Seen, on

BROUGHT = (
    "stage_entered",
    "stage_left",
    "output_accepted",
    "output_kept",
    "step_failed",
    "child_answered",
    "replanned",
)
CAME_BACK = ("tool_answered", "call_deduplicated", "call_refused", "call_responded")


@on("call_streamed", "model_answered", "call_issued", *CAME_BACK, *BROUGHT, "step_opened", "message_injected")
def progress_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No model is asked again after as many turns that all came to the same as the policy allows, while the run brought nothing."""
    if fact.kind in BROUGHT:
        seen.fruitless.clear()
        seen.streaming.clear()
    elif fact.kind in ("step_opened", "message_injected"):
        seen.fruitless.pop(fact.step_id, None)
        seen.streaming.pop(fact.step_id, None)
    elif fact.kind == "call_streamed":
        seen.streaming.setdefault(fact.step_id, Fruitless())
    elif fact.kind == "model_answered":
        if fact.verdict == "output":
            seen.fruitless.clear()
            seen.streaming.clear()
        else:
            seen.fruitless.setdefault(fact.step_id, []).append(_turn(seen, fact))
    elif fact.kind in CAME_BACK:
        turns = seen.fruitless.get(fact.step_id)
        turn = seen.streaming.get(fact.step_id) or (turns[-1] if turns else None)
        if turn is not None:
            turn.results.add(_came_to(seen, fact))
            turn.made.add((fact.tool, fact.args_hash))
    elif fact.call == "model" and fact.attempt == 1 and not fact.final:
        return _too_many(seen, fact)
    return ""


def _came_to(seen: Seen, fact: Any) -> str:
    tool = next((one for one in seen.compiled.spec.all_tools if one.name == fact.tool), None)
    told = fact.kind == "tool_answered" and tool is not None and not tool.polling and tool.effect == "read_only"
    # Whatever is not a plain result of a tool that only reads is taken as something new: this invariant is the laxer one.
    return str(fact.masked_hash) if told else f"{fact.kind} {fact.step_id} {len(seen.fruitless.get(fact.step_id, ()))}"


def _turn(seen: Seen, fact: Any) -> Fruitless:
    turn = seen.streaming.pop(fact.step_id, None) or Fruitless()
    turn.proposed = tuple((call.tool, call.args_hash) for call in fact.calls)
    turn.scans = any(_scans(call.get("args")) for call in json.loads(seen.content or b"{}").get("calls", ()))
    return turn


def _scans(args: Any) -> bool:
    if isinstance(args, dict | list):
        return any(_scans(one) for one in (args.values() if isinstance(args, dict) else args))
    text = str(args)
    return any(char.isdigit() for char in text) and not any(char.isspace() for char in text)


def _too_many(seen: Seen, fact: Any) -> str:
    """Words are not compared here: turns that propose the very same calls ask alike, and others may ask something else each time."""
    stage = Stage(fact.step_id.partition(".")[0])
    config = seen.compiled.spec.policy.of_stage(stage).progress
    few = config.supervisor_turns if fact.step_id.startswith("plan.") else config.agent_turns
    turns = seen.fruitless.get(fact.step_id, [])
    last = turns[-few:]
    as_proposed = all(turn.made <= set(turn.proposed) for turn in last)
    if as_proposed and len({turn.proposed for turn in last}) == 1:
        most = few
    else:  # What refers to another call's result, or was edited, may be anything.
        most = few * (2 if as_proposed and not all(turn.scans for turn in last) else 4)
    results = [turn.results for turn in turns[-most:]]
    same = len(results) == most <= 100 and results[0] and all(one == results[0] for one in results)
    passed = any((place_of(fact.step_id), *call) in seen.polls for turn in turns[-most:] for call in turn.made)
    if passed:
        return ""
    return f"asked once more after {most} turns that came to the same" if same else ""


@on("stage_entered")
def visits_in_bounds(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A stage that was entered as often as it may be has nobody at work when it is entered again."""
    seen.visits[fact.stage] += 1
    limits = seen.compiled.spec.policy.limits
    most = (limits.max_visits or {}).get(fact.stage, limits.max_node_visits)
    if most is None or seen.visits[fact.stage] <= most or not fact.agents:
        return ""
    return f"stage {fact.stage} is entered for the {seen.visits[fact.stage]}th time, at most {most} are allowed"


@on("reaction_decided", "step_opened", "replanned")
def handed_over_upwards(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Somebody else takes a step or the planning over by a decision to hand over alone, and it is the one who stands above."""
    if fact.kind == "reaction_decided":
        seen.handing = fact.reaction == "handover"
        return ""
    above = seen.compiled.spec.topology.handover
    if fact.kind == "replanned":
        return "" if not fact.planner or fact.planner == above else f"{fact.planner} plans, above is {above}"
    before = [step.agent for step in seen.run.steps.values() if (step.stage, step.branch) == (fact.stage, fact.branch)]
    if fact.agent in before:
        return ""
    if not before and fact.stage != "fan_out" and fact.branch:
        own = judges(seen.compiled.spec, fact.stage).get(fact.branch)
        return (
            ""
            if fact.agent == own
            else f"{fact.agent!r} judges {fact.stage} on branch {fact.branch}, which is {own!r}'s"
        )
    return "" if seen.handing and fact.agent == above else f"{fact.agent} does what {before} did"


@on("run_ended")
def falls_back_on_what_is_given(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run that completes with the static answer has one, and did not complete otherwise."""
    if fact.reaction != "safe_fallback":
        return ""
    given = seen.compiled.spec.safe_fallback is not None and after.family.lineage is None
    return "" if given and fact.state == "completed" else f"it ended as {fact.state}, and a static answer is {given}"
