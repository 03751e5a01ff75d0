"""Find the limit that a trip was about: its margin's name, and its numbers in a few words.

One row a mechanism that counts; what is judged and not counted has none. Money is micro-dollars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fabric.core.budgets.grants import FABRIC, SESSION, SESSION_TOKENS, WORKSPACE
from fabric.core.budgets.key_caps import KEY_DAY, KEY_MONTH
from fabric.core.events import TripRecord
from fabric.core.spec.policies.flow_policy import policy_limit
from fabric.core.spec.policies.loop_limits import LOOP_NAMES, detector_name
from fabric.core.values.taxonomy import Cause
from fabric.core.values.words import dollars, duration, words

ENDING = frozenset({"abort", "halt", "surface"})
"""Reactions that end a run."""
SHARED_BUDGETS: Mapping[str, str] = {
    FABRIC: "budget.fabric_hour_usd_micros",
    SESSION: "budget.session_usd_micros",
    SESSION_TOKENS: "budget.session_tokens",
    WORKSPACE: WORKSPACE,
    KEY_DAY: KEY_DAY,
    KEY_MONTH: KEY_MONTH,
}
"""Margins of budgets that several runs share, by the scope of the evidence."""
BUDGET_SCOPES: Mapping[str, str] = {
    "run": "budget.run_usd_micros",
    "stage": "budget.stage_usd_micros",
    "agent": "budget.agent_usd_micros",
    **SHARED_BUDGETS,
}
COUNTED: Mapping[str, str] = {
    "turns": "limits.turns",
    "hops": "limits.hops",
    "levels": "limits.recursion",
    "visits": "limits.max_node_visits",
    "agents alive": "limits.sub_agents_alive",
    "agents spawned": "limits.sub_agents_spawned",
    "events": "limits.run_events",
    "payload bytes": "limits.run_payload_bytes",
    "calls pending": "limits.pending_calls",
}
"""Margins of the hop limit and of the caps of a run, by the unit of their evidence."""
LOOPS: Mapping[str, str] = {
    LOOP_NAMES["identical_calls"].name: "loop_detector.identical_threshold",
    LOOP_NAMES["same_call_in_a_row"].name: "loop_detector.consecutive_threshold",
}
"""Margins of the loop detectors that a run's page counts at all times. The others are there once they have tripped."""
DEADLOCKS: Mapping[str, str] = {
    Cause.BRIEF_REPEATED: "Same brief again",
    Cause.SUPERVISOR_STUCK: "Supervisor's state again",
    Cause.HANDOFF_CYCLE: "Cycle of handoffs",
}
"""Margins of the deadlock monitor, by cause: there only once they have tripped."""


SPEND_RATE = "cost_velocity.usd_micros_per_minute"


@dataclass(frozen=True, slots=True)
class Fired:
    """A limit that tripped: how often, and what the latest trip was."""

    times: int
    record: TripRecord
    reaction: str

    @property
    def ended(self) -> bool:
        """True: the latest trip ended the run."""
        return self.reaction in ENDING

    @property
    def trip_words(self) -> str:
        """The latest trip's numbers: ``refused: $0.007485 needed, $0.0001 left``."""
        row = TRIPS.get(self.record.mechanism)
        return row[1](self.record) if row is not None else words(self.record.cause)


def margin_key(record: TripRecord) -> str:
    """Return the key of the margin that the trip was about; empty when there is none."""
    row = TRIPS.get(record.mechanism)
    return row[0](record) if row is not None else ""


def limit_title(record: TripRecord) -> str:
    """Return the title of the limit that the trip was about; empty where it was about none of the fabric's."""
    try:
        return policy_limit(margin_key(record)).title
    except KeyError:
        return ""


def _scope(record: TripRecord) -> str:
    return record.evidence.scope.partition(":")[0]


def _budget(record: TripRecord) -> str:
    if record.cause not in (Cause.BUDGET_GATE, Cause.KEY_CAP):
        return ""
    measure = BUDGET_SCOPES.get(_scope(record), "")
    return measure.replace("usd_micros", "tokens") if record.evidence.unit == "tokens" else measure


def _too_dear(record: TripRecord) -> str:
    seen = record.evidence
    needed = seen.details.get("worst_case")
    if not isinstance(needed, int) or seen.limit is None or seen.observed is None:
        return "a call was refused"
    left = max(0, int(seen.limit - (seen.observed - needed)))
    if seen.unit == "tokens":
        return f"refused: {needed:,} needed, {left:,} left"
    return f"refused: {dollars(needed)} needed, {dollars(left)} left"


