"""The breakers' pages: what stops calls first, and moving one by hand without a script."""

import re
from dataclasses import replace
from html import unescape

import pytest
from django.template.loader import render_to_string

from console.pages.models.breakers import MOVES, headline
from console.templatetags.marks import BREAKERS
from fabric.core.breaker.table import BreakerState
from fabric.models import AuditLine
from fabric.selectors.models.breakers import list_breaker_views
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.models.breakers import breaker_force_open
from tests.fabric.selectors.models.breaker_rows import HALF_OPEN, STOPPED, TRIPPED, change, guarded, tell, tell_to_wait
from tests.fabric.services.world import SMALL
from tests.people import member, signed_in


def provider(actor):
    return next(one for one in list_breaker_views(actor) if one.over == "provider")


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def address(one):
    return f"/models/breakers/{one.scope}/{one.kind.partition(':')[2]}"


@pytest.fixture
def seen(actor):
    guarded(actor)
    return provider(actor)


def test_every_state_has_its_word_and_something_that_can_be_done():
    assert set(BREAKERS) == set(BreakerState)
    assert all(any(state in move.states for move in MOVES.values()) for state in BreakerState)


def test_without_any_the_page_says_what_would_give_one(browser, actor):
    guarded(actor, "\n  breakers: []\n  breakers_deviation: One worker alone asks this endpoint.\n")
    shown = text(browser.get("/models/breakers"))
    assert "No fabric has a circuit breaker" in shown
    assert "one that names none has one in front of each provider" in shown


def test_a_fabric_that_names_none_has_that_of_outages(browser, small):
    shown = text(browser.get("/models/breakers"))
    assert "rate limit or server error or timeout 0 / 3 opens at 3 in a row" in shown
    (address,) = set(
        re.findall(r'href="(/models/breakers/provider[^"]*)"', browser.get("/models/breakers").content.decode())
    )
    assert "never: it opens again for another cooldown" in text(browser.get(address))


def test_all_closed_says_so_and_how_near_each_is(browser, actor, seen):
    tell(seen, s0=4)
    shown = text(browser.get("/models/breakers"))
    assert "All closed" in shown
    assert "timeout or server error 4 / 5 opens at 5 in a row" in shown
    assert "None tripped in the last 24 hours." in shown


@pytest.mark.parametrize(("count", "tone"), [(0, None), (1, None), (2, "warn"), (3, "danger")])
def test_one_that_the_next_failure_opens_is_near_however_few_it_takes(browser, actor, small, count, tone):
    tell(provider(actor), s0=count)
    (drawn,) = re.findall(
        r'<div class="margin"(?: data-tone="(\w+)")?>', browser.get("/models/breakers").content.decode()
    )
    assert (drawn or None) == tone


def test_one_of_an_endpoint_with_a_path_has_its_page_and_its_form(browser, actor):
    url = "https://eu.host:8/v1"
    source = SMALL.replace("    provider: scripted\n", f"    provider: scripted\n    base_url: {url}\n")
    source = source.replace("policy:\n", "policy:\n  breakers: [{preset: endpoint, only: ['scripted@eu.host:8/v1']}]\n")
    fabric_publish(actor=actor, source=source)
    assert "Provider scripted@eu.host:8/v1" in text(browser.get("/models/breakers"))
    (address,) = re.findall(
        r'href="(/models/breakers/provider[^"]*)"', browser.get("/models/breakers").content.decode()
    )
    assert "Circuit breaker of provider scripted@eu.host:8/v1" in text(browser.get(address))
    browser.post(address, {"act": "open", "generation": "0", "reason": "They are down."})
    assert provider(actor).standing.held


def test_what_stops_calls_is_in_the_sentence_first_in_the_table_and_in_the_frame(browser, actor, seen):
    change(seen, TRIPPED)
    shown = text(browser.get("/models/breakers"))
    assert "One breaker is open" in shown
    assert "1 trip in the last 24 hours." in shown
    assert "opened by 5 × timeout · trip 1 of 3" in shown
    assert re.search(r"Open probe \d\d:\d\d:\d\d UTC Provider scripted", shown)
    assert "Breakers 1 not closed" in shown
    board = browser.get("/models/breakers/live", headers={"HX-Request": "true"})
    assert board.status_code == 200
    again = browser.get("/models/breakers/live", headers={"HX-Request": "true", "If-None-Match": board["ETag"]})
    assert (again.status_code, browser.get("/models/breakers/live").status_code) == (304, 302)


