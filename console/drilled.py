"""Runs of drills under the addresses of runs: who may look at the workspace whose drills they are may look at them, and nothing can be decided there.

The one place that knows it: pages, the API and the sockets ask here who acts on the run that an address names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fabric.core.actor import Actor
from fabric.core.roles import Right
from fabric.selectors.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.workspaces import actor_inside_drills
from simulator.drills.kept import drill_of_run_id

CHANGES: Mapping[str, bool] = {
    f"{door}run-{name}": live
    for door in ("", "api-")
    for name, live in {
        "cancel": True,
        "terminate": True,
        "pause": False,
        "resume": False,
        "say": False,
        "context": False,
        "fork": False,
        "scenario": False,
    }.items()
}
"""Routes that change a run, or make something of it, by name; True: an operator may take them to the run of a live drill."""


def actor_on(actor: Actor, route: str, run_id: str) -> Actor:
    """Who acts on a run at an address: the same, or for the run of a drill of their workspace somebody who looks on in there.

    One look into an index where the workspace has had drills, else none. Refused conflict or forbidden where the address would change such a run.
    """
    inside = actor_inside_drills(actor, run_id)
    if inside is None:
        return actor
    if route not in CHANGES:
        return inside
    _may_change(actor, inside, route, run_id)
    return replace(inside, roles=actor.roles)


def _may_change(actor: Actor, inside: Actor, route: str, run_id: str) -> None:
    found = drill_of_run_id(inside.workspace_id, run_id)
    if found is None or found.virtual:
        message = "this is the run of a drill in virtual time: it has ended, and nothing can be changed; drill it again"
        raise Refused(message, code="conflict", field="run")
    if not CHANGES[route]:
        message = "this is the run of a live drill: it can be cancelled or terminated, and its drill stopped; drill it again for another"
        raise Refused(message, code="conflict", field="run")
    right_wanted(actor, Right.OPERATE, "end the run of a live drill")
