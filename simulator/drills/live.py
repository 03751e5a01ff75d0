"""Cells of the decision table on real workers, a real broker, database and clock; the failures come from the provider seam."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from fabric.core.flow import TERMINAL, RunState
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from simulator.chaos.harness import Site, until
from simulator.chaos.rows import Rows, start_each
from simulator.drills.cells import Cell, promised_by, verdict_of
from simulator.drills.expectation import Chain, chain_of
from simulator.drills.sustained import places

PROVIDER = "simulator.drills.provider.FailingProvider"
DONE_S = 120.0
"""Seconds in which every run must have ended or ask a person."""
RESTING = {*map(str, TERMINAL), str(RunState.WAITING)}


def drill_live(made: Site, spec: FabricSpec, cells: Sequence[tuple[FailureType, Tier]]) -> list[Cell]:
    """Runs the cells of a fabric at once on a site whose provider is ``PROVIDER``, and judges each by the fabric's own table.

    Nobody answers: a run that asks a person has shown what the cell promises up to there. TimeoutError when one does not come to rest.
    """
    rows = Rows.of(made.environment)
    asked = [{"fabric": _yaml(failing(spec, failure)), "runs": 1, "tier": str(tier)} for failure, tier in cells]
    runs = dict(zip(start_each(made, asked), cells, strict=True))
    until(lambda: set(rows.states().values()) <= RESTING, made, DONE_S)
    states, journals = rows.states(), rows.facts()
    found = []
    for run_id, (failure, tier) in runs.items():
        seen = chain_of(((fact["kind"], fact) for fact in journals[run_id]), RunState(states[run_id]))
        found.append(_cell(spec, failure, tier, seen))
    return found


def failing(spec: FabricSpec, failure: FailureType) -> FabricSpec:
    """The fabric under a name of its own, its models in the hands of the failure."""
    options = {"failure": str(failure), "places": asdict(places(spec))}
    models = tuple(model.model_copy(update={"options": options}) for model in spec.models)
    name = f"drill-{str(failure).replace('_', '-')}"
    return spec.model_copy(update={"name": name, "models": models})


def _yaml(spec: FabricSpec) -> str:
    """JSON, which YAML reads."""
    return json.dumps(spec.model_dump(mode="json", by_alias=True))


def _cell(spec: FabricSpec, failure: FailureType, tier: Tier, seen: Chain) -> Cell:
    promised, unknown = promised_by(spec, failure, tier, "reject")
    if promised is None:
        return Cell(failure, tier, "unknown", "not known", str(seen), 0, unknown)
    if seen.state is RunState.WAITING:
        promised = Chain(promised.links, RunState.WAITING, promised.asked)
    return Cell(failure, tier, verdict_of(seen, promised), str(promised), str(seen), 0)
