"""What a retry that was scheduled rests on, judged again: the tokens that it leaves and that there was one, in the run's own bucket and in those that runs
share, and that there was time for it.
"""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.derivation.ledger import Ledger
from fabric.core.derivation.models import Pairs
from fabric.core.derivation.numbers import TAKES_NO_TOKEN, UNITS, US, Scheduled, needed_s, stage_of_retry
from fabric.core.endpoints import provider_scope
from fabric.core.flow import Stage
from fabric.core.grants import FABRIC, PROVIDER_BUCKET
from fabric.core.spec import FabricSpec
from fabric.core.topologies.slices import is_slice

NODE = "node"


def carried_out(ledger: Ledger, spec: FabricSpec, fact: Scheduled) -> Pairs:
    """By field, what a scheduled retry recorded and what follows. ``ledger``: before it."""
    before = ledger.numbers.tokens(spec.policy)
    policy = spec.policy.of_stage(Stage(stage_of_retry(fact)))
    source = NODE if isinstance(fact, ev.NodeRetryScheduled) else fact.source
    takes = 0 if source in TAKES_NO_TOKEN else UNITS
    before_in_stage = ledger.numbers.retries[stage_of_retry(fact)]
    first = not before_in_stage
    found: Pairs = {"tokens left": (fact.tokens_left, before - takes)}
    if takes and before < UNITS:
        found["a token"] = ("given", "given" if first else "refused")
    most = policy.retry.stage_retries
    if takes and most is not None:
        found["a retry of its stage"] = ("made", "made" if before_in_stage < most else "refused")
    if source != NODE:
        in_time = (ledger.numbers.deadline_at - fact.not_before) / US >= needed_s(policy, ledger.tier)
        found["time for it"] = ("enough", "enough" if in_time else "too little")
    return found | _shared(ledger, spec, fact, first=first)


def _shared(ledger: Ledger, spec: FabricSpec, fact: Scheduled, *, first: bool) -> Pairs:
    """Of each bucket that runs share: where it stood before it gave was a token above what it was left with, so that it had one or gave it on credit."""
    if not fact.buckets:
        return {}
    names = [FABRIC if one.bucket.startswith(f"{FABRIC}:") else one.bucket for one in fact.buckets]
    sizes = {FABRIC: spec.policy.retry.bucket}
    if target := _target(ledger, spec, fact):
        model = spec.model(target)
        sizes[provider_scope(model)] = PROVIDER_BUCKET
    if isinstance(fact, ev.NodeRetryScheduled) and names == [FABRIC]:
        sizes = {FABRIC: sizes[FABRIC]}  # A run of its own, or the engine, does it.
    found: Pairs = {"buckets": (", ".join(sorted(names)), ", ".join(sorted(sizes)))}
    for name, one in zip(names, fact.buckets, strict=True):
        size = sizes.get(name, 0) * UNITS
        had = one.level >= 0 or (first and one.level >= -size)
        found[f"a token of {name}"] = ("given", "given" if had and one.level <= size - UNITS else "refused")
    return found


def _target(ledger: Ledger, spec: FabricSpec, fact: Scheduled) -> str:
    """The model that is asked once more; empty: a tool is, or nobody."""
    issued = None if isinstance(fact, ev.NodeRetryScheduled) else ledger.issued.get(fact.command_id)
    if isinstance(fact, ev.NodeRetryScheduled):
        step = ledger.steps.get(fact.step_id)
        if step is None or not step.agent or is_slice(step.agent):  # A slice is a run of its own.
            return ""
        return spec.agent(step.agent).model
    if issued is None:
        return ""
    step = ledger.steps.get(issued.step_id)
    return step.model if step is not None and step.model and fact.source == "failover" else issued.target
