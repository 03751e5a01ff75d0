"""Checks gates in the simulator: judges and released outputs. Has planted bugs and draws for the swarm too.

Draws give some fabrics judges, an oracle, policies and guardrails (docs/specification/gates.md). Each has a generator
of its own, so that fabrics without them stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from fabric.core.child_runs import children
from fabric.core.decision.work import Work
from fabric.core.events.child_inputs import ChildEnded
from fabric.core.events.envelope import Event
from fabric.core.mechanisms import policy
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.spec.fabric import FabricSpec
from fabric.core.stages import judging
from fabric.core.state import let_pass
from fabric.core.state.judges import list_judges
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import decode, encode
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import PASS, Trip, Verdict
from fabric.core.values.units import JSON
from simulator.cast.services import PROBE
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check


@register_check("step_opened", "model_answered", "output_accepted", "tool_answered", "replanned")
def verdicts_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the input and verdict of each judge."""
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


@register_check()
def outputs_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the outputs of agents and stages, by their reference."""
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
    if fact.kind == "review_opened" and fact.releases:
        seen.shown[fact.review_id] = encode(_read(seen)["payload"])
    return ""


@register_check("stage_left")
def judged_before_it_passes(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A stage passes only after each of its judges has accepted exactly these bytes."""
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
    """Return the judges of a stage by branch, by the fabric alone; a tool as judge has no name."""
    topology, gates = spec.topology, spec.gates
    found = {1: topology.plan_critic} if stage == "plan" and topology.plan_critic else {}
    writes = stage == "fan_in" or (stage == "finalize" and topology.finalizer)
    if writes and gates.grounding_critic:
        found[1] = gates.grounding_critic
    checks = gates.oracle or () if stage == "finalize" else ()
    return found | {2 + n: one.critic or "" for n, one in enumerate(checks) if one.tool or one.http or one.critic}


