"""Puts the overview in words: its headline, and a line for each trouble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse

from console.templatetags.figures import usd
from console.templatetags.marks import BREAKERS, STATES, spell_name
from console.templatetags.said import inert
from console.words.headlines import Headline
from fabric.core.breaker.table import BreakerState
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.words import instant
from fabric.program.name import program
from fabric.selectors.overview.attention import Attention, AttentionGroup, AttentionItem, AttentionKind
from fabric.selectors.overview.tiles import COUNTED, DAY, HOUR, TILE_OF, States, Tile
from fabric.selectors.overview.waiting import WaitingForPerson

NAMED = 3
"""Number of kinds of trouble named in the headline; further ones are counted."""


@dataclass(frozen=True, slots=True)
class TroubleWords:
    """Words for one kind of trouble."""

    badge: str
    tone: str
    icon: str
    one: str
    """Words of the headline for a single trouble; ``many`` takes the count."""
    many: str
    when: str = ""
    """Label of its instant."""
    action: str = "Open"


WORDS: Mapping[AttentionKind, TroubleWords] = {
    AttentionKind.STOPPED: TroubleWords("Stopped", "danger", "stop", "new runs are stopped", "{} stops of new runs stand", "stopped", "See stops"),
    AttentionKind.OVERDUE: TroubleWords("Overdue", "danger", "human", "one review is overdue", "{} reviews are overdue", "due", "Decide"),
    AttentionKind.NO_WORKER: TroubleWords("No worker", "danger", "plug", "no worker is alive", "no worker is alive", "the oldest started", "Workers"),
    AttentionKind.QUARANTINED: TroubleWords(
        "Quarantined", "danger", "lock", "one run is quarantined", "{} runs are quarantined", "asked"
    ),
    AttentionKind.FAILED: TroubleWords(
        "Failed", "danger", "xc", "one run failed in the last 24 hours", "{} runs failed in the last 24 hours", "ended"
    ),
    AttentionKind.UNTOLD: TroubleWords(
        "Not sent", "warn", "bell", "one notification could not be sent", "{} notifications could not be sent", "made", "Look"
    ),
    AttentionKind.BREAKER: TroubleWords(
        "Breaker open", "warn", "breaker", "one circuit breaker is blocking calls", "{} circuit breakers are blocking calls", "changed", "Look"
    ),
    AttentionKind.NEAR_CEILING: TroubleWords(
        "Limit near", "warn", "coins", "one run is near its spending limit", "{} runs are near their spending limits", "", "Watch"
    ),
    AttentionKind.NEAR_DEADLINE: TroubleWords(
        "Deadline near", "warn", "clock", "one run is near its deadline", "{} runs are near their deadlines", "deadline", "Watch"
    ),
    AttentionKind.NO_PROGRESS: TroubleWords(
        "No progress", "warn", "loop", "one run makes no progress", "{} runs make no progress", "asked"
    ),
    AttentionKind.DUE_SOON: TroubleWords(
        "Due soon", "warn", "human", "one review is due within the hour", "{} reviews are due within the hour", "due", "Decide"
    ),
    AttentionKind.WAITS_LONG: TroubleWords(
        "Waits", "warn", "wait", "one run waits for a worker", "{} runs wait for a worker", "asked", "Watch"
    ),
}  # fmt: skip
"""Words of each kind of trouble. Total over ``Kind``."""

TILES: Mapping[Tile, tuple[str, str, str]] = {
    Tile.RUNNING: STATES[RunState.RUNNING],
    Tile.WAITING: STATES[RunState.WAITING],
    Tile.QUEUED: STATES[RunState.QUEUED],
    Tile.PAUSED: STATES[RunState.PAUSED],
    Tile.ENDING: ("Ending", "warn", "x"),
    Tile.QUARANTINED: STATES[RunState.QUARANTINED],
    Tile.COMPLETED: STATES[RunState.COMPLETED],
    Tile.RECOVERED: ("Recovered", "warn", "recov"),
    Tile.STOPPED: STATES[RunState.STOPPED],
    Tile.ENDED_BADLY: ("Failed or aborted", "danger", "block"),
    Tile.CANCELLED: STATES[RunState.CANCELLED],
}
"""Word, tone and icon of each tile; total over ``Tile``."""

RESTING = (
    (Tile.WAITING, "1 waits for a person", "wait for people"),
    (Tile.PAUSED, "1 is paused", "are paused"),
    (Tile.QUARANTINED, "1 is quarantined", "are quarantined"),
)
"""Tiles of live runs that a worker cannot take further, with the words of the lede."""
ALWAYS = frozenset({Tile.RUNNING, Tile.WAITING, Tile.QUEUED, Tile.COMPLETED, Tile.RECOVERED, Tile.ENDED_BADLY})
"""Tiles that appear even when they count nothing; the others appear when they are needed."""


TILE_QUERIES: Mapping[Tile, str] = {
    Tile.RECOVERED: "state:completed recovered:yes",
    Tile.ENDED_BADLY: "state:failed,aborted",
    Tile.ENDING: "state:cancelling,unwinding",
}
"""Query of a tile's runs in the list of runs, where it is not the state of that name."""


