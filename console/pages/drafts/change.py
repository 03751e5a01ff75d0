"""Shows a change of a fabric to its publisher and its approver.

It lists paths, text, deviations, promises, drills and runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from console.forms.values.diff import Line, text_diff
from console.words.drills import DrillMark, cell_mark
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.drafts.change_requests import PublicationOutlook, change_outlook
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.differences import CHANGES_MAX, SpecChange, spec_changes
from fabric.selectors.fabrics.lookup import RevisionPage, revision_get
from fabric.services.fabrics.publication.rules import Deviation, deviations
from fabric.services.fabrics.revisions import second_person
from fabric.services.fabrics.yaml.export import export_revision
from simulator.drills.selectors.drill_views import CellView, State
from simulator.drills.services.drafts import (
    CellChange,
    DraftDrills,
    MadeStale,
    coverage_made_stale,
    expectation_changes,
)

PROMISES_KEPT = 64
"""Number of cached pairs of contents with their promises. Computing one takes some tenths of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricChange:
    """A content to be published, compared with the published one."""

    against: RevisionPage | None
    """Published revision; None if nothing is published, or this version of the program cannot read it."""
    changes: tuple[SpecChange, ...]
    more: int
    """Number of changes that are not listed."""
    diff: tuple[Line, ...]
    """Lines in which the two texts differ."""
    deviations: tuple[Deviation, ...]
    second: tuple[Tier, ...]
    """Tiers for which a second person has to agree; empty if none needs it."""
    outlook: PublicationOutlook
    stale: MadeStale | None
    """Drills that the change makes stale; None if no drill exists."""
    promises: tuple[CellChange, ...]
    """Cells that promise another chain of decisions."""

    @property
    def agreeing_roles(self) -> str:
        """Return the roles that may agree to the change."""
        return holders(Right.EDIT)

    @property
    def verb(self) -> str:
        """Return the label of the button that publishes: ``Publish as r9``."""
        return f"Publish {'as' if self.outlook.new else 'again as'} r{self.outlook.number}"

    @property
    def follows(self) -> str:
        """Return the effect on runs: ``new runs use it; 3 running runs keep r8``."""
        going = self.outlook.going
        if not going:
            return "new runs use it"
        if len(going) == 1:
            ((number, count),) = going
            return f"new runs use it; {count:,} running run{' keeps' if count == 1 else 's keep'} r{number}"
        return f"new runs use it; {self.outlook.runs:,} running runs keep theirs"


def build_change(actor: Actor, name: str, spec: FabricSpec, text: str, *, sound: bool = True) -> FabricChange:
    """Return the change between a content and the published one.

    ``sound``: True if it could be published, so that the promises of its cells can be computed.
    """
    try:
        against = revision_get(actor, name)
    except Refused:
        against = None
    found = spec_changes(against.spec, spec) if against else ()
    return FabricChange(
        against=against,
        changes=found[:CHANGES_MAX],
        more=max(0, len(found) - CHANGES_MAX),
        diff=text_diff(export_revision(against), text) if against else (),
        deviations=tuple(deviations(spec)),
        second=second_person(actor, spec) if found or not against else (),
        outlook=change_outlook(actor, name, spec.digest()),
        stale=coverage_made_stale(actor, name, spec) if against and found else None,
        promises=_promises(_Sides(against.spec, spec)) if against and found and sound else (),
    )


class _Sides:
    """Two contents and their digests."""

    def __init__(self, before: FabricSpec, after: FabricSpec) -> None:
        self.before, self.after = before, after
        self._key = before.digest(), after.digest()

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sides) and self._key == other._key


@lru_cache(maxsize=PROMISES_KEPT)
def _promises(sides: _Sides) -> tuple[CellChange, ...]:
    return tuple(expectation_changes(sides.before, sides.after))


# -- drills of it ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrilledCell:
    """A cell of a draft as its table shows it."""

    view: CellView
    mark: DrillMark

    @property
    def drill(self) -> str:
        """Return the id of the current or last drill; empty if there is none."""
        one = self.view.now or self.view.last
        return one.id if one else ""


@dataclass(frozen=True, slots=True)
class DraftBoard:
    """The 24 cells of a draft, and the progress of its drills."""

    rows: tuple[tuple[FailureType, tuple[DrilledCell, ...]], ...]
    passed: int
    deviated: int
    unknown: int
    """Number of cells without a conclusive verdict about this draft. They never count as passed."""
    going: int
    """Number of drills that wait or run."""
    done: int
    """Number of drills that have ended, in batches that go on."""
    asked: int
    """Number of all drills in batches that go on."""

    @property
    def begun(self) -> bool:
        """Return True if a cell was drilled or is being drilled."""
        return any(cell.drill for _, cells in self.rows for cell in cells)


def build_board(found: DraftDrills) -> DraftBoard:
    """Return the drill results of a draft's cells as a table."""
    by_cell = {one.cell: DrilledCell(one, cell_mark(one.state)) for one in found.cells}
    states = [one.state for one in found.cells]
    passed = states.count(State.PASS)
    deviated = states.count(State.DEVIATED) + states.count(State.ERROR)
    drills = [one for batch in found.batches for one in batch.drills]
    return DraftBoard(
        tuple((failure, tuple(by_cell[failure, tier] for tier in Tier)) for failure in FailureType),
        passed,
        deviated,
        len(states) - passed - deviated,
        sum(not one.ended for one in drills),
        sum(one.ended for one in drills),
        len(drills),
    )
