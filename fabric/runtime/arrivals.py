"""Finds the reasons to step an owned run: its inbox inputs, its pending decisions, and instants.

Inputs that are not decided yet wait in order while shared state is requested. An instant steps the run without any
input, and its timer is set anew. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from fabric.core import engine
from fabric.core.budgets.grants import Need, Refusal, Shares, TokenGiven, TokenWant, Want
from fabric.core.events.inputs import INBOX, DecisionMade, InboxInput, Input, InputUnreadable, NewerInput
from fabric.core.people.eligibility import Person
from fabric.core.reviews.reviews import NEVER_LATE
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.run import Run
from fabric.core.values.flow import FORMAT
from fabric.runtime.ports.journal import InboxItem, Standing

_NONE: frozenset[str] = frozenset()


class Arrivals:
    """Inputs by id. ``reads`` decodes a row, and ``known`` is the format that this program reads."""

    def __init__(self, reads: Callable[[bytes], InboxInput] = INBOX.validate_json, known: int = FORMAT) -> None:
        self._reads, self._known = reads, known
        self._consumed: set[str] = set()
        self._announced: dict[str, InboxItem] = {}
        """Announced inputs whose time is yet to come. One may be withdrawn until then, which refuses the batch that
        consumes it.
        """
        self.standings: dict[str, Standing] = {}
        """Authors of the answers that are not decided yet, by input id."""
        self._sent_at: dict[str, int] = {}
        """The times when they were sent, by input id; unknown times are left out."""
        self._reviews: dict[str, str] = {}
        """The review that each of them answers, by input id."""
        self.format = 0
        """Format that the next owner must read, if this program cannot; else 0."""

    def is_known(self, item: InboxItem) -> bool:
        """Return True if the input was consumed before."""
        return item.input_id in self._consumed

    def read(self, items: Iterable[InboxItem]) -> tuple[list[Input], tuple[str, ...]]:
        """Return the inputs in the rows, and the ids consumed with them. The first row that only a newer program
        reads, and all after it, stay for that program (``format``).
        """
        given: list[Input] = []
        taken: list[str] = []
        for item in items:
            try:
                given.append(self._reads(item.body))
            except NewerInput:
                self.format = max(item.format, self._known + 1)
                break
            except ValueError as error:
                given.append(InputUnreadable(input_id=item.input_id, reason=str(error)))
            taken.append(item.input_id)
            if item.standing is not None:
                self.standings[item.input_id] = item.standing
                if item.sent_at:
                    self._sent_at[item.input_id] = item.sent_at
            self._announced.pop(item.input_id, None)
            self._reviews.pop(item.input_id, None)
        self._consumed.update(taken)
        return given, tuple(taken)

    def person(self, given: DecisionMade, fabric: str) -> Person | None:
        """Return the author of an answer about a fabric's review, as the store had it; None: unknown."""
        standing = self.standings.get(given.input_id)
        return None if standing is None else standing.person(fabric)

    def sent_at(self, given: DecisionMade) -> int | None:
        """Return the time when an answer was sent, by the store's clock; None: unknown."""
        return self._sent_at.get(given.input_id)

    def take_judged(self, consumed: Collection[str]) -> tuple[tuple[str, Standing], ...]:
        """Remove and return the authors of the answers among the consumed inputs, which are decided now."""
        for one in consumed:
            self._sent_at.pop(one, None)
        return tuple((one, self.standings.pop(one)) for one in consumed if one in self.standings)

    def ripe(self, items: Iterable[InboxItem], now: int) -> list[InboxItem]:
        """Return the inputs whose time has come. The others are kept until then, or left to a newer program with the
        run (``format``).
        """
        found = []
        for item in items:
            if item.visible_at <= now:
                found.append(item)
            else:
                self._announced[item.input_id] = item
                self._reviews[item.input_id] = self._review_of(item)
        return found

    def due(self, now: int) -> list[InboxItem]:
        """Return the announced inputs whose time has come."""
        return [item for item in self._announced.values() if item.visible_at <= now]

    def next_at(self) -> int | None:
        """Return the instant at which the next announced input is due; None: none."""
        return min(item.visible_at for item in self._announced.values()) if self._announced else None

    def answers(self) -> frozenset[str]:
        """Return the reviews that announced decisions answer."""
        return frozenset(self._reviews.values()) if self._reviews else _NONE

    def _review_of(self, item: InboxItem) -> str:
        """Return the review that an input answers. "": it answers none, or cannot be read, which shows when it is
        taken. What only a newer program reads may answer any of them.
        """
        try:
            given = self._reads(item.body)
        except NewerInput:
            self.format = max(self.format, item.format, self._known + 1)
            return ""
        except ValueError:
            return ""
        return given.review_id if isinstance(given, DecisionMade) else ""


