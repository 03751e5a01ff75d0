"""Loop detectors A, B and D over one agent step (S0 "Loop Detector", S1 "Tool call loop detection"; semantics.md 4).

Stops, before the call that reaches the threshold is executed: A, the same (tool, arguments) three times in five calls with equal masked results; B,
periods 2 and 3 repeated twice at the end of the last 10 turns, with equal results; D, the same call for the sixth time in a row, whatever its
results. Only what the model newly proposed counts: blocked calls, retries and replays do not. A result that is not there yet counts as equal.
Does not stop: paraphrases (C, later), and tools declared as polling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric.core.frozen import replace, value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.policy import LoopDetector as Config
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "loop_detector"
SCOPE = Scope.STEP
APPLIES_TO: frozenset[ProposalKind] = frozenset({"tool"})
OBSERVES: frozenset[str] = frozenset({"call_issued", "tool_answered", "call_deduplicated"})
PERIODS = (2, 3)
KEPT = 160
"""Calls remembered: ten turns of sixteen calls, so that a step of any length costs the same."""


@value()
class Seen:
    """One executed call."""

    tool: str
    args_hash: str
    turn: int
    call_id: str
    masked: str = ""
    """Fingerprint of the masked result; empty while there is none."""

    @property
    def call(self) -> tuple[str, str]:
        """What makes two calls the same."""
        return (self.tool, self.args_hash)


@value()
class State:
    """The step's window, oldest first."""

    calls: tuple[Seen, ...] = ()


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.loop_detector


def observe(state: State, event: Event) -> State:
    """Adds a newly issued tool call, and later its result."""
    fact: Any = event.fact
    if fact.kind == "call_issued":
        if fact.call != "tool" or fact.attempt > 1:
            return state
        seen = Seen(fact.target, fact.args_hash, fact.turn, fact.call_id)
        return replace(state, calls=(*state.calls, seen)[-KEPT:])
    if fact.kind == "call_deduplicated":
        seen = Seen(fact.tool, fact.args_hash, fact.turn, fact.call_id, fact.masked_hash)
        return replace(state, calls=(*state.calls, seen)[-KEPT:])
    calls = list(state.calls)
    for n in range(len(calls) - 1, -1, -1):
        if calls[n].call_id == fact.call_id and not calls[n].masked:
            calls[n] = replace(calls[n], masked=fact.masked_hash)
            break
    return replace(state, calls=tuple(calls))


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Judges one proposed call: A, then D, then B."""
    if proposal.polling:
        return PASS
    call = (proposal.target, proposal.args_hash)
    return (
        _identical(config, state, call)
        or _consecutive(config, state, call)
        or _periodic(config, state, proposal)
        or PASS
    )


def _equal(results: Sequence[str]) -> bool:
    return len({result for result in results if result}) <= 1


def _trip(
    detector: str, limit: int, observed: int, window: str, call: tuple[str, str], what: str, cycle: list[str]
) -> Trip:
    details: dict[str, Any] = {"detector": detector, "tool": call[0], "args_hash": call[1], "cycle": cycle}
    evidence = Evidence(limit, observed, "calls", "step", window, details)
    advice = f"This call was not executed: {what}. Its result will not change. Use what you have, or do something else."
    return Trip(NAME, Cause.LOOP_DETECTED, evidence, f"loop detector {detector}: {what}", advice)


def _identical(config: Config, state: State, call: tuple[str, str]) -> Trip | None:
    recent = [seen for seen in state.calls[-(config.identical_window - 1) :] if seen.call == call]
    observed = len(recent) + 1
    if observed < config.identical_threshold or not _equal([seen.masked for seen in recent]):
        return None
    what = f"{call[0]} with the same arguments for the {_nth(observed)} time in {config.identical_window} calls, same results"
    return _trip("A", config.identical_threshold, observed, f"{config.identical_window} calls", call, what, [call[0]])


def _consecutive(config: Config, state: State, call: tuple[str, str]) -> Trip | None:
    streak = 1
    for seen in reversed(state.calls):
        if seen.call != call:
            break
        streak += 1
    if streak < config.consecutive_threshold:
        return None
    what = f"{call[0]} with the same arguments for the {_nth(streak)} time in a row"
    return _trip("D", config.consecutive_threshold, streak, "in a row", call, what, [call[0]])


def _periodic(config: Config, state: State, proposal: Proposal) -> Trip | None:
    turns = _turns(state, proposal)[-config.period_window :]
    call = (proposal.target, proposal.args_hash)
    for period in PERIODS:
        needed = period * config.period_repeats
        if len(turns) < needed:
            continue
        tail = turns[-needed:]
        groups = [tail[n : n + period] for n in range(0, needed, period)]
        first = [signature for signature, _ in groups[0]]
        if len(set(first)) < 2:
            continue
        same_calls = all([signature for signature, _ in group] == first for group in groups)
        if same_calls and all(_same_results([group[n][1] for group in groups]) for n in range(period)):
            cycle = [tool for signature in first for tool, _ in signature]
            what = f"the cycle {' -> '.join(cycle)} repeats for the {_nth(config.period_repeats)} time, same results"
            return _trip(
                "B", config.period_repeats, config.period_repeats, f"{config.period_window} turns", call, what, cycle
            )
    return None


TurnSignature = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]


def _turns(state: State, proposal: Proposal) -> list[TurnSignature]:
    """Executed turns as ``(calls, masked results)``, the proposed one last without results."""
    turns: list[TurnSignature] = []
    current: list[Seen] = []
    for seen in state.calls:
        if current and seen.turn != current[0].turn:
            turns.append((tuple(s.call for s in current), tuple(s.masked for s in current)))
            current = []
        current.append(seen)
    if current and current[0].turn != proposal.turn:
        turns.append((tuple(s.call for s in current), tuple(s.masked for s in current)))
    turns.append((proposal.wave, ("",) * len(proposal.wave)))
    return turns


def _same_results(results: list[tuple[str, ...]]) -> bool:
    return all(_equal(column) for column in zip(*results, strict=False))


def _nth(n: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(n, f"{n}th")
