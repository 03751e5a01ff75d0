"""What a cell of a fabric's decision table promises about a failure that does not go away: the chain of decisions, computed from the table alone.

The computation knows the ladder, the counting rules of semantics.md 3 and which rungs can apply to the failure in this fabric. It shares no code
with the engine's own choice (``fabric/core/ladder``), which it is held against: change a cell, and it expects something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.decision_table import GRAVITY, Ladder, Reaction
from fabric.core.flow import RunState

Person = Literal["approve", "reject", "raise"]
"""What whoever is asked says, every time; ``raise``: approves, and names a new cap where the question takes one."""


@dataclass(frozen=True, slots=True)
class Link:
    """One line of a chain: a rung that was decided for, or one that was passed over."""

    what: Literal["decided", "skipped"]
    rung: int
    reaction: str

    def __str__(self) -> str:
        return f"{'' if self.what == 'decided' else 'skips '}{self.reaction}"


@dataclass(frozen=True, slots=True)
class Chain:
    """Decisions in their order, and the state in which the run ends. ``asked``: questions that people were asked."""

    links: tuple[Link, ...]
    state: RunState
    asked: int = 0

    def __str__(self) -> str:
        return f"{' > '.join(map(str, self.links)) or 'nothing decided'} > {self.state}"


def chain_of(facts: Iterable[tuple[str, Mapping[str, Any]]], state: RunState) -> Chain:
    """The chain that a journal holds. ``facts``: each event's kind and its fields."""
    links: list[Link] = []
    asked = 0
    for kind, fact in facts:
        if kind in ("rung_skipped", "reaction_decided"):
            what: Literal["decided", "skipped"] = "skipped" if kind == "rung_skipped" else "decided"
            links.append(Link(what, fact.get("rung", 0), fact["reaction"]))
        asked += kind == "escalation_opened"
    return Chain(tuple(links), state, asked)


@dataclass(frozen=True, slots=True)
class Breaking:
    """The circuit breaker in front of the calls that fail, which meets no other call. Its cooldown is longer than any backoff."""

    threshold: int
    """Failures at which it opens: with the N-th counted, the next call is refused."""
    max_trips: int
    """It stops for good at so many; 0: never."""


Meeting = Literal["failed", "refused", "probed"]
"""How a failure is met: a call came back, was not let out, or went out as a probe and came back."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the table does not say: what can apply to this failure in this fabric, and how people answer."""

    cannot: Mapping[str, str]
    """Reactions and accompaniments that cannot apply, and why."""
    replans: int = 2
    """Replans of one stage that the limits allow; a handover of the plan counts among them."""
    handover: Literal["plan", "step", "cure"] = "cure"
    """What a handover gives away, once: the plan, which counts as a replan; the step that failed; ``cure``: the step, and with it the failure ends."""
    moves: bool = False
    """Whether a replan moves the failure to another stage, which has counts of its own: the run has no money left for its plan either."""
    step: bool = True
    """Whether the failure is one step's: an approval then holds for that step, and takes it to the last rung."""
    call: bool = False
    """Whether it is one call's: an approval then makes another call of it."""
    planned: bool = False
    """Whether it is the plan that an approval makes once more."""
    answers: bool = True
    """Whether an agent that is stopped (*terminate*) can still answer with what it has."""
    counted: int | None = None
    """The failure signature's limit, where failures of this class are counted; None: they are not."""
    in_doubt: Reaction = Reaction.ABORT
    """The direct reaction to a failure that came as often as that, in this tier."""
    person: Person = "reject"
    rounds: int = 2
    """Questions about one failure, before the run is aborted instead."""
    overrun: bool = False
    """Whether the failure is one of money, so that an approval may name a new cap, which ends it..."""
    ends_overrun: bool = False
    """...where a session has room for what finance names."""
    fallbacks: int = 0
    """Models that may stand in for the one that failed, one after the other."""
    static_answer: bool = False
    """Whether the fabric has an answer for *safe fallback*."""
    breaker: Breaking | None = None
    """None: no breaker counts this failure."""