class Range(NamedTuple):
    """A span until now in which ended runs and spending are counted."""

    us: int
    words: str


RANGES: Mapping[str, Range] = {
    "1h": Range(HOUR, "hour"),
    "24h": Range(DAY, "24 hours"),
    "7d": Range(7 * DAY, "7 days"),
}
"""Ranges of the page by their word in its address and in queries. The first is the default."""
DEFAULT_RANGE = next(iter(RANGES))


def tile_address(tile: Tile, last: str = DEFAULT_RANGE) -> str:
    """Return the address of the runs that a tile counts: live ones now, ended ones within the range."""
    live = {TILE_OF[state] for state in RunState if state not in TERMINAL}
    asked = TILE_QUERIES.get(tile, f"state:{tile}") + ("" if tile in live else f" ended:-{last}")
    return f"{reverse('runs')}?{urlencode({'q': asked})}"


class Everything(NamedTuple):
    """Link to all troubles of one kind; the address is empty where there can be only one."""

    address: str = ""
    word: str = "All of them"


ALL_OF: Mapping[AttentionKind, tuple[str, str]] = {
    AttentionKind.STOPPED: ("run-stops", ""),
    AttentionKind.OVERDUE: ("reviews", ""),
    AttentionKind.NO_WORKER: ("", ""),
    AttentionKind.QUARANTINED: ("runs", "state:quarantined"),
    AttentionKind.FAILED: ("runs", "state:failed,aborted ended:-24h"),
    AttentionKind.UNTOLD: ("notifications", ""),
    AttentionKind.BREAKER: ("breakers", ""),
    AttentionKind.NEAR_CEILING: ("runs", "state:running"),
    AttentionKind.NEAR_DEADLINE: ("runs", "state:running"),
    AttentionKind.NO_PROGRESS: ("runs", "state:queued,running,cancelling,unwinding"),
    AttentionKind.DUE_SOON: ("reviews", ""),
    AttentionKind.WAITS_LONG: ("runs", "state:queued"),
}
"""Page, and query of the list of runs, that shows everything of a kind; total over ``Kind``."""


def link_to_all(kind: AttentionKind) -> Everything:
    """Return the link to all troubles of a kind."""
    route, query = ALL_OF[kind]
    if not route:
        return Everything()
    if route == "reviews":
        return Everything(reverse(route), "All reviews")
    if route == "run-stops":
        return Everything(reverse(route), "All stops")
    if route in ("breakers", "notifications"):
        return Everything(reverse(route), f"All {route}")
    word = "Running" if query == "state:running" else "All of them"
    return Everything(f"{reverse(route)}?{urlencode({'q': query})}", word)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFacts:
    """Facts of the shared cards that a headline names."""

    attention: Attention | None
    """None: the list did not load."""
    states: States | None
    """None: the numbers did not load."""
    failed: Sequence[str] = ()
    """Titles of the cards that did not load."""
    deviated: int = 0
    """Cells whose last drill deviated from the table."""
    stopped: bool = False
    """True: the drill stop is pulled."""


