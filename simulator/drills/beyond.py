"""What a judge does not know: fabrics whose circuit breakers are moved by the failure itself in a way that no promise is computed for. A sentence each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fabric.core.breaker.policy import BreakerScope, SignalName
from fabric.core.decision_table import Reaction
from fabric.core.flow import Stage
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType
from simulator.drills.bounds import NotComputed
from simulator.drills.layers import Option

OF_OTHERS = frozenset({BreakerScope.PROVIDER, BreakerScope.FABRIC})
"""Scopes whose breakers stand before those who plan, too."""
HANGS_ON_IT = frozenset({Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.SAFE_FALLBACK})
"""Reactions that apply to what a breaker refuses otherwise than to what failed."""


def _thresholds(spec: FabricSpec, name: SignalName, scopes: Iterable[BreakerScope] = BreakerScope) -> Iterator[float]:
    """At which such a signal opens a breaker of these scopes."""
    for breaker in spec.policy.breakers:
        if breaker.scope in scopes:
            yield from (signal.threshold for signal in breaker.signals if name in signal.names)


def _of_a_loop(spec: FabricSpec, rungs: tuple[Option, ...]) -> str:
    detector = spec.policy.of_stage(Stage.FAN_OUT).loop_detector
    stops_at = (
        detector.identical_threshold if detector.preset is None and "identical_calls" in detector.detectors else None
    )
    found = list(_thresholds(spec, SignalName.IDENTICAL_CALL))
    if not found or (stops_at is not None and min(found) >= stops_at):
        return ""
    return "a circuit breaker opens by the same calls that the loop detector stops, and may come first"


def _of_searching(spec: FabricSpec, rungs: tuple[Option, ...]) -> str:
    known = all(threshold > 1 for threshold in _thresholds(spec, SignalName.IDENTICAL_CALL))
    return "" if known else "a circuit breaker opens by a single call"


def _of_answers(spec: FabricSpec, rungs: tuple[Option, ...]) -> str:
    """Where nobody looks at citations, what is wrong with the answer is its form, and a breaker may count that."""
    if spec.gates.citations != "off":
        return ""
    most = spec.policy.of_stage(Stage.FINALIZE).limits.corrections_per_step + 1
    plans = spec.topology.planner is not None and any(rung.reaction is Reaction.REPLAN for rung in rungs)
    if plans and any(one <= most for one in _thresholds(spec, SignalName.SCHEMA_INVALID, OF_OTHERS)):
        return "a circuit breaker that answers without the promised form open stands before those who plan, too"
    hangs = any(rung.reaction in HANGS_ON_IT for rung in rungs[:-1])
    if hangs and any(one <= most for one in _thresholds(spec, SignalName.SCHEMA_INVALID)):
        return "a circuit breaker opens by answers without the promised form, and a rung of the cell hangs on it"
    return ""


UNKNOWN: Mapping[FailureType, Callable[[FabricSpec, tuple[Option, ...]], str]] = {
    FailureType.TOOL_LOOP: _of_a_loop,
    FailureType.NO_PROGRESS: _of_searching,
    FailureType.SCHEMA_GROUNDING: _of_answers,
}
"""By failure, what stands in the way of a promise; empty: nothing. A failure that is not here moves no breaker but as ``shields`` knows it."""


def known(spec: FabricSpec, failure: FailureType, rungs: tuple[Option, ...]) -> None:
    """NotComputed where a promise for this failure is beyond this computation."""
    told = UNKNOWN.get(failure)
    if told is not None and (why := told(spec, rungs)):
        raise NotComputed(f"policy.breakers: {why}")
