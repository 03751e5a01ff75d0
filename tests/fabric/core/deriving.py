"""Each decision of a test's run, derived again as soon as it is journaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabric.core import events as ev
from fabric.core.context import Compiled
from fabric.core.derivation import Derived, Ledger, Rules, noted
from fabric.core.derivation.compare import carrying_out, derived_one, differing, follows
from fabric.core.derivation.numbers import Scheduled
from fabric.core.derivation.speakers import TAKES, Speakers, speakers_of
from fabric.core.envelope import Event
from fabric.core.graph.registry import BUILT_IN
from fabric.core.taxonomy import Tier


class Deriving:
    """Follows one run's journal."""

    def __init__(self, compiled: Compiled, tier: Tier) -> None:
        self.compiled, self.ledger = compiled, Ledger(tier)
        self.derived: list[Derived] = []
        self.contents: dict[str, Any] = {}
        self.speakers: Speakers | None = None

    def spoken(self, event: Event, read: Callable[[str], Any]) -> None:
        """The next event of a conversation; a choice of a speaker that does not follow from the journal fails the test."""
        if event.fact.kind not in TAKES:
            return
        if self.speakers is None:  # By now the journal has said whose team it is.
            self.speakers = speakers_of(self.compiled.within(self.ledger.topology).spec, self.contents.get)
        if self.speakers is None:
            return
        if event.content_ref:
            self.contents[event.content_ref] = read(event.content_ref)
        found = self.speakers.take(event)
        wrong = {name: pair for name, pair in (found or {}).items() if pair[0] != pair[1]}
        assert not wrong, f"a speaker does not follow from the journal: {wrong}"
        if isinstance(event.fact, ev.SpeakerChosen) and self.compiled.registry is BUILT_IN:
            assert found, f"a choice that is not derived: {event.fact}"

    def take(self, event: Event) -> None:
        """The next event; a decision that does not follow from those before it fails the test."""
        if isinstance(event.fact, ev.ReactionDecided):
            found = derived_one(self.ledger, event, Rules.of(self.compiled, self.ledger.topology))
            assert found.verdict == "equal", f"a decision does not follow from its journal: {found.differences} {found}"
            self.derived.append(found)
        elif self.derived and follows(self.derived[-1].fact, event.fact):
            rules = Rules.of(self.compiled, self.ledger.topology)
            pairs = carrying_out(self.ledger, self.derived[-1].fact, event, rules)
            assert pairs or not _with_numbers(event.fact), f"what was done is not judged: {event.fact}"
            assert not differing(pairs), f"what was done does not follow from its journal: {differing(pairs)}"
        else:
            assert not isinstance(event.fact, Scheduled), f"a retry that nothing decided: {event.fact}"
        noted(self.ledger, event.fact)


def _with_numbers(fact: Any) -> bool:
    """Of a question only one that a model was looked at for has any."""
    return not isinstance(fact, ev.EscalationOpened) or fact.weighed is not None
