"""Each decision of a test's run, derived again as soon as it is journaled."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.context import Compiled
from fabric.core.derivation import Derived, Ledger, Rules, noted
from fabric.core.derivation.compare import change_pairs, derived_one, differing, retry_pairs
from fabric.core.envelope import Event
from fabric.core.taxonomy import Tier


class Deriving:
    """Follows one run's journal."""

    def __init__(self, compiled: Compiled, tier: Tier) -> None:
        self.compiled, self.ledger = compiled, Ledger(tier)
        self.derived: list[Derived] = []

    def take(self, event: Event) -> None:
        """The next event; a decision that does not follow from those before it fails the test."""
        if isinstance(event.fact, ev.ReactionDecided):
            found = derived_one(self.ledger, event, Rules.of(self.compiled, self.ledger.topology))
            assert found.verdict == "equal", f"a decision does not follow from its journal: {found.differences} {found}"
            self.derived.append(found)
        elif isinstance(event.fact, (ev.RetryScheduled, ev.NodeRetryScheduled)):
            wrong = differing(retry_pairs(self.ledger, event.fact, Rules.of(self.compiled, self.ledger.topology)))
            assert not wrong, f"a retry does not follow from its journal: {wrong}"
        elif isinstance(event.fact, ev.ModelChanged) and not event.fact.actor:
            rules = Rules.of(self.compiled, self.ledger.topology)
            pairs = change_pairs(self.ledger, self.derived[-1].fact, event, rules)
            assert pairs, f"a change of model is not judged: {event.fact}"
            assert not differing(pairs), f"a change of model does not follow from its journal: {differing(pairs)}"
        noted(self.ledger, event.fact)
