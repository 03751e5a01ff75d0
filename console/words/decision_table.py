"""Describes a fabric's decision table for its page. It has 8 failure types in rows, 3 tiers in columns, and a ladder in
each cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import (
    DEFAULT_TABLE,
    Accompaniment,
    CountScope,
    Ladder,
    Reaction,
    Rung,
    table_with,
)
from fabric.core.spec.retry_layers import ROWS, Ladders, Layer, LayerRung, find_layer, ladders
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.fabrics.differences import rung_words

ICONS: Mapping[Reaction, str] = {
    Reaction.HALT: "lock",
    Reaction.ABORT: "block",
    Reaction.ESCALATE: "human",
    Reaction.SURFACE: "surface",
    Reaction.TERMINATE: "stop",
    Reaction.REPLAN: "replan",
    Reaction.HANDOVER: "handover",
    Reaction.SAFE_FALLBACK: "recov",
    Reaction.FALLBACK_MODEL: "exchange",
    Reaction.CHEAPER_MODEL: "exchange",
    Reaction.WAIT_FOR_BREAKER: "wait",
    Reaction.ACCEPT_PARTIAL: "surface",
    Reaction.ROUTE: "handover",
    Reaction.GO_BACK: "replan",
    Reaction.RETRY_NODE: "retry",
    Reaction.INJECT: "inject",
    Reaction.RETRY: "retry",
}
"""Icon of each reaction; total over ``Reaction``, by test."""

MEANINGS: Mapping[Reaction, str] = {
    Reaction.RETRY: "makes the call again; after a check, the agent works once more with a note",
    Reaction.FALLBACK_MODEL: "makes the call again on the next fallback of the model",
    Reaction.CHEAPER_MODEL: "makes the call again on the cheaper model, if money is the cause",
    Reaction.WAIT_FOR_BREAKER: "waits until the circuit breaker lets calls pass",
    Reaction.INJECT: "sends the agent a correction",
    Reaction.ESCALATE: "asks a person, and waits for the answer",
    Reaction.REPLAN: "makes a new plan, and tells the planner why",
    Reaction.HANDOVER: "gives the work to the stronger agent of the topology",
    Reaction.TERMINATE: "lets the agent answer once more, without tools",
    Reaction.SAFE_FALLBACK: "ends the run with the static answer of the fabric",
    Reaction.SURFACE: "ends the run with an error and the partial result; in a fan-out, the branch",
    Reaction.ABORT: "ends the run: no more calls, and calls in flight finish",
    Reaction.HALT: "ends the run at once: calls in flight are abandoned",
    Reaction.ACCEPT_PARTIAL: "takes the partial result of the node",
    Reaction.ROUTE: "follows the rule of the graph for this failure",
    Reaction.GO_BACK: "goes back to the retry target of the node",
    Reaction.RETRY_NODE: "runs the node once more",
}
"""The effect of each reaction, with the rung as its subject; total, by test."""

PER: Mapping[CountScope, str] = {
    CountScope.CALL: "a call",
    CountScope.NODE: "a node",
    CountScope.STEP: "a step",
    CountScope.STAGE: "a stage",
    CountScope.UNBOUNDED: "",
}
"""Unit for which a rung's uses are counted; total, by test."""


@dataclass(frozen=True, slots=True)
class RungLine:
    """One rung as the page shows it."""

    words: str
    icon: str
    times: int | None
    per: str
    last: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table: its ladder, and its differences from the default."""

    failure: FailureType
    tier: Tier
    rungs: tuple[RungLine, ...]
    standard: str
    """The default ladder in words; empty if this one equals it."""
    deviation: str
    """Reason why it may be laxer than required."""
    stages: tuple[tuple[Stage, str], ...] = ()
    """Stages with a cell of their own, each with its ladder in words."""
    layered: bool = False
    """True if retry layers stand before its rungs."""

    @property
    def anchor(self) -> str:
        """Return the anchor of the cell, to which other pages link."""
        return cell_anchor(self.failure, self.tier)


Row = tuple[FailureType, tuple[Cell, ...]]
"""One failure type with its three cells."""


def cell_anchor(failure: FailureType | str, tier: Tier | str) -> str:
    """Return the fragment of a cell in the address of its page: ``?tab=table#cell-provider-batch``."""
    return f"cell-{failure}-{tier}"


