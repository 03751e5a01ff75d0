"""Each decision of a test's run, derived again as soon as it is journaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabric.auditor import Derived, Ledger, note
from fabric.auditor.comparison import carries_out, derive_one, judge_carrying_out, list_differences
from fabric.auditor.numbers import Scheduled
from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.graph.registry import BUILT_IN
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.taxonomy import Tier
from simulator.rules.facts.speakers import TAKES, Speakers, find_speakers


class Deriving:
    """Follows one run's journal."""

    def __init__(self, compiled: CompiledFabric, tier: Tier) -> None:
        self.compiled, self.ledger = compiled, Ledger(Run("run-1", tier=tier))
        self.derived: list[Derived] = []
        self.contents: dict[str, Any] = {}
        self.speakers: Speakers | None = None

    def spoken(self, event: Event, read: Callable[[str], Any]) -> None:
        """The next event of a conversation; a choice of a speaker that does not follow from the journal fails the test."""
        if event.fact.kind not in TAKES:
            return
        if self.speakers is None:  # By now the journal has said whose team it is.
            self.speakers = find_speakers(self._within().spec, self.contents.get)
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
            found = derive_one(self.ledger, event, self._within())
            assert found.verdict == "equal", f"a decision does not follow from its journal: {found.differences} {found}"
            self.derived.append(found)
        elif self.derived and carries_out(self.derived[-1].fact, event.fact):
            pairs = judge_carrying_out(self.ledger, self.derived[-1].fact, event, self._within())
            assert pairs or not _with_numbers(event.fact), f"what was done is not judged: {event.fact}"
            assert not list_differences(pairs), (
                f"what was done does not follow from its journal: {list_differences(pairs)}"
            )
        else:
            assert not isinstance(event.fact, Scheduled), f"a retry that nothing decided: {event.fact}"
        note(self.ledger, event)

    def _within(self) -> CompiledFabric:
        return self.compiled.select_topology(self.ledger.run.topology)


def _with_numbers(fact: Any) -> bool:
    """Of a review only one that a model was looked at for has any."""
    return not isinstance(fact, ev.ReviewOpened) or fact.weighed is not None