ENDS: Mapping[Reaction, RunState] = {
    Reaction.HALT: RunState.ABORTED,
    Reaction.ABORT: RunState.ABORTED,
    Reaction.SURFACE: RunState.FAILED,
}
"""States in which a reaction leaves a run (semantics.md 3, the table of end states); the others ask, go on, or depend on the fabric."""
NOT_WHEN_REFUSED = frozenset({Reaction.RETRY, Reaction.FALLBACK_MODEL, Reaction.SAFE_FALLBACK})
"""What a refused call takes no part in, before the last rung: nobody would be called, and the breaker names no fallback (``on_open`` none)."""
PER_CALL = frozenset({Reaction.RETRY, Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL})
"""Reactions that are counted per call: a call of a new plan is another one."""


def expected(
    ladder: Ladder,
    given: Circumstances,
    fan_in: tuple[Ladder, Circumstances] | None = None,
    recovers_after: int | None = None,
) -> Chain:
    """The chain of a failure that comes again after each reaction, until one of them ends the run.

    ``fan_in``: the cell and the circumstances of a fan-in that lacks a result, where the failure is a branch's: to surface ends the branch alone.
    ``recovers_after``: the failure is gone after so many decisions; a run that they have not ended completes.
    """
    links: list[Link] = []
    replanned: Counter[str] = Counter()
    walk = _Walk(ladder, given, links, replanned)
    gap = _Walk(*fan_in, links, replanned) if fan_in else None
    while recovers_after is None or sum(link.what == "decided" for link in links) < recovers_after:
        state = walk.decide()
        if state is RunState.FAILED and gap is not None:
            before = replanned.total()
            state = gap.decide()
            if replanned.total() > before:
                walk.planned_again()
        if state is not None:
            return Chain(tuple(links), state, walk.asked + (gap.asked if gap else 0))
    return Chain(tuple(links), RunState.COMPLETED, walk.asked + (gap.asked if gap else 0))


