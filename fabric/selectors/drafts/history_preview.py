"""Previews how a fabric's draft would have decided the failures of its last runs (docs/specification/derivation.md).

It takes each recorded decision again under the draft's decision table and limits (``fabric.auditor.redecisions``),
from the journals' headers alone. The result is exact up to a run's first difference. Recorded failures are taken as
failures: changed thresholds of detectors, gates and caps are named, not weighed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db.models import Count, Max

from fabric.auditor.redecisions import NO_FAILURE, Redecision, redecide
from fabric.core.events.envelope import Event as Journaled
from fabric.core.events.envelope import read_row
from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Reaction, Rung
from fabric.core.state.context import CompiledFabric
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import US
from fabric.core.values.words import words
from fabric.models import Event, Run
from fabric.selectors.contents import line_for, may_read
from fabric.selectors.fabrics.differences import differences, rung_words
from fabric.selectors.fabrics.lookup import FabricView, revision_get
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.events.explanations import Compiles, fabric_at

RUNS, DAYS = 500, 30
"""Number and greatest age in days of the runs that are read."""
FAILURES_MAX = 2_000
"""Largest number of recorded failures that are decided again."""
EVENTS_MAX = 100_000
"""Largest number of events up to the last failure of each run, together."""
LISTED_MAX = 500
"""Largest number of listed decisions."""
Cell = tuple[FailureType, Tier]
_COLUMNS = ("run_id", "seq", "kind", "version", "header")

WEIGHED = (
    "decision_table",
    "policy.limits.replans_per_stage",
    "policy.humans.failure_rounds",
    "policy.failure_signature",
    "policy.retry_layers",
    "policy.goal_gates.retry",
    "policy.retry.cap_s",
    *(f"policy.stages.{stage}.{part}" for stage in Stage for part in ("decision_table", "retry.cap_s")),
    "topology.planner",
    "topology.handover",
    "safe_fallback",
)
"""Parts of a fabric, by path, whose changes are decided again."""
CHAINS = (".fallbacks", ".cheaper")
"""Fields of a model with the models that follow it."""
SAID = ("title", "description", "example")
"""Parts that no decision depends on."""


@dataclass(frozen=True, slots=True)
class Redecided:
    """A recorded failure with the draft's decision. ``at``: microseconds since the epoch, UTC."""

    run_id: str
    seq: int
    at: int
    cell: Cell | None
    """Cell of the decision table; None: a direct reaction, which no table changes."""
    tier: Tier
    step_id: str
    cause: str
    message: str
    rung: int
    """Recorded rung, from 1."""
    recorded: str
    """The recorded rung in words: ``retry x5``."""
    draft_rung: int
    """The draft's rung, from 1; 0: none."""
    draft: str
    """The draft's reaction, in words."""
    differs: bool
    """True if the draft would have reacted differently."""
    first: bool
    """True for the run's first difference: it is exact, and later ones are not."""
    assumed: bool
    """True if the draft's rung was not tried then, so it is assumed to apply."""
    why_not: str
    """Reason why it cannot be decided again; empty: it was."""


@dataclass(frozen=True, slots=True)
class DecisionChange:
    """Failures of one cell whose decision would change in one way."""

    cell: Cell | None
    recorded: str
    draft: str
    count: int
    exact: int
    """Number of these that are their run's first difference."""
    run_id: str
    seq: int
    """Sequence number of one of them."""


@dataclass(frozen=True, slots=True)
class HistoryPreview:
    """The last runs of a fabric under a draft of it."""

    fabric: FabricView
    runs: int
    """Number of runs that were read."""
    runs_failed: int
    """Number of these runs with a decision about a failure."""
    runs_differ: int
    failures: int
    """Recorded failures that were decided again."""
    differ: int
    changes: tuple[DecisionChange, ...]
    """Differing failures by the draft's decision, the most frequent first. Their counts add up to ``differ``."""
    listed: tuple[Redecided, ...]
    """Differing failures and those that cannot be decided again, of the newest run first; at most ``LISTED_MAX``."""
    undecided: int
    """Recorded failures that cannot be decided again; not among ``failures``."""
    unreadable: tuple[str, ...]
    """Runs whose journal cannot be read, a sentence each."""
    cut: str
    """Reason why older failures were not read, in a sentence; empty: all were."""
    not_weighed: tuple[str, ...]
    """Paths in which the draft differs from the published revision, and whose effect the journals cannot show."""
    since: int
    """Earlier runs were not read; microseconds since the epoch."""

    @property
    def exact(self) -> int:
        """Return the number of exact differences: one in each run that differs."""
        return self.runs_differ

    @property
    def sentence(self) -> str:
        """Return one line: how many recorded decisions would differ, and the most frequent changes."""
        if not self.failures:
            return f"no failure was recorded in the last {self.runs:,} runs" if self.runs else "there are no runs yet"
        counts = f"{self.differ:,} of {self.failures:,} would differ"
        some = ", ".join(f"{one.count:,} {one.recorded} → {one.draft}" for one in self.changes[:3])
        return f"{counts}: {some}{', …' if len(self.changes) > 3 else ''}" if some else counts


