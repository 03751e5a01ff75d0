"""What a cell of a fabric's decision table promises about a failure that does not go away: the chain of decisions, computed from the table alone.

The computation knows the ladder, the counting rules of semantics.md 3 and which rungs can apply to the failure in this fabric. It shares no code
with the engine's own choice (``fabric/core/ladder``), which it is held against: change a cell, and it expects something else. What stands around a
call that fails (breakers, other models, retry tokens, time) is ``calling``'s; what stands before a cell is ``layers``'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.decision_table import GRAVITY, Accompaniment, Reaction
from fabric.core.flow import RunState
from fabric.core.taxonomy import ErrorClass
from simulator.drills.calling import Calling, Line
from simulator.drills.layers import Option

Person = Literal["approve", "reject", "raise", "waited_for"]
"""What whoever is asked says, every time; ``raise``: approves, and names a new cap where the question takes one. ``reject``: and says nothing where silence leads to
the next rung. ``waited_for``: the run is looked at no further than the first question."""


@dataclass(frozen=True, slots=True)
class Link:
    """One line of a chain: a rung that was decided for, one that was passed over, or a ticket that was left with it."""

    what: Literal["decided", "skipped", "left"]
    rung: int
    reaction: str

    def __str__(self) -> str:
        return f"{'skips ' if self.what == 'skipped' else ''}{self.reaction}"


@dataclass(frozen=True, slots=True)
class Chain:
    """Decisions in their order, and the state in which the run ends. ``asked``: questions that people were asked, but for those before a call."""

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
        if kind == "escalation_opened" and fact["item"] == "ticket":
            links.append(Link("left", links[-1].rung, Accompaniment.TICKET))
        else:
            asked += kind == "escalation_opened" and fact["item"] != "pre_action"
    return Chain(tuple(links), state, asked)


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
    """Whether a replan moves the failure to another stage, which has counts of its own: the run has no money left for its plan either..."""
    second: tuple[Option, ...] = ()
    """...and the rungs there; empty: the same."""
    step: bool = True
    """Whether the failure is one step's: an approval then holds for that step, and takes it to the last rung."""
    calling: Calling | None = None
    """The call that it is, where it is one call's: an approval then makes another call of it."""
    planned: bool = False
    """Whether it is the plan that an approval makes once more."""
    answers: bool = True
    """Whether an agent that is stopped (*terminate*) can still answer with what it has."""
    counted: int | None = None
    """The failure signature's limit, where failures of this class are counted; None: they are not."""
    in_doubt: Reaction = Reaction.ABORT
    """The direct reaction to a failure that came as often as that, in this tier."""
    blocked: bool = False
    """Whether the rule that leads on from it is a restart edge, which it does not cross: a direct reaction as well."""
    person: Person = "reject"
    rounds: int = 2
    """Questions about one failure, before the run is aborted instead."""
    overrun: bool = False
    """Whether the failure is one of money, so that an approval may name a new cap, which ends it..."""
    ends_overrun: bool = False
    """...where a session has room for what finance names."""
    static_answer: bool = False
    """Whether the fabric has an answer for *safe fallback*."""
    error_class: ErrorClass = ErrorClass.DETERMINISTIC
    """Of the failure: an edge may be for one alone."""
    poll: bool = False
    """Whether it is one call made again and again, so that a person may let it go on."""


ENDS: Mapping[Reaction, RunState] = {
    Reaction.HALT: RunState.ABORTED,
    Reaction.ABORT: RunState.ABORTED,
    Reaction.SURFACE: RunState.FAILED,
}
"""States in which a reaction leaves a run (semantics.md 3, the table of end states); the others ask, go on, or depend on the fabric."""
PER_CALL = frozenset({Reaction.RETRY, Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL})
"""Reactions that are counted per call: a call of a new plan is another one."""
PER_NODE = frozenset({Reaction.RETRY_NODE, Reaction.ACCEPT_PARTIAL, Reaction.ROUTE, Reaction.GO_BACK})
"""Reactions that are counted per branch of a plan: a new plan has others."""


