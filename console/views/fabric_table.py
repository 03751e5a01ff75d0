"""The decision table of a fabric as its page shows it: 8 failure types in rows, 3 tiers in columns, a ladder of rungs in each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.decision_table import (
    DEFAULT_TABLE,
    Accompaniment,
    CountScope,
    Ladder,
    Reaction,
    Rung,
    table_with,
)
from fabric.core.flow import Stage
from fabric.core.retry_layers import ROWS, Ladders, Layer, LayerRung, ladders, layer_of
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
    Reaction.ACCEPT_PARTIAL: "surface",
    Reaction.ROUTE: "handover",
    Reaction.GO_BACK: "replan",
    Reaction.RETRY_NODE: "retry",
    Reaction.INJECT: "inject",
    Reaction.RETRY: "retry",
}
"""Icon of each reaction; total over ``Reaction``, by test."""

PER: Mapping[CountScope, str] = {
    CountScope.CALL: "a call",
    CountScope.NODE: "a node",
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
    layered: bool = False
    """Whether retry layers stand before its rungs."""

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
    found = ladders(table_with(spec.decision_table), spec)
    return [(failure, tuple(_cell(failure, tier, found) for tier in Tier)) for failure in FailureType]


def _cell(failure: FailureType, tier: Tier, found: Ladders) -> Cell:
    ladder, default = found.table[failure, tier], DEFAULT_TABLE[failure, tier]
    standard = "" if ladder.rungs == default.rungs else _spoken(rungs_of(default))
    layered = found.presets and len(ROWS[failure]) > 1
    shown = tuple(rung for rung in ladder.rungs if not layered or rung.reaction not in LAID)
    return Cell(
        failure,
        tier,
        tuple(_rung(rung, rung is shown[-1]) for rung in shown),
        standard,
        ladder.deviation.strip(),
        layered,
    )


LAID = frozenset({Reaction.RETRY, Reaction.FALLBACK_MODEL})
"""Rungs of a cell that are the layers' to say where there are any."""


@dataclass(frozen=True, slots=True)
class LayersLine:
    """The layers of a stage's nodes, in front of what its cells say."""

    stage: Stage
    rungs: tuple[tuple[str, RungLine], ...]
    """Each with the layer that it belongs to."""


def layers_of(spec: FabricSpec) -> list[LayersLine]:
    """What a provider's failure goes through in each stage before the cell's own rungs, in the tier that is the fabric's default; empty without layers."""
    found = ladders(table_with(spec.decision_table), spec)
    if not found.presets:
        return []
    lines = []
    for stage in Stage:
        rungs = found.at(FailureType.PROVIDER, spec.tiers.default, stage).rungs
        layered = ((layer_of(rung), rung) for rung in rungs)
        lines.append(
            LayersLine(
                stage, tuple((layer, _rung(rung, last=False)) for layer, rung in layered if layer != Layer.RUN_FAILURE)
            )
        )
    return lines


def ladder_in(found: Ladders, failure: FailureType, tier: Tier, stage: Stage) -> tuple[tuple[RungLine, ...], bool]:
    """All that a failure in that stage goes down, layers and ways by rules included; and whether that is more than its cell."""
    laid = found.layered.get((failure, tier, stage))
    layered = laid is not None and rungs_of(laid) != rungs_of(found.table[failure, tier])
    return rungs_of(found.at(failure, tier, stage)), layered


def rungs_of(ladder: Ladder) -> tuple[RungLine, ...]:
    """A ladder's rungs, the last one marked."""
    return tuple(_rung(rung, rung is ladder.rungs[-1]) for rung in ladder.rungs)


def _rung(rung: Rung, last: bool) -> RungLine:
    icon = "lock" if Accompaniment.BLOCK in rung.with_ else ICONS[rung.reaction]
    words = rung_words(rung.model_dump(mode="json", by_alias=True))
    if isinstance(rung, LayerRung) and rung.failure_class is not None:
        words = f"{words} ({rung.failure_class.replace('_', ' ')})"
    return RungLine(words, icon, rung.times, PER[rung.counted_per], last)


def _spoken(rungs: tuple[RungLine, ...]) -> str:
    """On one line: ``retry ×2 → escalate``."""
    return " → ".join(f"{rung.words} ×{rung.times}" if rung.times else rung.words for rung in rungs)
