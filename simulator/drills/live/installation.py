"""Drills cells on real workers, a real broker, database and clock, in a temporary installation.

Failures come from the provider that ``PROVIDER`` names.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

import psycopg
from httpx2 import URL

from fabric.core.schema.topology import Tiers
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.http.transport import authority
from fabric.services.errors import Refused
from simulator.drills.live import cells as in_place
from simulator.installation.workers import Rows, Site, publish_and_start, temporary_site, wait_until
from simulator.scenarios.baseline.equipment import equip_fabric
from simulator.scenarios.baseline.work import REQUEST
from simulator.scenarios.play.cells import find_verdict, promised_by
from simulator.scenarios.play.verdicts import Cell
from simulator.scenarios.promises.expectation import Chain, build_chain
from simulator.swarm.setups import DOCUMENTS

PROVIDER = "simulator.drills.live.provider.FailingProvider"
DONE_S = 180.0
"""Seconds in which every run must end or open a review."""
RESTING = {*map(str, TERMINAL), str(RunState.WAITING)}
WORKERS = {"sqlite": 1, "postgresql": 2}
"""Number of workers by database: with SQLite one process drives all runs."""


def drilled_live(spec: FabricSpec, cells: Sequence[tuple[FailureType, Tier]], db: str) -> list[Cell]:
    """Drill the cells in an installation that exists only for them.

    Raises Refused if its servers do not answer, or the cells do not come to rest in time.
    """
    try:
        with temporary_site(db, provider=PROVIDER, workers=WORKERS[db], more=outside(spec)) as made:
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
    """Run the cells of a fabric together on a site whose provider is ``PROVIDER``. Judge each by the fabric's own
    table.

    No person answers: a run that opens a review has shown its cell's promise up to there. Raises TimeoutError for a
    run that does not come to rest.
    """
    rows = Rows.from_environment(made.environment)
    met = {failure: equip_fabric(spec, failure) for failure, _ in cells}
    asked = [
        {
            "fabric": _yaml(make_failing(met[failure][0], failure)),
            "runs": 1,
            "tier": str(tier),
            "text": REQUEST,
            "documents": [(one.name, one.text) for one in DOCUMENTS],
        }
        for failure, tier in cells
    ]
    runs = dict(zip(publish_and_start(made, asked), cells, strict=True))

    def at_rest() -> bool:
        now = rows.read_states()
        return {now[one] for one in runs} <= RESTING

    wait_until(at_rest, made, done_s)
    states, journals = rows.read_states(), rows.read_facts()
    found = []
    for run_id, (failure, tier) in runs.items():
        seen = build_chain(((fact["kind"], fact) for fact in journals[run_id]), RunState(states[run_id]))
        seed = next(fact["seed"] for fact in journals[run_id] if fact["kind"] == "run_started")
        found.append(_cell(*met[failure], failure, tier, seen, seed))
    return found


def outside(spec: FabricSpec) -> dict[str, str]:
    """Return the settings that let a temporary installation publish the fabric: its addresses, commands and
    variables.

    No drill uses any of them.
    """
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


def make_failing(spec: FabricSpec, failure: FailureType) -> FabricSpec:
    """Return the fabric under a name of its own, with failing models, for any tier."""
    spec, options = in_place.make_failing(spec, failure)
    own = {"options": options, "provider": "scripted", "base_url": ""}
    models = tuple(model.model_copy(update=own) for model in spec.models)
    tiers = spec.tiers.model_copy(update={"allowed": Tiers().allowed})
    name = f"drill-{str(failure).replace('_', '-')}"
    return spec.model_copy(update={"name": name, "models": models, "tiers": tiers})


def _yaml(spec: FabricSpec) -> str:
    """Return the fabric as JSON, which is valid YAML."""
    return json.dumps(spec.model_dump(mode="json", by_alias=True))


def _cell(spec: FabricSpec, lacked: str, failure: FailureType, tier: Tier, seen: Chain, seed: int) -> Cell:
    # The cells run at once, in one installation: three tiers of one fabric, and all of them at one provider.
    promised, unknown = promised_by(spec, failure, tier, "waited_for", alone=False)
    if promised is None:
        return Cell(failure, tier, "unknown", "not known", str(seen), seed, unknown, lacked)
    return Cell(failure, tier, find_verdict(seen, promised), str(promised), str(seen), seed, "", lacked)
