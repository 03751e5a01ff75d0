"""Shipped scenarios with the built-in tools: they repeat what they are asked, and meet the row that they are named after all the same."""

from __future__ import annotations

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import ToolFinished
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.calls import ToolRequest
from fabric.runtime.ports.journal import Document
from fabric.tools.documents import search_documents
from simulator.cast.agents import Reply
from simulator.scenarios.baseline.work import observe_chain
from simulator.scenarios.spec.collection import find_shipped
from simulator.scenarios.strikes.injection import Injection
from simulator.world.world import World
from tests.simulator.drills.drilled import drilled
from tests.simulator.world import quiet_worlds

DOCUMENTS = (Document("log.md", "Nobody paints it."),)
ROWS = {"tool-loop-in-other-words": "infinite_tool_loop", "search-without-finding": "semantic_no_progress"}


def searching() -> FabricSpec:
    plain = drilled().model_dump(mode="json")
    plain["tools"] = [{"name": "search_documents"}]
    for agent in plain["agents"]:
        agent["tools"] = ["search_documents"] * bool(agent["tools"])
    return FabricSpec.model_validate(plain)


def lived(name: str, tier: Tier) -> World:
    scenario, spec = find_shipped(name), searching()
    world = quiet_worlds.world(spec, tier=tier)
    struck = Injection(scenario.disturbances(), spec).strike_model(quiet_worlds.cooperative, world.clock.now)

    def serve(request: ToolRequest) -> Reply:
        found = search_documents(DOCUMENTS, **request.args)
        return Reply(0.1, ToolFinished(command_id=request.command_id, attempt=request.attempt, result=found))

    world.ask, world.serve = struck, serve
    world.run()
    return world


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("name", ROWS)
def test_a_scenario_meets_its_row_with_the_built_in_search(name, tier):
    world = lived(name, tier)
    assert world.watch.violations == []
    [run] = world.watch.runs()
    decided = [row.header for row in split_rows(world.store.rows(run.id)) if row.kind == "reaction_decided"]
    assert f'"failure_type":"{ROWS[name]}"'.encode() in decided[0], str(observe_chain(world))
