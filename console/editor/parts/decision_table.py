"""Draws the decision table as a grid of 8 failure types and 3 tiers. One cell is open at a time, and a supposed failure
walks down its ladder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.forms.controls.fields import MISSING, EditField, Missing, at, limit_options
from console.forms.drafts.fields import standing
from console.templatetags.marks import FAILURES, TIERS
from console.words.decision_table import ICONS, MEANINGS, PER, cell_anchor
from fabric.composition import engine as wiring
from fabric.core.spec.policies.decision_table import (
    BOUNDED_ONLY,
    COUNTED_PER,
    LAYERS_ONLY,
    Accompaniment,
    CountScope,
    Reaction,
)
from fabric.core.supposed import NotSupposed, Supposed, Supposing, suppose_failure
from fabric.core.texts.three_way import same
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.selectors.fabrics.differences import rung_words

REACTIONS = tuple(str(one) for one in Reaction if one not in LAYERS_ONLY)
"""The reactions that an author may write into a cell."""
WITH_ROLE = frozenset({str(Reaction.ESCALATE)})
WITH_CRITIC = frozenset({str(Reaction.REPLAN)})


@dataclass(frozen=True, slots=True)
class RungMark:
    """A rung as it stands in a cell; what is no rung is shown as what it is."""

    words: str
    icon: str
    times: str
    last: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the grid."""

    failure: FailureType
    tier: Tier
    path: str
    rungs: tuple[RungMark, ...]
    before: str
    """Ladder at the draft's start if it differed; ``""``: unchanged."""
    own: bool
    """True if the draft sets it."""
    deviation: str
    level: str
    """The gravest remark about it; empty: there is none."""
    open: bool
    lit: bool
    """True if the supposed failure meets this cell."""

    @property
    def key(self) -> str:
        """In the address."""
        return f"{self.failure}.{self.tier}"

    @property
    def anchor(self) -> str:
        """Its id."""
        return cell_anchor(self.failure, self.tier)


@dataclass(frozen=True, slots=True)
class RungForm:
    """One rung of the open cell."""

    number: int
    path: str
    last: bool
    reaction: EditField
    times: EditField
    accompany: EditField
    role: EditField | None
    critic: EditField | None
    poll: EditField | None
    per: str
    """Scope in which its uses are counted."""
    means: str
    """Effect of its reaction; empty: it has no reaction."""
    ending: bool
    """True if it can be the last step."""


@dataclass(frozen=True, slots=True)
class OpenCell:
    """The cell that is edited."""

    cell: Cell
    rungs: tuple[RungForm, ...]
    deviation: EditField
    default: str
    """The default ladder in words."""


def build(editing: Editing) -> dict[str, Any]:
    """The grid, the open cell, and the failure that is supposed."""
    chosen, simulated = editing.asked.get("cell", ""), editing.asked.get("simulate", "")
    stage = next((one for one in Stage if one == editing.asked.get("stage")), None)
    root = "decision_table" if stage is None else f"policy.stages.{stage}.decision_table"
    rows = [
        (failure, FAILURES[failure], [_cell(editing, root, failure, tier, chosen, simulated) for tier in Tier])
        for failure in FailureType
    ]
    cells = [cell for _, _, row in rows for cell in row]
    opened = next((cell for cell in cells if cell.open), None)
    lit = next((cell for cell in cells if cell.lit), None)
    tiers = at(editing.tree, "tiers.default")
    return {
        "rows": rows,
        "columns": [(tier, TIERS[tier]) for tier in Tier],
        "default_tier": tiers if isinstance(tiers, str) else str(Tier.INTERACTIVE),
        "changed": sum(cell.own for cell in cells),
        "opened": _opened(editing, opened) if opened is not None else None,
        "walk": _walked(editing, lit, stage) if lit is not None else None,
        "kept": {"cell": chosen if opened else ""},
        "meanings": [(one.replace("_", " "), MEANINGS[Reaction(one)]) for one in REACTIONS],
        "stage": stage or "",
        "stages": [(one, _cells_of(editing, one)) for one in Stage],
        "of_stage": f"&stage={stage}" if stage else "",
    }


def _cell(editing: Editing, root: str, failure: FailureType, tier: Tier, chosen: str, simulated: str) -> Cell:
    path = f"{root}.{failure}.{tier}"
    now, base = _ladder(editing.tree, path), _ladder(editing.base, path)
    about = [one for one in editing.checked.findings if one.path == path or one.path.startswith(f"{path}.")]
    deviation = now.get("deviation")
    key = f"{failure}.{tier}"
    return Cell(
        failure=failure,
        tier=tier,
        path=path,
        rungs=tuple(marks(now)),
        before="" if same(now, base) else spoken(base),
        own=at(editing.tree, path) is not MISSING and not same(now, _default(editing.tree, path)),
        deviation=deviation if isinstance(deviation, str) else "",
        level=next((level for level in ("error", "warning") if any(one.level == level for one in about)), ""),
        open=key == chosen,
        lit=key == simulated,
    )


