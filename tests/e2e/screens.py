"""Pictures of every page from the running program: ``python -m tests.e2e.screens OUT_DIR [PART_OF_A_NAME ...] [--round ROUND ...]``.

It starts an installation of its own, takes the empty pages, fills it with runs that completed, wait, were approved, rejected, cancelled and failed
in several ways, and takes all pages again: light and dark, 1440 and 390 pixels wide. Then it takes things away for real: the worker is stopped, a
stored run is damaged, a column becomes slow, the database file is gone. Others tell mailboxes and webhooks, ask people, edit and publish: each round
has an installation of its own. ``--round`` picks rounds, parts of names pick pictures.

Each picture is a line of JSON with what there is to complain about: the browser's console, a status that is not the scene's, a page that scrolls
sideways, and what axe finds serious, contrast first. The last line counts. Ends with 1 when there was a complaint, or a scene that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import StorageState, sync_playwright

from simulator.booking import BookingDesk, Ledger
from simulator.endpoint import ScriptedEndpoint
from tests.e2e import scenes
from tests.e2e.camera import Camera
from tests.e2e.chromium import launched
from tests.e2e.drafts import beginning_scenes, editor_parts_scenes, publish_scenes, topology_scenes
from tests.e2e.drills import drill_page_scenes, drill_run_scenes, drill_scenes, drill_stop_scenes, fleet_scenes
from tests.e2e.installation import RUN, Installation, installed
from tests.e2e.memories import memory_scenes
from tests.e2e.models import model_scenes
from tests.e2e.notifications import notification_scenes
from tests.e2e.people import member_scenes
from tests.e2e.reviews import history_scenes, review_scenes
from tests.e2e.runs import attachment_scenes, held_scenes, job_scenes, saying_scenes, stop_scenes
from tests.e2e.runs.past import past_scenes
from tests.e2e.scenarios import scenario_scenes
from tests.e2e.scenes import Scene

LEASE_S = 120.0
"""More than a stopped worker is taken for alive."""


def signed_in(camera: Camera, link: str) -> StorageState:
    """The cookies that a one-time link gives; its page is pictured on the way."""
    camera.shoot([Scene("sign-in", link)])
    with camera.page() as page:
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{camera.home.base}/")
        return page.context.storage_state()


# -- what is taken away ----------------------------------------------------------------------------------------------


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
            page.goto("/runs/start?fabric=research-desk&example=1")
            page.get_by_role("button", name="Start the run").click()
            page.wait_for_url(RUN)
            run_id = re.split(r"[/?]", page.url)[-1]
            page.locator("#no-worker .banner").wait_for(timeout=1_000 * LEASE_S)
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


# -- the round -------------------------------------------------------------------------------------------------------


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
    camera.shoot(attachment_scenes.SCENES)
    camera.shoot(drill_page_scenes.pages(home))
    camera.shoot(drill_scenes.drilled(home))
    camera.shoot(drill_run_scenes.drill_runs(home))
    camera.shoot(scenario_scenes.library(home))
    camera.shoot(drill_scenes.NEVER_LIVE)
    camera.shoot(drill_scenes.lived(home))
    camera.shoot(scenario_scenes.lived(home))
    for part in drill_stop_scenes.parts(home):
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
    """Notifications outside the console: none yet, then all that can become of one."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(notification_scenes.NOTHING_YET)
    with camera.page() as page:
        notification_scenes.ask(camera.home, page)
    camera.shoot(notification_scenes.TOLD)


def review_round(camera: Camera) -> None:
    """The queue and its reviews, in an installation where nothing else waits."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(review_scenes.EMPTY)
    with camera.page() as page:
        ids = review_scenes.filled(camera.home, page)
    camera.shoot(review_scenes.scenes(camera.home, ids))


def history_round(camera: Camera) -> None:
    """Decided reviews: nothing yet, much of it, and figures that are not to be had."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(history_scenes.EMPTY)
    history_scenes.filled(camera.home)
    camera.shoot(history_scenes.FULL)
    history_scenes.broken(camera.home)
    camera.shoot(history_scenes.BROKEN)


def members_round(camera: Camera) -> None:
    """The members of an installation: the owner alone, then many, as an owner, another member and a stranger see them."""
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
    """Models and prices: nothing named, then all that there can be, as an owner and another member see it."""
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


def editor_round(camera: Camera, crm: str) -> None:
    """Parts of the editor, with drafts of every kind, checks that are tried, test requests and prompts to ``crm``."""
    camera.state = signed_in(camera, camera.home.login_link())
    camera.shoot(editor_parts_scenes.scenes(camera.home, crm))


def beginning_round(camera: Camera) -> None:
    """How fabrics begin: nothing is there, then much, as an owner and a viewer see it."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    with unpublished(home):
        camera.shoot(beginning_scenes.EMPTY)
    camera.shoot(beginning_scenes.full(home))
    camera.state = None
    token = home.manage("django", "shell", "--verbosity", "0", "-c", beginning_scenes.VERA).split()[-1]
    camera.state = signed_in(camera, f"{home.base}/login/link#{token}")
    camera.shoot(beginning_scenes.LOOKING)


def fleet_round(camera: Camera) -> None:
    """Drills of all fabrics and the library: nothing there, never drilled, then much."""
    camera.state = signed_in(camera, camera.home.login_link())
    with unpublished(camera.home):
        camera.shoot(fleet_scenes.NONE)
    camera.shoot(fleet_scenes.NEVER)
    camera.shoot(fleet_scenes.filled(camera.home))


def publish_round(camera: Camera) -> None:
    """Drafts on their way to publication, as an owner sees them."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    camera.shoot(publish_scenes.scenes(publish_scenes.fill(home)))


