"""Describes drills in words and verdict badges: states, failures, and the expected chain beside the observed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from console.templatetags.chains import end_words, link_words, split_chain
from console.templatetags.marks import FAILURES, STATES, TIERS
from console.words.decision_table import ICONS
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.taxonomy import FailureType
from simulator.drills.models.tables import Status
from simulator.drills.selectors.drill_views import DrillView, State
from simulator.scenarios.spec.words import INFRASTRUCTURE

CELLS: Mapping[State, tuple[str, str, str]] = {
    State.PASS: ("Pass", "ok", "okc"),
    State.RUNNING: ("Running", "drill", "run"),
    State.QUEUED: ("Queued", "neutral", "clock"),
    State.STALE: ("Stale", "warn", "stale"),
    State.DEVIATED: ("Deviated", "danger", "alert"),
    State.ERROR: ("Error", "danger", "xc"),
    State.UNKNOWN: ("Unknown", "neutral", "unknown"),
    State.NEVER: ("Not run", "neutral", "never"),
}
"""Word, tone and icon of each state of a cell, in the order of the counts; total over ``State``."""
QUIET = frozenset({State.PASS, State.UNKNOWN, State.NEVER, State.QUEUED})
"""States that need no act. Their mark has no box."""
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
    FailureType.SCHEMA_GROUNDING: "an answer with an invalid citation",
    FailureType.PLAN_MALFORMED: "a plan for an unknown agent",
    FailureType.NO_PROGRESS: "new questions, and never an answer",
    FailureType.UNSAFE_OUTPUT: "the answer is withheld as unsafe",
}
"""Disturbance that a drill of each row causes while it runs; total over ``FailureType``."""


class DrillMark(NamedTuple):
    """Word, tone and icon of a badge, and its shape."""

    word: str
    tone: str
    icon: str
    extra: str = ""


def cell_mark(state: State) -> DrillMark:
    """Return a cell's badge."""
    return DrillMark(*CELLS[state], "plain" if state in QUIET else "")


def drill_mark(seen: DrillView) -> DrillMark:
    """Return a drill's badge: its verdict, or its end if it has no verdict."""
    return cell_mark(State(seen.verdict)) if seen.verdict else DrillMark(*ENDED[seen.status])


def cell_words(seen: DrillView) -> str:
    """Return the cell in words: ``provider failure × long-running batch``; for a scenario its name and the tier."""
    what = seen.scenario or (FAILURES[seen.failure] if seen.failure else INFRASTRUCTURE)
    return f"{what} × {TIERS[seen.tier]}"


# -- expected against observed -----------------------------------------------------------------------------------------

Same = Literal["same", "deviates", "missing", "extra"]
LINES: Mapping[Same, tuple[str, str, str]] = {
    "same": ("Same", "ok", "check"),
    "deviates": ("Deviates", "danger", "alert"),
    "missing": ("Only expected", "danger", "alert"),
    "extra": ("Only observed", "danger", "alert"),
}
"""Word, tone and icon of each line; total over ``Same``."""


class ChainStep(NamedTuple):
    """One step of a chain as the page shows it."""

    words: str
    icon: str
    end: bool
    """True if it is the state in which the run ended."""


@dataclass(frozen=True, slots=True)
class ChainLine:
    """One position in both chains."""

    number: int
    how: Same
    expected: ChainStep | None
    observed: ChainStep | None

    @property
    def mark(self) -> DrillMark:
        """Return its badge."""
        return DrillMark(*LINES[self.how], "plain")


def align_chains(expected: str, observed: str) -> list[ChainLine]:
    """Align two chains, so that equal steps share a line. Return an empty list if one is a sentence, not a chain."""
    left, right = list_steps(expected), list_steps(observed)
    if not left or not right:
        return []
    # A run's end is compared with a run's end, wherever it stands.
    pairs = [*_pair_steps(left[:-1], right[:-1]), (left[-1], right[-1])]
    return [ChainLine(n, _how(one, other), one, other) for n, (one, other) in enumerate(pairs, 1)]


def _pair_steps(left: list[ChainStep], right: list[ChainStep]) -> list[tuple[ChainStep | None, ChainStep | None]]:
    pairs: list[tuple[ChainStep | None, ChainStep | None]] = []
    for _, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        pairs += [
            (left[a + n] if a + n < b else None, right[c + n] if c + n < d else None) for n in range(max(b - a, d - c))
        ]
    return pairs


def _how(expected: ChainStep | None, observed: ChainStep | None) -> Same:
    if expected == observed:
        return "same"
    if observed is None:
        return "missing"
    return "deviates" if expected is not None else "extra"


def list_steps(chain: str) -> list[ChainStep]:
    """Return the steps of ``retry > surface > failed``. Empty: the text does not end in a state of a run."""
    links, state = split_chain(chain)
    if not state:
        return []
    return [*map(step_words, links), ChainStep(end_words(state), STATES[state][2], True)]


def step_words(link: str) -> ChainStep:
    """Return a link of a chain in words, from the text of ``expectation.Link``."""
    # The text of a skipped link is no reaction.
    icon = ICONS[Reaction(link)] if link in set(Reaction) else "never"
    return ChainStep(link_words(link), icon, False)


WORDS: Mapping[str, tuple[str, str, str]] = {
    **{str(state): CELLS[state] for state in State},
    **{str(status): ENDED[status] for status in Status if str(status) not in set(State)},
}
"""Word, tone and icon of a drill's verdict, or of its end if it has no verdict."""


def came_marks(came: Mapping[str, int]) -> list[tuple[DrillMark, int]]:
    """Return a badge and a count for each verdict, in the order of ``WORDS``."""
    return [(DrillMark(*WORDS[name], "plain"), came[name]) for name in WORDS if came.get(name)]