def _cells_of(editing: Editing, stage: Stage) -> int:
    """Return how many cells of its own a stage has."""
    rows = at(editing.tree, f"policy.stages.{stage}.decision_table")
    return sum(len(row) for row in rows.values() if isinstance(row, dict)) if isinstance(rows, dict) else 0


def _ladder(tree: JSON, path: str) -> dict[str, JSON]:
    """A cell as the tree has it, or as the default table does."""
    found = at(tree, path)
    found = standing(tree, path) if isinstance(found, Missing) else found
    return found if isinstance(found, dict) else {"rungs": []}


def _default(tree: JSON, path: str) -> dict[str, JSON]:
    """Return the ladder in force where a cell is not written. The fabric takes the default table's, a stage takes the
    fabric's.
    """
    cell = path.rpartition("decision_table.")[2]
    return _ladder(tree if path.startswith("policy.") else {}, f"decision_table.{cell}")


def marks(ladder: dict[str, JSON]) -> Iterator[RungMark]:
    """Return a ladder's rungs, even where they are wrong."""
    rungs = ladder.get("rungs")
    listed = rungs if isinstance(rungs, list) else []
    for n, rung in enumerate(listed):
        last = n == len(listed) - 1
        if not isinstance(rung, dict) or rung.get("reaction") not in REACTIONS:
            yield RungMark("no reaction", "unknown", "", last)
            continue
        accompany = rung.get("with")
        blocked = isinstance(accompany, list) and Accompaniment.BLOCK in accompany
        sound = {**rung, "with": [str(one) for one in accompany] if isinstance(accompany, list) else []}
        times = rung.get("times")
        yield RungMark(
            rung_words(sound), "lock" if blocked else ICONS[Reaction(rung["reaction"])], "" if times is None else str(times), last
        )  # fmt: skip


def spoken(ladder: dict[str, JSON]) -> str:
    """On one line: ``retry ×2 → escalate``."""
    return " → ".join(f"{one.words} ×{one.times}" if one.times else one.words for one in marks(ladder))


def _opened(editing: Editing, cell: Cell) -> OpenCell:
    rungs = _ladder(editing.tree, cell.path).get("rungs")
    listed = rungs if isinstance(rungs, list) else []
    return OpenCell(
        cell,
        tuple(_rung(editing, cell.path, n, rung, n == len(listed) - 1) for n, rung in enumerate(listed)),
        editing.field(f"{cell.path}.deviation"),
        spoken(_default(editing.tree, cell.path)),
    )


def _rung(editing: Editing, cell: str, n: int, rung: JSON, last: bool) -> RungForm:
    path = f"{cell}.rungs.{n}"
    reaction = str(rung.get("reaction")) if isinstance(rung, dict) else ""
    known = reaction in REACTIONS
    chosen = editing.field(f"{path}.reaction")
    return RungForm(
        number=n + 1,
        path=path,
        last=last,
        reaction=limit_options(chosen, REACTIONS),
        times=editing.field(f"{path}.times"),
        accompany=editing.field(f"{path}.with"),
        role=editing.field(f"{path}.role") if reaction in WITH_ROLE else None,
        critic=editing.field(f"{path}.critic") if reaction in WITH_CRITIC else None,
        poll=editing.field(f"{path}.poll") if reaction in WITH_ROLE and not last else None,
        per=PER[_counted_per(rung)] if known else "",
        means=MEANINGS[Reaction(reaction)] if known else "",
        ending=known and Reaction(reaction) not in BOUNDED_ONLY,
    )


def _counted_per(rung: dict[str, JSON]) -> CountScope:
    return CountScope.STEP if rung.get("poll") is True else COUNTED_PER[Reaction(rung["reaction"])]


@dataclass(frozen=True, slots=True)
class Walk:
    """A failure that is supposed, walked down the ladder of its cell."""

    cell: Cell
    told: Supposed | None
    problem: str
    """Why there is none; empty: there is one."""


def _walked(editing: Editing, cell: Cell, stage: Stage | None) -> Walk:
    if editing.spec is None:
        return Walk(cell, None, "The draft has errors: fix the listed problems first.")
    if cell.tier not in editing.spec.tiers.allowed:
        return Walk(cell, None, f"No run may pick the tier {TIERS[cell.tier]} in this fabric.")
    try:
        compiled = wiring.compile_under(editing.spec, editing.policy, cell.tier, "")
        return Walk(cell, suppose_failure(compiled, cell.failure, cell.tier, Supposing(stage=stage)), "")
    except NotSupposed as error:
        return Walk(cell, None, str(error))
