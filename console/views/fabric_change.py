"""What a change of a fabric is, for whoever publishes it and whoever agrees to it: paths, text, deviations, promises, drills, runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from console.views.drill_words import Mark, cell_mark
from console.views.review_diff import Line, text_diff
from fabric.core.actor import Actor
from fabric.core.roles import Right, holders
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.change_outlook import Outlook, change_outlook
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import RevisionPage, revision_get
from fabric.selectors.revision_diff import CHANGES_MAX, Change, spec_changes
from fabric.services.fabric_text import exported
from fabric.services.fabrics import second_person
from fabric.services.publication import Deviation, deviations
from simulator.drills.drafts import CellChange, DraftDrills, MadeStale, coverage_made_stale, expectation_changes
from simulator.drills.selectors import CellView, State

PROMISES_KEPT = 64
"""Pairs of contents whose promises are remembered; each takes some tenths of a second to work out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricChange:
    """A content that is to be published, against what is."""

    against: RevisionPage | None
    """What is published; None: nothing is, or this version of the program cannot read it."""
    changes: tuple[Change, ...]
    more: int
    """Changes that are not listed."""
    diff: tuple[Line, ...]
    """Of the two texts."""
    deviations: tuple[Deviation, ...]
    second: tuple[Tier, ...]
    """For whose sake somebody else has to agree; empty: nobody has to."""
    outlook: Outlook
    stale: MadeStale | None
    """None: nothing was drilled that could be."""
    promises: tuple[CellChange, ...]
    """Cells that promise another chain of decisions."""

    @property
    def agreeing(self) -> str:
        """Who may agree to it."""
        return holders(Right.EDIT)

    @property
    def verb(self) -> str:
        """What publishing it is called: ``Publish as r9``."""
        return f"Publish {'as' if self.outlook.new else 'again as'} r{self.outlook.number}"

    @property
    def follows(self) -> str:
        """What becomes of runs: ``new runs pin it; 3 running runs keep r8``."""
        going = self.outlook.going
        if not going:
            return "new runs pin it"
        if len(going) == 1:
            ((number, count),) = going
            return f"new runs pin it; {count:,} running run{' keeps' if count == 1 else 's keep'} r{number}"
        return f"new runs pin it; {self.outlook.runs:,} running runs keep theirs"


def change_of(actor: Actor, name: str, spec: FabricSpec, text: str, *, sound: bool = True) -> FabricChange:
    """A content against what is published. ``sound``: whether it could be published, so that what its cells promise can be worked out."""
    try:
        against = revision_get(actor, name)
    except Refused:
        against = None
    found = spec_changes(against.spec, spec) if against else ()
    return FabricChange(
        against=against,
        changes=found[:CHANGES_MAX],
        more=max(0, len(found) - CHANGES_MAX),
        diff=text_diff(exported(against), text) if against else (),
        deviations=tuple(deviations(spec)),
        second=second_person(actor, spec) if found or not against else (),
        outlook=change_outlook(actor, name, spec.digest()),
        stale=coverage_made_stale(actor, name, spec) if against and found else None,
        promises=_promises(_Sides(against.spec, spec)) if against and found and sound else (),
    )


class _Sides:
    """Two contents, told apart by their digests."""

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
    mark: Mark

    @property
    def drill(self) -> str:
        """Id of the drill that it is by, or that goes on; empty: none was."""
        one = self.view.now or self.view.last
        return one.id if one else ""


@dataclass(frozen=True, slots=True)
class DraftBoard:
    """The 24 cells of a draft, and how far its drills are."""

    rows: tuple[tuple[FailureType, tuple[DrilledCell, ...]], ...]
    passed: int
    deviated: int
    unknown: int
    """Cells without a verdict about this draft, or none that says anything: never counted as passed."""
    going: int
    """Drills that wait or run."""
    done: int
    """Of the batches that go on."""
    asked: int
    """The same: all of them."""

    @property
    def begun(self) -> bool:
        """Whether anything of it was drilled or is."""
        return any(cell.drill for _, cells in self.rows for cell in cells)


def board_of(found: DraftDrills) -> DraftBoard:
    """What the cells of a draft have been shown to do, as a table."""
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
