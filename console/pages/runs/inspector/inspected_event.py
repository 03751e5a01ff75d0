"""One event as its page inspects it, with the run of that moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fabric.composition import engine as wiring
from fabric.core.events import CallIssued
from fabric.core.people.actor import Actor
from fabric.core.state.context import CompiledFabric
from fabric.core.values.cost import Price
from fabric.core.values.units import JSON
from fabric.selectors.runs.events.moments import EventRecord, Moment, moment_at
from fabric.selectors.runs.families import find_team
from fabric.selectors.runs.lookup import RunView


@dataclass
class InspectedEvent:
    """One event as a page looks at it."""

    actor: Actor
    run: RunView
    record: EventRecord

    @property
    def fact(self) -> dict[str, JSON]:
        """Its fact, defaults included."""
        return self.record.row.fact

    @cached_property
    def moment(self) -> Moment | None:
        """The run right after it; None where it cannot be had."""
        return moment_at(self.actor, self.run.id, self.record.row.seq)

    @property
    def topology(self) -> str:
        """The worker whose team's topology the run runs. Empty: the fabric's own."""
        return self.moment.run.topology if self.moment else find_team(self.run)

    @property
    def fabric(self) -> CompiledFabric:
        """The revision with the topology that the run runs, under the policy of that moment."""
        return self.revision.select_topology(self.topology)

    @property
    def revision(self) -> CompiledFabric:
        """The revision with the whole fabric's topology."""
        number = self.moment.run.policy if self.moment else 0
        return wiring.compile_under_policy(self.run.revision_id, self.run.workspace_id, number, self.run.tier)

    @property
    def call(self) -> tuple[int, CallIssued] | None:
        """The intent of the call that it is about, with its seq."""
        return self.moment.issued.get(self.fact.get("command_id", "")) if self.moment else None

    @property
    def price(self) -> Price | None:
        """The price of the model that was called; None: it is not at hand, or has none."""
        if self.call is None or self.call[1].call != "model":
            return None
        try:
            return self.revision.prices.get(self.call[1].target)
        except (LookupError, ValueError):
            return None
