"""A model call is charged, for each way in which endpoints count."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.values.cost import TokenParts
from fabric.core.values.metering import TOKENS_MAX, MeteredTokens, ReportedTokens, meter_call, whole

PROMPT, ANSWER, MOST = 4_000, 400, 1_000


def charged(prompt_bytes: int = PROMPT, answer_bytes: int = ANSWER, **counts: Any) -> MeteredTokens:
    return meter_call(
        reported=ReportedTokens(**counts), prompt_bytes=prompt_bytes, answer_bytes=answer_bytes, max_output_tokens=MOST
    )


def sides(found: MeteredTokens) -> tuple[int, int]:
    return found.input_tokens, found.output_tokens


def test_a_count_that_can_be_true_is_believed():
    assert charged(input=1_000, output=100) == MeteredTokens(input_tokens=1_000, output_tokens=100)
    # Ten times what was expected is what it bills.
    assert charged(input=10_000, output=1_000) == MeteredTokens(input_tokens=10_000, output_tokens=1_000)


def test_a_count_that_is_far_too_large_is_charged_and_said():
    found = charged(input=10_001, output=1_001)
    assert sides(found) == (10_001, 1_001)
    assert found.problem == (
        "the endpoint reports 10,001 input tokens for 4,000 bytes: all are charged; "
        "the endpoint reports 1,001 output tokens for 400 bytes, and 1,000 were asked for at most: all are charged"
    )
    # An answer of many bytes may have many tokens, whatever was asked for; and beside a short text an endpoint's own words weigh more.
    assert charged(answer_bytes=8_000, input=1_000, output=20_000).problem == ""
    assert charged(prompt_bytes=10, input=2_500, output=100).problem == ""
    assert charged(prompt_bytes=10, input=2_501, output=100).problem != ""


@pytest.mark.parametrize("count", [None, 0, -35, TOKENS_MAX + 1, 10**400])
def test_a_count_that_is_missing_or_absurd_is_charged_at_its_worst_case(count):
    found = charged(input=count, output=count)
    assert sides(found) == (PROMPT, ANSWER)
    assert "4,000 are charged for 4,000 bytes" in found.problem
    assert "400 are charged for 400 bytes" in found.problem
    assert len(found.problem) < 250


def test_the_worst_case_of_an_answer_is_its_limit_but_never_below_the_floor():
    assert charged(answer_bytes=5_000, input=1_000).output_tokens == MOST
    # The endpoint did not keep to the limit: 1 MB are more than 1,000 tokens.
    assert charged(answer_bytes=1_000_000, input=1_000).output_tokens == 125_000


def test_an_answer_without_a_byte_has_no_tokens():
    assert charged(answer_bytes=0, input=1_000) == MeteredTokens(input_tokens=1_000, output_tokens=0)


def test_a_count_that_is_far_too_small_is_charged_by_the_bytes():
    found = charged(prompt_bytes=25_000, answer_bytes=4_000, input=1, output=1)
    assert sides(found) == (3_125, 500)
    assert found.problem == (
        "the endpoint reports 1 input tokens for 25,000 bytes: 3,125 are charged; "
        "the endpoint reports 1 output tokens for 4,000 bytes: 500 are charged"
    )
    # A tenth of a token for each four bytes is where belief begins.
    assert charged(prompt_bytes=4_000, input=100, output=100).problem == ""
    assert charged(prompt_bytes=4_000, input=99, output=100).input_tokens == 500


def test_cached_tokens_inside_of_the_input_are_a_part_of_it():
    found = charged(input=1_000, output=100, cached=900)
    assert found == MeteredTokens(input_tokens=1_000, output_tokens=100, parts=TokenParts(cached=900))


def test_cached_tokens_that_are_counted_apart_are_added():
    found = charged(input=100, output=100, cached=900)
    assert sides(found) == (1_000, 100)
    assert found.parts == TokenParts(cached=900)
    assert found.problem == "the endpoint reports 900 cached tokens of 100 input tokens: both are charged"
    # A protocol that says so gives no cause for doubt.
    known = charged(input=600, output=100, cached=300, cache_written=100, cached_inside=False)
    assert known == MeteredTokens(
        input_tokens=1_000, output_tokens=100, parts=TokenParts(cached=300, cache_written=100), problem=""
    )


def test_a_total_above_its_parts_is_input():
    found = charged(input=1_000, output=100, total=1_500)
    assert sides(found) == (1_400, 100)
    assert "400 tokens above its parts" in found.problem
    assert charged(input=1_000, output=100, total=50).problem == ""


def test_reasoning_outside_of_the_output_is_added():
    # The total shows it.
    by_total = charged(input=1_000, output=100, reasoning=80, total=1_180)
    assert by_total == MeteredTokens(input_tokens=1_000, output_tokens=180, parts=TokenParts(reasoning=80))
    # It is more than the whole output.
    assert charged(input=1_000, output=100, reasoning=300).output_tokens == 400
    # The protocol says so.
    assert charged(input=1_000, output=100, reasoning=80, reasoning_inside=False).output_tokens == 180
    # It is inside, and what the total has beyond is input.
    inside = charged(input=1_000, output=100, reasoning=80, total=1_180, reasoning_inside=True)
    assert sides(inside) == (1_080, 100)
    assert sides(charged(input=1_000, output=100, reasoning=80)) == (1_000, 100)


def test_no_discount_is_taken_of_an_input_that_is_not_believed():
    found = charged(prompt_bytes=40_000, input=50, output=100, cached=40)
    assert found.input_tokens == 5_000
    assert found.parts.cached == 0


def test_a_count_is_a_whole_number_or_none():
    given = [3, 1116.0, -35, True, " 7 ", "9" * 5_000, "7.5", "-7", 0.5, None, [1], float("nan"), float("inf")]
    assert [whole(one) for one in given] == [
        3,
        1116,
        -35,
        None,
        7,
        10**19 - 1,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
    ]


counts = st.one_of(st.none(), st.integers(-10, 10_000), st.integers())


@given(
    st.builds(
        ReportedTokens,
        input=counts,
        output=counts,
        total=counts,
        cached=counts,
        cache_written=counts,
        reasoning=counts,
        audio_in=counts,
        audio_out=counts,
        cached_inside=st.sampled_from([None, True, False]),
        reasoning_inside=st.sampled_from([None, True, False]),
    ),
    st.integers(0, 100_000),
    st.integers(0, 100_000),
)
def test_whatever_is_reported_parts_fit_and_no_side_is_below_its_floor(reported, prompt_bytes, answer_bytes):
    found = meter_call(reported=reported, prompt_bytes=prompt_bytes, answer_bytes=answer_bytes, max_output_tokens=MOST)
    parts = found.parts
    assert all(count >= 0 for count in (parts.cached, parts.cache_written, parts.audio_in))
    assert parts.cached + parts.cache_written + parts.audio_in <= found.input_tokens
    assert 0 <= parts.reasoning + parts.audio_out <= found.output_tokens
    # No side is below the floor of its bytes, nor below what was believably reported of it.
    for tokens, size, said in (
        (found.input_tokens, prompt_bytes, reported.input),
        (found.output_tokens, answer_bytes, reported.output),
    ):
        assert tokens * 40 >= size
        assert said is None or said > TOKENS_MAX or tokens >= said