def test_one_that_is_asked_to_wait_longer_says_until_when_and_why(browser, actor, seen):
    change(seen, TRIPPED)
    tell_to_wait(provider(actor), 900)
    at = re.search(r"Open probe (\d\d:\d\d:\d\d) UTC , as its Retry-After asks", text(browser.get("/models/breakers")))
    shown = text(browser.get(address(seen)))
    assert at
    assert f"Retry-After its endpoint asked for more: no probe before {at[1]}" in shown
    change(provider(actor), HALF_OPEN)
    assert f"Half open next probe {at[1]} UTC" in text(browser.get("/models/breakers"))


def test_the_overview_names_it(browser, actor, seen):
    change(seen, STOPPED)
    shown = text(browser.get("/"))
    assert "one circuit breaker is blocking calls" in shown.lower()
    assert "The circuit breaker of provider scripted lets no call pass." in shown


def test_one_is_opened_and_reset_by_hand(browser, actor, seen):
    asked = {"act": "open", "generation": "0", "reason": "They are down."}
    answer = browser.post(address(seen), asked, follow=True)
    assert answer.redirect_chain == [(address(seen), 302)]
    shown = text(answer)
    assert "The breaker is open until a person resets it." in shown
    assert "opened by owner reason They are down." in shown
    assert "Open it by hand" not in shown
    browser.post(address(seen), {"act": "reset", "generation": "1", "reason": "They are back."})
    assert provider(actor).standing.state is BreakerState.CLOSED
    assert list(AuditLine.objects.filter(kind__startswith="breaker").order_by("at").values_list("kind", flat=True)) == [
        "breaker_opened", "breaker_reset",
    ]  # fmt: skip


def test_one_that_tripped_can_be_held_open_and_one_that_stopped_cannot_be_opened(browser, actor, seen):
    change(seen, TRIPPED)
    shown = text(browser.get(address(seen)))
    assert "Keep it open" in shown
    assert "Open it by hand" not in shown
    assert " / 5" not in shown, "it counts nothing while it is open"
    browser.post(address(seen), {"act": "open", "generation": "1", "reason": "They asked."})
    assert provider(actor).standing.held
    assert "Keep it open" not in text(browser.get(address(seen)))
    change(provider(actor), STOPPED)
    assert "Keep it open" not in text(browser.get(address(seen)))


def test_an_open_one_whose_cooldown_is_over_is_ready_to_probe(actor, seen):
    change(seen, TRIPPED)
    tripped = provider(actor)
    late = replace(tripped, now=tripped.cools_at)
    assert (tripped.ready, late.ready) == (False, True)
    said = headline([late])
    assert (said.sentence, said.tone) == ("One breaker is ready to probe", "warn")
    board = render_to_string("models/breakers/board.html", {"rows": [(late, None)], "headline": said})
    assert "Ready to probe" in board
    assert "the next call is a probe" in board


def test_a_form_of_before_is_refused_with_what_is_so_now_and_keeps_the_reason(browser, actor, seen):
    breaker_force_open(actor=actor, scope=seen.scope, kind=seen.kind, generation=0, reason="first")
    breaker = provider(actor)
    change(breaker, HALF_OPEN)
    answer = browser.post(address(seen), {"act": "open", "generation": "0", "reason": "They are down."})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "changed meanwhile: it is half open now" in page
    assert 'name="generation" value="2"' in page
    assert ">They are down.</textarea>" in page


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"act": "open", "generation": "0"}, "needs a reason"),
        ({"act": "open", "generation": "0", "reason": "x" * 5_000}, "make it shorter"),
        ({"act": "burn", "generation": "0", "reason": "x"}, "The form was incomplete"),
        ({"act": "open", "generation": "many", "reason": "x"}, "The form was incomplete"),
        ({}, "The form was incomplete"),
    ],
)
def test_a_form_that_lacks_something_says_what(browser, actor, seen, sent, says):
    answer = browser.post(address(seen), sent)
    assert answer.status_code == 422
    assert says in text(answer)
    assert provider(actor).generation == 0


def test_there_is_no_page_of_one_that_there_is_not(browser, seen):
    assert browser.get("/models/breakers/provider:none/abc").status_code == 404
    assert (
        browser.post("/models/breakers/provider:none/abc", {"act": "open", "generation": 0, "reason": "x"}).status_code
        == 404
    )


def test_who_may_not_move_it_sees_why(seen):
    client = signed_in(member("ana"))
    shown = text(client.get(address(seen)))
    assert "This is for operators and the owner" in shown
    assert "Open the breaker" not in shown
    asked = {"act": "open", "generation": "0", "reason": "x"}
    assert client.post(address(seen), asked).status_code == 403
