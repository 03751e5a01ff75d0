"""What every page's frame shows: where one can go, what waits there, and whether anybody works."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import SafeString

from console.access import actor_of, is_staff
from console.keys import KEYS, Key
from console.route_policies import ROUTES
from console.views.drill_going import Going, going_of
from fabric.core.actor import Actor
from fabric.core.roles import Right, holders
from fabric.selectors import standing
from fabric.selectors.breakers import breakers_open_count
from fabric.selectors.errors import Refused
from fabric.selectors.review_queue import reviews_waiting_count
from simulator.drills.lever import Frame as Drills
from simulator.drills.lever import drills_frame
from simulator.drills.selectors import drills_open_count

T = TypeVar("T")

COUNTED = 100
"""Things are counted so far; what is more is said to be more."""


class Place(NamedTuple):
    """A row of the navigation."""

    route: str
    label: str
    icon: str
    under: tuple[str, ...] = ()
    """First words of the route names of the pages that lie under it."""
    ask: Callable[[Actor, int], int] | None = None
    """Counts what waits there, so far as it is told."""
    tone: str = ""
    """Of the count: empty for one that only informs."""
    counted: str = ""
    """What the number counts, for who cannot see where it stands."""


NAV: tuple[Place, ...] = (
    Place("overview", "Overview", "overview", ("overview",)),
    Place("runs", "Runs", "runs", ("runs", "run"), standing.runs_live_count, "", "live"),
    Place(
        "reviews",
        "Reviews",
        "review",
        ("reviews", "review", "decide", "decision"),
        reviews_waiting_count,
        "human",
        "for you to decide",
    ),
    Place(
        "drills",
        "Drills",
        "drill",
        ("drills", "drill", "scenarios", "scenario"),
        drills_open_count,
        "",
        "waiting or running",
    ),
    Place("fabrics", "Fabrics", "fabric", ("fabrics", "fabric")),
    Place("breakers", "Breakers", "breaker", ("breakers", "breaker"), breakers_open_count, "danger", "not closed"),
    Place("start", "New run", "plus", ("start",)),
)
"""The navigation, in its order. A row whose page there is not is left out."""
MORE: tuple[Place, ...] = (
    Place("notifications", "Notifications", "bell", ("notifications", "notification")),
    Place("models", "Models and prices", "coins", ("models", "model")),
    Place("policy", "Policy", "lock", ("policy",)),
    Place("account", "Your account", "lock", ("account", "security")),
    Place("members", "Members", "user2", ("members", "member", "invitation", "token")),
    Place("audit", "Audit", "clock", ("audit",)),
    Place("protections", "Protections", "lock", ("protections",)),
    Place("api-docs", "API reference", "braces", ("api",)),
)
"""What stands below it: for who looks things up, not for who watches."""
STAFF: tuple[Place, ...] = (Place("styleguide", "Style guide", "star", ("styleguide",)),)
"""What stands there too for who looks after the installation."""

FOUND: tuple[Place, ...] = (Place("drills-lever", "Stop all drills: the lever", "stop"),)
"""What only the palette offers beside all of that."""


class Tab(NamedTuple):
    """A part of the drills' pages."""

    route: str
    label: str
    under: tuple[str, ...] = ()
    """Whole names of the routes that lie under it, beside its own."""


DRILL_TABS: tuple[Tab, ...] = (
    Tab("drills", "Coverage", ("drills-ask", "drills-stop")),
    Tab("scenarios", "Library", (*tuple(name for name in ROUTES if name.startswith("scenario-")), "scenario")),
    Tab("drills-runs", "Runs"),
    Tab("drills-schedules", "Schedules", ("drills-schedule",)),
)
"""The bar above the drills' pages (``drills/tabs.html``), in its order. A tab whose page there is not is left out."""
BOARD = ("drills", "drills-ask", "drills-stop")
"""Routes of the page that tells itself of cells that are drilled."""


@dataclass(frozen=True, slots=True)
class Link:
    """A row of the navigation as it is shown."""

    place: Place
    address: str
    current: bool
    count: str
    """Empty for nothing, or when it could not be counted."""


