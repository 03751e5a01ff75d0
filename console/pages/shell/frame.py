"""Builds the frame of every page: navigation, counts of waiting work, and the state of workers.

The frame requests search results while a person types, and fresh counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from console.pages.docs.page_help import help_address
from console.pages.drills.banner import Going, find_batch
from console.pages.drills.remembered import LAST
from console.pages.shell.elsewhere import Elsewhere, find_elsewhere, list_acts
from console.pages.shell.keys import KEYS, Key
from console.site.access.actors import find_actor, is_staff
from console.site.access.policies import ROUTES
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.templatetags.figures import COUNT_MAX, capped_count
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.selectors.errors import Refused
from fabric.selectors.models.breakers import breakers_open_count
from fabric.selectors.overview import frame_counts as standing
from fabric.selectors.overview.search import GROUP_MAX, SEARCHED_RUNS, SearchResults, search
from fabric.selectors.overview.waiting import waiting_count
from fabric.selectors.runs.stops import StopView
from simulator.drills.selectors.drills import drills_open_count
from simulator.drills.services.drill_stop import Frame as Drills
from simulator.drills.services.drill_stop import drills_frame

T = TypeVar("T")


class NavigationPlace(NamedTuple):
    """A row of the navigation."""

    route: str
    label: str
    icon: str
    under: tuple[str, ...] = ()
    """First words of route names of pages that lie under it."""
    ask: Callable[[Actor, int], int] | None = None
    """Function that counts the waiting items, up to a maximum."""
    tone: str = ""
    """Tone of the count; empty if it only informs."""
    counted: str = ""
    """Meaning of the number, for screen readers."""
    group: str = ""
    """Heading of the links below the navigation that it stands under."""


NAV: tuple[NavigationPlace, ...] = (
    NavigationPlace("overview", "Overview", "overview", ("overview",)),
    NavigationPlace("runs", "Runs", "runs", ("runs", "run"), standing.runs_live_count, "", "live"),
    NavigationPlace("dashboards", "Dashboards", "chart", ("dashboards",)),
    NavigationPlace(
        "reviews",
        "Reviews",
        "review",
        ("reviews", "review", "decide", "decision"),
        waiting_count,
        "human",
        "for you to decide",
    ),
    NavigationPlace(
        "drills",
        "Drills",
        "drill",
        ("drills", "drill", "scenarios", "scenario"),
        drills_open_count,
        "",
        "waiting or running",
    ),
    NavigationPlace("fabrics", "Fabrics", "fabric", ("fabrics", "fabric")),
    NavigationPlace(
        "breakers", "Breakers", "breaker", ("breakers", "breaker"), breakers_open_count, "danger", "not closed"
    ),
    NavigationPlace("budgets", "Shared budgets", "coins", ("budgets",)),
    NavigationPlace("start", "New run", "plus", ("start",)),
)
"""Rows of the navigation, in order. A row without a page is left out."""
FOOT_ONLY = ("dashboards", "fabrics", "breakers", "budgets")
"""Rows that a phone shows at the foot of the page: its bar has room for five and More."""
SETTINGS, REFERENCE = "Settings", "Reference"
MORE: tuple[NavigationPlace, ...] = (
    NavigationPlace("models", "Models and prices", "coins", ("models", "model"), group=SETTINGS),
    NavigationPlace("policy", "Policy", "lock", ("policy",), group=SETTINGS),
    NavigationPlace("notifications", "Notifications", "bell", ("notifications", "notification"), group=SETTINGS),
    NavigationPlace("members", "Members", "user2", ("members", "member", "invitation", "token"), group=SETTINGS),
    NavigationPlace("account", "Your account", "human", ("account", "security", "sign"), group=SETTINGS),
    NavigationPlace("audit", "Audit", "clock", ("audit",), group=REFERENCE),
    NavigationPlace("protections", "Protections", "gate", ("protections",), group=REFERENCE),
    NavigationPlace("docs", "Documents", "doc", ("docs",), group=REFERENCE),
    NavigationPlace("api-docs", "API reference", "braces", ("api",), group=REFERENCE),
)
"""Places below the navigation, by group."""
HEALTH = NavigationPlace("health", "Health", "health", ("health",), group=SETTINGS)
"""Place below the navigation for staff of the installation."""
STAFF: tuple[NavigationPlace, ...] = (HEALTH, NavigationPlace("styleguide", "Style guide", "star", ("styleguide",)))
"""Places that the palette offers to staff of the installation."""

FOUND: tuple[NavigationPlace, ...] = (
    NavigationPlace("run-stops", "Stop new runs", "stop"),
    NavigationPlace("drill-stop", "Stop all drills", "stop"),
)
"""Places that only the palette offers."""


class Tab(NamedTuple):
    """A part of the drills' pages."""

    route: str
    label: str
    under: tuple[str, ...] = ()
    """Full names of further routes that lie under the tab."""


