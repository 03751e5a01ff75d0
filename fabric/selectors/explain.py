"""Why a run did what it did: each decision in order, with its evidence, its cell, what the other tiers would have done and what followed.

Read from the journal's headers alone, so that it says the same after contents were erased; and each decision is derived again from them
(``fabric.core.derivation``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

from fabric.core.actor import Actor
from fabric.core.context import Compiled
from fabric.core.decision_table import Reaction, Rung
from fabric.core.derivation import Derived, Rules, derived_all
from fabric.core.derivation.walk import Otherwise
from fabric.core.envelope import Event as Journaled
from fabric.core.envelope import from_row
from fabric.core.events import LineagePinned, ReactionDecided, RunForked, TripRecord
from fabric.core.retry_layers import layer_of, stage_of
from fabric.core.taxonomy import CLASSIFY, MECHANISM_CLASSES, Tier
from fabric.core.words import dollars, words
from fabric.models import Event
from fabric.selectors.contents import UNREAD_LINE, line_for
from fabric.selectors.errors import Refused
from fabric.selectors.moments import FOLD_MAX
from fabric.selectors.run_events import EventRow, event_row, step_agents
from fabric.selectors.runs import RunView, run_get
from fabric.selectors.story_trips import TRIPS

RungState = Literal["taken", "spent", "skipped", "ahead"]
CONSEQUENCES = frozenset(
    {
        *(
            "retry_scheduled",
            "node_retry_scheduled",
            "message_injected",
            "tools_stripped",
            "model_changed",
            "alert_raised",
            "step_failed",
        ),
        *("replanned", "unwinding_started", "unwinding_finished", "compensation_stuck", "escalation_opened"),
        *(
            "escalation_approved",
            "escalation_edited",
            "escalation_decided",
            "escalation_withdrawn",
            "output_edited",
            "guidance_given",
            "cap_raised",
            "budget_raised",
            "run_ending",
            "run_ended",
            "run_quarantined",
        ),
    }
)
"""Kinds that say what a decision came to; the test of this module knows of every other kind that it does not."""
ANSWERS = frozenset({"escalation_decided", "escalation_withdrawn"})
"""Kinds that end a question. What a person wrote stands right behind their answer."""
FOLLOWED_MAX = 8
USAGE_PROBLEMS_MAX = 20
FOLLOWED_WITHIN = 500
"""How far after one decision is looked for what followed, where it is asked for alone."""
_COLUMNS = ("seq", "kind", "version", "at", "header", "payload_hash", "hash")


@dataclass(frozen=True, slots=True)
class ExplainedRung:
    """One rung of the cell."""

    reaction: str
    times: int | None
    state: RungState
    why: str = ""
    """Why it was passed over."""
    derived: bool = True
    """False: the reason is as recorded, since its numbers are not in the journal."""
    layer: str = ""
    """The retry layer that it belongs to; empty: the fabric has none."""


@dataclass(frozen=True, slots=True)
class Followed:
    """One event that followed from a decision."""

    seq: int
    at: int
    kind: str
    says: str


@dataclass(frozen=True, slots=True)
class ElseWhere:
    """What another tier would have done at the same count."""

    tier: str
    reaction: str
    rung: int
    rungs: tuple[Rung, ...]


OF_NO_CLASS = (
    "MAST sorts failures of agents that work together. A provider or a tool that fails by itself is in none of its classes: "
    "retries, another model and the breaker answer it, by its error class"
)
"""The reason why a failure has no MAST class, as a sentence without its end."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One decision."""

    derived: Derived
    evidence: str
    """The numbers in a sentence."""
    classes: tuple[str, ...]
    """The MAST classes that the mechanism answers; empty for what no mechanism judged."""
    error_class: str
    """The class of the error, of which there is one whoever judged it."""
    rungs: tuple[ExplainedRung, ...]
    """Empty for a direct reaction, and where the table is not at hand."""
    others: tuple[ElseWhere, ...]
    followed: tuple[Followed, ...]


@dataclass(frozen=True, slots=True)
class RunExplained:
    """All decisions of a run."""

    run: RunView
    decisions: tuple[Explained, ...]
    usage_problems: tuple[Followed, ...] = ()
    """The first answers whose count of tokens is not believed: the reason, and the charge."""

    @property
    def derives(self) -> bool:
        """Whether every decision follows from the journal as it was recorded."""
        return all(one.derived.verdict == "equal" for one in self.decisions)


Compiles = Callable[[str, str, int, Tier], Compiled]
"""Gives a revision by its row's id as the runs of a tier see it under a version of a workspace's policy."""


def run_explain(actor: Actor, run_id: str, compiled: Compiles) -> RunExplained:
    """Every decision of a run, under the policy that it went by. Refused not_found; conflict for a journal that cannot be read."""
    view = run_get(actor, run_id)
    rows, events = _journal(view)
    revision = partial(_under, compiled, view)
    derived = derived_all(events, Tier(view.tier), partial(rules_at, revision))
    topology = _topology(events)
    doubted = (row for row in rows if row.fact.get("usage_problem"))
    problems = tuple(
        Followed(row.seq, row.at, row.kind, row.fact["usage_problem"]) for row in islice(doubted, USAGE_PROBLEMS_MAX)
    )
    shown = (_for_reader(one, rows, reads=view.reads) for one in derived)
    explained = tuple(_explained(one, rows, _within(revision(one.policy), topology)) for one in shown)
    return RunExplained(view, explained, problems)


