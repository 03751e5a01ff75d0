"""What a draft of a fabric would have done about the failures of its last runs (docs/semantics.md, "History preview").

Each recorded decision is taken again under the draft's decision table and limits (``fabric.core.derivation.anew``), from the journals' headers alone. Exact
up to a run's first difference. What counts as a failure is taken as recorded: other thresholds of detectors, gates and caps are named, and not weighed.
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

from fabric.core.actor import Actor
from fabric.core.context import Compiled
from fabric.core.decision_table import Reaction, Rung
from fabric.core.derivation import Rules
from fabric.core.derivation.anew import KINDS, NO_FAILURE, Anew, decided_anew
from fabric.core.envelope import Event as Journaled
from fabric.core.envelope import from_row
from fabric.core.flow import Stage
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.words import words
from fabric.models import Event, Run
from fabric.selectors.contents import line_for, may_read
from fabric.selectors.explain import Compiles, rules_at
from fabric.selectors.fabrics import FabricView, revision_get
from fabric.selectors.reach import seen_by
from fabric.selectors.revision_diff import differences, rung_words

RUNS, DAYS = 500, 30
"""Runs that are looked at: so many of the newest, and none that is older."""
FAILURES_MAX = 2_000
"""Recorded failures that are decided again."""
EVENTS_MAX = 200_000
"""Events up to the last failure of each run, together."""
LISTED_MAX = 500
"""Decisions that are listed one by one."""
US = 1_000_000
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
"""Parts of a fabric, by path, of which what they change is derived again."""
CHAINS = (".fallbacks", ".cheaper")
"""Of a model: which ones stand behind it."""
SAID = ("title", "description", "example")
"""Parts that no decision depends on."""


@dataclass(frozen=True, slots=True)
class Redecided:
    """A recorded failure, and what the draft would have done about it. ``at``: microseconds since the epoch, UTC."""

    run_id: str
    seq: int
    at: int
    cell: Cell | None
    """Of the decision table; None: a direct reaction, which no table changes."""
    tier: Tier
    step_id: str
    cause: str
    message: str
    rung: int
    """Recorded, from 1."""
    recorded: str
    """The rung in words: ``retry x5``."""
    draft_rung: int
    """From 1; 0: none."""
    draft: str
    """The same of what the draft would have done."""
    differs: bool
    """Whether the draft would have done something else."""
    first: bool
    """Whether it is the run's first difference: that one is exact, and what comes after it is not."""
    assumed: bool
    """Whether the draft's rung was not tried then, so that it is taken to apply."""
    why_not: str
    """Why it cannot be decided again; empty: it was."""


@dataclass(frozen=True, slots=True)
class Change:
    """Failures that one cell would have decided otherwise, in the same way."""

    cell: Cell | None
    recorded: str
    draft: str
    count: int
    exact: int
    """Those that are their run's first difference."""
    run_id: str
    seq: int
    """One of them."""


@dataclass(frozen=True, slots=True)
class HistoryPreview:
    """The last runs of a fabric under a draft of it."""

    fabric: FabricView
    runs: int
    """That were looked at."""
    runs_failed: int
    """Those among them with a decision about a failure."""
    runs_differ: int
    failures: int
    """Recorded failures that were decided again."""
    differ: int
    changes: tuple[Change, ...]
    """The differing ones by what would become of them, the most frequent first. Their counts add up to ``differ``."""
    listed: tuple[Redecided, ...]
    """The differing ones and those that cannot be decided again, of the newest run first; at most ``LISTED_MAX``."""
    undecided: int
    """Recorded failures that cannot be decided again; not among ``failures``."""
    unreadable: tuple[str, ...]
    """Runs whose journal cannot be read, a sentence each."""
    cut: str
    """Why older failures were not looked at, in a sentence; empty: all were."""
    not_weighed: tuple[str, ...]
    """Paths in which the draft differs from what is published, and whose effect the journals cannot tell."""
    since: int
    """Runs that were made before this were not looked at, microseconds since the epoch."""

    @property
    def exact(self) -> int:
        """Differences that are exact: one in each run that differs."""
        return self.runs_differ

    @property
    def sentence(self) -> str:
        """The whole in one line."""
        if not self.failures:
            return f"no failure was recorded in the last {self.runs:,} runs" if self.runs else "there are no runs yet"
        counts = f"{self.differ:,} of {self.failures:,} would differ"
        some = ", ".join(f"{one.count:,} {one.recorded} → {one.draft}" for one in self.changes[:3])
        return f"{counts}: {some}{', …' if len(self.changes) > 3 else ''}" if some else counts


def history_preview(
    actor: Actor,
    fabric: str,
    draft: FabricSpec,
    compiles: Callable[[FabricSpec, Tier], Compiled],
    compiled: Compiles,
    *,
    runs: int = RUNS,
    days: int = DAYS,
    failures: int = FAILURES_MAX,
) -> HistoryPreview:
    """The recorded failures of a published fabric's newest runs, decided again under a draft of it. Runs of drills are nobody's history.

    ``compiles``: gives the draft as the runs of a tier would see it. So many statements, however many runs there are:
    two for the fabric, two for its runs, one for their events, and one for each revision and policy that they went by and this process has not seen. Refused not_found.
    """
    page = revision_get(actor, fabric)
    since = time.time_ns() // 1_000 - days * 86_400 * US
    rows = Run.objects.filter(seen_by(actor, Run), fabric_id=page.fabric.id, created_at__gte=since)
    newest = list(rows.order_by("-created_at", "id").values_list("id", "revision_id", "tier")[: runs + 1])
    seen = newest[:runs]
    decisions = _decisions([run_id for run_id, *_ in seen])
    wanted = [one for one in seen if one[0] in decisions]
    kept = _within([decisions[run_id] for run_id, *_ in wanted], failures)
    found, unreadable = _redecided(
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
        changes=_grouped(differing),
        listed=tuple(replace(one, message=line_for(one.message, reads=reads)) for one in listed[:LISTED_MAX]),
        undecided=undecided,
        unreadable=tuple(unreadable),
        cut=_cut(len(newest) > runs, runs, kept, len(wanted)),
        not_weighed=not_weighed(page.spec, draft),
        since=since,
    )