def _too_fast(record: TripRecord) -> str:
    seen = record.evidence
    if seen.observed is None or seen.limit is None:
        return "too fast"
    in_tokens = seen.unit == "tokens"
    spent, most = (f"{int(n):,} tokens" if in_tokens else dollars(int(n)) for n in (seen.observed, seen.limit))
    if seen.window == "plan":
        return f"{spent} needed to finish the plan, {most} left"
    lasts = seen.details.get("seconds_left") if seen.details.get("against", "ceiling") == "ceiling" else None
    rest = f"; what was left would have lasted {duration(lasts)}" if isinstance(lasts, int | float) and lasts else ""
    return f"{spent} in {seen.window or 'all'}, {most} allowed{rest}"


def _retries(record: TripRecord) -> str:
    return "retry.stage_retries" if record.evidence.unit == "retries" else "retry.bucket"


def _no_retry(record: TripRecord) -> str:
    if record.evidence.unit == "retries":
        return "the stage had made all its retries"
    shared = record.evidence.details.get("bucket")
    return "no retry was left in the budget that runs share" if shared else "no retry token was left"


def _deadline(record: TripRecord) -> str:
    if record.cause is Cause.DEADLINE_NEAR:
        return "deadlines.stage_s" if _scope(record) == "stage" else "deadlines.run_s"
    return {Cause.RUN_DEADLINE: "deadlines.run_s", Cause.STAGE_DEADLINE: "deadlines.stage_s"}.get(record.cause, "")


def _too_late(record: TripRecord) -> str:
    seen = record.evidence
    if record.cause is not Cause.DEADLINE_NEAR or seen.observed is None or seen.limit is None:
        return "it has passed"
    return f"{duration(max(0, seen.observed))} left, {duration(seen.limit)} needed"


def _too_many(record: TripRecord) -> str:
    seen = record.evidence
    return f"{seen.observed:,} asked for, {seen.limit:,} allowed" if seen.observed and seen.limit else "refused"


def _loop(record: TripRecord) -> str:
    name = detector_name(record.evidence.details.get("detector", ""))
    return LOOPS.get(name, name)


def _describe_loop(record: TripRecord) -> str:
    seen = record.evidence
    return f"at {seen.observed} of {seen.limit} it was not executed" if seen.observed and seen.limit else "not executed"


def _came_back(record: TripRecord) -> str:
    seen = record.evidence
    return f"{seen.observed} times, {seen.limit} end it" if seen.observed and seen.limit else "it came back"


def _no_progress(record: TripRecord) -> str:
    seen = record.evidence
    return (
        f"{seen.observed} turn{'s' if seen.observed != 1 else ''} came to the same"
        if seen.observed
        else "nothing changed"
    )


def _deadlock(record: TripRecord) -> str:
    return DEADLOCKS.get(record.cause, "")


def _round(record: TripRecord) -> str:
    cycle = record.evidence.details.get("cycle")
    return " -> ".join(cycle) if isinstance(cycle, list) and cycle else "not passed on"


def _silent(record: TripRecord) -> str:
    return f"nothing happened for {duration(record.evidence.observed or 0)}"


TRIPS: Mapping[str, tuple[Callable[[TripRecord], str], Callable[[TripRecord], str]]] = {
    "budget": (_budget, _too_dear),
    "cost_velocity": (lambda record: SPEND_RATE, _too_fast),
    "deadline": (_deadline, _too_late),
    "hop_limit": (lambda record: COUNTED.get(record.evidence.unit, ""), _too_many),
    "run_caps": (
        lambda record: COUNTED.get(record.evidence.unit, "") if record.evidence.scope == "run" else "",
        _too_many,
    ),
    "retry_budget": (_retries, _no_retry),
    "loop_detector": (_loop, _describe_loop),
    "deadlock_monitor": (_deadlock, _round),
    "progress": (lambda record: "progress.agent_turns", _no_progress),
    "failure_signature": (lambda record: "failure_signature.limit", _came_back),
    "stall_watchdog": (lambda record: "stall_watchdog.after_s", _silent),
    "agent_loop": (
        lambda record: "limits.corrections_per_step" if record.evidence.unit == "corrections" else "",
        lambda record: "it stayed wrong",
    ),
}
"""``(key of the margin, its words)`` by mechanism."""
