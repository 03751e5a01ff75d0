"""Pictures of every page from the running program: ``python -m tests.e2e.screens OUT_DIR [PART_OF_A_NAME ...]``.

It starts an installation of its own, takes the empty pages, fills it with runs that completed, wait, were approved, rejected, cancelled and failed
in several ways, and takes all pages again: light and dark, 1440 and 390 pixels wide. Then it takes things away for real: the worker is stopped, a
stored run is damaged, a column becomes slow, the database file is gone. A second one tells mailboxes and webhooks, a third one asks people. Parts of names pick pictures.

Each picture is a line of JSON with what there is to complain about: the browser's console, a status that is not the scene's, a page that scrolls
sideways, and what axe finds serious, contrast first. The last line counts. Ends with 1 when there was a complaint, or a scene that failed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Error, Page, StorageState, sync_playwright

from simulator.booking import BookingDesk, Ledger
from simulator.endpoint import ScriptedEndpoint
from tests.console.launch.processes import PATIENCE_S
from tests.e2e import (
    beginning_scenes,
    drill_page_scenes,
    drill_run_scenes,
    drill_scenes,
    editor_parts_scenes,
    held_scenes,
    history_scenes,
    lever_scenes,
    member_scenes,
    memory_scenes,
    model_scenes,
    notification_scenes,
    publish_scenes,
    review_scenes,
    scenario_scenes,
    scenes,
)
from tests.e2e.accessibility import findings
from tests.e2e.chromium import launched
from tests.e2e.installation import Installation, installed
from tests.e2e.scenes import Scene

WIDTHS = {"1440": (1440, 900), "390": (390, 844)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
UNPLUGGED = re.compile("ERR_INTERNET_DISCONNECTED|htmx:error: Failed to fetch")
"""What the browser says of a network that a scene takes away."""
LEASE_S = 120.0
"""More than a stopped worker is taken for alive."""


@dataclass
class Camera:
    """Takes the pictures of one installation."""

    browser: Browser
    home: Installation
    out: Path
    wanted: tuple[str, ...] = ()
    state: StorageState | None = None
    """Cookies of who looks; None for a stranger."""
    taken: int = 0
    complaints: int = 0
    _said: list[str] = field(default_factory=list)

    @contextmanager
    def page(self, width: str = "1440") -> Iterator[Page]:
        """A page of who looks. What its browser complains about is kept."""
        wide, high = WIDTHS[width]
        context = self.browser.new_context(
            base_url=self.home.base,
            viewport={"width": wide, "height": high},
            storage_state=self.state,
            reduced_motion="reduce",
        )
        context.set_default_timeout(1_000 * PATIENCE_S)
        page = context.new_page()
        page.on("pageerror", lambda error: self._said.append(str(error)))
        page.on("console", lambda line: self._said.append(line.text) if line.type == "error" else None)
        try:
            yield page
        finally:
            context.close()

    def chosen(self, scenes: Iterable[Scene]) -> list[Scene]:
        """Those whose names were asked for."""
        return [one for one in scenes if not self.wanted or any(part in one.name for part in self.wanted)]

    def shoot(self, scenes: Iterable[Scene]) -> None:
        """Every scene in both widths and schemes."""
        chosen = self.chosen(scenes)
        for width in WIDTHS if chosen else ():
            for scene in chosen:
                with self.page(width) as page:
                    self._take(page, scene, width)

    def _take(self, page: Page, scene: Scene, width: str) -> None:
        self._said.clear()
        try:
            answer = page.goto(scene.address)
            page.wait_for_load_state("load")
            scene.act(page)
        except Error as error:
            self._report(scene.name, width, [f"the scene failed: {error.message.splitlines()[0]}"])
            return
        expected = f"status of {scene.status}"
        begun = answer.status if answer else 0
        odd = [] if begun == (scene.status if scene.act is scenes.nothing else 200) else [f"answered {begun}"]
        said = [line for line in self._said if expected not in line and not UNPLUGGED.search(line)]
        page.evaluate("scrollTo(0, 0)")
        whole = not page.locator("dialog[open]").count()  # What lies below a dialog's shade is not part of it.
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            name = f"{scene.name}-{width}-{scheme}"
            page.screenshot(path=self.out / f"{name}.png", full_page=whole)
            sideways = page.evaluate("document.documentElement.scrollWidth") - WIDTHS[width][0]
            wide = [f"scrolls {sideways} px sideways"] if sideways > 0 else []
            self._report(name, width, [*odd, *said, *wide, *findings(page, contrast_alone=scheme != SCHEMES[0])])
            self.taken += 1

    def _report(self, name: str, width: str, found: list[str]) -> None:
        self.complaints += len(found)
        print(json.dumps({"picture": name, "complaints": found}), flush=True)

    def for_readme(self, address: str) -> None:
        """The picture at the top of README.md: what is seen without scrolling."""
        for scheme in SCHEMES:
            with self.page() as page:
                page.set_viewport_size({"width": 1280, "height": 900})
                page.emulate_media(color_scheme=scheme)
                page.goto(address)
                page.wait_for_load_state("load")
                page.screenshot(path=self.out / f"readme-{scheme}.png")


def signed_in(camera: Camera, link: str) -> StorageState:
    """The cookies that a one-time link gives; its page is pictured on the way."""
    camera.shoot([Scene("sign-in", link)])
    with camera.page() as page:
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{camera.home.base}/")
        return page.context.storage_state()


# -- what is taken away ------------------------------------------------------------------------------------------------


@contextmanager
def unpublished(home: Installation) -> Iterator[None]:
    """As before the first publication."""
    was = home.stored("SELECT published_id, id FROM fabric_fabric")
    home.stored("UPDATE fabric_fabric SET published_id = NULL")
    yield
    for published, fabric in was:
        home.stored("UPDATE fabric_fabric SET published_id = ? WHERE id = ?", published, fabric)


@contextmanager
def worker_stopped(camera: Camera) -> Iterator[str]:
    """The worker's process stands still, as a machine does that swaps; a run waits for it. Its id."""
    worker = camera.home.worker()
    os.kill(worker, signal.SIGSTOP)
    try:
        with camera.page() as page:
            page.goto("/start?fabric=research-desk&example=1")
            page.get_by_role("button", name="Start the run").click()
            page.wait_for_url("**/runs/*")
            run_id = re.split(r"[/?]", page.url)[-1]
            page.locator("#nobody-works .banner").wait_for(timeout=1_000 * LEASE_S)
        yield run_id
    finally:
        os.kill(worker, signal.SIGCONT)