@dataclass
class Frame:
    """The frame of one page, for who looks at it. Each part is asked for when a template shows it, and fails alone to nothing."""

    request: HttpRequest

    @cached_property
    def actor(self) -> Actor | None:
        """Who looks; None for a stranger, for who is no member, and while the database is away."""
        try:
            return _or_else(lambda: actor_of(self.request.user) if self.request.user.is_authenticated else None, None)
        except Refused:
            return None

    @cached_property
    def links(self) -> list[Link]:
        """The navigation."""
        return self._links(NAV)

    @property
    def waits(self) -> str:
        """How many reviews wait for who looks, as the navigation says it; empty for none."""
        return next((link.count for link in self.links if link.place.route == "reviews"), "")

    @property
    def reads_audit(self) -> bool:
        """Whether who looks may read the audit stream: pages link to it for them alone."""
        return self.actor is not None and self.actor.may(Right.AUDIT)

    @cached_property
    def more(self) -> list[Link]:
        """What stands below the navigation."""
        rows = [place for place in MORE if self.reads_audit or place.route != "audit"]
        return self._links((*rows, *STAFF) if self.staff else rows)

    @property
    def drill_tabs(self) -> list[tuple[Tab, str, bool]]:
        """The bar above the drills' pages: each tab, its address, and whether the page lies under it."""
        there = [(tab, address_of(tab.route)) for tab in DRILL_TABS]
        return [(tab, to, self.here in (tab.route, *tab.under)) for tab, to in there if to]

    @cached_property
    def staff(self) -> bool:
        """Whether who looks may see what is for staff. The actor is known already, so nothing is asked for it."""
        return self.actor is not None and is_staff(self.request.user, self.actor)

    @property
    def lacks(self) -> dict[str, str]:
        """Of each right that who looks has not, who has it: it stands beside a button that does nothing for them."""
        actor = self.actor
        if actor is None:
            return {}
        may = actor.may if actor.place else actor.may_somewhere
        return {right.value: f"This is for {holders(right)}." for right in Right if not may(right)}

    @property
    def here(self) -> str:
        """Route name of the page; when the frame is asked for alone, of the page that it stands around."""
        match = self.request.resolver_match
        name = (match.view_name or "") if match else ""
        seen: Actor | None = getattr(self.request, "actor_on_run", None)
        if seen is not None and self.actor is not None and seen.workspace_id != self.actor.workspace_id:
            return "drills-runs"  # The run of a drill lies under the drills.
        return self.request.GET.get("at", "") if name == "frame" else name

    @property
    def sheets(self) -> SafeString:
        """What opens over every page: the palette, before anything is typed, and the sheet of keys. Made once for everybody who sees the same pages."""
        made = sheets.__wrapped__ if settings.DEBUG else sheets
        return made(staff=self.staff, under=get_script_prefix(), audits=self.reads_audit)

    @cached_property
    def drills(self) -> Drills:
        """The lever of drills, and what goes on."""
        actor = self.actor
        return _or_else(lambda: drills_frame(actor), Drills()) if actor else Drills()

    @property
    def on_drills(self) -> bool:
        """Whether the page is one of the drills'."""
        return any(self._lies_under(place) for place in NAV if place.route == "drills")

    @cached_property
    def going(self) -> Going | None:
        """Drills that go on and are told above the page: live ones on every page, others on the drills' own."""
        actor, batch = self.actor, self.drills.live or (self.drills.going if self.on_drills else "")
        if actor is None or not batch:
            return None
        try:
            found = _or_else(lambda: going_of(actor, batch), None)
        except Refused:  # Its last row was deleted meanwhile.
            return None
        board = self.request.GET
        on_board = found and self.here in BOARD and found.on_board(board.get("fabric", ""), board.get("mode", ""))
        return None if on_board else found

    @property
    def query(self) -> str:
        """By which the frame is asked for alone: the page that it stands around, and of the coverage whose it is."""
        of_board = {name: self.request.GET[name] for name in ("fabric", "mode") if name in self.request.GET}
        return urlencode({"at": self.here, **(of_board if self.here in BOARD else {})})

    @cached_property
    def workspace(self) -> str:
        """What the workspace is called."""
        actor = self.actor
        return _or_else(lambda: standing.workspace_name(actor), "") if actor else ""

    @property
    def environment(self) -> str:
        """Which installation this is: where it is reached."""
        return urlsplit(settings.FABRIC_PUBLIC_URL).netloc

    @cached_property
    def workers(self) -> int | None:
        """Worker processes alive; None when it is not known."""
        return _or_else(standing.workers_alive_count, None) if self.actor else None

    @cached_property
    def ready(self) -> str:
        """Runs that wait for a worker while none is alive; empty when that is not so."""
        actor = self.actor
        if actor is None or self.workers != 0:
            return ""
        return capped(_or_else(lambda: standing.runs_ready_count(actor, COUNTED + 1), 0))

    def _links(self, rows: Iterable[Place]) -> list[Link]:
        there = [(place, address_of(place.route)) for place in rows]
        return [Link(place, to, self._lies_under(place), self._count(place)) for place, to in there if to]

    def _lies_under(self, place: Place) -> bool:
        return self.here.partition("-")[0] in place.under

    def _count(self, place: Place) -> str:
        ask, actor = place.ask, self.actor
        if ask is None or actor is None:
            return ""
        return capped(_or_else(lambda: ask(actor, COUNTED + 1), 0))


