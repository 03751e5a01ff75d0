"""What must be true of retry tokens that runs share (semantics.md 4 "retry budget"): at the store with each answer, and in the journals with each retry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fabric.core.endpoints import provider_scope
from fabric.core.envelope import Event
from fabric.core.grants import PROVIDER_BUCKET
from fabric.core.run import Run
from fabric.runtime.grant_ports import BucketStore, TokenAsk, TokensLeft
from fabric.runtime.ports import Clock
from simulator.kernel.seen import Seen, on

TOKEN = 1_000
"""Thousandths."""
SECOND_US = 1_000_000

# -- at the store ------------------------------------------------------------------------------------------------------


class TokenWatch:
    """A ``grant_ports.BucketStore`` whose every answer is counted anew. ``found`` is told what was broken, by name."""

    def __init__(self, store: BucketStore, clock: Clock, found: Callable[[str, str], None]) -> None:
        self._store, self._clock, self._found = store, clock, found
        self.given: Counter[str] = Counter()
        self._earned: Counter[str] = Counter()
        self._credited: dict[str, int] = {}

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool) -> TokensLeft:
        """See ``grant_ports.BucketStore``."""
        self._earns(asks)
        left = self._store.retry(asks, first_in_stage=first_in_stage)
        for ask in asks if left.given else ():
            self._judge(ask, left.levels[ask.scope], first_in_stage)
        return left

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """See ``grant_ports.BucketStore``."""
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
        if not first_in_stage or (before is not None and now - before < SECOND_US):
            said = f"{ask.scope} gave on credit at {now} and at {before}, first in its stage: {first_in_stage}"
            self._found("credit_once_a_second", said)
        self._credited[ask.scope] = now


# -- with each event ---------------------------------------------------------------------------------------------------


@on("call_issued")
def first_attempts_of_buckets(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Notes which shared buckets a first attempt earns for."""
    if fact.attempt == 1:
        seen.earning.update(_buckets(seen, fact))
    return ""


@on("retry_scheduled", "node_retry_scheduled")
def retries_take_shared_tokens(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Each retry has taken a token of its fabric's bucket and of its provider's; all runs' together are at most twice a bucket and a share of their
    first attempts.
    """
    retry = seen.compiled.spec.policy.retry
    if not retry.shared or (fact.kind == "retry_scheduled" and fact.source in ("breaker", "named")):
        return ""
    wanted = _wanted(seen, fact)
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


def _wanted(seen: Seen, fact: Any) -> set[str]:
    """The buckets that a retry takes a token of: its call's, or of a node that runs again those of the model that it begins with."""
    if fact.kind == "retry_scheduled":
        return _buckets(seen, seen.run.pending[fact.command_id].issued)
    spec, step = seen.compiled.spec, seen.run.steps[fact.step_id]
    agent = next((one for one in spec.agents if one.name == step.agent and step.status != "delegated"), None)
    provider = set() if agent is None else {provider_scope(spec.model(agent.model))}
    return {f"fabric:{seen.fabric_id}", *provider}


def _buckets(seen: Seen, issued: Any) -> set[str]:
    spec = seen.compiled.spec
    provider = {provider_scope(spec.model(issued.target))} if issued.call == "model" else set()
    return {f"fabric:{seen.fabric_id}", *provider}
