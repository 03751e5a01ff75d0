"""Shipped scenarios with the tools that everybody begins with: they repeat what they are asked, and meet the row that they are named after all the same."""

from __future__ import annotations

import pytest

from fabric.adapters.tools.builtin_documents import search_documents
from fabric.core.inputs import ToolFinished
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.runtime.call_ports import ToolRequest
from fabric.runtime.ports import Document
from simulator.drills.observed import observed
from simulator.kernel.agents import Reply
from simulator.kernel.world import World
from simulator.scenarios.injection import Injection
from simulator.scenarios.shipped import shipped
from tests.simulator.drills.drilled import drilled
from tests.simulator.kernel import worlds

DOCUMENTS = (Document("log.md", "Nobody paints it."),)
ROWS = {"tool-loop-in-other-words": "infinite_tool_loop", "search-without-finding": "semantic_no_progress"}


def searching() -> FabricSpec:
    plain = drilled().model_dump(mode="json")
    plain["tools"] = [{"name": "search_documents"}]
    for agent in plain["agents"]:
        agent["tools"] = ["search_documents"] * bool(agent["tools"])
    return FabricSpec.model_validate(plain)


def lived(name: str, tier: Tier) -> World:
    scenario, spec = shipped(name), searching()
    world = worlds.world(spec, tier=tier)
    struck = Injection(scenario.disturbances(), spec).asking(worlds.cooperative, world.clock.now)

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
    decided = [row.header for row in world.store.rows(run.id) if row.kind == "reaction_decided"]
    assert f'"failure_type":"{ROWS[name]}"'.encode() in decided[0], str(observed(world))