def decision_explained(actor: Actor, run_id: str, seq: int, compiled: Compiles) -> Explained | None:
    """One decision; None where it lies too far in to be derived for a page, or the journal up to it cannot be read. Refused not_found."""
    view = run_get(actor, run_id)
    if seq > FOLD_MAX:
        return None
    try:
        rows, events = _journal(view, upto=seq + FOLLOWED_WITHIN)
    except Refused:
        return None
    revision = partial(_under, compiled, view)
    derived = derived_all(events, Tier(view.tier), partial(rules_at, revision))
    explained = (
        _explained(_for_reader(one, rows, reads=view.reads), rows, _within(revision(one.policy), _topology(events)))
        for one in derived
        if one.seq == seq
    )
    return next(explained, None)


def _under(compiled: Compiles, view: RunView, number: int) -> Compiled:
    return compiled(view.revision_id, view.workspace_id, number, view.tier)


def _topology(events: Iterable[Journaled]) -> str:
    """The worker whose topology the run runs whose events those are."""
    return next((event.fact.topology for event in events if isinstance(event.fact, LineagePinned | RunForked)), "")


def _within(revision: Compiled, topology: str) -> Compiled:
    return revision.within(topology) if topology in revision.nested else revision


def rules_at(revision: Callable[[int], Compiled], topology: str, version: str, policy: int) -> Rules | None:
    """The revision's rules as a run sees them that runs this worker's topology; None where their table is another one. ``revision``: takes a policy's version."""
    held = revision(policy)
    known = not topology or topology in held.nested
    rules = Rules.of(held, topology) if known else None
    return rules if rules is not None and rules.version == version else None


def _journal(view: RunView, upto: int | None = None) -> tuple[list[EventRow], list[Journaled]]:
    agents = step_agents(view.id, view.last_seq)
    rows: list[EventRow] = []
    events: list[Journaled] = []
    last = view.last_seq if upto is None else min(upto, view.last_seq)
    for stored in Event.objects.filter(run_id=view.id, seq__lte=last).order_by("seq").values_list(*_COLUMNS):
        rows.append(event_row(agents, *stored, reads=view.reads))
        seq, kind, version = stored[:3]
        try:
            if seq != len(rows):
                raise ValueError(f"event {len(rows)} is missing")
            events.append(from_row(seq, kind, version, bytes(stored[4])))
        except (ValueError, LookupError, TypeError) as error:
            message = f"event {len(rows)} of run {view.id} cannot be read ({error}), so nothing after it can be derived"
            raise Refused(f"{message}; `manage.py replay_run {view.id}` says what is wrong", code="conflict") from None
    return rows, events


def _for_reader(one: Derived, rows: Sequence[EventRow], *, reads: bool) -> Derived:
    """A decision as who looks may read it: derived from what is journaled, told without its sentences."""
    if reads:
        return one
    row = rows[one.seq - 1]
    fact = from_row(row.seq, row.kind, row.version, row.header).fact
    assert isinstance(fact, ReactionDecided)
    skipped = tuple((rung, line_for(why, reads=False), derived) for rung, why, derived in one.skipped)
    differences = tuple(replace(d, recorded=UNREAD_LINE, derived=UNREAD_LINE) for d in one.differences)
    return replace(one, fact=fact, skipped=skipped, differences=differences)


def _explained(one: Derived, rows: Sequence[EventRow], revision: Compiled) -> Explained:
    fact = one.fact
    return Explained(
        derived=one,
        evidence=in_words(fact.cause),
        classes=tuple(MECHANISM_CLASSES.get(fact.cause.mechanism, ())),
        error_class=str(CLASSIFY[fact.cause.cause].error_class),
        rungs=_rungs(one, revision),
        others=tuple(_else_where(o, revision) for o in one.others),
        followed=tuple(_followed(fact.reaction, rows[one.seq :])),
    )


def _else_where(other: Otherwise, revision: Compiled) -> ElseWhere:
    rungs = tuple(_coming_out(rung, revision) for rung in other.rungs)
    return ElseWhere(str(other.tier), str(rungs[other.rung].reaction), other.rung, rungs)


def _coming_out(rung: Rung, revision: Compiled) -> Rung:
    """Returns the rung as it comes out: a safe fallback surfaces where the fabric has no answer for it."""
    none = rung.reaction is Reaction.SAFE_FALLBACK and revision.spec.safe_fallback is None
    return rung.model_copy(update={"reaction": Reaction.SURFACE}) if none else rung


def class_words(explained: Explained) -> str:
    """The classes of a failure in words, and why it has none where it has none."""
    said = ", ".join(words(name) for name in explained.classes)
    return said or f"none of MAST's, but the error class {words(explained.error_class)}. {OF_NO_CLASS}"


