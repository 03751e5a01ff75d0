"""Explain each decision of a run: its evidence, its cell, the choice of the other tiers, and what followed.

Read from the journal's headers alone, so that it says the same after contents were erased; and each decision is derived
again from them (``fabric.auditor``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

from fabric.auditor import Derived, derive_all
from fabric.auditor.walk import Otherwise
from fabric.core.events import LineagePinned, ReactionDecided, RunForked, TripRecord
from fabric.core.events.envelope import Event as Journaled
from fabric.core.events.envelope import from_row
from fabric.core.mechanisms import CLASSES
from fabric.core.people.actor import Actor
from fabric.core.spec.policies.decision_table import Reaction, Rung
from fabric.core.spec.retry_layers import find_layer, read_stage
from fabric.core.state.context import CompiledFabric
from fabric.core.values.taxonomy import CLASSIFY, Tier
from fabric.core.values.words import dollars, words
from fabric.models import Event
from fabric.program.name import program
from fabric.selectors.contents import UNREAD_LINE, line_for
from fabric.selectors.errors import Refused
from fabric.selectors.runs.display import follows_decision
from fabric.selectors.runs.events.moments import FOLD_MAX
from fabric.selectors.runs.events.windows import EventRow, event_row, step_agents
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.runs.story.trips import TRIPS, limit_title
from fabric.selectors.stored_events import read_events

RungState = Literal["taken", "spent", "skipped", "ahead"]
ANSWERS = frozenset({"review_decided", "review_withdrawn"})
"""Kinds that end a review. What a person wrote stands right behind their answer."""
FOLLOWED_MAX = 8
USAGE_PROBLEMS_MAX = 20
FOLLOWED_WITHIN = 500
"""Number of events after one decision that are searched for its consequences."""


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
    """The reaction of another tier at an equal count."""

    tier: str
    reaction: str
    rung: int
    rungs: tuple[Rung, ...]


OF_NO_CLASS = "MAST classifies failures of agents that work together. A failure of a provider or a tool has no class there; retries, fallback models and the breaker cover it, by its error class"
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
    """Return the class of an error, which is one for all its judges."""
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
        """True: every decision follows from the journal as it was recorded."""
        return all(one.derived.verdict == "equal" for one in self.decisions)


Compiles = Callable[[str, str, int, Tier], CompiledFabric]
"""Gives a revision by its row's id. Runs of a tier see it so under a version of the policy."""


def run_explain(actor: Actor, run_id: str, compiled: Compiles) -> RunExplained:
    """Every decision of a run, under the policy that it went by. Refused not_found; conflict for a journal that cannot
    be read.
    """
    view = run_get(actor, run_id)
    rows, events = _journal(view)
    revision = partial(_compile_number, compiled, view)
    derived = _derive_decisions(view, events, revision)
    topology = _topology(events)
    doubted = (row for row in rows if row.fact.get("usage_problem"))
    problems = tuple(
        Followed(row.seq, row.at, row.kind, row.fact["usage_problem"]) for row in islice(doubted, USAGE_PROBLEMS_MAX)
    )
    shown = (_mask_for_reader(one, rows, reads=view.reads) for one in derived)
    explained = tuple(_explain_decision(one, rows, _select_topology(revision(one.policy), topology)) for one in shown)
    return RunExplained(view, explained, problems)


def decision_explained(actor: Actor, run_id: str, seq: int, compiled: Compiles) -> Explained | None:
    """Explain one decision. None: it lies too far in for a page, or the journal up to it cannot be read. Refused
    not_found.
    """
    view = run_get(actor, run_id)
    if seq > FOLD_MAX:
        return None
    revision = partial(_compile_number, compiled, view)
    try:
        rows, events = _journal(view, upto=seq + FOLLOWED_WITHIN)
        derived = _derive_decisions(view, events, revision)
    except Refused:
        return None
    explained = (
        _explain_decision(
            _mask_for_reader(one, rows, reads=view.reads),
            rows,
            _select_topology(revision(one.policy), _topology(events)),
        )
        for one in derived
        if one.seq == seq
    )
    return next(explained, None)


def _derive_decisions(
    view: RunView, events: list[Journaled], revision: Callable[[int], CompiledFabric]
) -> list[Derived]:
    """Derive every decision. Refused conflict for a journal that does not fold."""
    try:
        return derive_all(events, Tier(view.tier), partial(fabric_at, revision))
    except ValueError as error:
        message = f"the journal of run {view.id} cannot be derived: {error}"
        raise Refused(f"{message}; `{program()} admin replay {view.id}` says what is wrong", code="conflict") from None


def _compile_number(compiled: Compiles, view: RunView, number: int) -> CompiledFabric:
    return compiled(view.revision_id, view.workspace_id, number, view.tier)


def _topology(events: Iterable[Journaled]) -> str:
    """The worker whose topology the run runs whose events those are."""
    return next((event.fact.topology for event in events if isinstance(event.fact, LineagePinned | RunForked)), "")


def _select_topology(revision: CompiledFabric, topology: str) -> CompiledFabric:
    return revision.select_topology(topology) if topology in revision.nested else revision


def fabric_at(
    revision: Callable[[int], CompiledFabric], topology: str, version: str, policy: int
) -> CompiledFabric | None:
    """Return the fabric as a run sees it that runs this worker's topology; None where its table is another one.
    ``revision`` takes a policy's version.
    """
    whole = revision(policy)
    if topology and topology not in whole.nested:
        return None
    own = whole.select_topology(topology)
    return own if own.table_version == version else None


