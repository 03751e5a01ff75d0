"""Pages, command and API show a call's tokens: their kinds, what they cost, and a count that is not believed."""

from __future__ import annotations

from dataclasses import fields

import pytest

from fabric.core import events as ev
from fabric.core.values.cost import TOKEN_KINDS, Price, TokenParts, count_by_kind
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause, ErrorClass
from fabric.selectors.runs.display.calls import PART_WORDS
from fabric.selectors.runs.story.figures import kind_shares
from fabric.selectors.runs.story.fold import RunStory
from tests.console.pages.runs.journals import tight
from tests.fabric.management.console import command
from tests.fabric.selectors.journals import Teller

STEP, CALL = "fan_out.0.e0.r0", "fan_out.0.e0.r0.t1"
DOUBT = "the endpoint reports 1 input tokens for 25,000 bytes: 3,125 are charged"


def issued(attempt: int) -> ev.CallIssued:
    return ev.CallIssued(
        command_id=CALL,
        attempt=attempt,
        call="model",
        step_id=STEP,
        agent="reader",
        target="main",
        turn=1,
        deadline_at=0,
        key="k",
        reserved_usd_micros=900,
        reserved_tokens=900,
    )


@pytest.fixture
def run_id(journaled):
    teller = Teller().start().enter(Stage.FAN_OUT, "reader")
    failed = ev.AttemptFailed(
        command_id=CALL,
        attempt=1,
        step_id=STEP,
        error_class=ErrorClass.STRUCTURAL,
        cause=Cause.MALFORMED_ANSWER,
        message="the answer cannot be used",
        charged_usd_micros=41_000,
        charged_tokens=4_100,
        billed=True,
        input_tokens=4_000,
        output_tokens=100,
        parts=TokenParts(reasoning=90),
    )
    answered = ev.ModelAnswered(
        command_id=CALL,
        attempt=2,
        step_id=STEP,
        verdict="rejected",
        input_tokens=3_125,
        output_tokens=500,
        cost_usd_micros=77,
        parts=TokenParts(cached=900, audio_out=7),
        usage_problem=DOUBT,
    )
    opened = ev.StepOpened(step_id=STEP, stage=Stage.FAN_OUT, branch=0, round=0, agent="reader")
    return journaled(teller.tell(opened, issued(1), failed, issued(2), answered))


def test_every_kind_of_token_has_its_words():
    assert set(PART_WORDS) == {field.name for field in fields(TokenParts)}


def test_an_answers_page_says_which_tokens_it_took_and_what_is_not_believed(browser, run_id):
    page = tight(browser.get(f"/runs/{run_id}/events/7").content.decode())
    for said in ("3,125", "500", "900", "from the cache", "audio out", "charge in doubt", DOUBT):
        assert said in page
    assert "to the cache" not in page


def test_a_refused_answers_page_says_that_it_is_charged_as_it_was_billed(browser, run_id):
    page = tight(browser.get(f"/runs/{run_id}/events/5").content.decode())
    assert "4,100 tokens, as the endpoint billed it" in page
    assert "reasoning" in page
    assert "charge in doubt" not in page


def test_the_timeline_the_command_and_the_api_say_what_is_not_believed(browser, run_id):
    assert DOUBT in tight(browser.get(f"/runs/{run_id}").content.decode())
    assert f"Charge, event 7: {DOUBT}" in command("explain", run_id).out
    assert command("explain", run_id, "--json").last["usage_problems"][0]["says"] == DOUBT
    told = browser.get(f"/api/v1/runs/{run_id}/explain").json()
    assert [(one["seq"], one["says"]) for one in told["usage_problems"]] == [(7, DOUBT)]


def test_the_cost_page_the_api_and_a_tally_tell_the_kinds_of_tokens_apart(browser, run_id):
    told = browser.get(f"/api/v1/runs/{run_id}/cost").json()
    kinds = {"input": 4_000 + 2_225, "cached": 900, "output": 10 + 493, "reasoning": 90, "audio_out": 7}
    assert told["total"]["tokens_by_kind"] == kinds
    assert told["by_agent"]["reader"] == told["by_model"]["main"] == told["by_stage"]["fan_out"] == told["total"]
    assert sum(kinds.values()) == told["total"]["tokens"] == 4_100 + 3_625
    page = tight(browser.get(f"/runs/{run_id}?view=cost").content.decode())
    assert page.count("900 from the cache, 90 reasoning, 7 audio out") == 3
    for cell in ("By kind of token", "6,225", "503"):
        assert cell in page
    assert "kind not known" not in page


def test_tokens_of_a_reservation_have_no_known_kind_and_kinds_are_priced_by_model():
    teller = Teller().start().enter(Stage.FAN_OUT, "reader")
    opened = ev.StepOpened(step_id=STEP, stage=Stage.FAN_OUT, branch=0, round=0, agent="reader")
    lost = ev.AttemptInterrupted(command_id=CALL, attempt=1, charged_usd_micros=900, charged_tokens=900)
    answer = ev.ModelAnswered(
        command_id=CALL,
        attempt=2,
        step_id=STEP,
        verdict="output",
        input_tokens=1_000,
        output_tokens=100,
        cost_usd_micros=1_000,
        parts=TokenParts(cached=900),
    )
    story = RunStory("r")
    for event in teller.tell(opened, issued(1), lost, issued(2), answer).events:
        story.add(event)
    price = Price(1_000_000, 2_000_000, cached_usd_micros_per_mtok=100_000)
    assert [(one.name, one.tokens, one.cost) for one in kind_shares(story, {"main": price})] == [
        ("input", 100, 100),
        ("from the cache", 900, 90),
        ("output", 100, 200),
        ("kind not known", 900, 1_900 - 390),
    ]
    assert {one.cost for one in kind_shares(story, {})} == {None}


def test_costs_by_kind_add_up_to_the_cost_of_a_call():
    price = Price(1_000_000, 2_000_000, 100_000, 1_250_000, 3_000_000, 4_000_000, 5_000_000)
    parts = TokenParts(cached=10, cache_written=20, audio_in=30, reasoning=40, audio_out=50)
    kinds = count_by_kind(100, 200, parts)
    assert tuple(kinds) == TOKEN_KINDS
    assert sum(price.costs_by_kind(kinds).values()) == price.cost(100, 200, parts)
