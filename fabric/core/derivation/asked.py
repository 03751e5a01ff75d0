"""What a decision is derived under, and one rung that is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core import events as ev
from fabric.core.context import Compiled
from fabric.core.cost import Price
from fabric.core.decision_table import table_with
from fabric.core.derivation.ledger import Ledger
from fabric.core.flow import Stage
from fabric.core.policy import FlowPolicy
from fabric.core.retry_layers import Ladders, ladders
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier


@dataclass(frozen=True, slots=True)
class Rules:
    """What a decision is derived under."""

    ladders: Ladders
    spec: FabricSpec
    prices: Mapping[str, Price] | None = None
    """By model name; None: what a call costs is taken as recorded."""

    @property
    def version(self) -> str:
        """What a decision names as its table."""
        return self.ladders.version

    @classmethod
    def of(cls, compiled: Compiled, topology: str = "") -> Rules:
        """Those of a revision, as a run sees them that runs this worker's topology."""
        own = compiled.within(topology)
        return cls(own.ladders, own.spec, own.prices)

    @classmethod
    def of_spec(cls, spec: FabricSpec, prices: Mapping[str, Price] | None = None) -> Rules:
        """Those of a fabric whose evaluators are not at hand: no decision asks for them."""
        return cls(ladders(table_with(spec.decision_table), spec), spec, prices)


@dataclass(frozen=True, slots=True)
class Asked:
    """One rung that is looked at: where, and about what."""

    ledger: Ledger
    rules: Rules
    fact: ev.ReactionDecided
    trip: ev.TripRecord
    tier: Tier
    """Whose ladder it stands in."""
    at: int = 0
    """When it was decided, microseconds since the epoch."""

    @property
    def policy(self) -> FlowPolicy:
        """The policy as the decision's stage sees it."""
        return self.rules.spec.policy.of_stage(Stage(stage_of(self.ledger, self.fact)))


def stage_of(ledger: Ledger, fact: ev.ReactionDecided) -> str:
    """The stage that a decision is about."""
    return fact.step_id.partition(".")[0] or ledger.stage