def headline(board: BoardFacts, yours: WaitingForPerson | None) -> Headline:
    """Return the overview's headline for one person: what waits for them, then troubles of runs, then drills.

    ``yours`` None: it could not be read.
    """
    failed = board.failed if yours is not None else [*board.failed, "The list of what waits for you"]
    lede = " ".join(part for part in (_counts(board.states), _describe_missing(failed)) if part)
    if board.attention is None:
        return Headline("Status unknown: the list did not load", lede, "danger")
    groups = board.attention.groups
    parts = [*(waiting_words(yours) if yours else ()), *(trouble_words(group) for group in groups[:NAMED])]
    rest = sum(group.count for group in groups[NAMED:])
    if rest:
        parts.append("one more thing needs a look" if rest == 1 else f"{rest:,} more things need a look")
    if not groups:
        parts += _drill_words(board)
    if not parts and yours is None:
        return Headline("Status unknown: what waits for you did not load", lede, "danger")
    if not parts:
        return Headline("Nothing is wrong", lede, "ok" if not board.failed else "warn")
    said = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return Headline(said[:1].upper() + said[1:], lede, WORDS[groups[0].kind].tone if groups else "warn")


def waiting_words(yours: WaitingForPerson) -> list[str]:
    """Return the acts that wait for a person as parts of the headline."""
    parts = []
    if count := yours.reviews.n:
        parts.append("one review waits for you" if count == 1 else f"{yours.reviews} reviews wait for you")
    if count := yours.follow_ups.n:
        parts.append("one follow-up waits for you" if count == 1 else f"{yours.follow_ups} follow-ups wait for you")
    if changes := len(yours.changes):
        waits = "one change waits" if changes == 1 else f"{changes:,} changes wait"
        parts.append(f"{waits} for your approval")
    return parts


def _drill_words(board: BoardFacts) -> list[str]:
    """Return drills' troubles. They harm no run, so the headline names them where no run is in trouble."""
    parts = []
    if board.deviated:
        cells = "one cell" if board.deviated == 1 else f"{board.deviated:,} cells"
        parts.append(f"{cells} deviated in {'its last drill' if board.deviated == 1 else 'their last drills'}")
    if board.stopped:
        parts.append("drills are stopped")
    return parts


def trouble_words(group: AttentionGroup) -> str:
    """Return a kind of trouble as a part of the headline."""
    words = WORDS[group.kind]
    if group.kind is AttentionKind.STOPPED:
        # That of the workspace is the first, and says all.
        fabric = group.items[0].fabric_name
        if not fabric or group.count == 1:
            return f"new runs of {fabric} are stopped" if fabric else words.one
    if group.count == 1:
        return words.one
    return words.many.format(f"{group.count:,}+" if group.capped else f"{group.count:,}")


def _counts(states: States | None) -> str:
    if states is None:
        return ""
    resting = [(states.tiles[tile].count, one, many) for tile, one, many in RESTING]
    going = max(0, states.live - sum(count for count, *_ in resting))
    parts = [f"{'1 run is' if going == 1 else f'{going:,} runs are' if going else 'No run is'} in progress"]
    parts += [one if count == 1 else f"{count:,} {many}" for count, one, many in resting if count]
    ended = f"{states.ended_count:,}" if states.ended_count else "none"
    last = next(one.words for one in RANGES.values() if one.us == states.span)
    return f"{', '.join(parts)} and {ended} ended in the last {last}."


def _describe_missing(failed: Sequence[str]) -> str:
    if not failed:
        return ""
    return f"{', '.join(failed)} did not load; the rest of the page is current."