def build_table(spec: FabricSpec) -> list[Row]:
    """Return the decision table in force: 8 rows of 3 cells."""
    found = ladders(table_with(spec.decision_table), spec)
    return [(failure, tuple(_cell(failure, tier, found, spec) for tier in Tier)) for failure in FailureType]


def _cell(failure: FailureType, tier: Tier, found: Ladders, spec: FabricSpec) -> Cell:
    ladder, default = found.table[failure, tier], DEFAULT_TABLE[failure, tier]
    standard = "" if ladder.rungs == default.rungs else _spell_ladder(list_rungs(default))
    layered = found.presets and len(ROWS[failure]) > 1
    shown = tuple(rung for rung in ladder.rungs if not layered or rung.reaction not in LAID)
    return Cell(
        failure,
        tier,
        tuple(_rung(rung, rung is shown[-1]) for rung in shown),
        standard,
        ladder.deviation.strip(),
        tuple(
            (one.stage, _spell_ladder(list_rungs(one.ladder)))
            for one in spec.cells
            if one.stage is not None and (one.failure, one.tier) == (failure, tier)
        ),
        layered,
    )


LAID = frozenset({Reaction.RETRY, Reaction.FALLBACK_MODEL})
"""Reactions that the retry layers replace, if there are any."""


@dataclass(frozen=True, slots=True)
class LayersLine:
    """The layers of a stage's nodes, which come before its cells."""

    stage: Stage
    rungs: tuple[tuple[str, RungLine], ...]
    """Rungs, each with its layer."""


def list_layers(spec: FabricSpec) -> list[LayersLine]:
    """Return the retry layers of a provider's failure in each stage, for the default tier; empty without layers."""
    found = ladders(table_with(spec.decision_table), spec)
    if not found.presets:
        return []
    lines = []
    for stage in Stage:
        rungs = found.find_ladder(FailureType.PROVIDER, spec.tiers.default, stage).rungs
        layered = ((find_layer(rung), rung) for rung in rungs)
        lines.append(
            LayersLine(
                stage, tuple((layer, _rung(rung, last=False)) for layer, rung in layered if layer != Layer.RUN_FAILURE)
            )
        )
    return lines


def ladder_in(found: Ladders, failure: FailureType, tier: Tier, stage: Stage) -> tuple[tuple[RungLine, ...], bool]:
    """Return the whole ladder of a failure in a stage, with layers and rules. True: it is more than its cell."""
    laid = found.layered.get((failure, tier, stage))
    layered = laid is not None and list_rungs(laid) != list_rungs(found.table[failure, tier])
    return list_rungs(found.find_ladder(failure, tier, stage)), layered


def list_rungs(ladder: Ladder) -> tuple[RungLine, ...]:
    """Return a ladder's rungs, the last one marked."""
    return tuple(_rung(rung, rung is ladder.rungs[-1]) for rung in ladder.rungs)


def _rung(rung: Rung, last: bool) -> RungLine:
    icon = "lock" if Accompaniment.BLOCK in rung.with_ else ICONS[rung.reaction]
    words = rung_words(rung.model_dump(mode="json", by_alias=True))
    if isinstance(rung, LayerRung) and rung.failure_class is not None:
        words = f"{words} ({rung.failure_class.replace('_', ' ')})"
    return RungLine(words, icon, rung.times, PER[rung.counted_per], last)


def _spell_ladder(rungs: tuple[RungLine, ...]) -> str:
    """Return a ladder on one line: ``retry ×2 → escalate``."""
    return " → ".join(f"{rung.words} ×{rung.times}" if rung.times else rung.words for rung in rungs)