DRILL_TABS: tuple[Tab, ...] = (
    Tab("drills", "All fabrics", ("drills-stale",)),
    Tab("drills-coverage", "Coverage", ("drills-ask", "drills-batch-stop")),
    Tab("scenarios", "Library", (*tuple(name for name in ROUTES if name.startswith("scenario-")), "scenario")),
    Tab("drills-runs", "Runs"),
    Tab("drills-schedules", "Schedules", ("drills-schedule",)),
)
"""Tabs above the drills' pages (``drills/tabs.html``), in order. A tab without a page is left out."""
BOARD = ("drills-coverage", "drills-ask", "drills-batch-stop")
"""Routes of the page that itself shows which cells are being drilled."""


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A row of the navigation as the page shows it."""

    place: NavigationPlace
    address: str
    current: bool
    count: str
    """The count; empty for zero, or if the count failed."""


@dataclass
class Frame:
    """The frame of one page for its viewer. A template reads each part lazily; a failing part shows nothing."""

    request: HttpRequest

    @cached_property
    def actor(self) -> Actor | None:
        """Return the viewer; None for strangers, for users who are no members, and while the database is away."""
        try:
            return _or_else(lambda: find_actor(self.request.user) if self.request.user.is_authenticated else None, None)
        except Refused:
            return None

    @cached_property
    def links(self) -> list[NavigationLink]:
        """Return the navigation."""
        return self._links(NAV)

    @property
    def waits(self) -> str:
        """Return the number of reviews and changes that wait for the viewer; empty for none."""
        return next((link.count for link in self.links if link.place.route == "reviews"), "")

    @property
    def reads_audit(self) -> bool:
        """Return True if the viewer may read the audit stream. Pages link to it only then."""
        return self.actor is not None and self.actor.may(Right.AUDIT)

    @cached_property
    def more(self) -> list[NavigationLink]:
        """Return the links below the navigation."""
        rows = [place for place in MORE if self.reads_audit or place.route != "audit"]
        return self._links(sorted((*rows, HEALTH), key=lambda place: place.group == REFERENCE) if self.staff else rows)

    @property
    def foot_only(self) -> tuple[str, ...]:
        """Return the routes that a phone's bar leaves to the foot of the page."""
        return FOOT_ONLY

    @property
    def drill_tabs(self) -> list[tuple[Tab, str, bool]]:
        """Return the tabs above the drills' pages: tab, address, and True if the page lies under it."""
        there = [(tab, build_address(tab.route)) for tab in DRILL_TABS]
        return [(tab, to, self.here in (tab.route, *tab.under)) for tab, to in there if to]

    @cached_property
    def staff(self) -> bool:
        """Return True if the viewer may see pages for staff. The actor is known already, so this reads nothing."""
        return self.actor is not None and is_staff(self.request.user, self.actor)

    @property
    def lacks(self) -> dict[str, str]:
        """Return the rights that the viewer lacks, each with the roles that grant it; shown beside disabled buttons."""
        actor = self.actor
        if actor is None:
            return {}
        may = actor.may if actor.place else actor.may_somewhere
        return {right.value: f"This is for {holders(right)}." for right in Right if not may(right)}

    @property
    def here(self) -> str:
        """Return the route name of the page; for a request of the frame alone, of the page that it surrounds."""
        match = self.request.resolver_match
        name = (match.view_name or "") if match else ""
        seen: Actor | None = getattr(self.request, "actor_on_run", None)
        if seen is not None and self.actor is not None and seen.workspace_id != self.actor.workspace_id:
            return "drills-runs"  # The run of a drill lies under the drills.
        return self.request.GET.get("at", "") if name == "frame" else name

    @property
    def sheets(self) -> SafeString:
        """Return the palette and the sheet of keys, as they open over every page. Viewers of equal rights share a
        rendering.
        """
        made = sheets.__wrapped__ if settings.DEBUG else sheets
        return made(staff=self.staff, under=get_script_prefix(), audits=self.reads_audit)

    @cached_property
    def drills(self) -> Drills:
        """Return the state of the drill stop, and the running drills."""
        actor = self.actor
        return _or_else(lambda: drills_frame(actor), Drills()) if actor else Drills()

    @property
    def on_drills(self) -> bool:
        """Return True if the page belongs to the drills."""
        return any(self._lies_under(place) for place in NAV if place.route == "drills")

    @cached_property
    def drill_banner(self) -> Going | None:
        """Return the batch of drills in the banner: live ones on every page, others on the drills' pages."""
        actor, batch = self.actor, self.drills.live or (self.drills.going if self.on_drills else "")
        if actor is None or not batch:
            return None
        try:
            found = _or_else(lambda: find_batch(actor, batch), None)
        except Refused:  # Its last row was deleted meanwhile.
            return None
        board = self.request.GET
        fabric = board.get("fabric", "") or self.request.COOKIES.get(LAST, "")
        on_board = found and self.here in BOARD and found.on_board(fabric, board.get("mode", ""))
        return None if on_board else found

    @property
    def query(self) -> str:
        """Return the query that requests the frame alone: the page around it, and the fabric of a coverage board."""
        of_board = {name: self.request.GET[name] for name in ("fabric", "mode") if name in self.request.GET}
        return urlencode({"at": self.here, **(of_board if self.here in BOARD else {})})

    @cached_property
    def workspace(self) -> str:
        """Return the name of the workspace."""
        return self._workspace[0]

    @property
    def stop(self) -> StopView | None:
        """Return the stop that refuses all new runs of the workspace; None: they may start."""
        return self._workspace[1]

    @cached_property
    def _workspace(self) -> tuple[str, StopView | None]:
        actor = self.actor
        unknown: tuple[str, StopView | None] = ("", None)
        return _or_else(lambda: standing.frame_workspace(actor), unknown) if actor else unknown

    @property
    def help(self) -> str:
        """Address of the document that explains this page."""
        return help_address(self.here)

    @property
    def environment(self) -> str:
        """Return the host under which the installation is reached."""
        return urlsplit(settings.FABRIC_PUBLIC_URL).netloc

    @cached_property
    def workers(self) -> int | None:
        """Return the number of living worker processes; None if unknown."""
        return _or_else(standing.workers_alive_count, None) if self.actor else None

    @cached_property
    def ready(self) -> str:
        """Return the number of runs that wait while no worker is alive; empty while one is."""
        actor = self.actor
        if actor is None or self.workers != 0:
            return ""
        return capped_count(_or_else(lambda: standing.runs_ready_count(actor, COUNT_MAX + 1), 0))

    def _links(self, rows: Iterable[NavigationPlace]) -> list[NavigationLink]:
        there = [(place, build_address(place.route)) for place in rows]
        return [NavigationLink(place, to, self._lies_under(place), self._count(place)) for place, to in there if to]

    def _lies_under(self, place: NavigationPlace) -> bool:
        return self.here.partition("-")[0] in place.under

    def _count(self, place: NavigationPlace) -> str:
        ask, actor = place.ask, self.actor
        if ask is None or actor is None:
            return ""
        return capped_count(_or_else(lambda: ask(actor, COUNT_MAX + 1), 0))


