"""The overview in words: the one sentence that answers it, and how each thing that needs attention is put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse

from console.templatetags.figures import usd
from console.templatetags.marks import BREAKERS, STATES
from console.templatetags.said import inert
from fabric.core.breaker.table import BreakerState
from fabric.core.flow import TERMINAL, RunState
from fabric.selectors.attention import Attention, Group, Item, Kind
from fabric.selectors.overview import COUNTED, TILE_OF, States, Tile

NAMED = 3
"""So many kinds of trouble are named in the sentence; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Words:
    """How one kind of trouble is put."""

    badge: str
    tone: str
    icon: str
    one: str
    """In the sentence, for one of them; ``many`` takes the count."""
    many: str
    when: str = ""
    """What its instant is."""
    action: str = "Open"


WORDS: Mapping[Kind, Words] = {
    Kind.OVERDUE: Words("Overdue", "danger", "human", "one review is overdue", "{} reviews are overdue", "due", "Decide"),
    Kind.NO_WORKER: Words("No worker", "danger", "plug", "no worker is alive", "no worker is alive", "the oldest asked", "Workers"),
    Kind.QUARANTINED: Words(
        "Quarantined", "danger", "lock", "one run is quarantined", "{} runs are quarantined", "asked"
    ),
    Kind.FAILED: Words(
        "Failed", "danger", "xc", "one run failed in the last 24 hours", "{} runs failed in the last 24 hours", "ended"
    ),
    Kind.UNTOLD: Words(
        "Not told", "warn", "bell", "one notification could not be sent", "{} notifications could not be sent", "made", "Look"
    ),
    Kind.BREAKER: Words(
        "Breaker open", "warn", "breaker", "one circuit breaker holds calls back", "{} circuit breakers hold calls back", "changed", "Look"
    ),
    Kind.NEAR_CEILING: Words(
        "Ceiling near", "warn", "coins", "one run is near its ceiling", "{} runs are near their ceilings", "", "Watch"
    ),
    Kind.NEAR_DEADLINE: Words(
        "Deadline near", "warn", "clock", "one run is near its deadline", "{} runs are near their deadlines", "deadline", "Watch"
    ),
    Kind.NO_PROGRESS: Words(
        "No progress", "warn", "loop", "one run makes no progress", "{} runs make no progress", "asked"
    ),
    Kind.DUE_SOON: Words(
        "Due soon", "warn", "human", "one review is due within the hour", "{} reviews are due within the hour", "due", "Decide"
    ),
    Kind.WAITS_LONG: Words(
        "Waits", "warn", "wait", "one run waits for a worker", "{} runs wait for a worker", "asked", "Watch"
    ),
}  # fmt: skip
"""Total over ``Kind``."""

TILES: Mapping[Tile, tuple[str, str, str]] = {
    Tile.RUNNING: STATES[RunState.RUNNING],
    Tile.WAITING: STATES[RunState.WAITING],
    Tile.QUEUED: STATES[RunState.QUEUED],
    Tile.PAUSED: STATES[RunState.PAUSED],
    Tile.ENDING: ("Ending", "warn", "x"),
    Tile.QUARANTINED: STATES[RunState.QUARANTINED],
    Tile.COMPLETED: STATES[RunState.COMPLETED],
    Tile.RECOVERED: ("After recovery", "warn", "recov"),
    Tile.STOPPED: STATES[RunState.STOPPED],
    Tile.ENDED_BADLY: ("Failed or aborted", "danger", "block"),
    Tile.CANCELLED: STATES[RunState.CANCELLED],
}
"""Word, tone and icon of each tile; total over ``Tile``."""

ALWAYS = frozenset({Tile.RUNNING, Tile.WAITING, Tile.QUEUED, Tile.COMPLETED, Tile.RECOVERED, Tile.ENDED_BADLY})
"""Tiles that are there even when they count nothing; the others come when they are needed."""


TILE_QUERIES: Mapping[Tile, str] = {
    Tile.RECOVERED: "recovered:yes",
    Tile.ENDED_BADLY: "state:failed,aborted",
    Tile.ENDING: "state:cancelling,unwinding",
}
"""What the list of runs is asked for a tile's runs, where that is not the state of the tile's own name."""


def tile_address(tile: Tile) -> str:
    """Where the runs are that a tile counts: live ones now, ended ones within the last hour."""
    live = {TILE_OF[state] for state in RunState if state not in TERMINAL}
    asked = TILE_QUERIES.get(tile, f"state:{tile}") + ("" if tile in live else " ended:-1h")
    return f"{reverse('runs')}?{urlencode({'q': asked})}"


class Everything(NamedTuple):
    """Where all things of one kind are; the address is empty where one is all there can be."""

    address: str = ""
    word: str = "All of them"


ALL_OF: Mapping[Kind, tuple[str, str]] = {
    Kind.OVERDUE: ("reviews", ""),
    Kind.NO_WORKER: ("", ""),
    Kind.QUARANTINED: ("runs", "state:quarantined"),
    Kind.FAILED: ("runs", "state:failed,aborted ended:-24h"),
    Kind.UNTOLD: ("notifications", ""),
    Kind.BREAKER: ("breakers", ""),
    Kind.NEAR_CEILING: ("runs", "state:running"),
    Kind.NEAR_DEADLINE: ("runs", "state:running"),
    Kind.NO_PROGRESS: ("runs", "state:queued,running,cancelling,unwinding"),
    Kind.DUE_SOON: ("reviews", ""),
    Kind.WAITS_LONG: ("runs", "state:queued"),
}
"""The page, and the query of the list of runs, where everything of a kind is to be found; total over ``Kind``."""