def expected(
    ladder: tuple[Option, ...],
    given: Circumstances,
    fan_in: tuple[tuple[Option, ...], Circumstances] | None = None,
    recovers_after: int | None = None,
) -> Chain:
    """The chain of a failure that comes again after each reaction, until one of them ends the run. Raises NotComputed.

    ``fan_in``: the cell and the circumstances of a fan-in that lacks a result, where the failure is a branch's: to surface ends the branch alone.
    ``recovers_after``: the failure is gone after so many decisions; a run that they have not ended completes, as soon as its call is let out.
    """
    links: list[Link] = []
    replanned: Counter[str] = Counter()
    walk = _Walk(ladder, given, links, replanned)
    gap = _Walk(*fan_in, links, replanned) if fan_in else None
    state: RunState | None = None
    while state is None:
        gone = recovers_after is not None and sum(link.what == "decided" for link in links) >= recovers_after
        if walk.is_over(gone=gone):
            state = RunState.STOPPED if walk.stopped else RunState.COMPLETED
            break
        state = walk.decide()
        if state is RunState.FAILED and gap is not None:
            before = replanned.total()
            state = gap.decide()
            if replanned.total() > before:
                walk.planned_again()
    return Chain(tuple(links), state, walk.asked + (gap.asked if gap else 0))