def _or_else(ask: Callable[[], T], otherwise: T) -> T:
    """Return the result of ``ask``, or ``otherwise`` while the database is away: the frame surrounds every page."""
    try:
        return ask()
    except DatabaseError:
        return otherwise


class PaletteRow(NamedTuple):
    """A page in the palette."""

    label: str
    icon: str
    address: str
    keys: str
    """Keys that lead there; empty for none."""


def offered_places(*, staff: bool, audits: bool = True) -> tuple[NavigationPlace, ...]:
    """Return the places offered to a viewer.

    ``staff``: the viewer is staff of the installation. ``audits``: the viewer may read the audit stream.
    """
    found = (*NAV, *MORE, *FOUND, *(STAFF if staff else ()))
    return found if audits else tuple(place for place in found if place.route != "audit")


def places(query: str = "", rows: Iterable[NavigationPlace] = (*NAV, *MORE, *FOUND)) -> list[PaletteRow]:
    """Return the pages whose name contains all words of the query."""
    keys = {key.to: key.keys for _, group in KEYS for key in group if key.do == "go"}
    there = [
        PaletteRow(place.label, place.icon, build_address(place.route), keys.get(place.route, "")) for place in rows
    ]
    words = query.lower().split()
    return [row for row in there if row.address and all(word in row.label.lower() for word in words)]


