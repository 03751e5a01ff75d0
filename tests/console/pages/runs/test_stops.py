"""Stops of new runs in the console: every way in is refused, the page that stops and allows, and the banners."""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path

import pytest

from console.pages.runs.stops import ENDS
from console.words.stops import RUNNING
from fabric.models import Run, StartStop
from fabric.selectors.reviews.queue import Tab, queue_page
from fabric.selectors.runs.stops import RunningRuns, stops_list, stops_standing
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.stop_work import stops_carry_out
from fabric.services.runs.stops import STOP_S_MAX, STOP_S_MIN, allow_new_runs, stop_new_runs
from tests.console.api.conftest import program, token
from tests.console.outage import table_away
from tests.fabric.management.console import command
from tests.fabric.services.world import GIVEN_UP, nudge, ran, store
from tests.people import member, signed_in

__all__ = ["nudge", "program", "store", "token"]
ROOT = Path(__file__).resolve().parents[4]
PAGE = "/runs/stops"
SAID = "Every start is refused."


def text(answer):
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", answer.content.decode())).split())


# -- every way in ----------------------------------------------------------------------------------------------------


class Ways:
    """Each way by which a person or a program starts a run: what it answers with, as status and words."""

    def __init__(self, browser, program, actor, small):
        self.browser, self.program, self.small = browser, program, small
        self.run = ran(actor, small).id
        ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
        self.follow_up = queue_page(actor, Tab.FOLLOW_UPS).rows[0].review.id

    def page(self):
        return self._page("/runs/start", {"fabric": self.small, "text": "Why?", "start_key": "page-1"})

    def page_fork(self):
        return self._page(f"/runs/{self.run}/fork/1", {"what": "", "value": "", "start_key": "page-2"})

    def page_follow_up(self):
        return self._page(f"/reviews/{self.follow_up}/close", {"message": "Again.", "how": "fork", "seq": "2"})

    def api(self):
        return self._api("/api/v1/runs", {"fabric": self.small, "text": "Why?"})

    def api_fork(self):
        return self._api(f"/api/v1/runs/{self.run}/fork", {"seq": 1})

    def api_follow_up(self):
        return self._api(f"/api/v1/reviews/{self.follow_up}/close", {"note": "Again.", "fork_seq": 2})

    def command(self):
        return self._command("run", "start", self.small, "--input", "Why?")

    def command_fork(self):
        return self._command("run", "fork", self.run, "--event", "1")

    def command_follow_up(self):
        return self._command("review", "close", self.follow_up, "--note", "Again.", "--fork", "2")

    def _page(self, address, fields):
        answer = self.browser.post(address, fields)
        return answer.status_code, text(answer)

    def _api(self, address, body):
        answer = self.program.post(address, body)
        assert answer.json().get("code") == "new_runs_stopped", answer.json()
        return answer.status_code, answer.json()["detail"]

    def _command(self, *words):
        done = command(*words)
        return done.code, done.err


FILES = {
    "fabric/services/runs/start.py": (),
    "fabric/services/runs/forks.py": (),
    "fabric/services/reviews/follow_ups.py": (),
    "console/pages/reviews/answers.py": ("page_follow_up",),
    "console/api/reviews/queue.py": ("api_follow_up",),
    "fabric/management/commands/review.py": ("command_follow_up",),
    "console/pages/runs/start.py": ("page",),
    "console/pages/runs/control.py": ("page_fork",),
    "console/api/runs/operations.py": ("api", "api_fork"),
    "fabric/management/commands/run.py": ("command", "command_fork"),
}
"""Files that start runs of the workspace, with their ways; the first three are the services."""
APART = {
    "fabric/services/runs/jobs/actions.py": "a job refuses each run by itself: tests/fabric/services/runs/jobs/test_actions.py",
    "simulator/drills/live/cells.py": "drills have a workspace of their own",
    "simulator/scoreboard/runs.py": "it measures in an installation of its own",
}


