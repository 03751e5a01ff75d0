"""The moments of a drilled run: its landmarks, each with the state that the run was in then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fabric.core.envelope import Event, fact_json
from fabric.selectors.contents import event_without_sentences
from fabric.selectors.display import COMPACT_MIN, EVENT_DISPLAY, summary_of, tone_of

JSON = Any
US = 1_000_000
ALSO = frozenset({"rung_skipped", "attempt_failed", "run_started", "call_refused"})
"""Details elsewhere, and in a drill what it is about."""
NEVER = frozenset({"ownership_taken", "content_kept"})


def moments_of(events: Sequence[Event], spent: Sequence[int], start: int) -> Iterator[dict[str, JSON]]:
    """The landmarks of a journal. ``spent``: micro-dollars after each event; ``start``: the instant from which seconds are counted."""
    so_far = _SoFar()
    for event, cost in zip(events, spent, strict=True):
        so_far.add(event)
        probe = event.fact.kind == "call_issued" and so_far.breaker == "half_open"
        if not probe and not _shown(event.fact.kind):
            continue
        fact = fact_json(event)
        yield {
            "seq": event.seq,
            "at_s": round(max(0, event.at - start) / US, 3),
            "kind": event.fact.kind,
            "said": summary_of(event.fact.kind, fact),
            "unread": summary_of(event.fact.kind, fact_json(event_without_sentences(event))),
            "tone": tone_of(event.fact.kind, fact),
            "stage": so_far.stage,
            "epoch": so_far.epoch,
            "spent_usd_micros": cost,
            "retries": so_far.retries,
            "tokens_left": so_far.tokens_left,
            "breaker": so_far.breaker,
        }


def _shown(kind: str) -> bool:
    row = EVENT_DISPLAY.get(kind)
    return kind in ALSO or (kind not in NEVER and row is not None and row.importance >= COMPACT_MIN)


class _SoFar:
    """What a run has come to by an event."""

    def __init__(self) -> None:
        self.stage, self.epoch, self.retries = "", 0, 0
        self.tokens_left: float | None = None
        """Retry tokens of the run's own; None: it has taken none yet."""
        self.breaker = ""
        """``open``, ``half_open`` or ``closed``; empty: none was met."""

    def add(self, event: Event) -> None:
        fact: Any = event.fact
        match fact.kind:
            case "stage_entered":
                self.stage, self.epoch = str(fact.stage), fact.epoch
            case "replanned":
                self.epoch = fact.epoch
            case "retry_scheduled":
                self.tokens_left = fact.tokens_left / 1_000
                if fact.source == "breaker":
                    self.breaker = "open"
                elif fact.source != "named":
                    self.retries += 1
            case "node_retry_scheduled":
                self.retries, self.tokens_left = self.retries + 1, fact.tokens_left / 1_000
            case "attempt_failed" if fact.breaker_wait_s is not None:
                self.breaker = "open"
            case "call_issued" if self.breaker == "open":
                self.breaker = "half_open"
            case "model_answered" if self.breaker:
                self.breaker = "closed"
            case "attempt_failed" if self.breaker == "half_open":
                self.breaker = "open"
