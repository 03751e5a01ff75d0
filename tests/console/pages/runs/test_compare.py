"""Two runs side by side: aligned by stage and step, with the first difference."""

from __future__ import annotations

import re

from fabric.core.values.flow import RunState, Stage
from fabric.models import Run
from tests.console.pages.runs.journals import tight
from tests.console.pages.runs.test_page import WORKER, fanned_out
from tests.fabric.selectors.journals import Teller
from tests.fabric.services.world import ran


def page(browser, run_id, other="", status=200):
    answer = browser.get(f"/runs/{run_id}/compare", {"with": other} if other else {})
    assert answer.status_code == status
    return tight(answer.content.decode())


def lines(shown):
    """``(name, is it the first difference, state of one, state of the other)`` of each row."""
    found = re.findall(r'<tr( data-tone="warn" data-first)?><th scope="row">([^<]+).*?</th>(.*?)</tr>', shown)
    states = [re.findall(r"<td(?: class=.muted.)?>(?:<a [^>]*>)?([^<]+)", cells) for *_, cells in found]
    return [(name.strip(), bool(first), *both) for (first, name, _), both in zip(found, states, strict=True)]


def good():
    teller = Teller().start().planned().working(2, 1)
    return teller.enter(Stage.FAN_IN).leave(Stage.FAN_IN).end(RunState.COMPLETED)


def bad():
    teller = fanned_out().ask(WORKER, 1, "reader").wait(3).fail(WORKER, 1)
    return teller.react("surface", "provider", step=WORKER, command=f"{WORKER}.t1").end(RunState.FAILED)


def test_the_first_step_that_went_another_way_is_marked(browser, journaled):
    left, right = journaled(bad()), journaled(good())
    shown = page(browser, left, right[-12:])  # The digits that pages show.
    assert "They differ first at fan-out." in shown
    assert lines(shown) == [
        ("plan", False, "passed", "passed"),
        ("fan-out", True, "ended", "passed"),
        ("reader 1", False, "void", "done"),
        ("reader 2", False, "not reached", "done"),
        ("fan-in", False, "not reached", "passed"),
    ]
    assert shown.count("first difference") == 1


def test_cost_and_time_alone_are_no_difference(browser, journaled):
    slow = Teller().start().planned(seconds=9).end(RunState.COMPLETED)
    quick = Teller().start().planned().end(RunState.COMPLETED)
    shown = page(browser, journaled(slow), journaled(quick))
    assert "Their steps went the same way." in shown
    assert "first difference" not in shown
    assert "9.0 s" in shown


def test_without_another_run_it_is_the_last_good_one_of_the_fabric(browser, actor, small):
    first, second, third = (ran(actor, small) for _ in range(3))
    Run.objects.filter(id=third.id).update(state="failed")
    shown = page(browser, third.id)
    assert f'href="/runs/{second.id}"' in shown
    assert f'href="/runs/{first.id}"' not in shown
    assert shown.count('aria-label="Answer of run ') == 2
    assert f'href="/runs/{third.id}/compare"' in browser.get(f"/runs/{third.id}").content.decode()


def test_where_there_is_none_it_asks_for_one(browser, journaled):
    assert "This fabric has no other run that completed." in page(browser, journaled(bad()))
    page(browser, journaled(bad()), "nonsense", status=404)