@contextmanager
def slow_titles(home: Installation) -> Iterator[None]:
    """Reading the title of a run takes long; everything else of it does not."""
    columns = [str(row[1]) for row in home.stored("PRAGMA table_info(fabric_run)")]
    counted = "SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) SELECT i FROM n)"
    shown = ", ".join(f"CASE WHEN ({counted}) THEN title END AS title" if one == "title" else one for one in columns)
    home.stored("ALTER TABLE fabric_run RENAME TO fabric_run_kept")
    home.stored(f"CREATE VIEW fabric_run AS SELECT {shown} FROM fabric_run_kept")
    yield
    home.stored("DROP VIEW fabric_run")
    home.stored("ALTER TABLE fabric_run_kept RENAME TO fabric_run")


# -- the round ---------------------------------------------------------------------------------------------------------


def round_of(camera: Camera, desk: str) -> None:
    """All scenes, in an order in which none spoils another. ``desk``: ``host:port`` of a booking service."""
    home = camera.home
    camera.shoot(scenes.STRANGER)
    camera.state = owner = signed_in(camera, home.login_link())
    camera.shoot(scenes.EMPTY)
    camera.shoot(drill_run_scenes.NONE)
    with unpublished(home):
        camera.shoot(scenes.UNPUBLISHED)
    with camera.page() as page:
        ids = scenes.fill(home, page)
        memory_scenes.remember(home, page)
        ids |= held_scenes.take_hold(home, page, desk)
    camera.shoot(scenes.full(ids))
    camera.shoot(memory_scenes.SCENES)
    camera.shoot(drill_page_scenes.pages(home))
    camera.shoot(drill_scenes.drilled(home))
    camera.shoot(drill_run_scenes.drill_runs(home))
    camera.shoot(scenario_scenes.library(home))
    camera.shoot(drill_scenes.NEVER_LIVE)
    camera.shoot(drill_scenes.lived(home))
    camera.shoot(scenario_scenes.lived(home))
    for part in lever_scenes.parts(home):
        camera.shoot(part)
    camera.shoot(held_scenes.held(home, ids))
    camera.shoot(scenes.inspected(home))
    camera.for_readme(f"/runs/{ids['done0']}")
    camera.state = None
    camera.state = signed_in(camera, home.login_link_of("ben"))
    camera.shoot([Scene("no-permission", "/styleguide", status=403)])
    camera.state = owner
    if camera.chosen(OUTAGES):
        outages(camera, ids["done1"])


