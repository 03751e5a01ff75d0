"""What must be true of judges, oracles and released outputs: invariants as in ``invariants.py``, read from contents as they were journaled."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import Event
from fabric.core.fingerprint import decode, encode
from fabric.core.run import Run
from fabric.core.spec import FabricSpec
from simulator.kernel.seen import Seen, on

JSON = Any


@on("step_opened", "model_answered", "output_accepted", "tool_answered", "replanned")
def verdicts_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What each judge was given, and what it said of that."""
    if fact.kind == "replanned":
        seen.verdicts.clear()
        return ""
    step = after.steps.get(fact.step_id)
    if step is None or step.stage == "fan_out" or step.branch == 0:
        return ""
    content, place = _read(seen), (str(step.stage), step.branch)
    if fact.kind == "step_opened":
        seen.verdicts[place] = (encode(content["output"]), False)
    elif not step.agent:
        said = content.get("result")
        yes = isinstance(said, dict) and (said.get("passed") is True or said.get("status") == 200)
        seen.verdicts[place] = (seen.verdicts[place][0], yes)
    elif fact.kind == "model_answered" and fact.verdict == "output":
        seen.verdicts[place] = (seen.verdicts[place][0], content["output"]["accept"] is True)
    elif fact.kind == "output_accepted":
        seen.verdicts[place] = (seen.verdicts[place][0], seen.outputs[fact.answer_ref]["accept"] is True)
    return ""


@on()
def outputs_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What agents and stages said, by where it stands."""
    if event.content_ref and fact.kind in (
        "model_answered",
        "stage_left",
        "content_kept",
        "child_answered",
        "output_edited",
    ):
        content = _read(seen)
        if isinstance(content, dict) and "output" in content:
            seen.outputs[event.content_ref] = content["output"]
    if fact.kind == "escalation_opened" and fact.releases:
        seen.shown[fact.escalation_id] = encode(_read(seen)["payload"])
    return ""


@on("stage_left")
def judged_before_it_passes(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A stage is passed once each of its judges has accepted these very bytes, and never before."""
    output = seen.outputs.get(after.stages[fact.stage].output_ref)
    if fact.outcome != "passed" or output is None:
        return ""
    for branch in judges(seen.compiled.spec, str(fact.stage)):
        about, accepted = seen.verdicts.get((str(fact.stage), branch), (b"", False))
        if about != encode(output) or not accepted:
            return (
                f"judge {branch} of {fact.stage} has {'said no to' if about == encode(output) else 'not judged'} this"
            )
    return ""


def judges(spec: FabricSpec, stage: str) -> dict[int, str]:
    """The judges of a stage by branch, by the fabric alone; where a tool is asked nobody is named."""
    topology, gates = spec.topology, spec.gates
    found = {1: topology.plan_critic} if stage == "plan" and topology.plan_critic else {}
    writes = stage == "fan_in" or (stage == "finalize" and topology.finalizer)
    if writes and gates.grounding_critic:
        found[1] = gates.grounding_critic
    checks = gates.oracle or () if stage == "finalize" else ()
    return found | {2 + n: one.critic or "" for n, one in enumerate(checks) if one.tool or one.http or one.critic}


@on("escalation_decided")
def released_as_shown(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a person lets pass is what stood there when they were asked, and nobody writes it anew."""
    shown = seen.shown.get(fact.escalation_id)
    if shown is None or fact.verb != "approve" or fact.escalation_id in seen.wrote:
        return ""  # What somebody wrote in its place is no release: its gates look at it anew.
    seen.let_pass.add(_said(decode(shown)))
    question = seen.run.questions[fact.escalation_id].fact
    seen.releases.add(question.releases)
    step = after.steps.get(question.step_id)
    if step is None:
        return ""
    if step.status != "done":
        return "its step is not done with what was shown"
    if step.output_ref in seen.outputs and encode(seen.outputs[step.output_ref]) != shown:
        return "its step says something else than what was shown"
    return ""


@on("stage_left")
def unsafe_only_as_released(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a guardrail objects to is passed on only where a person let these very bytes pass."""
    if fact.outcome != "passed":
        return ""
    refs = [after.stages[fact.stage].output_ref]
    if fact.stage == "fan_out":
        refs = [one.output_ref for one in after.steps.values() if one.stage == "fan_out" and one.status == "done"]
    for ref in refs:
        output = seen.outputs.get(ref)
        hit = output is not None and seen.compiled.evaluators.hits(str(fact.stage), output)
        if hit and _said(output) not in seen.let_pass:
            return f"{fact.stage} passes on what a guardrail objects to, and nobody let it pass"
    return ""


@on("call_issued")
def unsafe_arguments_stay(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No call of an agent goes out whose arguments a guardrail objects to, whoever wrote them."""
    if fact.call != "tool" or not fact.agent:
        return ""
    known = seen.referred.get(fact.step_id, {})
    edited = known.get("edited", {}).get(fact.call_id)
    args = (edited or {}).get("args") or known.get("resolved", {}).get(fact.call_id)
    args = args or known.get("proposed", {}).get(fact.call_id)
    found = [] if args is None else seen.compiled.evaluators.hits("arguments", args)
    return f"{fact.target} is called with what may not leave the run: {found[0]}" if found else ""


def _said(output: JSON) -> bytes:
    """An output's bytes as whoever wrote it said it: a child's outcome has no gaps, and says so."""
    if isinstance(output, dict) and output.get("gaps") == []:
        output = {name: held for name, held in output.items() if name != "gaps"}
    return encode(output)


@on("child_answered")
def released_below(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a child's people let pass holds in its parent, and nothing else that is said to have been."""
    child = seen.family.get(fact.child_id)
    known = child.releases if child is not None else set()
    if not set(fact.released) <= known:
        return f"it takes for let pass what nobody let pass in {fact.child_id}"
    if child is not None and not child.blind and set(fact.released) != known:
        return f"what was let pass in {fact.child_id} is forgotten"
    if child is not None and not fact.late:
        seen.let_pass |= child.let_pass
        seen.releases |= set(fact.released)  # Of one whose journal is damaged not all that it knew.
    return ""


def _read(seen: Seen) -> JSON:
    return decode(seen.content) if seen.content else {}