def _rungs(one: Derived, revision: Compiled) -> tuple[ExplainedRung, ...]:
    fact = one.fact
    if fact.failure_type is None or one.verdict == "other_table":
        return ()
    skips = {rung: (why, derived) for rung, why, derived in one.skipped}
    found = []
    stage = stage_of(fact.step_id, fact.scope)
    for n, rung in enumerate(revision.ladders.at(fact.failure_type, fact.tier, stage).rungs):
        state: RungState = (
            "taken" if n == fact.rung else "ahead" if n > fact.rung else "skipped" if n in skips else "spent"
        )
        why, derived = skips.get(n, ("", True))
        found.append(ExplainedRung(str(rung.reaction), rung.times, state, why, derived, layer_of(rung)))
    return tuple(found)


def _followed(reaction: str, later: Sequence[EventRow]) -> Iterator[Followed]:
    """What came of it up to the next decision; and of a question its answer, of an end the end, however far off."""
    asked, shown, over, answered = "", 0, False, False
    for row in later:
        over = over or row.kind == "reaction_decided"
        mine = asked and row.fact.get("escalation_id") == asked
        if over and answered and not mine:
            return
        if row.kind not in CONSEQUENCES or (over and not mine):
            if over and not asked:
                return
            continue
        if row.kind == "escalation_opened" and not over and reaction == "escalate":
            asked = str(row.fact.get("escalation_id", ""))
        yield Followed(row.seq, row.at, row.kind, row.summary)
        shown += 1
        answered = answered or (bool(mine) and row.kind in ANSWERS)
        if shown == FOLLOWED_MAX:
            return


def in_words(trip: TripRecord) -> str:
    """A trip's numbers in one sentence: what was observed, the limit, in which unit, scope and window, and the cycle where there is one."""
    seen, trip_words = trip.evidence, TRIPS.get(trip.mechanism)
    parts = []
    if seen.observed is not None and seen.limit is not None:
        parts.append(f"observed {_number(seen.observed, seen.unit)}, limit {_number(seen.limit, seen.unit)}")
    elif seen.observed is not None:
        parts.append(f"observed {_number(seen.observed, seen.unit)}")
    if seen.window:
        parts.append(f"window {seen.window}")
    if seen.scope:
        parts.append(f"scope {seen.scope}")
    cycle = seen.details.get("cycle")
    if isinstance(cycle, list) and cycle:
        parts.append(f"cycle {' -> '.join(map(str, cycle))}")
    if trip_words is not None:
        parts.append(trip_words[1](trip))
    return "; ".join(parts)


def _number(given: float, unit: str) -> str:
    if unit == "usd_micros":
        return dollars(int(given))
    said = f"{given:,}" if isinstance(given, int) else f"{given:,.4f}".rstrip("0").rstrip(".")
    return f"{said} {unit}".strip()


# -- as JSON -----------------------------------------------------------------------------------------------------------


def as_json(one: Explained) -> Mapping[str, Any]:
    """One decision as the command and the API tell it."""
    fact = one.derived.fact
    return {
        "seq": one.derived.seq,
        "at": one.derived.at,
        "step_id": fact.step_id,
        "command_id": fact.command_id,
        "failure_type": None if fact.failure_type is None else str(fact.failure_type),
        "classes": [str(found) for found in one.classes],
        "tier": str(fact.tier),
        "table": fact.table,
        "reaction": str(fact.reaction),
        "rung": fact.rung + 1,
        "use": fact.spent + 1,
        "bound": fact.bound,
        "scope": fact.scope,
        "layer": fact.layer,
        "accompanies": list(fact.accompanies),
        "evidence": one.evidence,
        "trips": [_trip(trip) for trip in (fact.cause, *fact.causes)],
        "rungs": [
            {
                "reaction": r.reaction,
                "times": r.times,
                "state": r.state,
                "why": r.why,
                "derived": r.derived,
                "layer": r.layer,
            }
            for r in one.rungs
        ],
        "other_tiers": [{"tier": o.tier, "reaction": o.reaction, "rung": o.rung + 1} for o in one.others],
        "followed": [{"seq": f.seq, "at": f.at, "kind": f.kind, "says": f.says} for f in one.followed],
        "judged_again": list(one.derived.judged),
        "derivation": one.derived.verdict,
        "differences": [
            {"field": d.field, "recorded": d.recorded, "derived": d.derived} for d in one.derived.differences
        ],
    }


def _trip(trip: TripRecord) -> dict[str, Any]:
    seen = trip.evidence
    return {
        "mechanism": trip.mechanism,
        "cause": str(trip.cause),
        "message": trip.message,
        "limit": seen.limit,
        "observed": seen.observed,
        "unit": seen.unit,
        "scope": seen.scope,
        "window": seen.window,
        "details": dict(seen.details),
    }


VERDICTS: Mapping[str, str] = {
    "equal": "derived again from the journal: equal",
    "different": "derived again from the journal: different",
    "other_table": "not derived: it was taken under a decision table that this version does not derive from the fabric",
}
"""Total over ``Verdict``, by test."""


def reaction_words(reaction: str, times: int | None) -> str:
    """A rung in words."""
    return words(reaction) + (f" x{times}" if times else "")
