"""Computes from a fabric's decision table the chain of decisions about a failure that stays.

1. It knows the ladder, the counting rules of docs/specification/decision-table.md, and which rungs can apply to the
   failure in this fabric.
2. It shares no code with the engine's choice (``fabric/core/ladders``), with which it is compared: a changed cell
   changes the expectation.
3. ``calling`` models the surroundings of a failing call (breakers, other models, retry tokens, time).
4. ``layers`` models the retry layers before a cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.spec.policies.decision_table import GRAVITY, Accompaniment, Reaction
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import ErrorClass
from simulator.scenarios.promises.calls import Calling, CallLine
from simulator.scenarios.promises.layers import Option

Person = Literal["approve", "reject", "raise", "waited_for"]
"""Answer of every reviewer.

- ``raise``: approves, and names a new cap if the review takes one.
- ``reject``: rejects, or stays silent where silence leads to the next rung.
- ``waited_for``: the run is observed only up to the first review.
"""


@dataclass(frozen=True, slots=True)
class Link:
    """One line of a chain: a rung that was taken or skipped, or a follow-up that was left."""

    what: Literal["decided", "skipped", "left"]
    rung: int
    reaction: str

    def __str__(self) -> str:
        return f"{'skips ' if self.what == 'skipped' else ''}{self.reaction}"


@dataclass(frozen=True, slots=True)
class Chain:
    """Decisions in order, and the end of the run. ``asked``: number of reviews, without those before a call."""

    links: tuple[Link, ...]
    state: RunState
    asked: int = 0

    def __str__(self) -> str:
        return f"{' > '.join(map(str, self.links)) or 'nothing decided'} > {self.state}"


LINKED = frozenset({"rung_skipped", "reaction_decided", "review_opened"})
"""Kinds of events that a chain is built from."""


def build_chain(facts: Iterable[tuple[str, Mapping[str, Any]]], state: RunState) -> Chain:
    """Return the chain of a journal. ``facts``: kind and fields of each event; only kinds of ``LINKED`` matter."""
    links: list[Link] = []
    asked = 0
    for kind, fact in facts:
        if kind in ("rung_skipped", "reaction_decided"):
            what: Literal["decided", "skipped"] = "skipped" if kind == "rung_skipped" else "decided"
            links.append(Link(what, fact.get("rung", 0), fact["reaction"]))
        if kind == "review_opened" and fact["item"] == "follow_up":
            links.append(Link("left", links[-1].rung, Accompaniment.FOLLOW_UP))
        else:
            asked += kind == "review_opened" and fact["item"] != "pre_action"
    return Chain(tuple(links), state, asked)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts that the table does not contain: applicable reactions, and people's answers."""

    cannot: Mapping[str, str]
    """Reactions and accompaniments that cannot apply, and why."""
    replans: int = 2
    """Replans of one stage that the limits allow; a handover of the plan counts among them."""
    handover: Literal["plan", "step", "cure"] = "cure"
    """Object of the one handover.

    - ``plan``: the plan, which counts as a replan.
    - ``step``: the step that failed.
    - ``cure``: the step, and with it the failure ends.
    """
    moves: bool = False
    """True for cost overruns: after a replan the failure happens in the plan stage, which has its own counts."""
    second: tuple[Option, ...] = ()
    """Rungs of that other stage; empty if they equal the first ones."""
    step: bool = True
    """True if the failure is one step's: an approval then covers that step, and leads to the last rung."""
    calling: Calling | None = None
    """The failing call; an approval then makes another call of it. None if the failure is not a call's."""
    planned: bool = False
    """True if an approval repeats the plan."""
    answers: bool = True
    """True if a stopped agent (*terminate*) can still answer."""
    counted: int | None = None
    """The failure signature's limit; None if failures of this class are not counted."""
    in_doubt: Reaction = Reaction.ABORT
    """Direct reaction to a failure that reached the limit, in this tier."""
    blocked: bool = False
    """True if a restart edge leads on from it, which it does not cross. This is a direct reaction as well."""
    person: Person = "reject"
    rounds: int = 2
    """Number of reviews about one failure before the run is aborted."""
    overrun: bool = False
    """True for a failure of money: an approval may name a new cap."""
    ends_overrun: bool = False
    """True if that cap fits the session's budget, which ends the failure."""
    static_answer: bool = False
    """True if the fabric has an answer for *safe fallback*."""
    error_class: ErrorClass = ErrorClass.DETERMINISTIC
    """Class of the failure, which some edges require."""
    poll: bool = False
    """True if the failure is one repeated call, which a person may allow to continue."""


ENDS: Mapping[Reaction, RunState] = {
    Reaction.HALT: RunState.ABORTED,
    Reaction.ABORT: RunState.ABORTED,
    Reaction.SURFACE: RunState.FAILED,
}
"""End of a run after a reaction (docs/specification/decision-table.md, table of end states).

Other reactions ask, go on, or depend on the fabric.
"""
PER_CALL = frozenset({Reaction.RETRY, Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL})
"""Reactions that are counted per call: a call of a new plan is another one."""
PER_NODE = frozenset({Reaction.RETRY_NODE, Reaction.ACCEPT_PARTIAL, Reaction.ROUTE, Reaction.GO_BACK})
"""Reactions that are counted per branch of a plan: a new plan has others."""