Todo = tuple[Input, str]
"""An input, and the id of its inbox row; "": none."""


class UndecidedInputs:
    """Inputs, the shares that the first of them needs, and the answers about them."""

    def __init__(self) -> None:
        self.shares = Shares()
        """Shared budgets for each decision, besides the run's own."""
        self._todo: deque[Todo] = deque()
        self._wants: set[Want | TokenWant] = set()

    def __len__(self) -> int:
        return len(self._todo)

    @property
    def waits(self) -> bool:
        """True if nothing can be decided before an answer."""
        return bool(self._wants)

    def add(self, todo: Sequence[Todo]) -> None:
        """Add inputs behind the others."""
        self._todo.extend(todo)

    @property
    def first(self) -> Input:
        """The input that is decided next."""
        return self._todo[0][0]

    def take(self) -> str:
        """Remove the first input, which was decided or is left to the next owner; return the id of its row. Answers
        about shares apply to it alone.
        """
        self.shares.answers = {}
        return self._todo.popleft()[1]

    def wait_for(self, need: Need) -> None:
        """Note the shares without which the first input cannot be decided."""
        self._wants = set(need.wants)

    def give_up(self) -> None:
        """Stop waiting; a later answer is ignored."""
        self._wants = set()

    def take_answer(self, want: Want | TokenWant, answer: Refusal | TokenGiven) -> bool:
        """Take an answer. True: with it the first can be decided about once more."""
        if want not in self._wants:
            return False
        self._wants.discard(want)
        if isinstance(want, TokenWant) or isinstance(answer, Refusal):  # Available money shows in the book.
            self.shares.answers[want] = answer
        return not self._wants


LATE_US = 1_000_000
"""Most delay of a timer without a look at the inbox. A process that stood still longer may have missed an answer."""


def next_wake(run: Run, answers: frozenset[str], announced: int | None, policy: FlowPolicy) -> int | None:
    """Return the next instant at which the run, or an announced answer, is due; None: none."""
    at = engine.wake_at(run, answers, policy)
    if at is None or announced is None or run.terminal:
        return at if announced is None or run.terminal else announced
    return min(at, announced)


def moves(wake: int | None, at: int | None, run: Run, policy: FlowPolicy) -> bool:
    """Return True if a timer that is set to ``wake`` is set to ``at`` instead.

    Every event delays the stall watchdog, so its timer is left as it is: it fires too early, finds nothing due, and
    is set then.
    """
    sooner = wake is not None and at is not None and wake < at
    return at != wake and not (sooner and at == engine.stalls_at(run, policy))


def is_late(at: int, now: int) -> bool:
    """Return True if an event due at ``at`` comes so late that the run's inputs are read first.

    Otherwise a review would expire over an answer that came in time.
    """
    return now - at > LATE_US


def expires(run: Run, now: int, *, seen_at: int = -1) -> bool:
    """Return True if a review expired after ``seen_at`` and by ``now``. ``seen_at``: the last look at the run's inputs;
    -1: unknown.
    """
    asked = (one.fact for one in run.reviews.values())
    return any(fact.item not in NEVER_LATE and seen_at < fact.due_at <= now for fact in asked)


def wants_look(at: int, now: int, run: Run) -> bool:
    """Return True if the run's inputs must be read before the event due at ``at``. It happens late, or a review expires
    with it.
    """
    return is_late(at, now) or expires(run, now)