def _or_else(ask: Callable[[], T], otherwise: T) -> T:
    """What is asked for; while the database does not answer, ``otherwise``: the frame stands around every page."""
    try:
        return ask()
    except DatabaseError:
        return otherwise


def capped(count: int) -> str:
    """A count as it is shown: nothing for none, ``100+`` for more than is counted."""
    return f"{COUNTED}+" if count > COUNTED else str(count or "")


class PaletteRow(NamedTuple):
    """A page in the palette."""

    label: str
    icon: str
    address: str
    keys: str
    """The keys that lead there; empty for none."""


def offered(*, staff: bool, audits: bool = True) -> tuple[Place, ...]:
    """The pages that there are for somebody; ``staff``: who looks after the installation; ``audits``: who may read the audit stream."""
    found = (*NAV, *MORE, *FOUND, *(STAFF if staff else ()))
    return found if audits else tuple(place for place in found if place.route != "audit")


def places(query: str = "", rows: Iterable[Place] = (*NAV, *MORE, *FOUND)) -> list[PaletteRow]:
    """The pages whose name has all words of the query."""
    keys = {key.to: key.keys for _, group in KEYS for key in group if key.do == "go"}
    there = [PaletteRow(place.label, place.icon, address_of(place.route), keys.get(place.route, "")) for place in rows]
    words = query.lower().split()
    return [row for row in there if row.address and all(word in row.label.lower() for word in words)]


def keys() -> list[tuple[str, list[tuple[Key, str]]]]:
    """The sheet of keys: each with the address it leads to, where it leads to one."""
    groups = [(title, [(key, _target(key)) for key in group]) for title, group in KEYS]
    return [(title, [(key, to) for key, to in group if to or key.do != "go"]) for title, group in groups]


@lru_cache(maxsize=8)
def sheets(*, staff: bool, under: str, audits: bool = True) -> SafeString:
    """The palette and the sheet of keys, of a console whose addresses begin with ``under``: a quarter of what a page takes that shows nothing else."""
    return render_to_string(
        "shell/sheets.html", {"places": places(rows=offered(staff=staff, audits=audits)), "keys": keys()}
    )


def _target(key: Key) -> str:
    return address_of(key.to) if key.do == "go" else key.to


def address_of(route: str) -> str:
    """The address of a route without arguments; empty when there is no such route."""
    try:
        return reverse(route)
    except NoReverseMatch:
        return ""


def shell(request: HttpRequest) -> dict[str, Any]:
    """The nonce of script elements, and the page's frame."""
    return {"csp_nonce": getattr(request, "csp_nonce", ""), "frame": SimpleLazyObject(lambda: Frame(request))}