def topologies_round(camera: Camera) -> None:
    """Every kind of topology: its pages, its part of the editor, its runs."""
    camera.state = signed_in(camera, camera.home.login_link())
    topology_scenes.begin(camera.home)
    camera.shoot(topology_scenes.pages())
    with camera.page() as page:
        for found in topology_scenes.runs(camera.home, page):
            camera.shoot(found)


def stops_round(camera: Camera) -> None:
    """Stops of new runs: none, standing, and over."""
    camera.state = signed_in(camera, camera.home.login_link())
    for part in stop_scenes.parts(camera.home):
        camera.shoot(part)


def saying_round(camera: Camera) -> None:
    """Words of people in conversations, as an owner and a viewer see them."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    with camera.page() as page:
        ids = saying_scenes.talked(home, page)
    camera.shoot(saying_scenes.scenes(ids))
    camera.state = None
    token = home.manage("django", "shell", "--verbosity", "0", "-c", beginning_scenes.VERA).split()[-1]
    camera.state = signed_in(camera, f"{home.base}/login/link#{token}")
    camera.shoot(saying_scenes.looking(ids))


def past_round(camera: Camera) -> None:
    """Runs as of an event, and budgets that runs share."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    with unpublished(home):
        camera.shoot(past_scenes.NOTHING)
    with camera.page() as page:
        ids = past_scenes.fill(home, page)
    camera.shoot(past_scenes.scenes(home, ids))
    camera.shoot(past_scenes.emptied(home))


def jobs_round(camera: Camera) -> None:
    """Actions on many runs, and saved views."""
    home = camera.home
    camera.state = signed_in(camera, home.login_link())
    camera.shoot(job_scenes.EMPTY)
    with camera.page() as page:
        ids = job_scenes.many(home, page)
        camera.shoot(job_scenes.listed(ids))
        for part in job_scenes.parts(home, page):
            camera.shoot(part)


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


@contextmanager
def _plain(data: Path) -> Iterator[tuple[Installation, None]]:
    with installed(data) as home:
        yield home, None


@contextmanager
def _with_a_desk(data: Path) -> Iterator[tuple[Installation, str]]:
    with (
        ScriptedEndpoint(BookingDesk(Ledger(data.parent / "booking.ndjson")).reply, keep=False) as desk,
        installed(data, FABRIC_ALLOWED_HOSTS=desk.authority) as home,
    ):
        yield home, desk.authority


@contextmanager
def _telling(data: Path) -> Iterator[tuple[Installation, None]]:
    with notification_scenes.telling(data) as home:
        yield home, None


class Round(NamedTuple):
    """Pictures of one installation."""

    begun: Callable[[Path], AbstractContextManager[tuple[Installation, Any]]]
    """Starts it in a folder; with it comes what else the pictures need."""
    taken: Callable[[Camera, Any], None]


ROUNDS: dict[str, Round] = {
    "runs": Round(_with_a_desk, round_of),
    "told": Round(_telling, lambda camera, _: told_round(camera)),
    "reviews": Round(_plain, lambda camera, _: review_round(camera)),
    "history": Round(_plain, lambda camera, _: history_round(camera)),
    "members": Round(_plain, lambda camera, _: members_round(camera)),
    "editor": Round(editor_parts_scenes.beside_a_crm, editor_round),
    "beginning": Round(_plain, lambda camera, _: beginning_round(camera)),
    "stops": Round(_plain, lambda camera, _: stops_round(camera)),
    "past": Round(_plain, lambda camera, _: past_round(camera)),
    "jobs": Round(_plain, lambda camera, _: jobs_round(camera)),
    "saying": Round(_plain, lambda camera, _: saying_round(camera)),
    "models": Round(model_scenes.asking, models_round),
    "topologies": Round(_plain, lambda camera, _: topologies_round(camera)),
    "fleet": Round(_plain, lambda camera, _: fleet_round(camera)),
    "publication": Round(_plain, lambda camera, _: publish_round(camera)),
}


def main(out: Path, rounds: Collection[str], wanted: tuple[str, ...]) -> int:
    """Takes the pictures of those rounds; the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    cameras = []
    with tempfile.TemporaryDirectory(prefix="fabric-screens-") as folder, sync_playwright() as playwright:
        browser = launched(playwright.chromium)
        for name in rounds:
            with ROUNDS[name].begun(Path(folder) / name) as (home, more):
                cameras.append(Camera(browser, home, out, wanted))
                ROUNDS[name].taken(cameras[-1], more)
        browser.close()
    taken, complaints = sum(one.taken for one in cameras), sum(one.complaints for one in cameras)
    print(json.dumps({"pictures": taken, "complaints": complaints, "folder": str(out)}))
    return int(complaints > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.screens", description="Pictures of every page.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--round", action="append", choices=ROUNDS, help="pictures of these installations alone")
    parser.add_argument("part", nargs="*", help="of a picture's name; all of them when none is given")
    given = parser.parse_intermixed_args()  # Parts may follow rounds.
    sys.exit(main(given.out, given.round or tuple(ROUNDS), tuple(given.part)))
