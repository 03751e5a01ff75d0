"""Checks retries of nodes and shared tokens in the simulator. Has planted bugs and draws for the swarm too.

They are counted anew from the facts alone: in the store's answers, and in the journals (docs/specification/retries.md).
Draws give fabrics retry layers: preset ``fabro`` with its options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from fabric.core.budgets.grants import PROVIDER_BUCKET
from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.ladders import ladder
from fabric.core.reactions import node_retries
from fabric.core.spec.endpoints import provider_scope
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.policies.retries import CAP_S, JITTER, PresetName
from fabric.core.spec.retry_layers import ROUTED
from fabric.core.state.run import Run, Step
from fabric.core.topologies import supervisor
from fabric.core.values.fingerprint import decode
from fabric.core.values.flow import ANSWERED, Stage
from fabric.core.values.taxonomy import CLASSIFY
from fabric.core.values.units import JSON, US
from fabric.runtime.ports.journal import Clock
from fabric.runtime.ports.spending import BucketStore, TokenAsk, TokensLeft
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check


@register_check("node_retry_scheduled")
def node_retries_in_bounds(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A node runs again by a decision, within its stage's limit, after its preset's wait, for transient failures."""
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


@register_check("step_opened")
def nodes_wait(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A node runs again at its instant, and not before."""
    branch = f"{fact.step_id.rpartition('.r')[0]}.r{fact.round - 1}"
    due = seen.node_not_before.pop(branch, None)
    if due is None:
        return ""
    if event.at < due:
        return f"it runs {due - event.at} us before its time"
    return "its wait is not over" if branch in after.timers else ""


@register_check("call_issued", "model_answered", "tool_answered", "input_requested")
def waiting_nodes_make_no_calls(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A step whose node waits makes no call and gets no answer."""
    return f"{fact.step_id} waits to run again" if fact.step_id in seen.node_not_before else ""


@register_check("replanned", "step_failed")
def waits_end(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """An ended step waits for nothing."""
    if fact.kind == "replanned":
        seen.node_not_before.clear()
    else:
        seen.node_not_before.pop(fact.step_id, None)
    return f"{fact.step_id} is over and waits" if getattr(fact, "step_id", "") in after.timers else ""


@register_check("step_failed")
def gaps_are_allowed(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A gap is accepted only where the fabric allows it, by a decision, after all retries of its branch."""
    if not fact.partial:
        return ""
    stage, decision = fact.step_id.partition(".")[0], seen.decided
    layers = seen.compiled.spec.policy.retry_layers
    if stage != "fan_out" or not layers.layered or not layers.node(stage).allow_partial:
        return "its fabric accepts no gaps there"
    said = decision is not None and (decision.reaction, decision.step_id) == ("accept_partial", fact.step_id)
    return "" if said and CLASSIFY[fact.cause].retried else f"no decision about {fact.cause} says so"


@register_check("stage_left")
def nothing_is_no_part(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A fan-out that passes with accepted gaps has a result, and lacks only those gaps."""
    steps = [step for step in seen.run.steps.values() if step.stage == "fan_out"]
    gaps = [step for step in steps if step.partial]
    if fact.stage != "fan_out" or fact.outcome != "passed" or not gaps:
        return ""
    if seen.run.family.lineage is not None and seen.run.family.lineage.purpose == "slice":
        return ""  # It judges nothing: its parent decides about its branches' results and final failures.
    # A failed turn that a rule led on from leaves no gap: the next speaker took its place.
    missing = [step.id for step in steps if step.status == "failed" and not (step.partial or step.routed)]
    if missing:
        return f"{', '.join(missing)} failed for good"
    return "" if any(step.status == "done" for step in steps) else "no branch brought anything"


@register_check("child_answered", "replanned")
def gaps_of_slices(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A slice's gap is accepted only if the fabric allows it and the brief is missing."""
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


@register_check("content_kept")
def gaps_of_forks(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the origin's accepted gaps, as far as a fork keeps its fan-out."""
    content = decode(seen.content)
    if fact.what == Stage.FAN_OUT:
        seen.done_without.update(part["branch"] for part in content["output"] if part.get("accepted"))
    for part in content.get("parts", ()):
        seen.done_without.update([part["brief"]] if part.get("accepted") else ())
    return ""


@register_check("run_ended")
def partial_success_is_said(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run reports partial success exactly if it completed without some branches. A restart drops earlier turns."""
    if fact.state not in ANSWERED or fact.reaction == "safe_fallback":
        return ""
    gaps = bool(seen.done_without) or any(
        step.partial and step.branch >= seen.anew_from for step in seen.run.steps.values()
    )
    return "" if fact.partial == gaps else f"it says partial {fact.partial}, and there are gaps: {gaps}"


TOKEN = 1_000
"""A token in thousandths."""


# -- at the store ------------------------------------------------------------------------------------------------------


class TokenWatch:
    """A ``ports.spending.BucketStore`` that counts every answer anew. ``found`` is called with the name of a violated
    rule.
    """

    def __init__(self, store: BucketStore, clock: Clock, found: Callable[[str, str], None]) -> None:
        self._store, self._clock, self._found = store, clock, found
        self.given: Counter[str] = Counter()
        self._earned: Counter[str] = Counter()
        self._credited: dict[str, int] = {}

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool) -> TokensLeft:
        """See ``ports.spending.BucketStore``."""
        self._earns(asks)
        left = self._store.retry(asks, first_in_stage=first_in_stage)
        for ask in asks if left.given else ():
            self._judge(ask, left.levels[ask.scope], first_in_stage)
        return left

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """See ``ports.spending.BucketStore``."""
        self._earns(asks)
        self._store.earn(asks)

    def _earns(self, asks: Sequence[TokenAsk]) -> None:
        self._earned.update({ask.scope: ask.earned for ask in asks})

    def _judge(self, ask: TokenAsk, level: int, first_in_stage: bool) -> None:
        self.given[ask.scope] += 1
        given, most = self.given[ask.scope] * TOKEN, 2 * ask.size + self._earned[ask.scope]
        if given > most or level < -ask.size:
            said = f"{ask.scope} gave {given} of at most {most} thousandths and stands at {level}"
            self._found("buckets_are_kept", said)
        if level >= 0:
            return
        now, before = self._clock.now(), self._credited.get(ask.scope)
        if not first_in_stage or (before is not None and now - before < US):
            said = f"{ask.scope} gave on credit at {now} and at {before}, first in its stage: {first_in_stage}"
            self._found("credit_once_a_second", said)
        self._credited[ask.scope] = now


# -- with each event ---------------------------------------------------------------------------------------------------


@register_check("call_issued")
def first_attempts_of_buckets(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the shared buckets that a first attempt earns for."""
    if fact.attempt == 1:
        seen.earning.update(_buckets(seen, fact))
    return ""


@register_check("retry_scheduled", "node_retry_scheduled")
def retries_take_shared_tokens(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Each retry takes a token of its fabric's and its provider's bucket.

    All retries together are at most twice a bucket and a share of the first attempts.
    """
    retry = seen.compiled.spec.policy.retry
    if not retry.shared or (fact.kind == "retry_scheduled" and fact.source in ("breaker", "named")):
        return ""
    wanted = _wanted_buckets(seen, fact)
    found = {one.bucket for one in fact.buckets}
    if found != wanted:
        return f"it took tokens of {sorted(found)}, and should have of {sorted(wanted)}"
    seen.retried.update(wanted)
    for bucket in sorted(wanted):
        size = retry.bucket if bucket.startswith("fabric:") else PROVIDER_BUCKET
        retries = sum(one.retried[bucket] for one in seen.family.values())
        most = 2 * size + retry.earn * sum(one.earning[bucket] for one in seen.family.values())
        if retries > most + 1e-9:
            return f"retry {retries} of {bucket}, at most {most:g}"
    return ""


def _wanted_buckets(seen: WatchedRun, fact: Any) -> set[str]:
    """Return the buckets of a retry. They are those of its call, or of the first model of a node that runs again."""
    if fact.kind == "retry_scheduled":
        return _buckets(seen, seen.run.pending[fact.command_id].issued)
    spec, step = seen.compiled.spec, seen.run.steps[fact.step_id]
    agent = next((one for one in spec.agents if one.name == step.agent and step.status != "delegated"), None)
    provider = set() if agent is None else {provider_scope(spec.model(agent.model))}
    return {f"fabric:{seen.fabric_id}", *provider}


def _buckets(seen: WatchedRun, issued: Any) -> set[str]:
    spec = seen.compiled.spec
    provider = {provider_scope(spec.model(issued.target))} if issued.call == "model" else set()
    return {f"fabric:{seen.fabric_id}", *provider}


def _node_wait_skipped() -> AbstractContextManager[None]:
    """A node runs again without its wait."""

    def due(work: Work) -> Step | None:
        return next((step for key, step in work.run.steps.items() if key in work.run.timers), None)

    return planting.attribute(node_retries, "due", due)


def _node_retries_not_counted() -> AbstractContextManager[None]:
    """Each activation of a node counts its attempts anew."""
    kept = ladder._scope

    def scope(failure: Any, per: Any) -> str:
        return f"step:{failure.step_id}" if per == "node" and failure.step_id else kept(failure, per)

    return planting.attribute(ladder, "_scope", scope)


def _nothing_is_a_part() -> AbstractContextManager[None]:
    """A fan-out with nothing but accepted gaps goes on."""
    kept = supervisor._count_needed

    def count_needed(policy: Any, branches: int, accepted: int) -> int:
        return branches - accepted if policy.mode == "all" else kept(policy, branches, accepted)

    return planting.attribute(supervisor, "_count_needed", count_needed)


LAYER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "node_wait_skipped": _node_wait_skipped,
    "node_retries_not_counted": _node_retries_not_counted,
    "nothing_is_a_part": _nothing_is_a_part,
}
"""Plants by name."""

SHARE = 0.3
OWN_WAITS = ("base_s", "factor", "cap_s")


def draw_layers(tree: JSON, number: int) -> None:
    """Give some fabrics retry layers of calls, nodes, edges and targets, and fan-outs that go on with gaps."""
    rng = Random(f"layers {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() >= SHARE:
        return
    for row in tree["decision_table"].values():
        for cell in row.values():
            cell["rungs"] = [
                rung for rung in cell["rungs"] if rung["reaction"] not in (Reaction.RETRY, Reaction.FALLBACK_MODEL)
            ]
    tree["policy"]["retry"] = {
        name: held for name, held in tree["policy"].get("retry", {}).items() if name not in OWN_WAITS
    }
    ways = [way for way, role in (("replan", "planner"), ("handover", "handover")) if role in tree["topology"]]
    told: JSON = {"preset": "fabro", "stages": {str(stage): _node(rng, ways) for stage in Stage if rng.random() < 0.7}}
    told |= _ways(rng, ways)
    if rng.random() < 0.5:
        told["max_retries"] = rng.randrange(3)
    if rng.random() < 0.6 and _takes_gaps(tree["policy"]):
        told["stages"].setdefault("fan_out", {})["allow_partial"] = True
    tree["policy"]["retry_layers"] = told


def _takes_gaps(policy: JSON) -> bool:
    return bool(policy.get("fan_in", {}).get("mode", "all") == "all")


def _node(rng: Random, ways: list[str]) -> JSON:
    node = _ways(rng, ways)
    if rng.random() < 0.6:
        node["retry_policy"] = str(rng.choice(list(PresetName)))
    if rng.random() < 0.4:
        node["max_retries"] = rng.randrange(4)
    return node


def _ways(rng: Random, ways: list[str]) -> JSON:
    found: JSON = {}
    if not ways:
        return found
    if rng.random() < 0.4:
        classes = (None, *sorted(ROUTED))
        found["edges"] = [
            {"failure_class": rng.choice(classes), "to": rng.choice(ways)} for _ in range(1 + rng.randrange(2))
        ]
    for name in ("retry_target", "fallback_retry_target"):
        if rng.random() < 0.3:
            found[name] = rng.choice(ways)
    return found


def without_ways(policy: JSON) -> JSON:
    """Return the policy of a team without planner and superior: its nodes lead nowhere else."""
    told = policy.get("retry_layers")
    if told is None:
        return policy
    stages = {stage: _no_ways(node) for stage, node in told["stages"].items()}
    return {**policy, "retry_layers": {**_no_ways(told), "stages": stages}}


def _no_ways(said: JSON) -> JSON:
    return {name: held for name, held in said.items() if name not in WAYS_OUT}


WAYS_OUT = ("edges", "retry_target", "fallback_retry_target")