def calling(names):
    """The files of the product that call one of these functions."""
    found = set()
    for folder in ("fabric", "console", "simulator"):
        for path in (ROOT / folder).rglob("*.py"):
            calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
            if {getattr(one, "id", getattr(one, "attr", "")) for one in calls} & names:
                found.add(str(path.relative_to(ROOT)))
    return found


def test_every_file_that_starts_runs_is_known_here():
    assert calling({"run_start", "run_fork", "insert_run", "fork_follow_up"}) == set(FILES) | set(APART)
    ways = {name for names in FILES.values() for name in names}
    assert ways == {name for name in vars(Ways) if not name.startswith("_")}


def test_no_way_in_starts_a_run_while_new_runs_are_stopped(browser, program, actor, small):
    ways = Ways(browser, program, actor, small)
    stop = stop_new_runs(actor=actor, fabric="", reason=SAID)
    before = Run.objects.count()
    for name in (name for names in FILES.values() for name in names):
        code, said = getattr(ways, name)()
        assert code == (2 if name.startswith("command") else 409), (name, said)
        assert "ew runs are stopped since 20" in said, name
        assert f"by owner: {SAID.removesuffix('.')}; start it again when an operator or owner has" in said, name
    assert Run.objects.count() == before
    allow_new_runs(actor=actor, stop_id=stop.id)
    assert [getattr(ways, name)()[0] for name in ("page", "page_fork")] == [302, 302]


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_words_and_ends_are_whole():
    assert [one.value for one in RUNNING] == list(RunningRuns)
    assert all(not value or STOP_S_MIN <= int(value) <= STOP_S_MAX for value, _ in ENDS)


def test_new_runs_of_a_fabric_are_stopped_and_allowed_by_the_page(browser, actor, small, store, nudge):
    assert "New runs are allowed" in text(browser.get(PAGE))
    assert f'value="{small}" selected' in browser.get(f"{PAGE}?fabric={small}").content.decode()
    queued = browser.post("/runs/start", {"fabric": small, "text": "Why?", "start_key": "k"})
    assert queued.status_code == 302
    fields = {"fabric": small, "reason": "Its <b>tool</b>.", "running": "pause", "until": "3600"}
    done = browser.post(PAGE, fields, follow=True)
    assert "New runs of small are stopped. Runs that were started before are being paused: 0 so far." in text(done)
    (stop,) = stops_standing(actor)
    assert (stop.reason, stop.running, stop.until_at) == ("Its <b>tool</b>.", "pause", stop.stopped_at + 3_600_000_000)
    stops_carry_out(store, nudge)
    seen = browser.get(PAGE)
    assert "1 run paused." in text(seen)
    assert "Resume the 1 run that it paused" in text(seen)
    assert "<b>tool</b>" not in seen.content.decode()
    done = browser.post(f"{PAGE}/{stop.id}/allow", {"resume": "on"}, follow=True)
    assert "New runs of small are allowed again. The runs that it paused are being resumed." in text(done)
    assert "ended by owner" in text(done)
    assert browser.post(f"{PAGE}/{stop.id}/allow", {}).status_code == 409
    assert "has ended already" in text(browser.post(f"{PAGE}/{stop.id}/allow", {}))


