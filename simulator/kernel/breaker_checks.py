"""What must hold of circuit breakers when a call goes out, told from their rows alone."""

from __future__ import annotations

import json

from fabric.core.commands import CallModel, CallTool
from fabric.runtime.breaking import gates_for, holder_of
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import GuardStore


def unheeded(store: GuardStore, fabric_id: str, driver: RunDriver, command: CallModel | CallTool) -> str:
    """What is wrong with a call that goes out: it has a breaker that is not closed, and not the one permit to probe it; empty: nothing."""
    gates = gates_for(fabric_id, driver.compiled, driver.run, command)
    holder = holder_of(driver.run.id, command.command_id, command.attempt)
    for row in store.guards([(gate.key.scope, gate.key.kind) for gate in gates]):
        state = json.loads(row.state).get("state", "closed") if row.state else "closed"
        if state != "closed" and not (state == "half_open" and row.permit_holder == holder):
            return f"{command.command_id}#{command.attempt} goes out past the breaker of {row.scope}, which is {state}"
    return ""