def keys() -> list[tuple[str, list[tuple[Key, str]]]]:
    """Return the sheet of keys, each with the address that it leads to, if any."""
    groups = [(title, [(key, _target(key)) for key in group]) for title, group in KEYS]
    return [(title, [(key, to) for key, to in group if to or key.do != "go"]) for title, group in groups]


@lru_cache(maxsize=8)
def sheets(*, staff: bool, under: str, audits: bool = True) -> SafeString:
    """Return the palette and the sheet of keys, for a console under the prefix ``under``.

    It is cached: rendering it takes a quarter of the time of a small page.
    """
    return render_to_string(
        "shell/sheets.html", {"places": places(rows=offered_places(staff=staff, audits=audits)), "keys": keys()}
    )


def _target(key: Key) -> str:
    return build_address(key.to) if key.do == "go" else key.to


def build_address(route: str) -> str:
    """Return the address of a route without arguments; empty if no such route exists."""
    try:
        return reverse(route)
    except NoReverseMatch:
        return ""


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return the nonce of script elements, and the page's frame."""
    return {"csp_nonce": getattr(request, "csp_nonce", ""), "frame": SimpleLazyObject(lambda: Frame(request))}


@require_safe
def results(request: HttpRequest) -> HttpResponse:
    """Search everything that has a page for ``q``. The page's script gets rows of the palette, with matching pages."""
    actor, query = find_actor(request.user), request.GET.get("q", "").strip(" \t\r\n")
    found, problem, status = SearchResults(), "", 200
    elsewhere: tuple[Elsewhere, ...] = ()
    acts: tuple[Elsewhere, ...] = ()
    try:
        found = search(actor, query)
        elsewhere, acts = find_elsewhere(actor, query), list_acts(actor, found.fabrics)
    except Refused as refusal:
        problem, status = sentence(refusal.message), errors.STATUS[refusal.code]
    in_palette = bool(request.headers.get("HX-Request"))
    shown = {
        "searched": query,
        "found": found,
        "elsewhere": elsewhere,
        "acts": acts,
        "count": found.count + len(elsewhere),
        "problem": problem,
        "group_max": GROUP_MAX,
        "searched_runs": SEARCHED_RUNS,
        "places": places(query, offered_places(staff=is_staff(request.user, actor), audits=actor.may(Right.AUDIT))),
    }
    # A palette shows a mistake in the query in place of results.
    template, code = ("shell/search/found.html", 200) if in_palette else ("shell/search/page.html", status)
    response = render(request, template, shown, status=code)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


@require_safe
def frame(request: HttpRequest) -> HttpResponse:
    """Return the frame's current counts. ``at``: route name of the page that it surrounds."""
    return render(request, "shell/frame.html")
