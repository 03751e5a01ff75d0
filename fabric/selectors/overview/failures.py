"""Groups the failures of the last 24 hours by fabric and cause, with their acknowledgements.

A group is acknowledged up to an instant: a later failure of it shows again. At most ``COUNTED`` failures are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from django.db.models import QuerySet

from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.models import FailureAcknowledgement, Run
from fabric.models.runs.run import ASKED_FOR, BAD
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.overview.tiles import COUNTED, DAY
from fabric.selectors.reach import match_visible

FAILED = (RunState.FAILED.value, RunState.ABORTED.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failures of one fabric and cause. Instants are microseconds since the epoch, UTC."""

    fabric_id: str
    fabric_name: str
    cause: str
    """``taxonomy.Cause``; empty: unknown."""
    count: int
    first_at: int
    newest_at: int
    run_id: str
    """The newest run."""
    title: str = ""
    state: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedFailures:
    """An acknowledgement whose failures are of the last 24 hours."""

    fabric_name: str
    cause: str
    count: int
    by: str
    note: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFailures:
    """The failures of the last 24 hours."""

    groups: tuple[FailureGroup, ...]
    """Groups with new failures, the newest first. The first ``named`` groups have their newest run's title."""
    acknowledged: tuple[AcknowledgedFailures, ...]
    capped: bool
    """True: there are more failures than were read."""

    @property
    def count(self) -> int:
        """Return the number of failures without an acknowledgement."""
        return sum(group.count for group in self.groups)


def query_failed(actor: Actor, now: int) -> QuerySet[Run]:
    """Return runs that ended badly within the last 24 hours, the newest first."""
    rows = Run.objects.filter(match_visible(actor, Run), BAD, ASKED_FOR, state__in=FAILED)
    return rows.filter(ended_at__gt=now - DAY).order_by("-ended_at")


def recent_failures(actor: Actor, now: int, *, named: int) -> RecentFailures:
    """Return the failures of the last 24 hours by fabric and cause. ``named``: groups whose newest run is described.

    At most three statements. Contents are masked for readers without the right.
    """
    columns = ("id", "fabric_id", "fabric__name", "cause", "ended_at")
    rows = list(query_failed(actor, now).values_list(*columns)[: COUNTED + 1])
    seen = _read_acknowledgements(actor) if rows else {}
    fresh: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
    done: dict[tuple[str, str], list[str]] = {}
    for run_id, fabric_id, name, cause, ended_at in rows[:COUNTED]:
        key = (fabric_id, cause)
        if key in seen and ended_at <= seen[key].until_at:
            done.setdefault(key, []).append(name)
        else:
            fresh.setdefault(key, []).append((run_id, name, ended_at))
    groups = [
        FailureGroup(
            fabric_id=fabric_id,
            fabric_name=found[0][1],
            cause=cause,
            count=len(found),
            first_at=found[-1][2],
            newest_at=found[0][2],
            run_id=found[0][0],
        )
        for (fabric_id, cause), found in fresh.items()
    ]
    return RecentFailures(
        groups=(*_describe(actor, groups[:named]), *groups[named:]),
        acknowledged=tuple(_acknowledged(actor, seen[key], names) for key, names in done.items()),
        capped=len(rows) > COUNTED,
    )


def find_failures(actor: Actor, fabric: str, cause: str, now: int) -> FailureGroup | None:
    """Return the group of one fabric and cause, where it has failures without an acknowledgement."""
    found = recent_failures(actor, now, named=0).groups
    one = next((group for group in found if (group.fabric_name, group.cause) == (fabric, cause)), None)
    return None if one is None else _describe(actor, [one])[0]


def _read_acknowledgements(actor: Actor) -> Mapping[tuple[str, str], FailureAcknowledgement]:
    rows = FailureAcknowledgement.objects.filter(workspace_id=actor.workspace_id)
    return {(row.fabric_id, row.cause): row for row in rows}


def _describe(actor: Actor, groups: Collection[FailureGroup]) -> list[FailureGroup]:
    rows = Run.objects.filter(id__in=[group.run_id for group in groups]).values_list("id", "title", "state", "reason")
    known = {run_id: (title, state, reason) for run_id, title, state, reason in rows} if groups else {}
    return [_with_run(actor, group, *known.get(group.run_id, ("", "", ""))) for group in groups]


def _with_run(actor: Actor, group: FailureGroup, title: str, state: str, reason: str) -> FailureGroup:
    reads = may_read(actor, group.fabric_name)
    return replace(group, title=title_for(title, reads=reads), state=state, reason=line_for(reason, reads=reads))


def _acknowledged(actor: Actor, row: FailureAcknowledgement, names: Collection[str]) -> AcknowledgedFailures:
    name = next(iter(names))
    note = line_for(row.note, reads=may_read(actor, name))
    return AcknowledgedFailures(fabric_name=name, cause=row.cause, count=len(names), by=row.by, note=note, at=row.at)
