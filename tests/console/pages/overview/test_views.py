"""The overview: one sentence, cards that fail alone, a start for who is new."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from console.pages.overview import views as overview
from console.pages.overview.views import CARDS, card_answer
from console.pages.overview.words import (
    ALL_OF,
    ALWAYS,
    NAMED,
    TILES,
    WORDS,
    BoardFacts,
    headline,
    link_to_all,
    tile_address,
    trouble_line,
)
from console.templatetags.figures import usd
from fabric.core.values.flow import TERMINAL, RunState
from fabric.models import Fabric, Incarnation, Review, Revision, Run
from fabric.selectors.drafts.change_requests import ChangeToApprove
from fabric.selectors.fabrics.lookup import is_scripted, run_cap
from fabric.selectors.overview.attention import Attention, AttentionGroup, AttentionItem, AttentionKind
from fabric.selectors.overview.tiles import TILE_OF, States, Tile, TileCount
from fabric.selectors.overview.waiting import WaitingForPerson
from fabric.selectors.reviews.queue import ReviewCount
from fabric.services.actors import login_link_create
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.services.drills import drill_ask
from tests.console.pages.runs.test_views import HOSTILE, queued
from tests.fabric.services.world import ran
from tests.people import member, signed_in

SCRIPT = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def _nothing_shared():
    """One rendering a second is shared; a test begins without one."""
    for shared in overview._boards.values():
        shared._made.clear()
    overview._waiting._made.clear()


@pytest.fixture
def worker(owner) -> Incarnation:
    now = time.time_ns() // 1_000
    return Incarnation.objects.create(name="w-1", lease_until=now + 60_000_000, started_at=now, host="here", pid=7)


def text(page) -> str:
    return html.unescape(page.content.decode())


# -- the sentence ----------------------------------------------------------------------------------------------------


def test_everything_has_words():
    assert set(WORDS) == set(AttentionKind)
    assert set(TILES) == set(Tile)
    assert set(ALL_OF) == set(AttentionKind)
    assert set(Tile) > ALWAYS


def group(kind: AttentionKind, count: int = 1, *, capped: bool = False) -> AttentionGroup:
    return AttentionGroup(kind, count, capped, (AttentionItem(kind=kind),))


def waits(reviews: int, changes: int = 0, *, more: bool = False) -> WaitingForPerson:
    one = ChangeToApprove("1", "f", "ann", 0)
    return WaitingForPerson(ReviewCount(reviews, more), (one,) * changes)


NOTHING = waits(0)
CALM = States({tile: TileCount(tile=tile, count=0) for tile in Tile}, False)


def board(*groups: AttentionGroup, **more: Any) -> BoardFacts:
    return BoardFacts(attention=Attention(groups), states=CALM, **more)


SENTENCES = {
    "calm": ((), "Nothing is wrong", "ok"),
    "one": ((group(AttentionKind.OVERDUE),), "One review is overdue", "danger"),
    "many": ((group(AttentionKind.FAILED, 12),), "12 runs failed in the last 24 hours", "danger"),
    "too many to count": ((group(AttentionKind.FAILED, 1_000, capped=True),), "1,000+ runs failed in the last 24 hours", "danger"),
    "two": (
        (group(AttentionKind.NO_WORKER), group(AttentionKind.NEAR_CEILING, 2)),
        "No worker is alive and 2 runs are near their spending limits",
        "danger",
    ),
    "a warning": ((group(AttentionKind.DUE_SOON),), "One review is due within the hour", "warn"),
    "four kinds": (
        (group(AttentionKind.OVERDUE), group(AttentionKind.QUARANTINED), group(AttentionKind.FAILED, 2), group(AttentionKind.DUE_SOON)),
        "One review is overdue, one run is quarantined, 2 runs failed in the last 24 hours and one more thing needs a look",
        "danger",
    ),
    "a stopped fabric": (
        (AttentionGroup(AttentionKind.STOPPED, 1, False, (AttentionItem(kind=AttentionKind.STOPPED, fabric_name="refunds"),)),),
        "New runs of refunds are stopped",
        "danger",
    ),
    "two stopped fabrics": (
        (AttentionGroup(AttentionKind.STOPPED, 2, False, (AttentionItem(kind=AttentionKind.STOPPED, fabric_name="refunds"),) * 2),),
        "2 stops of new runs stand",
        "danger",
    ),
    "all kinds": (
        tuple(group(kind, 2) for kind in AttentionKind),
        f"New runs are stopped, 2 reviews are overdue, no worker is alive and {2 * (len(AttentionKind) - NAMED)} more things need a look",
        "danger",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_the_sentence(case):
    groups, sentence, tone = SENTENCES[case]
    found = headline(board(*groups), NOTHING)
    assert (found.sentence, found.tone) == (sentence, tone)


def test_troubles_of_drills_are_named_where_no_run_is_in_trouble():
    one, two = (headline(board(deviated=many), NOTHING) for many in (1, 2))
    assert (one.sentence, one.tone) == ("One cell deviated in its last drill", "warn")
    assert two.sentence == "2 cells deviated in their last drills"
    assert headline(board(stopped=True), NOTHING).sentence == "Drills are stopped"
    overdue = board(group(AttentionKind.OVERDUE), deviated=2, stopped=True)
    assert headline(overdue, NOTHING).sentence == "One review is overdue"


WAITING = {
    "one review": (waits(1), (), "One review waits for you", "warn"),
    "one follow-up": (replace(waits(0), follow_ups=ReviewCount(1)), (), "One follow-up waits for you", "warn"),
    "both": (
        replace(waits(2), follow_ups=ReviewCount(3)),
        (),
        "2 reviews wait for you and 3 follow-ups wait for you",
        "warn",
    ),
    "many reviews": (waits(2_000, more=True), (), "2000+ reviews wait for you", "warn"),
    "a change": (waits(0, 1), (), "One change waits for your approval", "warn"),
    "all": (
        waits(31, 2),
        (group(AttentionKind.BREAKER),),
        "31 reviews wait for you, 2 changes wait for your approval and one circuit breaker is blocking calls",
        "warn",
    ),
    "beside a failure": (waits(1), (group(AttentionKind.FAILED),), "One review waits for you and one run failed in the last 24 hours", "danger"),
}  # fmt: skip


@pytest.mark.parametrize("case", WAITING)
def test_what_waits_for_its_viewer_comes_first(case):
    yours, groups, sentence, tone = WAITING[case]
    found = headline(board(*groups), yours)
    assert (found.sentence, found.tone) == (sentence, tone)


def test_what_is_not_known_is_never_said_to_be_well():
    found = headline(BoardFacts(attention=None, states=CALM, failed=["Needs attention"]), NOTHING)
    assert found.sentence.startswith("Status unknown")
    assert found.tone == "danger"
    found = headline(board(), None)
    assert (found.sentence, found.tone) == ("Status unknown: what waits for you did not load", "danger")
    assert "The list of what waits for you did not load" in found.lede
    found = headline(BoardFacts(attention=Attention(()), states=None, failed=["Runs by state"]), NOTHING)
    assert (found.sentence, found.tone) == ("Nothing is wrong", "warn")
    assert "Runs by state did not load" in found.lede


@pytest.mark.parametrize("kind", AttentionKind)
def test_every_kind_is_a_row(kind):
    item = AttentionItem(
        kind=kind,
        run_id="01a3c5e0-0000-7000-8000-000000000000",
        title="T\u202e",
        fabric_name="f",
        state="failed",
        at=1,
        observed=3,
        limit=4,
    )
    found = trouble_line(item)
    assert found.badge
    assert found.address
    assert "\u202e" not in found.text


# -- the page --------------------------------------------------------------------------------------------------------


def test_a_new_installation_is_shown_three_steps(browser, small, worker):
    page = text(browser.get("/"))
    assert "Nothing is wrong" in page
    assert "A small fabric is published" in page
    assert '/runs/start?fabric=small&example=1"' in page
    assert page.count("(done)") == 1


def test_the_steps_are_marked_as_they_are_done(browser, actor, small, worker):
    run_id = queued(actor, small)
    page = text(browser.get("/"))
    assert page.count("(done)") == 2
    assert f'href="/runs/{run_id}">Watch' in page
    Run.objects.update(state="completed")
    assert text(browser.get("/")).count("(done)") == 3
    queued(actor, small)
    assert "Run your first workflow" not in text(browser.get("/"))


def test_without_a_sample_the_first_step_says_what_to_do(browser, worker):
    assert "manage.py fabric publish fabric/samples/first-look.yaml" in text(browser.get("/"))


def test_the_lede_counts_each_live_run_once():
    tiles = dict(CALM.tiles)
    for tile, count in {
        Tile.RUNNING: 2,
        Tile.WAITING: 19,
        Tile.PAUSED: 1,
        Tile.QUARANTINED: 1,
        Tile.COMPLETED: 3,
    }.items():
        tiles[tile] = TileCount(tile=tile, count=count)
    found = headline(BoardFacts(attention=Attention(()), states=States(tiles, False)), NOTHING)
    assert found.lede == (
        "2 runs are in progress, 19 wait for people, 1 is paused, 1 is quarantined and 3 ended in the last hour."
    )


def test_a_run_is_counted_and_what_it_cost_too(browser, actor, small, worker):
    run = ran(actor, small)
    assert run.state == "completed"
    page = text(browser.get("/"))
    assert "No run is in progress and 1 ended in the last hour." in page
    assert 'href="/fabrics/small"' in page
    assert f"{usd(run.cost_usd_micros)} in the last hour" in page


def test_a_longer_range_counts_more_and_its_tiles_lead_there(browser, actor, small, worker):
    run, hour = ran(actor, small), 3_600_000_000
    Run.objects.filter(id=run.id).update(created_at=run.created_at - 20 * hour, ended_at=run.ended_at - 20 * hour)
    assert "none ended in the last hour." in text(browser.get("/"))
    page = text(browser.get("/?last=24h"))
    assert "1 ended in the last 24 hours." in page
    assert f"{usd(run.cost_usd_micros)} in the last 24 hours" in page
    assert f'href="{html.escape(tile_address(Tile.COMPLETED, "24h"))}"' in browser.get("/?last=24h").content.decode()
    assert "ended%3A-24h" in tile_address(Tile.COMPLETED, "24h")
    assert 'hx-get="/overview/live?last=24h"' in page
    assert re.findall(r'id="range-(\w+)"[^>]*aria-current="true"', page) == ["24h"]
    assert "1 ended in the last 7 days." in text(browser.get("/overview/live?last=7d", headers=SCRIPT))
    assert "none ended in the last hour." in text(browser.get("/overview/live", headers=SCRIPT))


@pytest.mark.parametrize("address", ["/", "/overview/live", "/overview/cards/spend"])
def test_an_unknown_range_is_one_sentence(browser, owner, address):
    answer = browser.get(f"{address}?last=1y", headers=SCRIPT)
    assert answer.status_code == 422
    assert "here is no range '1y'; there are: 1h, 24h, 7d" in text(answer)


def test_money_in_the_table_has_one_precision_and_the_percent_comes_before_its_bar(browser, actor, small, worker):
    run = ran(actor, small)
    Run.objects.filter(id=run.id).update(cost_usd_micros=3_381)
    page = browser.get("/").content.decode()
    table = re.search(r'<table class="table spend">.*?</table>', page, re.DOTALL)[0]
    assert {len(figure.partition(".")[2]) for figure in re.findall(r">\$([\d.,]+)<", table)} == {4}
    assert table.count('title="$0.003381">$0.0034<') == 3
    assert table.index("0&nbsp;%<") < table.index('<svg class="bar"')


def test_a_failed_run_is_in_the_sentence_and_in_the_list(browser, actor, small, worker):
    run = ran(actor, small)
    Run.objects.update(state="aborted", reason="every rung is spent")
    page = text(browser.get("/"))
    assert "one run failed in the last 24 hours" in page.lower()
    assert "every rung is spent" in page
    assert f'href="/runs/{run.id}">Open' in page


def test_no_worker_is_alive(browser, actor, small):
    queued(actor, small)
    page = text(browser.get("/"))
    assert "No worker is alive and 1 run waits for one." in page
    assert "None alive" in page


def test_a_review_is_named_to_who_may_answer_it_alone(browser, actor, doubtful, worker):
    ran(actor, doubtful)
    page = text(browser.get("/"))
    assert "One review waits for you" in page
    assert 'href="/reviews">Decide' in page
    client = Client(HTTP_HOST="127.0.0.1")
    client.post("/login/link", {"token": login_link_create(member("vera", "viewer"))})
    said = text(client.get("/"))
    assert "waits for you" not in said
    assert "1 waits for a person" in said


def test_how_fast_people_decide_is_said(browser, actor, doubtful, worker):
    assert "median decision" not in text(
        browser.get("/")
    )  # Nothing waits and nothing was decided: one sentence says so.
    run = ran(actor, doubtful)
    page = text(browser.get("/"))
    assert "none in 7 days" in page
    review = Review.objects.get(run_id=run.id)
    decided = {"verb": "approve", "decided_by": "owner", "alone": True}
    Review.objects.update(decided_at=review.opened_at + 220_000_000, **decided)
    page = text(browser.get("/"))
    assert "3 m 40 s" in page
    assert "of 1, 7 days" in page


@pytest.mark.parametrize("kind", AttentionKind)
def test_everything_of_a_kind_is_somewhere(browser, small, worker, kind):
    found = link_to_all(kind)
    assert bool(found.address) is (kind is not AttentionKind.NO_WORKER)
    if found.address:
        assert browser.get(found.address).status_code == 200


@pytest.mark.parametrize("tile", Tile)
def test_a_tile_leads_to_what_it_counts(browser, actor, small, tile):
    for state in RunState:
        run_id = queued(actor, small)
        ended = time.time_ns() // 1_000 if state in TERMINAL else None
        Run.objects.filter(id=run_id).update(state=state.value, ended_at=ended, title=f"the {state} one")
    Run.objects.filter(id=queued(actor, small)).update(
        state="completed", recovered=True, ended_at=time.time_ns() // 1_000
    )
    listed = set(re.findall(r">the (\w+) one</a>", browser.get(tile_address(tile)).content.decode()))
    assert listed == {state.value for state in RunState if TILE_OF[state] is tile}


def test_recovered_counts_no_run_that_still_waits_or_failed(browser, actor, small):
    for state in ("completed", "running", "failed"):
        run_id = queued(actor, small)
        ended = None if state == "running" else time.time_ns() // 1_000
        Run.objects.filter(id=run_id).update(state=state, recovered=True, ended_at=ended, title=f"the {state} one")
    listed = re.findall(r">the (\w+) one</a>", browser.get(tile_address(Tile.RECOVERED)).content.decode())
    assert listed == ["completed"]
    tab = re.search(r"Recovered\s*<span[^>]*>(\d+)", browser.get("/runs").content.decode())
    assert tab is not None
    assert tab[1] == "1"


def test_what_a_caller_wrote_does_not_act(browser, actor, small, worker):
    queued(actor, small, HOSTILE)
    Run.objects.update(state="quarantined", reason=HOSTILE)
    page = browser.get("/").content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_another_workspace_sees_its_own(browser, actor, small, worker, stranger):
    queued(actor, small, "a secret request")
    Run.objects.update(workspace_id=stranger.workspace_id, state="quarantined")
    page = text(browser.get("/"))
    assert "a secret request" not in page
    assert "Nothing is wrong" in page


# -- cards fail alone ------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(actor, small) -> str:
    """A run of a version whose stored spec is no JSON: what reads its ceiling fails."""
    queued(actor, small)
    Revision.objects.create(
        id="broken", workspace_id=actor.workspace_id, fabric=Fabric.objects.get(), number=7, digest="x", spec="{"
    )
    Run.objects.update(revision_id="broken")
    return small


def test_a_card_that_fails_leaves_the_others_alone(browser, broken, worker):
    page = text(browser.get("/"))
    assert page.count("Could not load") == 1
    assert 'href="/" hx-get="/overview/cards/spend"' in page
    assert "Spend did not load; the rest of the page is current." in page
    assert "1 alive" in page
    assert "Runs by state" in page


READS = {
    "fabric_incarnation": {"workers", "attention"},
    "fabric_review": {"reviews", "attention"},
    "fabric_revision": {"steps", "attention", "spend", "drills"},
    "fabric_run": set(CARDS) - {"drills"},
    "drills_drill": {"drills"},
}
"""Tables, and the cards that read them; the attention list reads a run's ceiling, too."""