@register_check("review_decided")
def released_as_shown(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A person releases the content that they saw, unchanged."""
    shown = seen.shown.get(fact.review_id)
    if shown is None or fact.verb != "approve" or fact.review_id in seen.wrote:
        return ""  # A person's edit is no release: its gates check it anew.
    seen.let_pass.add(_said_bytes(decode(shown)))
    review = seen.run.reviews[fact.review_id].fact
    seen.releases.add(review.releases)
    step = after.steps.get(review.step_id)
    if step is None:
        return ""
    if step.status != "done":
        return "its step is not done with what was shown"
    if step.output_ref in seen.outputs and encode(seen.outputs[step.output_ref]) != shown:
        return "its step says something else than what was shown"
    return ""


@register_check("stage_left")
def unsafe_only_as_released(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Output to which a guardrail objects is passed on only if a person released exactly these bytes."""
    if fact.outcome != "passed":
        return ""
    refs = [after.stages[fact.stage].output_ref]
    if fact.stage == "fan_out":
        refs = [one.output_ref for one in after.steps.values() if one.stage == "fan_out" and one.status == "done"]
    for ref in refs:
        output = seen.outputs.get(ref)
        hit = output is not None and seen.compiled.evaluators.hits(str(fact.stage), output)
        if hit and _said_bytes(output) not in seen.let_pass:
            return f"{fact.stage} passes on what a guardrail objects to, and no person let it pass"
    return ""


@register_check("call_issued")
def unsafe_arguments_stay(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call with arguments to which a guardrail objects never goes out."""
    if fact.call != "tool" or not fact.agent:
        return ""
    known = seen.referred.get(fact.step_id, {})
    edited = known.get("edited", {}).get(fact.call_id)
    args = (edited or {}).get("args") or known.get("resolved", {}).get(fact.call_id)
    args = args or known.get("proposed", {}).get(fact.call_id)
    found = [] if args is None else seen.compiled.evaluators.hits("arguments", args)
    return f"{fact.target} is called with what may not leave the run: {found[0]}" if found else ""


def _said_bytes(output: JSON) -> bytes:
    """Return an output's bytes as its author wrote them: without the gaps that a child's outcome adds."""
    if isinstance(output, dict) and output.get("gaps") == []:
        output = {name: held for name, held in output.items() if name != "gaps"}
    return encode(output)


@register_check("child_answered")
def released_below(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A parent's releases from a child are exactly the child's releases."""
    child = seen.family.get(fact.child_id)
    known = child.releases if child is not None else set()
    if not set(fact.released) <= known:
        return f"it counts an output as released that no person released in {fact.child_id}"
    if child is not None and not child.blind and set(fact.released) != known:
        return f"what was let pass in {fact.child_id} is forgotten"
    if child is not None and not fact.late:
        seen.let_pass |= child.let_pass
        seen.releases |= set(fact.released)  # A child with a damaged journal may have forgotten some.
    return ""


def _read(seen: WatchedRun) -> JSON:
    return decode(seen.content) if seen.content else {}


def _passes_unheard() -> AbstractContextManager[None]:
    """A judge without an answer counts as accepting."""

    def hear_no_verdicts(work: Work, stage: Stage, proposal: Proposal) -> judging.HeardVerdicts:
        return judging.HeardVerdicts({judge.branch: () for judge in list_judges(work.compiled_fabric.spec, stage)})

    return planting.attribute(judging, "hear_verdicts", hear_no_verdicts)


def _no_is_yes() -> AbstractContextManager[None]:
    """The engine ignores a tool's answer to an oracle."""
    return planting.attribute(judging, "_answer_problems", lambda work, judge, proposal, said: ())


def _released_by_finding() -> AbstractContextManager[None]:
    """A release covers every output with an equal finding."""
    own = let_pass.key
    return planting.attribute(let_pass, "key", lambda payload, problems: own(None, problems))


def _unsafe_arguments_pass() -> AbstractContextManager[None]:
    """The engine sends arguments to which the guardrails object."""
    own = policy.check

    def check(config: policy.Config, state: policy.State, proposal: Proposal, view: View) -> Verdict:
        found = own(config, state, proposal, view)
        looked = isinstance(found, Trip) and proposal.kind == "tool" and "problems" in found.evidence.details
        return PASS if looked else found

    return planting.attribute(policy, "check", check)


def _let_pass_unasked() -> AbstractContextManager[None]:
    """An ended child claims that a person approved all of its results."""
    own = children.report

    def report(work: Work) -> None:
        own(work)
        if work.run.family.lineage is not None:
            told = work.outbox[-1]
            assert isinstance(told.given, ChildEnded)
            work.outbox[-1] = replace(told, given=replace(told.given, released=(*told.given.released, "0" * 32)))

    return planting.attribute(children, "report", report)


JUDGE_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "passes_unheard": _passes_unheard,
    "no_is_yes": _no_is_yes,
    "released_by_finding": _released_by_finding,
    "unsafe_arguments_pass": _unsafe_arguments_pass,
    "let_pass_unasked": _let_pass_unasked,
}
"""Plants by name."""


JUDGE = "judge"
CHECKS: tuple[JSON, ...] = (
    {"expression": "size(outcome.text) > 0 && size(exit_criteria) > 0"},
    {"tool": PROBE, "arguments": {"query": "{outcome.text}"}},
    {"http": {"url": "https://tests.example/runs/{run.id}?by={run.tier}"}},
    {"critic": JUDGE},
)
POLICIES: tuple[JSON, ...] = (
    {"name": "few", "text": 'forbid(principal, action == Action::"spawn", resource) when { context.branches > 3 };'},
    {
        "name": "no-poll",
        "text": 'forbid(principal, action == Action::"tool", resource) when { resource.kind == "http" };',
    },
    {"name": "shallow", "text": "forbid(principal, action, resource) when { context.depth > 2 };"},
)
BARRED = {"name": "barred", "pattern": r"(turn|part|flood) \d*[37]"}
"""Policy that bars the arguments of some of the agents' calls."""
UNLUCKY = {"name": "unlucky", "pattern": r"says \d*7"}


def draw_judges(tree: JSON, number: int) -> None:
    """Add judges, an oracle, policies and guardrails to a fabric, in place."""
    rng = Random(f"judged {number}")  # noqa: S311 - a simulation is to be repeatable
    gates, topology = tree["gates"], tree["topology"]
    asks = False
    if "planner" in topology and rng.random() < 0.25:
        topology["plan_critic"], asks = JUDGE, True
    if rng.random() < 0.2:
        gates["grounding"], gates["grounding_critic"], asks = "citations", JUDGE, True
    if rng.random() < 0.3:
        drawn = rng.sample(CHECKS, rng.randrange(1, 4))
        gates["oracle"] = [{"name": f"own-{n}", "message": "It lacks something.", **one} for n, one in enumerate(drawn)]
        asks = asks or any("critic" in one for one in drawn)
        if any("tool" in one for one in drawn):
            tree["tools"].append({"name": PROBE})
    if rng.random() < 0.25:
        permits = {"name": "all", "text": "permit(principal, action, resource);"}
        gates["policies"] = [permits, *rng.sample(POLICIES, rng.randrange(3))]
    if rng.random() < 0.25:
        places = rng.sample(("fan_out", "fan_in", "finalize"), rng.randrange(1, 4))
        gates["guardrails"] = [{"places": places, "patterns": [UNLUCKY]}]
    by_itself = Random(f"unsafe arguments {number}")  # noqa: S311 - a simulation is to be repeatable
    if by_itself.random() < 0.15:
        gates["guardrails"] = [*(gates.get("guardrails") or ()), {"places": ["arguments"], "patterns": [BARRED]}]
    if asks:
        tools = [tree["tools"][0]["name"]] if tree["tools"] and tree["tools"][0]["name"] == "lookup" else []
        offered = tools if rng.random() < 0.3 else []
        tree["agents"].append({"name": JUDGE, "instructions": "You judge.", "model": "model", "tools": offered})