def _journal(view: RunView, upto: int | None = None) -> tuple[list[EventRow], list[Journaled]]:
    agents = step_agents(view.id, view.last_seq)
    rows: list[EventRow] = []
    events: list[Journaled] = []
    last = view.last_seq if upto is None else min(upto, view.last_seq)
    for stored in read_events(Event.objects.filter(run_id=view.id), upto=last):
        rows.append(event_row(agents, stored, reads=view.reads))
        seq, kind, version = stored[:3]
        try:
            if seq != len(rows):
                raise ValueError(f"event {len(rows)} is missing")
            events.append(from_row(seq, kind, version, stored.header))
        except (ValueError, LookupError, TypeError) as error:
            message = f"event {len(rows)} of run {view.id} cannot be read ({error}), so nothing after it can be derived"
            raise Refused(
                f"{message}; `{program()} admin replay {view.id}` says what is wrong", code="conflict"
            ) from None
    return rows, events


def _mask_for_reader(one: Derived, rows: Sequence[EventRow], *, reads: bool) -> Derived:
    """Return the decision as its reader may see it: without sentences if they lack the right."""
    if reads:
        return one
    row = rows[one.seq - 1]
    fact = from_row(row.seq, row.kind, row.version, row.header).fact
    assert isinstance(fact, ReactionDecided)
    skipped = tuple((rung, line_for(why, reads=False), derived) for rung, why, derived in one.skipped)
    differences = tuple(replace(d, recorded=UNREAD_LINE, derived=UNREAD_LINE) for d in one.differences)
    return replace(one, fact=fact, skipped=skipped, differences=differences)


def _explain_decision(one: Derived, rows: Sequence[EventRow], revision: CompiledFabric) -> Explained:
    fact = one.fact
    return Explained(
        derived=one,
        evidence=in_words(fact.cause),
        classes=tuple(CLASSES.get(fact.cause.mechanism, ())),
        error_class=str(CLASSIFY[fact.cause.cause].error_class),
        rungs=_rungs(one, revision),
        others=tuple(_else_where(o, revision) for o in one.others),
        followed=tuple(_list_followers(fact.reaction, rows[one.seq :])),
    )


def _else_where(other: Otherwise, revision: CompiledFabric) -> ElseWhere:
    rungs = tuple(_coming_out(rung, revision) for rung in other.rungs)
    return ElseWhere(str(other.tier), str(rungs[other.rung].reaction), other.rung, rungs)


def _coming_out(rung: Rung, revision: CompiledFabric) -> Rung:
    """Returns the rung as it comes out: a safe fallback surfaces where the fabric has no answer for it."""
    none = rung.reaction is Reaction.SAFE_FALLBACK and revision.spec.safe_fallback is None
    return rung.model_copy(update={"reaction": Reaction.SURFACE}) if none else rung


def class_words(explained: Explained) -> str:
    """The classes of a failure in words, and why it has none where it has none."""
    said = ", ".join(words(name) for name in explained.classes)
    return said or f"none of MAST's, but the error class {words(explained.error_class)}. {OF_NO_CLASS}"


def _rungs(one: Derived, revision: CompiledFabric) -> tuple[ExplainedRung, ...]:
    fact = one.fact
    if fact.failure_type is None or one.verdict == "other_table":
        return ()
    skips = {rung: (why, derived) for rung, why, derived in one.skipped}
    found = []
    stage = read_stage(fact.step_id, fact.scope)
    for n, rung in enumerate(revision.ladders.find_ladder(fact.failure_type, fact.tier, stage).rungs):
        state: RungState = (
            "taken" if n == fact.rung else "ahead" if n > fact.rung else "skipped" if n in skips else "spent"
        )
        why, derived = skips.get(n, ("", True))
        found.append(ExplainedRung(str(rung.reaction), rung.times, state, why, derived, find_layer(rung)))
    return tuple(found)


def _list_followers(reaction: str, later: Sequence[EventRow]) -> Iterator[Followed]:
    """Yield the events that followed, up to the next decision. The answer to its review and the run's end count
    however late.
    """
    asked, shown, over, answered = "", 0, False, False
    for row in later:
        over = over or row.kind == "reaction_decided"
        mine = asked and row.fact.get("review_id") == asked
        if over and answered and not mine:
            return
        if not follows_decision(row.kind) or (over and not mine):
            if over and not asked:
                return
            continue
        if row.kind == "review_opened" and not over and reaction == "escalate":
            asked = str(row.fact.get("review_id", ""))
        yield Followed(row.seq, row.at, row.kind, row.summary)
        shown += 1
        answered = answered or (bool(mine) and row.kind in ANSWERS)
        if shown == FOLLOWED_MAX:
            return


def in_words(trip: TripRecord) -> str:
    """Return a trip's numbers in one sentence: the observed value, the limit, the scope and the window."""
    seen, trip_words = trip.evidence, TRIPS.get(trip.mechanism)
    title = limit_title(trip)
    parts = [title] if title else []
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


# -- as JSON ---------------------------------------------------------------------------------------------------------


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
    "equal": "verified: replay gives the same decision",
    "different": "not verified: replay gives another decision",
    "other_table": "not verified: this version does not have the decision table that was in force",
}
"""Total over ``Verdict``, by test."""


def reaction_words(reaction: str, times: int | None) -> str:
    """A rung in words."""
    return words(reaction) + (f" x{times}" if times else "")
