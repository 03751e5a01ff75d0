"""What the inbox brought to one owned run: read, announced, consumed, or left to a newer program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from fabric.core.eligibility import Person
from fabric.core.flow import FORMAT
from fabric.core.inputs import INBOX, DecisionMade, InboxInput, Input, InputUnreadable, NewerInput
from fabric.runtime.ports import InboxItem, Standing

_NONE: frozenset[str] = frozenset()


class Arrivals:
    """Inputs by id. ``reads`` and ``known`` are the program: what it makes of a row, and the format it reads."""

    def __init__(self, reads: Callable[[bytes], InboxInput] = INBOX.validate_json, known: int = FORMAT) -> None:
        self._reads, self._known = reads, known
        self._consumed: set[str] = set()
        self._announced: dict[str, InboxItem] = {}
        """Inputs whose time is yet to come. One may be withdrawn until then: the batch that consumes it is refused in that case."""
        self.standings: dict[str, Standing] = {}
        """Who gave the answers that are yet to be decided about, by input id."""
        self._sent_at: dict[str, int] = {}
        """The times when they were sent, by input id; unknown times are left out."""
        self._questions: dict[str, str] = {}
        """The question that each of them answers, by input id."""
        self.format = 0
        """What an owner must be able to read, where that is more than this program can; else 0."""

    def known(self, item: InboxItem) -> bool:
        """Whether it was consumed before."""
        return item.input_id in self._consumed

    def read(self, items: Iterable[InboxItem]) -> tuple[list[Input], tuple[str, ...]]:
        """What they say, and which are consumed with it. From the first that only a newer program reads, they are left to that (``format``)."""
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
            self._questions.pop(item.input_id, None)
        self._consumed.update(taken)
        return given, tuple(taken)

    def person(self, given: Input, fabric: str) -> Person | None:
        """Who gives an answer to a question of a fabric, as the store said; None: it said nothing of it."""
        standing = self.standings.get(given.input_id) if isinstance(given, DecisionMade) else None
        return None if standing is None else standing.person(fabric)

    def sent_at(self, given: Input) -> int | None:
        """The time when an answer was sent, by the store's clock; None: not known."""
        return self._sent_at.get(given.input_id) if isinstance(given, DecisionMade) else None

    def judged(self, consumed: Collection[str]) -> tuple[tuple[str, Standing], ...]:
        """What the answers among those were judged on; they are decided about now."""
        for one in consumed:
            self._sent_at.pop(one, None)
        return tuple((one, self.standings.pop(one)) for one in consumed if one in self.standings)

    def ripe(self, items: Iterable[InboxItem], now: int) -> list[InboxItem]:
        """Those of them whose time has come; the others are kept until then, or left to a newer program with the run (``format``)."""
        found = []
        for item in items:
            if item.visible_at <= now:
                found.append(item)
            else:
                self._announced[item.input_id] = item
                self._questions[item.input_id] = self._question_of(item)
        return found

    def due(self, now: int) -> list[InboxItem]:
        """The announced ones whose time has come."""
        return [item for item in self._announced.values() if item.visible_at <= now]

    def next_at(self) -> int | None:
        """When the next announced one is due."""
        return min((item.visible_at for item in self._announced.values()), default=None)

    def answers(self) -> frozenset[str]:
        """The questions that announced decisions are about."""
        return frozenset(self._questions.values()) if self._questions else _NONE

    def _question_of(self, item: InboxItem) -> str:
        """Empty: it answers none, or cannot be read, which shows when it is taken. What only a newer program reads may answer any of them."""
        try:
            given = self._reads(item.body)
        except NewerInput:
            self.format = max(self.format, item.format, self._known + 1)
            return ""
        except ValueError:
            return ""
        return given.escalation_id if isinstance(given, DecisionMade) else ""