@dataclass(frozen=True, slots=True)
class TroubleLine:
    """One thing that needs attention, as a row."""

    badge: str
    tone: str
    icon: str
    text: str
    small: tuple[str, ...]
    when: str
    at: int | None
    address: str
    action: str
    acknowledge: str = ""
    """Address at which the failures are acknowledged; empty: it is no failure."""


def trouble_line(item: AttentionItem) -> TroubleLine:
    """Return a thing that needs attention as a row of the page."""
    words = WORDS[item.kind]
    badge, tone, icon = words.badge, words.tone, words.icon
    if item.kind is AttentionKind.FAILED:
        badge, tone, icon = STATES[item.state]
    address = reverse("run", args=[item.run_id]) if item.run_id else f"{reverse('overview')}#card-workers"
    if item.kind is AttentionKind.BREAKER:
        badge, tone, icon = BREAKERS.get(item.state, (badge, tone, icon))
        address = reverse("breakers")
    if item.kind is AttentionKind.STOPPED:
        address = reverse("run-stops")
    if item.kind is AttentionKind.UNTOLD:
        address = f"{reverse('notifications')}?state=failed"
    if item.review:
        address += f"#review-{item.review}"
    small = tuple(part for part in (item.fabric_name, *_small(item)) if part)
    when, acknowledge = words.when if item.at else "", ""
    if item.kind is AttentionKind.FAILED:
        acknowledge = f"{reverse('overview-failures')}?{urlencode({'fabric': item.fabric_name, 'cause': item.cause})}"
        when = "the newest ended" if item.runs > 1 else when
    return TroubleLine(badge, tone, icon, _text(item), small, when, item.at, address, words.action, acknowledge)


def _text(item: AttentionItem) -> str:
    title = inert(item.title)
    if item.runs > 1:
        return f"{item.runs:,} runs of {item.fabric_name} failed: {failure_words(item.cause)}."
    match item.kind:
        case AttentionKind.NO_WORKER:
            return "No worker is alive" + (
                "; a run that is started now would wait." if not item.observed else f" and {_runs(item)}."
            )
        case AttentionKind.BREAKER:
            passes = "only a probe" if item.state == BreakerState.HALF_OPEN else "no call"
            return f"The circuit breaker of {title} lets {passes} pass."
        case AttentionKind.STOPPED:
            return f"New runs of {item.fabric_name} are stopped." if item.fabric_name else "New runs are stopped."
        case AttentionKind.UNTOLD:
            return f"{title} could not be shown."
        case AttentionKind.NEAR_CEILING:
            return f"“{title}” has spent {usd(item.observed)} of {usd(item.limit)}."
        case AttentionKind.NO_PROGRESS:
            return f"“{title}” was taken up {item.observed} times and did not come further."
    return title


def failure_words(cause: str) -> str:
    """Return the cause of failures in words."""
    return spell_name(cause) if cause else "cause unknown"


def _runs(item: AttentionItem) -> str:
    count = f"{COUNTED:,}+" if item.observed > COUNTED else f"{item.observed:,}"
    return "1 run waits for one" if item.observed == 1 else f"{count} runs wait for one"


def _small(item: AttentionItem) -> tuple[str, ...]:
    reason = inert(item.reason).strip()
    if item.runs > 1:
        return tuple(part for part in (f"first seen {instant(item.first_at)}", reason) if part)
    match item.kind:
        case AttentionKind.NO_WORKER:
            return (f"{program()} up starts one, and nothing is lost until then",)
        case AttentionKind.NEAR_CEILING:
            return (f"{100 * item.observed // item.limit} % of its limit; calls above it are refused",)
        case AttentionKind.NEAR_DEADLINE:
            return ("less than a tenth of its time is left",)
        case AttentionKind.OVERDUE | AttentionKind.DUE_SOON:
            return (reason,) if reason else ()
        case AttentionKind.WAITS_LONG:
            return ("every worker that is alive is busy",)
    return (reason,) if reason and reason != "finished" else ()