def history_preview(
    actor: Actor,
    fabric: str,
    draft: FabricSpec,
    compiles: Callable[[FabricSpec, Tier], CompiledFabric],
    compiled: Compiles,
    *,
    runs: int = RUNS,
    days: int = DAYS,
    failures: int = FAILURES_MAX,
) -> HistoryPreview:
    """Decide the recorded failures of a fabric's newest runs, without those of drills, again under a draft of it.

    ``compiles``: returns the draft as the runs of a tier would see it. The number of statements does not grow with
    the runs: two for the fabric, two for its runs, one for their events, and one for each revision and policy that
    this process has not seen. Raises Refused not_found.
    """
    page = revision_get(actor, fabric)
    since = time.time_ns() // 1_000 - days * 86_400 * US
    rows = Run.objects.filter(match_visible(actor, Run), fabric_id=page.fabric.id, created_at__gte=since)
    newest = list(rows.order_by("-created_at", "id").values_list("id", "revision_id", "tier")[: runs + 1])
    seen = newest[:runs]
    decisions = _decisions([run_id for run_id, *_ in seen])
    wanted = [one for one in seen if one[0] in decisions]
    kept = _count_readable([decisions[run_id] for run_id, *_ in wanted], failures)
    found, unreadable = _redecide_runs(
        wanted[:kept],
        decisions,
        {tier: compiles(draft, tier) for tier in {Tier(tier) for _, _, tier in wanted[:kept]}},
        lambda revision_id, number, tier: compiled(revision_id, actor.workspace_id, number, tier),
    )
    differing = [one for one in found if one.differs]
    undecided = sum(bool(one.why_not) for one in found)
    listed = [one for one in found if one.differs or one.why_not]
    reads = may_read(actor, page.fabric.name)
    return HistoryPreview(
        fabric=page.fabric,
        runs=len(seen),
        runs_failed=len(wanted),
        runs_differ=sum(one.first for one in differing),
        failures=len(found) - undecided,
        differ=len(differing),
        changes=_group_changes(differing),
        listed=tuple(replace(one, message=line_for(one.message, reads=reads)) for one in listed[:LISTED_MAX]),
        undecided=undecided,
        unreadable=tuple(unreadable),
        cut=_cut(len(newest) > runs, runs, kept, len(wanted)),
        not_weighed=not_weighed(page.spec, draft),
        since=since,
    )


def not_weighed(published: FabricSpec, draft: FabricSpec) -> tuple[str, ...]:
    """Return the changed paths that the preview does not weigh. They change failures themselves, or the reviews to
    agents and people.
    """
    before, after = (one.model_dump(mode="json", by_alias=True) for one in (published, draft))
    paths = (change.path for change in differences(before, after))
    return tuple(path for path in paths if not any(_is_within(path, known) for known in (*WEIGHED, *SAID)))


def _is_within(path: str, known: str) -> bool:
    return path == known or path.startswith(f"{known}.") or (path.startswith("models.") and path.endswith(CHAINS))


# -- which runs ------------------------------------------------------------------------------------------------------

_Told = tuple[int, int]
"""Number of decisions of a run, and the sequence number of the last one."""


def _decisions(run_ids: list[str]) -> dict[str, _Told]:
    """Return the number of decisions and the last seq of each run with decisions, from the journal's key."""
    rows = Event.objects.filter(run_id__in=run_ids, kind="reaction_decided").order_by()
    counted = rows.values_list("run_id").annotate(Count("seq"), Max("seq"))
    return {run_id: (count, last) for run_id, count, last in counted}


def _count_readable(told: list[_Told], failures: int) -> int:
    """Return the number of runs to read, the newest first, before the bound of failures or events; at least one."""
    decisions = events = 0
    for n, (count, last) in enumerate(told):
        decisions, events = decisions + count, events + last
        if n and (decisions > failures or events > EVENTS_MAX):
            return n
    return len(told)


def _cut(older: bool, runs: int, kept: int, wanted: int) -> str:
    if kept < wanted:
        return f"only the newest {kept:,} of the {wanted:,} runs with failures were decided again: those before them hold too many events"
    return f"only the newest {runs:,} runs were looked at" if older else ""