def told_round(camera: Camera) -> None:
    """What is told outside the console: nothing yet, then all that can become of it."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(notification_scenes.NOTHING_YET)
    with camera.page() as page:
        notification_scenes.ask(camera.home, page)
    camera.shoot(notification_scenes.TOLD)


def review_round(camera: Camera) -> None:
    """The queue and its questions, in an installation where nothing else waits."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(review_scenes.EMPTY)
    with camera.page() as page:
        ids = review_scenes.filled(camera.home, page)
    camera.shoot(review_scenes.scenes(camera.home, ids))


def history_round(camera: Camera) -> None:
    """What was decided: nothing yet, much of it, and figures that are not to be had."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(history_scenes.EMPTY)
    history_scenes.filled(camera.home)
    camera.shoot(history_scenes.FULL)
    history_scenes.broken(camera.home)
    camera.shoot(history_scenes.BROKEN)


def members_round(camera: Camera) -> None:
    """Who belongs to an installation: the owner alone, then many, as an owner, somebody else and a stranger see them."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    camera.shoot(member_scenes.ALONE)
    invitation = member_scenes.many(home)
    camera.shoot(member_scenes.full(home))
    camera.state = None
    camera.shoot(member_scenes.stranger(invitation))
    link = home.login_link_of("ben")
    member_scenes.password_given(home, "ben")
    camera.state = signed_in(camera, link)
    camera.shoot([*member_scenes.looking(home), Scene("invitation-as-member", invitation)])


def models_round(camera: Camera, other: ScriptedEndpoint) -> None:
    """Models and prices: nothing named, then all that there can be, as an owner and somebody else see it."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    with unpublished(home):
        camera.shoot(model_scenes.NOTHING)
    with camera.page() as page:
        model_scenes.fill(home, other, page)
    camera.shoot(model_scenes.FULL)
    camera.state = None
    camera.state = signed_in(camera, home.login_link_of("ben"))
    camera.shoot(model_scenes.LOOKING)


def editor_round(camera: Camera) -> None:
    """Parts of the editor, with drafts of every kind and checks that are tried."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(editor_parts_scenes.scenes(camera.home))


def beginning_round(camera: Camera) -> None:
    """How fabrics begin: nothing is there, then much, as an owner and somebody else who only looks see it."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    with unpublished(home):
        camera.shoot(beginning_scenes.EMPTY)
    camera.shoot(beginning_scenes.full(home))
    camera.state = None
    token = home.manage("shell", "--verbosity", "0", "-c", beginning_scenes.VERA).split()[-1]
    camera.state = signed_in(camera, f"{home.base}/login/{token}")
    camera.shoot(beginning_scenes.LOOKING)


def publish_round(camera: Camera) -> None:
    """Drafts on their way to publication, as an owner sees them."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    camera.shoot(publish_scenes.scenes(publish_scenes.fill(home)))


