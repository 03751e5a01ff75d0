"""Reads a journal for a scenario: the calls that went out, the strike on each, and what cannot be repeated."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fabric.core.values.taxonomy import FailureType
from fabric.core.values.units import JSON

Values = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class Place:
    """A place whose model calls are counted together."""

    agent: str
    stage: str
    branch: int | None

    def values(self) -> Values:
        """Return the place as fields of a disturbance."""
        return {"agent": self.agent, "stage": self.stage} | ({"branch": self.branch} if self.branch else {})


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt of a model call."""

    place: Place
    ordinal: int
    step: str


@dataclass
class Facts:
    """Failures of a journal. ``disturbances``: in scenario form, in order of their first strike."""

    disturbances: list[Values] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Failures that cannot be repeated, a sentence each."""
    failure: FailureType | None = None
    """The row of the first decision; None: it was a direct one, or there was none."""
    decided: bool = False
    seed: int = 1
    """The run's own."""


class Reading:
    """A journal on its way: the calls that went out, and what is to strike each."""

    def __init__(self, cap_usd_micros: int) -> None:
        self.cap = cap_usd_micros
        self.calls: dict[tuple[str, int], Call] = {}
        self.struck: dict[Call, tuple[str, Values]] = {}
        self.others: list[Values] = []
        self.left: dict[str, None] = {}
        self.answers: list[tuple[Call, str, int]] = []
        """Each answer: its call, its verdict, what it cost."""
        self.hashes: dict[str, list[str]] = defaultdict(list)
        """Fingerprints of the calls that each step proposed."""
        self.tools: dict[tuple[str, int], tuple[str, int]] = {}
        """Tool calls: the tool, and the number of the call among that tool's calls."""
        self.stuck: set[str] = set()
        """Steps that said the same thing again and again: their answers are struck as a whole, not one by one."""
        self.moves: list[tuple[str, str]] = []
        """Handovers: who, to whom."""
        self.changes: dict[tuple[str, int], int] = {}
        self.reviews: dict[str, tuple[int, int]] = {}
        """Reviews by id: the number of each, and its number among those that a person may edit; from 1."""
        self.first: FailureType | None = None
        self.decided, self.seed = False, 1
        self._seen: Counter[object] = Counter()

    def count(self, key: object) -> int:
        """Count one more of a key, and return its number, from 1."""
        self._seen[key] += 1
        return self._seen[key]

    def unsent(self, key: tuple[str, int]) -> None:
        """Take a call that never went out back from the count."""
        if (call := self.calls.pop(key, None)) is not None:
            self._seen[call.place] -= 1

    def strike(self, call: Call | None, fault: str, **values: JSON) -> None:
        """Record the fault that strikes a call, in place of an earlier one."""
        if call is not None:
            self.struck.pop(call, None)
            self.struck[call] = (fault, values)

    def leave(self, sentence: str) -> None:
        """Says once what is not repeated."""
        self.left[sentence] = None

    def last(self, step: str = "", stage: str = "") -> Call | None:
        """The call of a step, or of a stage, that was answered last."""
        for call, _, _ in reversed(self.answers):
            if call.step == step if step else call.place.stage == stage:
                return call
        return None

    def dearest(self) -> tuple[Call, int] | None:
        """The answer that cost most."""
        return max(((call, cost) for call, _, cost in self.answers), key=lambda one: one[1], default=None)

    def facts(self) -> Facts:
        """Return all facts. Calls in a row with the same fault are one entry with a count."""
        found: list[Values] = []
        runs: dict[object, Values] = {}
        order = {call: n for n, call in enumerate(self.calls.values())}
        for call in sorted(filter(lambda one: one.step not in self.stuck, self.struck), key=order.__getitem__):
            fault, values = self.struck[call]
            key = (call.place, fault, tuple(sorted(values.items())))
            before = runs.get(key)
            if before is not None and before["from_call"] + before["times"] == call.ordinal:
                before["times"] += 1
                continue
            runs[key] = {"fault": fault, **call.place.values(), "from_call": call.ordinal, "times": 1, **values}
            found.append(runs[key])
        return Facts([*found, *self.others], list(self.left), self.first, self.decided, self.seed)