class _Walk:
    """A ladder gone down, rung by rung. Every rung but the last has a finite number of uses, so it ends."""

    def __init__(
        self, ladder: tuple[Option, ...], given: Circumstances, links: list[Link], replanned: Counter[str]
    ) -> None:
        self.rungs, self.given, self.links = ladder, given, links
        self.spent: Counter[int] = Counter()
        self.replanned, self.stage = replanned, "first"
        self.failures = self.asked = 0
        self.approved = self.handed_over = self.stopped = self.heard = self.unheard = self.visited = False
        self.line = None if given.calling is None else Line(given.calling)

    def is_over(self, *, gone: bool) -> bool:
        """Whether the failure is not met once more: it is ``gone``, or somebody else does the work, and no breaker stands in front."""
        if self.unheard:
            return False  # Silence takes the next rung, whatever has become of the failure.
        if self.line is None:
            return gone
        if self.approved and not gone and self.line.agent == self.line.of.agent:
            return False  # The last rung is next, however the failure is met.
        return self.line.attempt(well=gone)

    def decide(self) -> RunState | None:
        """What is decided about the failure: the state in which the run ends; None, it goes on."""
        comes = not (self.given.step and self.visited)  # The tries of one step count once.
        self.failures, self.visited = self.failures + comes, True
        before = len(self.links)
        index = self._next()
        direct = comes and self.given.counted is not None and self.failures >= self.given.counted and not self.heard
        self.heard = False
        if direct and GRAVITY.index(self.given.in_doubt) < GRAVITY.index(self.rungs[index].reaction):
            del self.links[before:]
            return self._taken(0, self.given.in_doubt)
        self.unheard = False
        self.links += [Link("skipped", index, one) for one in self.rungs[index].with_ if one in self.given.cannot]
        self.spent[index] += 1
        ticket = Accompaniment.TICKET in self.rungs[index].with_
        return self._taken(index, self.rungs[index].reaction, ticket=ticket)

    def _next(self) -> int:
        last = len(self.rungs) - 1
        for index, rung in enumerate(self.rungs[:last]):
            if self.spent[index] >= (rung.times or 0):
                continue
            if not self.approved and not self._cannot(index):
                return index
            self.links.append(Link("skipped", index, rung.reaction))
        return last

    def _cannot(self, index: int) -> bool:
        rung = self.rungs[index]
        reaction = rung.reaction
        if (rung.poll and not self.given.poll) or (self.unheard and reaction is Reaction.INJECT):
            return True
        if reaction in self.given.cannot or rung.error_class not in (None, self.given.error_class):
            return True
        if reaction is Reaction.HANDOVER and self.handed_over:
            return True
        if reaction is Reaction.SAFE_FALLBACK and not self.given.static_answer:
            return True
        if self.line is not None and self.line.cannot(reaction, self.spent[index]):
            return True
        return self._plans_again(reaction) and self.replanned[self.stage] >= self.given.replans

    def _plans_again(self, reaction: Reaction) -> bool:
        return reaction is Reaction.REPLAN or (reaction is Reaction.HANDOVER and self.given.handover == "plan")

    def _taken(self, index: int, reaction: Reaction, *, ticket: bool = False) -> RunState | None:
        if reaction is Reaction.ESCALATE and self.asked >= self.given.rounds:
            reaction = Reaction.ABORT
        self.links.append(Link("decided", index, reaction))
        if ticket:
            self.links.append(Link("left", index, Accompaniment.TICKET))
        if reaction in ENDS:
            return ENDS[reaction]
        if reaction is Reaction.ESCALATE:
            self.asked += 1
            if self.given.person == "waited_for":
                return RunState.WAITING
            if self.given.person == "reject" and self.rungs[index].poll:
                self.unheard = True
                return None
            if self.given.person == "reject" or self._too_much():
                return RunState.ABORTED
            return self._approved()
        if reaction is Reaction.SAFE_FALLBACK:
            return RunState.COMPLETED if self.given.static_answer else RunState.FAILED
        if reaction is Reaction.TERMINATE:
            return self._stopped()
        self._goes_on(index, reaction)
        if reaction is Reaction.ROUTE and self.given.blocked:
            return self._taken(0, self.given.in_doubt)
        if reaction in (Reaction.ROUTE, Reaction.GO_BACK):
            return RunState.COMPLETED  # Only the first turn meets it.
        cured = reaction is Reaction.HANDOVER and self.given.handover == "cure" and self.line is None
        return RunState.COMPLETED if cured else None

    def _goes_on(self, index: int, reaction: Reaction) -> None:
        """What a reaction after which the run goes on changes."""
        if self._plans_again(reaction):
            self.replanned[self.stage] += 1
            self.planned_again()
        elif self.line is not None:
            self.line.done(reaction, self.spent[index] - 1)
        if reaction is Reaction.HANDOVER:
            self.handed_over = True
        if reaction in (Reaction.RETRY_NODE, Reaction.HANDOVER):
            self._forget(PER_CALL)

    def _too_much(self) -> bool:
        """Whether finance names more than may be given: that is no answer, and the question expires."""
        return self.given.person == "raise" and self.given.overrun and not self.given.ends_overrun

    def _approved(self) -> RunState | None:
        """Once more, at the last rung, and the failure may come once more whatever its count; where it is the plan that failed, that is one more replan, if there is one left."""
        if self.given.person == "raise" and self.given.ends_overrun:
            # Its stage could not begin, so that the run goes on from its plan: one more replan, if there is one left.
            return RunState.COMPLETED if self.replanned[self.stage] < self.given.replans else RunState.ABORTED
        self.approved = self.given.step
        self.heard, self.visited = True, False
        if self.line is not None:
            self._forget(PER_CALL)
            self.line.done(Reaction.ESCALATE, 0)
        if self.given.planned:
            if self.replanned[self.stage] >= self.given.replans:
                return RunState.ABORTED
            self.replanned[self.stage] += 1
        return None

    def _stopped(self) -> RunState | None:
        """An agent without its tools answers once; where that fails as well, or there is none, what there is is surfaced."""
        if self.given.answers:
            return RunState.STOPPED
        again, self.stopped = self.stopped, True
        if again or Reaction.TERMINATE in self.given.cannot:
            return RunState.FAILED
        self._forget(PER_CALL)
        if self.line is not None:
            self.line.done(Reaction.TERMINATE, 0)
        return None

    def planned_again(self) -> None:
        """What was spent survives a replan, retries excepted: the new plan makes its own calls, and its branches are other nodes."""
        self._forget(PER_CALL | PER_NODE)
        self.visited = False
        if self.line is not None:
            self.line.planned_again()
        if self.given.handover != "plan":
            self.handed_over = False  # The new plan is its own agent's again.
        if self.given.moves and self.stage == "first":
            self.stage = "second"
            self.rungs = self.given.second or self.rungs
            self.spent.clear()

    def _forget(self, reactions: frozenset[Reaction]) -> None:
        for index, rung in enumerate(self.rungs):
            if rung.reaction in reactions:
                self.spent[index] = 0
