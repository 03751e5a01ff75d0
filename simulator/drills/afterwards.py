"""The run after a drill: begun in the same world once what was disturbed is put back, with whatever the first has left of breakers and budgets."""

from __future__ import annotations

from fabric.core.run import Run
from fabric.runtime.call_ports import ModelRequest, ToolRequest
from simulator.drills.baseline import Ask, Disturbing, Serve
from simulator.kernel.agents import Reply
from simulator.kernel.clock import US
from simulator.kernel.world import World

AFTER_S = 300_000.0
"""Virtual seconds at which what was disturbed is put back, and the run after begins: later than any deadline and due time."""
STARTS_S = (0.0, AFTER_S)
"""When the runs of a drill are started."""


def until_put_back(disturbing: Disturbing) -> Disturbing:
    """The disturbance up to ``AFTER_S``; from then on everything is as it was."""

    def disturbed(world: World, ask: Ask, serve: Serve) -> tuple[Ask, Serve]:
        over_at = world.clock.now() + int(AFTER_S * US)
        struck_ask, struck_serve = disturbing(world, ask, serve)
        world.later(AFTER_S - 1.0, world.put_back)

        def asked(request: ModelRequest) -> Reply:
            return (struck_ask if world.clock.now() < over_at else ask)(request)

        def served(request: ToolRequest) -> Reply:
            return (struck_serve if world.clock.now() < over_at else serve)(request)

        return asked, served

    return disturbed


def run_after(world: World) -> Run | None:
    """The run that nothing disturbs any more; None: the world was not told to start one."""
    roots = [run for run in world.watch.runs() if run.family.lineage is None]
    return roots[1] if len(roots) > 1 else None
