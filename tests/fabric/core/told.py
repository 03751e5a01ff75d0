"""A test looks at these when a scripted run has gone as far as it goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

from fabric.core import events as ev
from fabric.core.events.commands import AbortCall, CallModel, CallTool, Command
from fabric.core.events.envelope import Event, JournalRow, split_rows
from fabric.core.events.inputs import DecisionMade, InboxInput
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.state.run import OpenReview, Run
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.units import JSON, US
from fabric.runtime.ports.calls import ModelRequest

T0 = 1_800_000_000 * US
"""When every world begins."""


def links(rows: Sequence[JournalRow]) -> list[tuple[int, str, int, bytes, bytes, bytes]]:
    """Rows as ``verify_chain`` takes them."""
    return [(row.seq, row.kind, row.version, row.header, row.payload_hash, row.hash) for row in rows]


def sent(performed: Sequence[Command], command_id: str, attempt: int) -> CallModel | CallTool:
    """The call that was made as that attempt."""
    found = (one for one in reversed(performed) if (one.command_id, one.attempt) == (command_id, attempt))
    return next(one for one in found if not isinstance(one, AbortCall))


class Told:
    """The journal of one run, read."""

    now: int
    rows: list[JournalRow]
    events: list[Event]
    requests: list[ModelRequest]
    run: Run

    def put(self, given: InboxInput) -> None:
        """Something arrives from outside, now."""
        raise NotImplementedError

    @property
    def head(self) -> bytes:
        """Return what the next row is chained to."""
        return self.rows[-1].hash if self.rows else ZERO_HASH

    @property
    def facts(self) -> list[Any]:
        return [event.fact for event in self.events]

    @property
    def kinds(self) -> list[str]:
        return [fact.kind for fact in self.facts]

    def of(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def end(self) -> ev.RunEnded:
        assert isinstance(self.facts[-1], ev.RunEnded), (
            f"the run has not ended: {self.run.state}, last {self.facts[-3:]}"
        )
        return self.facts[-1]

    @property
    def outcome(self) -> JSON:
        ref = self.run.outcome_ref
        return self.contents(ref)["output"] if ref else None

    def contents(self, ref: str) -> JSON:
        return next(
            json.loads(row.payload)
            for row, e in zip(split_rows(self.rows), self.events, strict=True)
            if e.content_ref == ref and row.payload
        )

    def content_of(self, kind: type[Any]) -> list[JSON]:
        return [
            json.loads(r.payload)
            for r, e in zip(split_rows(self.rows), self.events, strict=True)
            if isinstance(e.fact, kind) and r.payload
        ]

    @property
    def review(self) -> OpenReview:
        return next(iter(self.run.reviews.values()))

    @property
    def reactions(self) -> list[str]:
        return [fact.reaction for fact in self.of(ev.ReactionDecided)]

    def asked(self, agent: str) -> int:
        return sum(request.agent == agent for request in self.requests)

    @property
    def elapsed_s(self) -> float:
        return (self.now - T0) / US

    def decide(
        self,
        verb: Any = "approve",
        *,
        digest: str | None = None,
        input_id: str = "",
        message: str = "",
        edited: JSON = None,
        cap_usd_micros: int | None = None,
        model: str = "",
        caps: tuple[NamedCap, ...] = (),
        tool: str = "",
        actor: str = "bob",
        about: str = "",
    ) -> Self:
        """Answers the oldest open review. ``about``: the end of the scope of another one."""
        review = next(
            one.fact for one in self.run.reviews.values() if not about or one.fact.scope.endswith(f".{about}")
        )
        given = DecisionMade(
            input_id=input_id or f"decision-{self.run.seq}",
            review_id=review.review_id,
            verb=verb,
            actor=actor,
            digest=review.digest if digest is None else digest,
            message=message,
            edited=edited,
            cap_usd_micros=cap_usd_micros,
            model=model,
            caps=caps,
            tool=tool,
        )
        self.put(given)
        return self
