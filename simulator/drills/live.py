"""Cells of the decision table on real workers, a real broker, database and clock; the failures come from the provider seam."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

import psycopg
from httpx2 import URL

from fabric.adapters.tools.outbound import authority
from fabric.core.flow import TERMINAL, RunState
from fabric.core.spec import FabricSpec
from fabric.core.spec_topology import Tiers
from fabric.core.taxonomy import FailureType, Tier
from fabric.services.errors import Refused
from simulator.chaos.harness import Site, site, until
from simulator.chaos.rows import Rows, start_each
from simulator.drills import in_place
from simulator.drills.baseline import REQUEST
from simulator.drills.cells import Cell, promised_by, verdict_of
from simulator.drills.equipping import equipped
from simulator.drills.expectation import Chain, chain_of
from simulator.kernel.swarm import DOCUMENTS

PROVIDER = "simulator.drills.provider.FailingProvider"
DONE_S = 180.0
"""Seconds in which every run must have ended or ask a person."""
RESTING = {*map(str, TERMINAL), str(RunState.WAITING)}
WORKERS = {"sqlite": 1, "postgresql": 2}
"""By database: of SQLite one process drives all runs."""


def drilled_live(spec: FabricSpec, cells: Sequence[tuple[FailureType, Tier]], db: str) -> list[Cell]:
    """The cells on an installation that is there for them alone. Raises Refused where its servers do not answer, or the cells do not come to rest in time."""
    try:
        with site(db, provider=PROVIDER, workers=WORKERS[db], more=outside(spec)) as made:
            return drill_live(made, spec, cells)
    except psycopg.OperationalError as error:
        said = " ".join(str(error).split())[:300]
        raise Refused(
            f"--live: PostgreSQL does not answer: {said}; start it, or use --db sqlite", code="unavailable"
        ) from None
    except TimeoutError as error:
        raise Refused(f"--live: {error}", code="unavailable") from None


def drill_live(
    made: Site, spec: FabricSpec, cells: Sequence[tuple[FailureType, Tier]], *, done_s: float = DONE_S
) -> list[Cell]:
    """Runs the cells of a fabric at once on a site whose provider is ``PROVIDER``, and judges each by the fabric's own table.

    Nobody answers: a run that asks a person has shown what the cell promises up to there. TimeoutError when one does not come to rest.
    """
    rows = Rows.of(made.environment)
    met = {failure: equipped(spec, failure) for failure, _ in cells}
    asked = [
        {
            "fabric": _yaml(failing(met[failure][0], failure)),
            "runs": 1,
            "tier": str(tier),
            "text": REQUEST,
            "documents": [(one.name, one.text) for one in DOCUMENTS],
        }
        for failure, tier in cells
    ]
    runs = dict(zip(start_each(made, asked), cells, strict=True))
    until(lambda: {rows.states()[one] for one in runs} <= RESTING, made, done_s)
    states, journals = rows.states(), rows.facts()
    found = []
    for run_id, (failure, tier) in runs.items():
        seen = chain_of(((fact["kind"], fact) for fact in journals[run_id]), RunState(states[run_id]))
        seed = next(fact["seed"] for fact in journals[run_id] if fact["kind"] == "run_started")
        found.append(_cell(*met[failure], failure, tier, seen, seed))
    return found


def outside(spec: FabricSpec) -> dict[str, str]:
    """What the operator of a throwaway installation lets a fabric reach, run and hand out: without that it could not be published. No drill does any of it."""
    asked = [(tool.target, tool.headers_from) for tool in spec.tools if tool.kind == "http"]
    asked += [(server.url, server.headers_from) for server in spec.mcp_servers if server.transport == "http"]
    commands = [server for server in spec.mcp_servers if server.transport == "stdio"]
    sent = {f"{name}@{authority(URL(url))}" for url, headers in asked for name in headers.values()}
    handed = {name for server in commands for name in server.variables}
    return {
        "FABRIC_ALLOWED_HOSTS": ",".join(sorted({authority(URL(url)) for url, _ in asked})),
        "FABRIC_MCP_COMMANDS": ";".join(shlex.join((server.command, *server.args)) for server in commands),
        "FABRIC_TOOL_VARIABLES": ",".join(sorted(sent | handed)),
    }


def failing(spec: FabricSpec, failure: FailureType) -> FabricSpec:
    """The fabric under a name of its own, its models in the hands of the failure; any tier may be asked for."""
    spec, options = in_place.failing(spec, failure)
    own = {"options": options, "provider": "scripted", "base_url": ""}
    models = tuple(model.model_copy(update=own) for model in spec.models)
    tiers = spec.tiers.model_copy(update={"allowed": Tiers().allowed})
    name = f"drill-{str(failure).replace('_', '-')}"
    return spec.model_copy(update={"name": name, "models": models, "tiers": tiers})


def _yaml(spec: FabricSpec) -> str:
    """JSON, which YAML reads."""
    return json.dumps(spec.model_dump(mode="json", by_alias=True))


def _cell(spec: FabricSpec, lacked: str, failure: FailureType, tier: Tier, seen: Chain, seed: int) -> Cell:
    # The cells run at once, in one installation: three tiers of one fabric, and all of them at one provider.
    promised, unknown = promised_by(spec, failure, tier, "waited_for", alone=False)
    if promised is None:
        return Cell(failure, tier, "unknown", "not known", str(seen), seed, unknown, lacked)
    return Cell(failure, tier, verdict_of(seen, promised), str(promised), str(seen), seed, "", lacked)