OUTAGES = (
    Scene("overview-no-worker", "/"),
    Scene("runs-no-worker", "/runs"),
    Scene("run-queued-no-worker", "/runs/{queued}"),
    Scene("runs-too-slow", "/runs?q=zebra+state:completed", status=503),
    Scene("broken", "/runs", status=500),
    Scene("database-away", "/", status=503),
    Scene("database-away-run", "/runs/{queued}", status=503),
)


def outages(camera: Camera, damaged: str) -> None:
    """One thing after the other is taken away; the installation does not recover from the last ones."""
    home = camera.home
    with worker_stopped(camera) as queued:
        found = {one.name: one._replace(address=one.address.format(queued=queued)) for one in OUTAGES}
        camera.shoot(found[name] for name in ("overview-no-worker", "runs-no-worker", "run-queued-no-worker"))
        with slow_titles(home):
            camera.shoot([found["runs-too-slow"]])
    home.damage(damaged)
    camera.shoot([found["broken"]])
    home.take_database_away()
    camera.shoot([found["database-away"], found["database-away-run"]])


def main(out: Path, wanted: tuple[str, ...]) -> int:
    """Takes them all; the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="fabric-screens-") as folder,
        ScriptedEndpoint(BookingDesk(Ledger(Path(folder) / "booking.ndjson")).reply, keep=False) as desk,
        installed(Path(folder) / "data", FABRIC_ALLOWED_HOSTS=desk.authority) as home,
        sync_playwright() as playwright,
    ):
        browser = launched(playwright.chromium)
        camera = Camera(browser, home, out, wanted)
        round_of(camera, desk.authority)
        cameras = [camera]
        if camera.chosen((*notification_scenes.NOTHING_YET, *notification_scenes.TOLD)):
            with notification_scenes.telling(Path(folder) / "told") as telling:
                cameras.append(Camera(browser, telling, out, wanted))
                told_round(cameras[-1])
        if camera.chosen((*review_scenes.EMPTY, *review_scenes.scenes(home, defaultdict(str)))):
            with installed(Path(folder) / "reviews") as queue:
                cameras.append(Camera(browser, queue, out, wanted))
                review_round(cameras[-1])
        if camera.chosen((*history_scenes.EMPTY, *history_scenes.FULL, *history_scenes.BROKEN)):
            with installed(Path(folder) / "history") as decided:
                cameras.append(Camera(browser, decided, out, wanted))
                history_round(cameras[-1])
        if any(part in "members invitation sign-in" or "member" in part for part in wanted) or not wanted:
            with installed(Path(folder) / "members") as many:
                cameras.append(Camera(browser, many, out, wanted))
                members_round(cameras[-1])
        if any(one.startswith("edit") for one in wanted) or not wanted:
            with installed(Path(folder) / "editing") as edited:
                cameras.append(Camera(browser, edited, out, wanted))
                editor_round(cameras[-1])
        if any("begin".startswith(part) or part.startswith("begin") for part in wanted) or not wanted:
            with installed(Path(folder) / "beginning") as begins:
                cameras.append(Camera(browser, begins, out, wanted))
                beginning_round(cameras[-1])
        if camera.chosen((*model_scenes.NOTHING, *model_scenes.FULL, *model_scenes.LOOKING)):
            with model_scenes.asking(Path(folder) / "models") as (asks, other):
                cameras.append(Camera(browser, asks, out, wanted))
                models_round(cameras[-1], other)
        if camera.chosen(publish_scenes.scenes({})):
            with installed(Path(folder) / "publication") as drafts:
                cameras.append(Camera(browser, drafts, out, wanted))
                publish_round(cameras[-1])
        browser.close()
    taken, complaints = sum(one.taken for one in cameras), sum(one.complaints for one in cameras)
    print(json.dumps({"pictures": taken, "complaints": complaints, "folder": str(out)}))
    return int(complaints > 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("python -m tests.e2e.screens OUT_DIR [PART_OF_A_NAME ...]")
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:])))