class _Walk:
    """A ladder gone down, rung by rung. Every rung but the last has a finite number of uses, so it ends."""

    def __init__(self, ladder: Ladder, given: Circumstances, links: list[Link], replanned: Counter[str]) -> None:
        self.rungs, self.given, self.links = ladder.rungs, given, links
        self.spent: Counter[int] = Counter()
        self.replanned, self.stage = replanned, "first"
        self.failures = self.asked = self.swapped = 0
        self.approved = self.handed_over = self.stopped = self.heard = False
        self.counted = self.trips = 0
        self.met: Meeting = "failed"
        self.breaker: Literal["closed", "open", "cooled", "stopped"] = "closed"

    def decide(self) -> RunState | None:
        """The failure is met once more: the state in which the run ends; None, it goes on."""
        self.failures += 1
        self.met = self._meets()
        before = len(self.links)
        index = self._next()
        direct = self.given.counted is not None and self.failures >= self.given.counted and not self.heard
        self.heard = False
        if direct and GRAVITY.index(self.given.in_doubt) < GRAVITY.index(self.rungs[index].reaction):
            del self.links[before:]
            return self._taken(0, self.given.in_doubt)
        self.links += [Link("skipped", index, one) for one in self.rungs[index].with_ if one in self.given.cannot]
        self.spent[index] += 1
        return self._taken(index, self.rungs[index].reaction)

    def _next(self) -> int:
        last = len(self.rungs) - 1
        for index, rung in enumerate(self.rungs[:last]):
            if self.spent[index] >= (rung.times or 0):
                continue
            if not self.approved and not self._cannot(rung.reaction):
                return index
            self.links.append(Link("skipped", index, rung.reaction))
        return last

    def _meets(self) -> Meeting:
        """Moves the breaker by one call that would fail if it went out."""
        given = self.given.breaker
        if given is None or (self.breaker == "closed" and self.counted < given.threshold):
            self.counted += 1
            return "failed"
        if self.breaker in ("open", "stopped"):
            return "refused"
        probe, self.counted = self.breaker == "cooled", 0
        self.trips += 1
        self.breaker = "stopped" if 0 < given.max_trips <= self.trips else "open"
        return "probed" if probe else "refused"

    def _cannot(self, reaction: Reaction) -> bool:
        if reaction in self.given.cannot or (reaction is Reaction.HANDOVER and self.handed_over):
            return True
        if reaction is Reaction.WAIT_FOR_BREAKER:
            return self.met == "failed" or self.breaker == "stopped"
        if self.met == "refused" and reaction in NOT_WHEN_REFUSED:
            return True
        if reaction is Reaction.FALLBACK_MODEL and (self.swapped >= self.given.fallbacks or self._would_refuse()):
            return True
        return self._plans_again(reaction) and self.replanned[self.stage] >= self.given.replans

    def _would_refuse(self) -> bool:
        """Whether the next call would meet an open breaker, another model's too."""
        given = self.given.breaker
        return given is not None and (
            self.met == "probed" or (self.breaker == "closed" and self.counted >= given.threshold)
        )

    def _plans_again(self, reaction: Reaction) -> bool:
        return reaction is Reaction.REPLAN or (reaction is Reaction.HANDOVER and self.given.handover == "plan")

    def _taken(self, index: int, reaction: Reaction) -> RunState | None:
        if reaction is Reaction.ESCALATE and self.asked >= self.given.rounds:
            reaction = Reaction.ABORT
        self.links.append(Link("decided", index, reaction))
        if reaction is Reaction.WAIT_FOR_BREAKER:
            self.breaker = "cooled"
        if reaction is Reaction.ESCALATE:
            self.asked += 1
            return RunState.ABORTED if self.given.person == "reject" or self._too_much() else self._approved()
        if reaction is Reaction.SAFE_FALLBACK:
            return RunState.COMPLETED if self.given.static_answer else RunState.FAILED
        if reaction is Reaction.TERMINATE:
            return self._stopped()
        if self._plans_again(reaction):
            self.replanned[self.stage] += 1
            self.planned_again()
        self.swapped += reaction is Reaction.FALLBACK_MODEL
        if reaction is Reaction.HANDOVER:
            self.handed_over = True
            return RunState.COMPLETED if self.given.handover == "cure" else None
        return ENDS.get(reaction)

    def _too_much(self) -> bool:
        """Whether finance names more than may be given: that is no answer, and the question expires."""
        return self.given.person == "raise" and self.given.overrun and not self.given.ends_overrun

    def _approved(self) -> RunState | None:
        """Once more, at the last rung, and the failure may come once more whatever its count; where it is the plan that failed, that is one more replan, if there is one left."""
        if self.given.person == "raise" and self.given.ends_overrun:
            # Its stage could not begin, so that the run goes on from its plan: one more replan, if there is one left.
            return RunState.COMPLETED if self.replanned[self.stage] < self.given.replans else RunState.ABORTED
        self.approved = self.given.step
        self.heard = True
        if self.given.call:
            self._other_call()
            self.swapped = 0
        if self.given.planned:
            if self.replanned[self.stage] >= self.given.replans:
                return RunState.ABORTED
            self.replanned[self.stage] += 1
        return None

    def _stopped(self) -> RunState | None:
        """An agent without its tools answers once; where that fails as well, or there is none, what there is is surfaced."""
        if self.given.answers:
            return RunState.COMPLETED
        again, self.stopped = self.stopped, True
        self._other_call()
        self.swapped = min(self.swapped, 1)  # The model that stands in goes on; the others may follow it once more.
        return RunState.FAILED if again or Reaction.TERMINATE in self.given.cannot else None

    def planned_again(self) -> None:
        """What was spent survives a replan, retries excepted: the new plan makes its own calls."""
        self._other_call()
        self.swapped = 0
        if self.given.handover == "step":
            self.handed_over = False  # The new plan is its own agent's again.
        moved = self.given.moves and self.stage == "first"
        self.stage = "second" if moved else self.stage
        if moved:
            self.spent.clear()

    def _other_call(self) -> None:
        for index, rung in enumerate(self.rungs):
            if rung.reaction in PER_CALL:
                self.spent[index] = 0