def everything(kind: Kind) -> Everything:
    """Where all things of a kind are."""
    route, query = ALL_OF[kind]
    if not route:
        return Everything()
    if route == "reviews":
        return Everything(reverse(route), "All reviews")
    if route in ("breakers", "notifications"):
        return Everything(reverse(route), f"All {route}")
    word = "Running" if query == "state:running" else "All of them"
    return Everything(f"{reverse(route)}?{urlencode({'q': query})}", word)


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer: one sentence, what it rests on, and whether there is trouble."""

    sentence: str
    lede: str
    tone: str

    @property
    def icon(self) -> str:
        """Says the same as its tone."""
        return {"ok": "okc", "danger": "alert"}.get(self.tone, "flag")


def headline(
    attention: Attention | None, states: States | None, failed: Sequence[str], *, deviated: int = 0
) -> Headline:
    """The overview's sentence. ``attention`` or ``states`` None: they did not load; ``failed``: titles of the cards that did not.

    ``deviated``: cells whose last drill did not do what the table says. They are no trouble of a run, so they are named where there is no other.
    """
    lede = " ".join(part for part in (_counts(states), _missing(failed)) if part)
    if attention is None:
        return Headline("Cannot tell whether anything is wrong: the list did not load", lede, "danger")
    if not attention.groups and deviated:
        cells = "one cell" if deviated == 1 else f"{deviated:,} cells"
        last = "its last drill" if deviated == 1 else "their last drills"
        return Headline(f"No run needs attention, and {cells} deviated in {last}", lede, "warn")
    if not attention.groups:
        return Headline("Nothing is wrong", lede, "ok" if not failed else "warn")
    parts = [put(group) for group in attention.groups[:NAMED]]
    rest = sum(group.count for group in attention.groups[NAMED:])
    if rest:
        parts.append("one more thing needs a look" if rest == 1 else f"{rest:,} more things need a look")
    said = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return Headline(said[:1].upper() + said[1:], lede, WORDS[attention.groups[0].kind].tone)


def put(group: Group) -> str:
    """One kind of trouble as a part of the sentence."""
    words = WORDS[group.kind]
    if group.count == 1:
        return words.one
    return words.many.format(f"{group.count:,}+" if group.capped else f"{group.count:,}")


def _counts(states: States | None) -> str:
    if states is None:
        return ""
    live, ended = f"{states.live:,}", f"{states.ended:,}"
    if not states.live and not states.ended:
        return "No run is in progress, and none ended in the last hour."
    runs = "1 run is" if states.live == 1 else f"{live} runs are" if states.live else "No run is"
    return f"{runs} in progress, {ended if states.ended else 'none'} ended in the last hour."


def _missing(failed: Sequence[str]) -> str:
    if not failed:
        return ""
    return f"{', '.join(failed)} did not load; the rest of the page is current."


@dataclass(frozen=True, slots=True)
class Line:
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


def line(item: Item) -> Line:
    """A thing that needs attention as a row of the page."""
    words = WORDS[item.kind]
    badge, tone, icon = words.badge, words.tone, words.icon
    if item.kind is Kind.FAILED:
        badge, tone, icon = STATES[item.state]
    address = reverse("run", args=[item.run_id]) if item.run_id else f"{reverse('overview')}#card-workers"
    if item.kind is Kind.BREAKER:
        badge, tone, icon = BREAKERS.get(item.state, (badge, tone, icon))
        address = reverse("breakers")
    if item.kind is Kind.UNTOLD:
        address = f"{reverse('notifications')}?state=failed"
    if item.question:
        address += f"#question-{item.question}"
    small = tuple(part for part in (item.fabric_name, *_small(item)) if part)
    return Line(badge, tone, icon, _text(item), small, words.when if item.at else "", item.at, address, words.action)


def _text(item: Item) -> str:
    title = inert(item.title)
    match item.kind:
        case Kind.NO_WORKER:
            return "No worker is alive" + (
                "; a run that is started now would wait." if not item.observed else f" and {_runs(item)}."
            )
        case Kind.BREAKER:
            passes = "only a probe" if item.state == BreakerState.HALF_OPEN else "no call"
            return f"The circuit breaker of {title} lets {passes} pass."
        case Kind.UNTOLD:
            return f"{title} could not be told."
        case Kind.NEAR_CEILING:
            return f"“{title}” has spent {usd(item.observed)} of {usd(item.limit)}."
        case Kind.NO_PROGRESS:
            return f"“{title}” was taken up {item.observed} times and did not come further."
    return title


def _runs(item: Item) -> str:
    count = f"{COUNTED:,}+" if item.observed > COUNTED else f"{item.observed:,}"
    return "1 run waits for one" if item.observed == 1 else f"{count} runs wait for one"


def _small(item: Item) -> tuple[str, ...]:
    reason = inert(item.reason).strip()
    match item.kind:
        case Kind.NO_WORKER:
            return ("python3 manage.py up starts one, and nothing is lost until then",)
        case Kind.NEAR_CEILING:
            return (f"{100 * item.observed // item.limit} % of its ceiling; above it a call is refused",)
        case Kind.NEAR_DEADLINE:
            return ("less than a tenth of its time is left",)
        case Kind.OVERDUE | Kind.DUE_SOON:
            return (reason, "if nobody answers, the system rejects; it never approves")
        case Kind.WAITS_LONG:
            return ("every worker that is alive is busy",)
    return (reason,) if reason and reason != "finished" else ()