def expect_chain(
    ladder: tuple[Option, ...],
    given: Circumstances,
    fan_in: tuple[tuple[Option, ...], Circumstances] | None = None,
    recovers_after: int | None = None,
) -> Chain:
    """Return the chain of a failure that comes again after each reaction, until one ends the run. Raises
    NotComputed.

    ``fan_in``: cell and circumstances of a fan-in without a result, for a branch's failure: surfacing ends only the
    branch. ``recovers_after``: number of decisions after which the failure ends; the run then completes, once its
    call goes out.
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
    """Walks down a ladder, rung by rung. Every rung but the last has a finite number of uses, so the walk ends."""

    def __init__(
        self, ladder: tuple[Option, ...], given: Circumstances, links: list[Link], replanned: Counter[str]
    ) -> None:
        self.rungs, self.given, self.links = ladder, given, links
        self.spent: Counter[int] = Counter()
        self.replanned, self.stage = replanned, "first"
        self.failures = self.asked = 0
        self.approved = self.handed_over = self.stopped = self.heard = self.unheard = self.visited = False
        self.line = None if given.calling is None else CallLine(given.calling)

    def is_over(self, *, gone: bool) -> bool:
        """Return True if the failure does not come again. It is ``gone``, or another agent works, and no breaker is in
        the way.
        """
        if self.unheard:
            return False  # Silence takes the next rung, even if the failure is over.
        if self.line is None:
            return gone
        if self.approved and not gone and self.line.agent == self.line.of.agent:
            return False  # The last rung is next, however the failure is met.
        return self.line.attempt(well=gone)

    def decide(self) -> RunState | None:
        """Decide about the failure. Return the end of the run; None if it goes on."""
        comes = not (self.given.step and self.visited)  # The tries of one step count once.
        self.failures, self.visited = self.failures + comes, True
        before = len(self.links)
        index = self._next()
        direct = comes and self.given.counted is not None and self.failures >= self.given.counted and not self.heard
        self.heard = False
        if direct and GRAVITY.index(self.given.in_doubt) < GRAVITY.index(self.rungs[index].reaction):
            del self.links[before:]
            return self._take_rung(0, self.given.in_doubt)
        self.unheard = False
        self.links += [Link("skipped", index, one) for one in self.rungs[index].with_ if one in self.given.cannot]
        self.spent[index] += 1
        follow_up = Accompaniment.FOLLOW_UP in self.rungs[index].with_
        return self._take_rung(index, self.rungs[index].reaction, follow_up=follow_up)

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

    def _take_rung(self, index: int, reaction: Reaction, *, follow_up: bool = False) -> RunState | None:
        if reaction is Reaction.ESCALATE and self.asked >= self.given.rounds:
            reaction = Reaction.ABORT
        self.links.append(Link("decided", index, reaction))
        if follow_up:
            self.links.append(Link("left", index, Accompaniment.FOLLOW_UP))
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
            return self._apply_approval()
        if reaction is Reaction.SAFE_FALLBACK:
            return RunState.COMPLETED if self.given.static_answer else RunState.FAILED
        if reaction is Reaction.TERMINATE:
            return self._apply_stop()
        self._goes_on(index, reaction)
        if reaction is Reaction.ROUTE and self.given.blocked:
            return self._take_rung(0, self.given.in_doubt)
        if reaction in (Reaction.ROUTE, Reaction.GO_BACK):
            return RunState.COMPLETED  # Only the first turn meets it.
        cured = reaction is Reaction.HANDOVER and self.given.handover == "cure" and self.line is None
        return RunState.COMPLETED if cured else None

    def _goes_on(self, index: int, reaction: Reaction) -> None:
        """Apply a reaction after which the run goes on."""
        if self._plans_again(reaction):
            self.replanned[self.stage] += 1
            self.planned_again()
        elif self.line is not None:
            self.line.apply_reaction(reaction, self.spent[index] - 1)
        if reaction is Reaction.HANDOVER:
            self.handed_over = True
        if reaction in (Reaction.RETRY_NODE, Reaction.HANDOVER):
            self._forget(PER_CALL)

    def _too_much(self) -> bool:
        """Return True if finance names a cap above the allowed one: that is no answer, and the review expires."""
        return self.given.person == "raise" and self.given.overrun and not self.given.ends_overrun

    def _apply_approval(self) -> RunState | None:
        """Apply an approval: the failure may come once more, at the last rung. Return the end of the run, if any.

        For a failed plan, it is one more replan, if one is left.
        """
        if self.given.person == "raise" and self.given.ends_overrun:
            # Its stage could not begin, so that the run goes on from its plan: one more replan, if there is one left.
            return RunState.COMPLETED if self.replanned[self.stage] < self.given.replans else RunState.ABORTED
        self.approved = self.given.step
        self.heard, self.visited = True, False
        if self.line is not None:
            self._forget(PER_CALL)
            self.line.apply_reaction(Reaction.ESCALATE, 0)
        if self.given.planned:
            if self.replanned[self.stage] >= self.given.replans:
                return RunState.ABORTED
            self.replanned[self.stage] += 1
        return None

    def _apply_stop(self) -> RunState | None:
        """Apply a stop: an agent without its tools answers once. If that fails too, the present result is surfaced."""
        if self.given.answers:
            return RunState.STOPPED
        again, self.stopped = self.stopped, True
        if again or Reaction.TERMINATE in self.given.cannot:
            return RunState.FAILED
        self._forget(PER_CALL)
        if self.line is not None:
            self.line.apply_reaction(Reaction.TERMINATE, 0)
        return None

    def planned_again(self) -> None:
        """Apply a replan. Uses of rungs stay counted, except those of calls and nodes: the new plan has its own."""
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