@contextmanager
def without(table: str) -> Iterator[None]:
    """A database that has lost a table."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO taken_away")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE taken_away RENAME TO {table}")


@contextmanager
def endless(table: str) -> Iterator[None]:
    """Yield what was taken away, in a form that a query never comes to the end of."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE VIEW {table} AS {numbers} SELECT taken_away.* FROM taken_away, n WHERE n.i < 0")
        try:
            yield
        finally:
            cursor.execute(f"DROP VIEW {table}")


@pytest.mark.parametrize("table", READS)
def test_only_the_cards_that_read_a_table_fail_without_it(browser, actor, small, worker, table):
    queued(actor, small)
    Run.objects.update(state="running")
    run_cap.cache_clear()
    is_scripted.cache_clear()
    with without(table):
        found = {name: card_answer(name, actor, time.time_ns() // 1_000) for name in CARDS}
        page = browser.get("/")
    assert {name for name, one in found.items() if one.problem} == READS[table]
    assert page.status_code == 200
    assert text(page).count("Could not load") == len(READS[table])


def test_a_card_whose_review_never_ends_is_given_up_alone(actor, small, worker):
    with without("fabric_incarnation"), endless("fabric_incarnation"):
        found = {name: card_answer(name, actor, time.time_ns() // 1_000) for name in ("workers", "states")}
    assert found["workers"].problem == "The database did not answer within 2 s."
    assert found["states"].problem == ""


def test_the_sentence_does_not_guess(browser, broken, worker):
    Run.objects.update(state="running")
    assert "Status unknown" in text(browser.get("/"))


def test_a_failed_card_is_asked_for_again(browser, broken, worker):
    answer = browser.get("/overview/cards/spend", headers=SCRIPT)
    assert b"Could not load" in answer.content
    Run.objects.update(revision_id=Revision.objects.get(number=1).id)
    answer = browser.get("/overview/cards/spend", headers=SCRIPT)
    assert answer.content.startswith(b'<section class="card" id="card-spend"')
    assert b"Could not load" not in answer.content


@pytest.mark.parametrize("card", CARDS)
def test_each_card_by_itself(browser, small, worker, card):
    answer = browser.get(f"/overview/cards/{card}", headers=SCRIPT)
    assert answer.status_code == 200
    assert f'id="card-{card}"' in answer.content.decode()


def test_a_card_that_there_is_not(browser):
    answer = browser.get("/overview/cards/weather", headers=SCRIPT)
    assert answer.status_code == 404
    assert b"the overview has no card" in answer.content.lower()


@pytest.mark.parametrize("address", ["/overview/live", "/overview/cards/workers"])
def test_parts_lead_to_the_page_without_the_script(browser, address):
    answer = browser.get(address)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")


def test_the_drills_card_names_what_is_wrong_and_leads_to_the_coverage(browser, actor, small, worker):
    assert "was never drilled." in text(browser.get("/overview/cards/drills", headers=SCRIPT))
    asked = drill_ask(actor=actor, fabric=small, cells="all")
    while (one := drill_claim(asked.batch, "h")) is not None:
        drill_end(one, "h", status="completed", verdict="deviated" if one.place == 3 else "pass")
    card = text(browser.get("/overview/cards/drills", headers=SCRIPT))
    assert 'href="/drills/coverage?fabric=small">small</a> <small>23 of 24 verified for r1' in card
    assert re.search(r'data-tone="danger">.*?1 deviated</span>', card, flags=re.DOTALL)
    again = drill_ask(actor=actor, fabric=small, cells="all").batch
    while (one := drill_claim(again, "h")) is not None:
        drill_end(one, "h", status="completed", verdict="pass")
    assert "Every drilled cell does what the current table says" in text(browser.get("/"))


# -- live ------------------------------------------------------------------------------------------------------------


def test_what_is_the_same_is_not_sent_again(browser, small, worker):
    first = browser.get("/overview/live", headers=SCRIPT)
    assert first.status_code == 200
    assert abs(int(first.headers["Now-Ms"]) - time.time() * 1000) < 60_000
    again = browser.get("/overview/live", headers=SCRIPT | {"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_many_who_look_are_answered_once_a_second(browser, actor, small, worker, django_assert_num_queries):
    browser.get("/overview/live", headers=SCRIPT)
    with django_assert_num_queries(3):  # Who is asking, whether that sign-in was ended, and the workspace.
        browser.get("/overview/live", headers=SCRIPT)
    queued(actor, small)
    assert "Waiting" in text(browser.get("/"))  # The page itself is always new...
    assert "1 run is in progress" in text(
        browser.get("/overview/live", headers=SCRIPT)
    )  # ...and what follows it not older.


def test_the_shared_part_names_no_member(browser, small, worker):
    part = browser.get("/overview/live", headers=SCRIPT).content
    assert b"csrf" not in part
    assert b"owner" not in part


def test_who_reads_no_contents_never_gets_the_rendering_of_who_does(browser, actor, small, worker):
    ran(actor, small)
    Run.objects.update(state="aborted", title="Pay the invoice of Ana")
    vera = signed_in(member("vera", "viewer"))
    assert "Pay the invoice of Ana" in text(browser.get("/overview/live", headers=SCRIPT))
    assert "Pay the invoice of Ana" not in text(vera.get("/overview/live", headers=SCRIPT))
