"""Each decision of a test's run, derived again as soon as it is journaled."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.context import Compiled
from fabric.core.derivation import Derived, Ledger, Rules, noted
from fabric.core.derivation.compare import derived_one, derived_retry
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
        elif isinstance(event.fact, ev.RetryScheduled):
            wrong = derived_retry(self.ledger, event.fact, Rules.of(self.compiled, self.ledger.topology))
            assert not wrong, f"a retry does not follow from its journal: {wrong}"
        noted(self.ledger, event.fact)
