"""Notes protections that a fabric switches off or weakens so far that they stop nothing (S0 "Requirements at publication"). Its author may mean it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fabric.core.breaker.policy import SignalName
from fabric.core.loop_names import LOOP_NAMES
from fabric.core.loop_policy import Detector, LoopDetector
from fabric.core.policy import Progress
from fabric.core.spec import FabricSpec

NUMBERS: Mapping[str, Detector] = {
    "identical_threshold": "identical_calls",
    "consecutive_threshold": "same_call_in_a_row",
    "answer_threshold": "same_answer",
    "stale_threshold": "nothing_new_in_a_row",
    "long_threshold": "near_identical_calls_in_the_long_run",
    "failing_threshold": "nothing_but_errors",
    "said_threshold": "same_words_before_calls",
}
"""The number at which a detector trips, in turns or calls of one agent."""
SHORT_BRIEF_CHARS = 200
"""A brief of more characters is a long one."""

Note = tuple[str, str]


def weakened(spec: FabricSpec) -> Iterator[Note]:
    """``(path, sentence)`` for each protection that is off, or that no run can reach."""
    for rule in RULES:
        yield from rule(spec)


def _detectors(spec: FabricSpec) -> Iterator[Note]:
    rule, path = spec.policy.loop_detector, "policy.loop_detector"
    if rule.preset is not None:
        return
    off = [one.finds for name, one in LOOP_NAMES.items() if name not in rule.detectors]
    if off:
        yield f"{path}.detectors", f"leaves out {', '.join(off)}: nothing stops an agent that does that"
    turns = spec.policy.limits.turns
    for field, detector in NUMBERS.items():
        if detector in rule.detectors and getattr(rule, field) > max(turns, _default(field)):
            yield (
                f"{path}.{field}",
                f"is above the {turns} turns that an agent has, so {LOOP_NAMES[detector].finds} never stops it",
            )


def _default(field: str) -> int:
    default: int = LoopDetector.model_fields[field].default
    return default


def _progress(spec: FabricSpec) -> Iterator[Note]:
    turns, limit = spec.policy.progress.agent_turns, spec.policy.limits.turns
    if turns > max(limit, Progress().agent_turns):
        yield "policy.progress.agent_turns", f"is above the {limit} turns that an agent has, so no standstill stops it"


def _deadlocks(spec: FabricSpec) -> Iterator[Note]:
    rule, path = spec.policy.deadlock_monitor, "policy.deadlock_monitor"
    if rule.similarity == 1.0:
        yield f"{path}.similarity", "is 1: only briefs of exactly the same words count as one"
    if rule.brief_chars > SHORT_BRIEF_CHARS:
        yield f"{path}.brief_chars", f"is {rule.brief_chars}: shorter briefs may be given out again and again"


def _velocity(spec: FabricSpec) -> Iterator[Note]:
    rule, path = spec.policy.cost_velocity, "policy.cost_velocity"
    if not rule.factor:
        yield f"{path}.factor", "is 0: nobody looks how fast money goes out"
    elif not rule.times_usual and rule.usd_micros_per_minute is None:
        yield f"{path}.times_usual", "is 0, and no rate is given: nobody looks how fast one run spends"


def _confidence(spec: FabricSpec) -> Iterator[Note]:
    if not spec.policy.tau and spec.topology.critic:
        yield "policy.tau", "is 0: a result passes however unsure its critic is"


def _repeated_calls(spec: FabricSpec) -> Iterator[Note]:
    """Breakers that count repeated calls: the loop detector stops an agent before they do."""
    rule = spec.policy.loop_detector
    if rule.preset is not None:
        return
    for n, breaker in enumerate(spec.policy.breakers):
        for m, signal in enumerate(breaker.signals):
            if SignalName.IDENTICAL_CALL not in signal.names:
                continue
            path = f"policy.breakers.{n}.signals.{m}.threshold"
            if "same_call_in_a_row" in rule.detectors and signal.threshold >= rule.consecutive_threshold:
                yield (
                    path,
                    f"is never reached: the loop detector stops an agent at {rule.consecutive_threshold} equal calls in a row",
                )
            elif "identical_calls" in rule.detectors and signal.threshold >= rule.identical_threshold:
                yield (
                    path,
                    f"counts only calls whose results differ: at {rule.identical_threshold} equal calls with one result the loop detector comes first",
                )


RULES: tuple[Callable[[FabricSpec], Iterator[Note]], ...] = (
    _detectors,
    _progress,
    _deadlocks,
    _velocity,
    _confidence,
    _repeated_calls,
)
"""Each looks at one protection."""
OF_STAGES = (_detectors, _progress, _deadlocks)
"""Those that are asked of each stage that differs, too."""
