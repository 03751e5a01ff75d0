"""What must hold of circuit breakers when a call goes out, told from their rows alone."""

from __future__ import annotations

import json

from fabric.core.commands import CallModel, CallTool
from fabric.runtime.breaking import gates_for, holder_of
from fabric.runtime.driver import RunDriver
from fabric.runtime.grant_ports import GuardStore


class Probes:
    """The calls that are out as probes, as their processes send them and hear of them; what a row says of its permits is not believed."""

    def __init__(self) -> None:
        self._out: dict[tuple[str, str], dict[str, int]] = {}
        """By row and holder: until when the call may take."""

    def over(self, holder: str) -> None:
        """A call has ended."""
        for out in self._out.values():
            out.pop(holder, None)

    def unheeded(self, store: GuardStore, fabric_id: str, driver: RunDriver, command: CallModel | CallTool) -> str:
        """What is wrong with a call that goes out: it has a breaker that is not closed, and no permit to probe it, or more probe it than may; empty: nothing."""
        gates = gates_for(fabric_id, driver.compiled, driver.run, command)
        holder = holder_of(driver.run.id, command.command_id, command.attempt)
        for gate, row in zip(gates, store.guards([(gate.key.scope, gate.key.kind) for gate in gates]), strict=True):
            state = json.loads(row.state).get("state", "closed") if row.state else "closed"
            if state == "closed":
                continue
            if state != "half_open" or row.permits.get(holder, 0) <= row.asked_at:
                return (
                    f"{command.command_id}#{command.attempt} goes out past the breaker of {row.scope}, which is {state}"
                )
            out = self._out.setdefault((row.scope, row.kind), {})
            out[holder] = row.permits[holder]
            probing = sum(until > row.asked_at for until in out.values())
            if probing > gate.breaker.half_open_max:
                return f"{probing} probes of {row.scope} are out at once, and {gate.breaker.half_open_max} may be"
        return ""
