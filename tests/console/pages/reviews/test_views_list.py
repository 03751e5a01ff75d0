"""The list of reviews: the most urgent first, a page at a time, and what is late stands out."""

from __future__ import annotations

import re
import time

import pytest

from console.pages.lists.grammar import ROWS
from console.pages.reviews.views import _parse_seen
from fabric.management.run_follower import Following
from fabric.models import Review
from fabric.selectors.reviews.decisions.history import DAY_US
from fabric.selectors.reviews.lookup import list_named_reviews, list_open_reviews
from tests.fabric.services.world import ran
from tests.people import member, signed_in

HOUR = 3_600_000_000


@pytest.fixture
def review(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


def due(review, left):
    Review.objects.filter(id=review.id).update(due_at=time.time_ns() // 1_000 + left)


@pytest.mark.parametrize(
    ("left", "word"), [(-HOUR, "Overdue"), (HOUR // 2, "Due soon"), (2 * HOUR, "")], ids=["late", "soon", "later"]
)
def test_what_is_late_stands_out_by_word_and_icon(browser, review, left, word):
    due(review, left)
    page = browser.get("/reviews").content.decode()
    found = re.findall(r'data-tone="(?:danger|warn)">.*?(Overdue|Due soon)<', page)
    assert found == ([word] if word else [])


def test_more_than_a_page_is_gone_through(browser, review):
    row = Review.objects.get(id=review.id)
    for number in range(ROWS):
        row.id, row.step_id, row.due_at = f"{number:016x}", f"step-{number}", review.due_at + 1 + number
        row.save(force_insert=True)
    seen, address, pages = [], "/reviews", 0
    while address:
        page = browser.get(address).content.decode()
        seen += re.findall(r'href="/reviews/([0-9a-f]{16})"', page)
        found = re.search(r'href="(/reviews\?after=[^"]+)">Less urgent', page)
        address, pages = found[1] if found else "", pages + 1
    assert pages == 2
    assert seen == [review.id, *(f"{number:016x}" for number in range(ROWS))]


def test_after_the_last_there_is_a_way_back(browser, review):
    page = browser.get(f"/reviews?after={review.cursor}").content.decode()
    assert "There are no less urgent reviews" in page
    assert 'href="/reviews"' in page


def test_a_place_in_the_list_that_is_none(browser, review):
    answer = browser.get("/reviews?after=yesterday")
    assert answer.status_code == 422
    assert b"start from its beginning" in answer.content


def test_the_same_answer_again_says_so(browser, review):
    sent = {"verb": "approve", "digest": review.digest}
    told = [browser.post(f"/reviews/{review.id}/decision", sent, headers={"HX-Request": "true"}) for _ in range(2)]
    assert [answer.headers["HX-Redirect"] for answer in told] == [f"/reviews/{review.id}"] * 2
    assert b"You approved this before." in browser.get(f"/reviews/{review.id}").content


def test_the_same_answer_again_says_so_when_the_run_has_taken_it(browser, actor, review):
    sent = {"verb": "approve", "digest": review.digest}
    browser.post(f"/reviews/{review.id}/decision", sent)
    browser.post(f"/reviews/{review.id}/continue")
    Following(actor, review.run_id, wait=True).to_rest()
    told = browser.post(f"/reviews/{review.id}/decision", sent, follow=True)
    assert b"You approved this before." in told.content
    assert b"Approved by owner" in told.content


# -- it follows ------------------------------------------------------------------------------------------------------


def seen(page):
    """Return what the page's script would say it shows."""
    return ",".join(".".join(row) for row in re.findall(r'<tr id="ask-([^"]+)" data-seq="([^"]+)"', page))


def news(browser, page, **asked):
    """How many reviews the page lacks, and its rows that stand otherwise by now, each with its own words."""
    answer = browser.get("/reviews/news", {"seen": seen(page), **asked}, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    told = answer.content.decode()
    rows = re.findall(r'<tr id="ask-([^"]+)" data-seq="([^"]+)">(.*?)</tr>', told, flags=re.DOTALL)
    count = re.search(r'data-news="(\d+)"', told)
    assert count
    return int(count[1]), {
        name: (standing, " ".join(re.sub("<[^>]+>", " ", row).split())) for name, standing, row in rows
    }


def copies(review, *due_at):
    """Reviews like that one, due then; their ids."""
    row, made = Review.objects.get(id=review.id), []
    for at in due_at:
        row.id, row.step_id, row.due_at = f"{at:x}".rjust(16, "0")[-16:], f"step-{at}", at
        row.save(force_insert=True)
        made.append(row.id)
    return made


def test_without_script_the_page_says_as_of_when_it_is(browser, review):
    page = browser.get("/reviews").content.decode()
    assert re.search(r'href="/reviews" data-live="off"[^>]*>As of <span[^>]*>\d\d:\d\d:\d\d UTC, reload<', page)


def test_nothing_new_is_no_rows(browser, review):
    assert news(browser, browser.get("/reviews").content.decode()) == (0, {})


def test_an_empty_list_hears_of_the_first_review(browser, actor, doubtful):
    page = browser.get("/reviews").content.decode()
    assert "Nothing waits for you" in page
    assert news(browser, page) == (0, {})
    ran(actor, doubtful)
    assert news(browser, page) == (1, {})


@pytest.mark.parametrize(
    ("verb", "by_system", "said"),
    [
        ("approve", False, "approved by owner"),
        ("reject", True, "rejected by the system: no one answered in time"),
        ("withdrawn", False, "withdrawn"),
    ],
)
def test_a_review_that_was_answered_elsewhere_says_so_where_it_stands(browser, review, verb, by_system, said):
    page = browser.get("/reviews").content.decode()
    now = time.time_ns() // 1_000
    Review.objects.update(barred="\ncleo\n")  # A colleague started it.
    decided = {"verb": verb, "by_system": by_system, "decided_by": "owner"}
    Review.objects.filter(id=review.id).update(decided_at=now, **decided)
    count, rows = news(browser, page)
    assert count == 0
    standing, words = rows[review.id]
    assert standing == "answered-0-0"
    assert words.startswith("Withdrawn" if verb == "withdrawn" else "Answered")
    assert said in words
    assert "unanswered" not in words
    assert news(browser, browser.get("/reviews").content.decode()) == (0, {})


def test_a_review_that_becomes_urgent_is_drawn_again(browser, review):
    due(review, 2 * HOUR)
    page = browser.get("/reviews").content.decode()
    due(review, HOUR // 2)
    assert news(browser, page)[1][review.id][0] == "due-soon-0-0"
    due(review, -HOUR)
    assert news(browser, page)[1][review.id][0] == "overdue-0-0"


def test_only_what_belongs_on_the_page_is_new_there(browser, review):
    """The first page goes from the most urgent to its last review, the second one from there on."""
    start = review.due_at
    copies(review, *(start + 10 * number for number in range(1, ROWS + 5)))
    first = browser.get("/reviews").content.decode()
    (down,) = re.findall(r'data-down="([^"]+)"', first)
    second = browser.get("/reviews", {"after": down}).content.decode()
    assert 'data-down=""' in second
    copies(review, start - 5, start + 15, start + 10 * ROWS + 5)
    assert news(browser, first, down=down)[0] == 2
    assert news(browser, second, after=down, down="")[0] == 1


def test_what_happens_at_the_due_time_is_said(browser, review):
    assert "unanswered by then: rejected by the system" in browser.get("/reviews").content.decode()


def test_another_workspaces_reviews_are_no_news(browser, actor, stranger, review):
    page = browser.get("/reviews").content.decode()
    Review.objects.filter(id=review.id).update(workspace_id=stranger.workspace_id)
    copies(review, review.due_at + 1)
    assert news(browser, page) == (0, {})
    assert list_named_reviews(actor, [review.id]) == []
    assert [one.id for one in list_named_reviews(stranger, [review.id])] == [review.id]


@pytest.mark.parametrize("claimed", ["", ",", "x", "x.later", "\0.later", "é.later", "a" * 65 + ".later", "x.y," * 500])
def test_what_a_page_claims_to_show_may_be_anything(browser, review, claimed):
    told = browser.get("/reviews/news", {"seen": claimed})
    assert told.status_code == 200
    assert b'data-news="1"' in told.content
    assert b"<tr" not in told.content


def test_only_what_may_be_an_id_is_asked_for():
    assert _parse_seen(f"0a1.later,\0.later,é.later,{'a' * 65}.later,0b2.due-soon") == {
        "0a1": "later",
        "0b2": "due-soon",
    }


@pytest.mark.parametrize("field", ["after", "down"])
def test_a_page_that_is_none_has_no_news(browser, review, field):
    answer = browser.get("/reviews/news", {field: "yesterday"}, headers={"HX-Request": "true"})
    assert answer.status_code == 422
    assert b"start from its beginning" in answer.content


def test_news_of_nothing_are_few_statements(browser, review, django_assert_max_num_queries):
    asked = seen(browser.get("/reviews").content.decode())
    # The session, the user, the workspace, what is new, how the seen ones stand, which have an answer on its way, and the
    # changes that wait.
    with django_assert_max_num_queries(8):
        browser.get("/reviews/news", {"seen": asked}, headers={"HX-Request": "true"})


def test_the_title_and_the_navigation_count_what_the_reader_may_decide(browser, review):
    Review.objects.update(barred="\ncleo\n")  # A colleague started it, so that its owner may answer beside ben.
    ben = signed_in(member("ben", "viewer"))
    counted = 'data-tone="human">1<span class="vh"> for you to decide'
    mine, theirs = (one.get("/reviews").content.decode() for one in (browser, ben))
    assert "<title>(1) Reviews" in mine
    assert counted in mine
    assert "<title>Reviews" in theirs
    assert counted not in theirs
    assert re.search(r">All open <span class=\"n\"[^>]*>1<", theirs), "how many there are in all is read on the page"
    assert "<title>(1) Reviews" in browser.get("/reviews?fabric=another").content.decode(), "however it is narrowed"
    told = [one.get("/reviews/news").content.decode() for one in (browser, ben)]
    assert ['data-waits="1"' in one for one in told] == [True, False]


def test_it_says_how_much_of_the_day_was_ones_own(browser, review):
    assert 'id="today"' not in browser.get("/reviews").content.decode(), "nothing was decided today"
    midnight = time.time_ns() // 1_000 // DAY_US * DAY_US
    copies(review, *range(1, 6))
    others = list(Review.objects.exclude(id=review.id).order_by("id").values_list("id", flat=True))
    for item, by, at in zip(others, ("owner", "owner", "ana", "owner", "system"), (0, 1, 2, -1, 3), strict=True):
        given = {"decided_at": midnight + at, "verb": "reject", "decided_by": by, "by_system": by == "system"}
        Review.objects.filter(id=item).update(**given)
    assert "You decided 2 of 3 today." in browser.get("/reviews").content.decode()


@pytest.mark.parametrize(("by", "said"), [("owner", "by you"), ("ana", "by ana"), ("system", "by the system")])
@pytest.mark.parametrize(
    ("tab", "none"),
    [
        ("yours", "Nothing waits for you"),
        ("open", "No review is open"),
        ("unclaimed", "No review that asks you is unclaimed"),
        ("mine", "You have claimed no review"),
    ],
)
def test_where_nothing_waits_it_says_when_something_was_last_decided(browser, review, tab, none, by, said):
    given = {"decided_at": time.time_ns() // 1_000 - 12 * 60_000_000, "verb": "reject"}
    Review.objects.update(**given, decided_by=by, by_system=by == "system")
    page = browser.get("/reviews", {"tab": tab}).content.decode()
    words = " ".join(re.sub("<[^>]+>", " ", page.partition('class="state"')[2].partition("</p>")[0]).split())
    assert re.search(rf"{none} *; last decided [-\d: ]+ UTC *, {said}", words), words
