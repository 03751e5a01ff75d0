"""A model's answerer learns whether the run that asks was spawned by another one, as its lineage says."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from fabric.composition import engine as wiring
from fabric.models import Run
from fabric.services.fabrics.revisions import fabric_publish
from simulator.agents.provider import ScriptedProvider
from tests.fabric.services.world import SMALL, actor, ran

__all__ = ["actor"]
BRIEFS = [{"agent": "reader", "title": f"Part {n}", "instructions": f"Read part {n}."} for n in range(3)]
FAMILY = (
    SMALL.replace("name: small", "name: family")
    .replace("  planner: planner\n", f"  plan: {json.dumps({'goal': 'G', 'briefs': BRIEFS, 'exit_criteria': ['E']})}\n")
    .replace("policy:\n", "policy:\n  limits: {fan_out_inline_max: 2}\n")
)


class Noting(ScriptedProvider):
    """The scripted agents, which note who asks."""

    seen: ClassVar[dict[str, bool]] = {}

    async def ask(self, request):
        """The scripted agent's answer."""
        self.seen[request.run_id] = request.child
        return await super().ask(request)


@pytest.fixture(autouse=True)
def _another_process(settings):
    settings.FABRIC_PROVIDERS = {"scripted": f"{__name__}.Noting"}
    for kept in (wiring.store, wiring.compile_published, wiring._revision):
        kept.cache_clear()
    Noting.seen.clear()


def test_a_child_is_known_by_its_lineage(actor):
    fabric_publish(actor=actor, source=FAMILY)
    ran(actor, "family")
    ran(actor, fabric_publish(actor=actor, source=SMALL).name)
    children = set(Run.objects.filter(parent_run_id__isnull=False).values_list("id", flat=True))
    assert len(children) == 2
    assert {run_id for run_id, child in Noting.seen.items() if child} == children
    assert len(Noting.seen) > len(children)