def test_a_stop_past_its_given_end_leaves_its_paused_runs_to_be_resumed(browser, actor, small, store, nudge):
    browser.post("/runs/start", {"fabric": small, "text": "Why?", "start_key": "k"})
    stop = stop_new_runs(actor=actor, fabric="", reason="Why.", running="pause", for_s=60)
    stops_carry_out(store, nudge)
    StartStop.objects.update(until_at=stop.stopped_at)
    seen = text(browser.get(PAGE))
    assert "New runs are allowed" in seen
    assert "ended by its given end" in seen
    assert "Resume 1 run" in seen
    browser.post(f"{PAGE}/{stop.id}/allow", {"resume": "on"})
    assert "Runs that it paused are being resumed: 0 of 1 so far." in text(browser.get(PAGE))


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"reason": " "}, 422, "needs a reason"),
        ({"running": "drain"}, 422, "The form was incomplete."),
        ({"until": "7"}, 422, "The form was incomplete."),
        ({"fabric": "nowhere"}, 404, "no fabric is named"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_written_stays(browser, small, fields, status, said):
    answer = browser.post(PAGE, {"fabric": small, "reason": "Kept here.", "running": "finish", **fields})
    assert answer.status_code == status
    assert said.lower() in text(answer).lower()
    assert ("Kept here." in answer.content.decode()) is ("reason" not in fields)
    assert not StartStop.objects.exists()


def test_who_may_not_sees_the_stops_and_no_button(owner, actor, small):
    stop = stop_new_runs(actor=actor, fabric="", reason="Why.")
    viewer = signed_in(member("vera", "viewer"))
    page = viewer.get(PAGE)
    assert "This is for operators and the owner" in text(page)
    assert b'id="stop-new-runs"' not in page.content
    assert f"allow-{stop.id}".encode() not in page.content
    assert viewer.post(f"{PAGE}/{stop.id}/allow", {}).status_code == 403
    assert [one.id for one in stops_standing(actor)] == [stop.id]


def test_the_page_costs_the_same_for_many_stops(browser, actor, small, django_assert_max_num_queries):
    for _ in range(5):
        allow_new_runs(actor=actor, stop_id=stop_new_runs(actor=actor, fabric=small, reason="Why.").id)
    assert len(stops_list(actor)) == 5
    with django_assert_max_num_queries(18):
        browser.get(PAGE)


# -- banners -----------------------------------------------------------------------------------------------------------

BANNER = "New runs are stopped. owner stopped them"


@pytest.mark.parametrize("address", ["/", "/runs", "/drills", "/fabrics", "/fabrics/small", "/runs/start", "/nothing"])
def test_every_page_tells_of_the_workspaces_stop(browser, actor, small, address):
    assert BANNER not in text(browser.get(address))
    assert 'id="stop-runs" href="/runs/stops"' in browser.get(address).content.decode()
    stop_new_runs(actor=actor, fabric="", reason="The provider bills twice")
    page = browser.get(address)
    assert text(page).count(BANNER) == 1
    assert "The provider bills twice. See stops" in text(page)
    assert '<a class="btn pulled" id="stop-runs"' in page.content.decode()


def test_the_frame_alone_tells_of_it_too(browser, actor, small):
    stop_new_runs(actor=actor, fabric="", reason="Why.")
    again = browser.get("/shell/frame?at=runs")
    assert BANNER in text(again)
    assert BANNER not in text(browser.get("/shell/frame?at=run-stops"))


def test_a_fabrics_stop_is_told_where_the_fabric_is(browser, actor, small):
    fabric_publish(actor=actor, source=GIVEN_UP)
    assert 'id="stop-fabric" href="/runs/stops?fabric=small"' in browser.get("/fabrics/small").content.decode()
    stop_new_runs(actor=actor, fabric=small, reason="Its tool.")
    said = "New runs of small are stopped."
    for address, shown in (("/fabrics/small", 1), ("/runs/start", 1), ("/runs", 0)):
        assert text(browser.get(address)).count(said) == shown, address
    assert text(browser.get("/fabrics")).count("New runs stopped") == 1
    assert "New runs of small are stopped" in text(browser.get("/")).partition("Runs by state")[0]


def test_the_overviews_headline_names_stops(browser, actor, small):
    stop_new_runs(actor=actor, fabric="", reason="Why.")
    headline = re.search(r"data-answer>.*?<span>(.*?)</span>", browser.get("/").content.decode(), re.DOTALL)[1]
    assert headline.startswith("New runs are stopped")
    stop_new_runs(actor=actor, fabric=small, reason="Why.")
    assert "2 stops of new runs stand" not in text(browser.get("/"))


def test_a_stop_that_cannot_be_read_takes_no_page_with_it(browser, small):
    with table_away("fabric_start_stop"):
        assert browser.get("/runs").status_code == 200
