"""Drills in words: the states of cells and drills, what each failure is, and the expected chain held against the observed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from console.templatetags.marks import FAILURES, STATES, TIERS
from console.views.fabric_table import ICONS
from fabric.core.decision_table import Reaction
from fabric.core.taxonomy import FailureType
from simulator.drills.models import Status
from simulator.drills.selectors import DrillView, State

CELLS: Mapping[State, tuple[str, str, str]] = {
    State.PASS: ("Pass", "ok", "okc"),
    State.RUNNING: ("Running", "drill", "run"),
    State.QUEUED: ("Queued", "neutral", "clock"),
    State.STALE: ("Stale", "warn", "stale"),
    State.DEVIATED: ("Deviated", "danger", "alert"),
    State.ERROR: ("Error", "danger", "xc"),
    State.UNKNOWN: ("Unknown", "neutral", "unknown"),
    State.NEVER: ("Never", "neutral", "never"),
}
"""Word, tone and icon of each state of a cell, in the order in which they are counted; total over ``State``."""
QUIET = frozenset({State.PASS, State.UNKNOWN, State.NEVER, State.QUEUED})
"""States whose mark stands without a box: nothing has to be done about them."""
ENDED: Mapping[Status, tuple[str, str, str]] = {
    Status.QUEUED: ("Queued", "neutral", "clock"),
    Status.RUNNING: ("Running", "drill", "run"),
    Status.COMPLETED: ("Completed", "ok", "okc"),
    Status.FAILED: ("Failed", "danger", "xc"),
    Status.ABORTED: ("Aborted", "neutral", "stop"),
    Status.INTERRUPTED: ("Interrupted", "warn", "plug"),
}
"""Word, tone and icon of each status of a drill; total over ``Status``."""

STRIKES: Mapping[FailureType, str] = {
    FailureType.TOOL_LOOP: "the same call again and again",
    FailureType.DEADLOCK: "two parts that wait for each other",
    FailureType.COST_OVERRUN: "one answer costs the whole cap",
    FailureType.PROVIDER: "every call comes back as 503",
    FailureType.SCHEMA_GROUNDING: "an answer that cites what is not there",
    FailureType.PLAN_MALFORMED: "a plan for an agent that is not there",
    FailureType.NO_PROGRESS: "new questions, and never an answer",
    FailureType.UNSAFE_OUTPUT: "the answer is withheld as unsafe",
}
"""What a drill of each row does to the run, for as long as it goes on; total over ``FailureType``."""


class Mark(NamedTuple):
    """Word, tone and icon of a badge, and what else it is called by."""

    word: str
    tone: str
    icon: str
    extra: str = ""


def cell_mark(state: State) -> Mark:
    """A cell's badge."""
    return Mark(*CELLS[state], "plain" if state in QUIET else "")


def drill_mark(seen: DrillView) -> Mark:
    """A drill's badge: its verdict where it has one, how it ended where it has none."""
    return cell_mark(State(seen.verdict)) if seen.verdict else Mark(*ENDED[seen.status])


def cell_words(seen: DrillView) -> str:
    """Which cell it is of, ``provider failure × long-running batch``; of a scenario its name and the tier."""
    what = seen.scenario or (FAILURES[seen.failure] if seen.failure else "around a run")
    return f"{what} × {TIERS[seen.tier]}"


# -- expected against observed -----------------------------------------------------------------------------------------

Same = Literal["same", "deviates", "missing", "extra"]
SEPARATOR, NOTHING = " > ", "nothing decided"
"""As ``expectation.Chain`` writes itself."""
LINES: Mapping[Same, tuple[str, str, str]] = {
    "same": ("Same", "ok", "check"),
    "deviates": ("Deviates", "danger", "alert"),
    "missing": ("Only expected", "danger", "alert"),
    "extra": ("Only observed", "danger", "alert"),
}
"""Word, tone and icon of each line; total over ``Same``."""


class Step(NamedTuple):
    """One step of a chain as it is shown."""

    words: str
    icon: str
    end: bool
    """Whether it is the state in which the run ended."""


@dataclass(frozen=True, slots=True)
class Line:
    """The same place in both chains."""

    number: int
    how: Same
    expected: Step | None
    observed: Step | None

    @property
    def mark(self) -> Mark:
        """Its badge."""
        return Mark(*LINES[self.how], "plain")


def aligned(expected: str, observed: str) -> list[Line]:
    """Two chains side by side, so that as much as can be stands beside its like; empty where one of them is no chain but a sentence."""
    left, right = steps_of(expected), steps_of(observed)
    if not left or not right:
        return []
    # A run's end is compared with a run's end, wherever it stands.
    pairs = [*_paired(left[:-1], right[:-1]), (left[-1], right[-1])]
    return [Line(n, _how(one, other), one, other) for n, (one, other) in enumerate(pairs, 1)]


def _paired(left: list[Step], right: list[Step]) -> list[tuple[Step | None, Step | None]]:
    pairs: list[tuple[Step | None, Step | None]] = []
    for _, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        pairs += [
            (left[a + n] if a + n < b else None, right[c + n] if c + n < d else None) for n in range(max(b - a, d - c))
        ]
    return pairs


def _how(expected: Step | None, observed: Step | None) -> Same:
    if expected == observed:
        return "same"
    if observed is None:
        return "missing"
    return "deviates" if expected is not None else "extra"


def steps_of(chain: str) -> list[Step]:
    """``retry > surface > failed`` as steps; empty for what is no chain: it does not end in a state of a run."""
    *links, state = chain.split(SEPARATOR)
    if not links or state not in STATES:
        return []
    word, _, icon = STATES[state]
    return [*(step_words(link) for link in links if link != NOTHING), Step(f"run {word.lower()}", icon, True)]


def step_words(link: str) -> Step:
    """One link of a chain, as ``expectation.Link`` writes itself."""
    skipped = link.startswith("skips ")
    reaction = link.removeprefix("skips ")
    known = reaction in set(Reaction)
    icon = "never" if skipped or not known else ICONS[Reaction(reaction)]
    words = reaction.replace("_", " ")
    return Step(f"{words}, passed over" if skipped else words, icon, False)
