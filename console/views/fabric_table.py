"""The decision table of a fabric as its page shows it: 8 failure types in rows, 3 tiers in columns, a ladder of rungs in each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.decision_table import (
    COUNTED_PER,
    DEFAULT_TABLE,
    Accompaniment,
    CountScope,
    Ladder,
    Reaction,
    Rung,
    table_with,
)
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.revision_diff import rung_words

ICONS: Mapping[Reaction, str] = {
    Reaction.HALT: "lock",
    Reaction.ABORT: "block",
    Reaction.ESCALATE: "human",
    Reaction.SURFACE: "surface",
    Reaction.TERMINATE: "stop",
    Reaction.REPLAN: "replan",
    Reaction.HANDOVER: "handover",
    Reaction.SAFE_FALLBACK: "recov",
    Reaction.FALLBACK_MODEL: "swap",
    Reaction.CHEAPER_MODEL: "swap",
    Reaction.WAIT_FOR_BREAKER: "wait",
    Reaction.INJECT: "inject",
    Reaction.RETRY: "retry",
}
"""Icon of each reaction; total over ``Reaction``, by test."""

PER: Mapping[CountScope, str] = {
    CountScope.CALL: "a call",
    CountScope.STEP: "a step",
    CountScope.STAGE: "a stage",
    CountScope.UNBOUNDED: "",
}
"""What a rung's uses are counted for; total, by test."""


@dataclass(frozen=True, slots=True)
class RungLine:
    """One rung as it is drawn."""

    words: str
    icon: str
    times: int | None
    per: str
    last: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table: its ladder, and what it differs in."""

    failure: FailureType
    tier: Tier
    rungs: tuple[RungLine, ...]
    standard: str
    """The default ladder in words, where this one is another; empty: it is the default."""
    deviation: str
    """Why it may be laxer than required."""

    @property
    def anchor(self) -> str:
        """Where it stands on its page: whoever speaks of a cell links to it by this."""
        return cell_anchor(self.failure, self.tier)


Row = tuple[FailureType, tuple[Cell, ...]]
"""One failure type with its three cells."""


def cell_anchor(failure: FailureType | str, tier: Tier | str) -> str:
    """The fragment of a cell in the address of its page: ``?tab=table#cell-provider-batch``."""
    return f"cell-{failure}-{tier}"


def table_of(spec: FabricSpec) -> list[Row]:
    """The decision table in force: 8 rows of 3 cells."""
    table = table_with(spec.decision_table)
    return [(failure, tuple(_cell(failure, tier, table[failure, tier]) for tier in Tier)) for failure in FailureType]


def _cell(failure: FailureType, tier: Tier, ladder: Ladder) -> Cell:
    default = DEFAULT_TABLE[failure, tier]
    standard = "" if ladder.rungs == default.rungs else _spoken(rungs_of(default))
    return Cell(failure, tier, rungs_of(ladder), standard, ladder.deviation.strip())


def rungs_of(ladder: Ladder) -> tuple[RungLine, ...]:
    """A ladder's rungs, the last one marked."""
    return tuple(_rung(rung, rung is ladder.rungs[-1]) for rung in ladder.rungs)


def _rung(rung: Rung, last: bool) -> RungLine:
    icon = "lock" if Accompaniment.BLOCK in rung.with_ else ICONS[rung.reaction]
    words = rung_words(rung.model_dump(mode="json", by_alias=True))
    return RungLine(words, icon, rung.times, PER[COUNTED_PER[rung.reaction]], last)


def _spoken(rungs: tuple[RungLine, ...]) -> str:
    """On one line: ``retry ×2 → escalate``."""
    return " → ".join(f"{rung.words} ×{rung.times}" if rung.times else rung.words for rung in rungs)