# -- decided again ---------------------------------------------------------------------------------------------------


def _redecide_runs(
    wanted: list[tuple[str, str, str]],
    told: Mapping[str, _Told],
    drafts: Mapping[Tier, CompiledFabric],
    compiled: Callable[[str, int, Tier], CompiledFabric],
) -> tuple[list[Redecided], list[str]]:
    """Return every decision of these runs, in their order, and a sentence for each unreadable run."""
    rows = Event.objects.filter(run_id__in=[run_id for run_id, *_ in wanted])
    ordered = rows.order_by("run_id", "seq").values_list(*_COLUMNS).iterator(chunk_size=5_000)
    pinned = {run_id: (revision_id, Tier(tier)) for run_id, revision_id, tier in wanted}
    found: dict[str, list[Redecided]] = {}
    unreadable: dict[str, str] = {}
    for run_id, stored in groupby(ordered, key=itemgetter(0)):
        revision_id, tier = pinned[run_id]
        try:
            then = partial(fabric_at, _bind_compiler(compiled, revision_id, tier))
            events = _read(stored, last=told[run_id][1])
            decided = redecide(events, tier, partial(_draft_within, drafts[tier]), then)
            found[run_id] = list(_redecide_run(run_id, decided))
        except (ValueError, LookupError, TypeError) as error:
            unreadable[run_id] = f"run {run_id} cannot be read and was left out: {error}"
    ids = [run_id for run_id, *_ in wanted]
    return [one for run_id in ids for one in found.get(run_id, ())], [
        unreadable[one] for one in ids if one in unreadable
    ]


def _bind_compiler(
    compiled: Callable[[str, int, Tier], CompiledFabric], revision_id: str, tier: Tier
) -> Callable[[int], CompiledFabric]:
    return lambda number: compiled(revision_id, number, tier)


def _read(stored: Iterable[tuple[Any, ...]], last: int) -> Iterator[Journaled]:
    for _, seq, kind, version, header in stored:
        if seq <= last:
            yield from (event for event in read_row(seq, kind, version, bytes(header)) if event.seq <= last)


def _draft_within(draft: CompiledFabric, topology: str) -> CompiledFabric | None:
    return draft.select_topology(topology) if not topology or topology in draft.nested else None


def _redecide_run(run_id: str, decided: Iterable[Redecision]) -> Iterator[Redecided]:
    before = False
    for one in decided:
        fact = one.fact
        yield Redecided(
            run_id=run_id,
            seq=one.seq,
            at=one.at,
            cell=None if fact.failure_type is None else (fact.failure_type, fact.tier),
            tier=fact.tier,
            step_id=fact.step_id,
            cause=str(fact.cause.cause),
            message=fact.cause.message,
            rung=fact.rung + 1,
            recorded=_describe_recorded(one),
            draft_rung=one.index + 1 if one.rung is not None else 0,
            draft=_describe_drafted(one),
            differs=one.differs,
            first=one.differs and not before,
            assumed=one.assumed,
            why_not=one.why_not,
        )
        before = before or one.differs


def _describe_recorded(one: Redecision) -> str:
    fact = one.fact
    # A rung as it was recorded, whose role and critic the journal does not say.
    rung = {"reaction": Reaction(fact.reaction), "times": fact.bound, "with": fact.accompanies}
    return rung_in_words(one.was or Rung.model_validate(rung), fact.reaction)


def _describe_drafted(one: Redecision) -> str:
    if one.why_not:
        return ""
    return NO_FAILURE if one.rung is None or one.reaction is None else rung_in_words(one.rung, one.reaction)


def rung_in_words(rung: Rung, reaction: str) -> str:
    """Return a rung in words: ``block + escalate to safety``, ``retry x5``. ``reaction``: the one taken, where it
    was not the rung's own.
    """
    if reaction != rung.reaction:
        return words(reaction)
    parts = {
        "with": [str(each) for each in rung.with_],
        "reaction": str(reaction),
        "role": rung.role,
        "critic": rung.critic,
        "poll": rung.poll,
    }
    return rung_words(parts) + (f" x{rung.times}" if rung.times else "")


def _group_changes(differing: Iterable[Redecided]) -> tuple[DecisionChange, ...]:
    groups: dict[tuple[Cell | None, str, str], list[Redecided]] = {}
    for one in differing:
        groups.setdefault((one.cell, one.recorded, one.draft), []).append(one)
    made = (
        DecisionChange(cell, recorded, draft, len(ones), sum(one.first for one in ones), ones[0].run_id, ones[0].seq)
        for (cell, recorded, draft), ones in groups.items()
    )
    return tuple(sorted(made, key=lambda change: -change.count))