def not_weighed(published: FabricSpec, draft: FabricSpec) -> tuple[str, ...]:
    """Paths in which two fabrics differ and which no recorded failure is decided again by: they change what is a failure, or what is asked of whom."""
    before, after = (one.model_dump(mode="json", by_alias=True) for one in (published, draft))
    paths = (change.path for change in differences(before, after))
    return tuple(path for path in paths if not any(_within_path(path, known) for known in (*WEIGHED, *SAID)))


def _within_path(path: str, known: str) -> bool:
    return path == known or path.startswith(f"{known}.") or (path.startswith("models.") and path.endswith(CHAINS))


# -- which runs --------------------------------------------------------------------------------------------------------

_Told = tuple[int, int]
"""How many decisions a run holds, and the number of the last one."""


def _decisions(run_ids: list[str]) -> dict[str, _Told]:
    """The runs with decisions, by a look at each one's part of the journal's key."""
    rows = Event.objects.filter(run_id__in=run_ids, kind="reaction_decided").order_by()
    counted = rows.values_list("run_id").annotate(Count("seq"), Max("seq"))
    return {run_id: (count, last) for run_id, count, last in counted}


def _within(told: list[_Told], failures: int) -> int:
    """How many runs, the newest first, are looked at before there are too many failures or events; at least one."""
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


# -- decided again -----------------------------------------------------------------------------------------------------


def _redecided(
    wanted: list[tuple[str, str, str]],
    told: Mapping[str, _Told],
    drafts: Mapping[Tier, Compiled],
    compiled: Callable[[str, int, Tier], Compiled],
) -> tuple[list[Redecided], list[str]]:
    """Every decision of these runs, in their order, and what is to be said of those that cannot be read."""
    rows = Event.objects.filter(run_id__in=[run_id for run_id, *_ in wanted], kind__in=sorted(KINDS))
    ordered = rows.order_by("run_id", "seq").values_list(*_COLUMNS).iterator(chunk_size=5_000)
    pinned = {run_id: (revision_id, Tier(tier)) for run_id, revision_id, tier in wanted}
    found: dict[str, list[Redecided]] = {}
    unreadable: dict[str, str] = {}
    for run_id, stored in groupby(ordered, key=itemgetter(0)):
        revision_id, tier = pinned[run_id]
        try:
            then = partial(rules_at, _under(compiled, revision_id, tier))
            events = _read(stored, last=told[run_id][1])
            decided = decided_anew(events, tier, partial(_rules, drafts[tier]), then)
            found[run_id] = list(_shown(run_id, decided))
        except (ValueError, LookupError, TypeError) as error:
            unreadable[run_id] = f"run {run_id} cannot be read and was left out: {error}"
    ids = [run_id for run_id, *_ in wanted]
    return [one for run_id in ids for one in found.get(run_id, ())], [
        unreadable[one] for one in ids if one in unreadable
    ]


def _under(compiled: Callable[[str, int, Tier], Compiled], revision_id: str, tier: Tier) -> Callable[[int], Compiled]:
    return lambda number: compiled(revision_id, number, tier)


def _read(stored: Iterable[tuple[Any, ...]], last: int) -> Iterator[Journaled]:
    for _, seq, kind, version, header in stored:
        if seq <= last:
            yield from_row(seq, kind, version, bytes(header))


def _rules(draft: Compiled, topology: str) -> Rules | None:
    return Rules.of(draft, topology) if not topology or topology in draft.nested else None


def _shown(run_id: str, decided: Iterable[Anew]) -> Iterator[Redecided]:
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
            recorded=_recorded(one),
            draft_rung=one.index + 1 if one.rung is not None else 0,
            draft=_drafted(one),
            differs=one.differs,
            first=one.differs and not before,
            assumed=one.assumed,
            why_not=one.why_not,
        )
        before = before or one.differs


def _recorded(one: Anew) -> str:
    fact = one.fact
    # A rung as it was recorded, whose role and critic the journal does not say.
    rung = {"reaction": Reaction(fact.reaction), "times": fact.bound, "with": fact.accompanies}
    return said(one.was or Rung.model_validate(rung), fact.reaction)


def _drafted(one: Anew) -> str:
    if one.why_not:
        return ""
    return NO_FAILURE if one.rung is None or one.reaction is None else said(one.rung, one.reaction)


def said(rung: Rung, reaction: str) -> str:
    """A rung in words: ``block + escalate to safety``, ``retry x5``. ``reaction``: what was done, where something stood in the way of the rung's own."""
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


def _grouped(differing: Iterable[Redecided]) -> tuple[Change, ...]:
    groups: dict[tuple[Cell | None, str, str], list[Redecided]] = {}
    for one in differing:
        groups.setdefault((one.cell, one.recorded, one.draft), []).append(one)
    made = (
        Change(cell, recorded, draft, len(ones), sum(one.first for one in ones), ones[0].run_id, ones[0].seq)
        for (cell, recorded, draft), ones in groups.items()
    )
    return tuple(sorted(made, key=lambda change: -change.count))
