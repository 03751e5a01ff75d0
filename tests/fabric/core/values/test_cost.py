"""Tokens cost by their side, by their kind, rounded up, never less than they may be billed."""

from dataclasses import fields

import pytest

from fabric.core.spec.price import ModelPrice
from fabric.core.values.cost import Price, TokenParts

PLAIN = Price(1_000_000, 2_000_000)
KINDS = {
    "cached": ("cached_usd_micros_per_mtok", 1_000_000),
    "cache_written": ("cache_write_usd_micros_per_mtok", 2_000_000),
    "audio_in": ("audio_in_usd_micros_per_mtok", 1_000_000),
    "reasoning": ("reasoning_usd_micros_per_mtok", 2_000_000),
    "audio_out": ("audio_out_usd_micros_per_mtok", 2_000_000),
}
"""Kind of token -> its price, and what it is without one."""


def test_every_kind_of_token_has_a_price():
    assert set(KINDS) == {field.name for field in fields(TokenParts)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_token_costs_its_own_price_and_else_what_its_side_costs(kind):
    field, without = KINDS[kind]
    parts = TokenParts(**{kind: 10})
    assert PLAIN.cost(100, 100, parts) == 300 + 10 * (without // 1_000_000) - 10 * (
        2 if "out" in kind or kind == "reasoning" else 1
    )
    assert PLAIN.part_costs(parts) == {kind: 10 * without // 1_000_000}
    priced = Price(1_000_000, 2_000_000, **{field: 5_000_000})
    assert priced.part_costs(parts) == {kind: 50}
    side = 2 if "out" in kind or kind == "reasoning" else 1
    assert priced.cost(100, 100, parts) == 300 + 10 * (5 - side)


def test_the_sum_is_rounded_up_once_a_call():
    price = Price(1, 1, cached_usd_micros_per_mtok=0)
    assert price.cost(10, 0, TokenParts(cached=9)) == 1
    assert price.cost(10, 0, TokenParts(cached=10)) == 0


def test_the_worst_case_of_a_model_with_dear_reasoning_is_that_it_only_reasons():
    assert PLAIN.worst_cost(100, 100) == 300
    assert Price(1_000_000, 2_000_000, reasoning_usd_micros_per_mtok=3_000_000).worst_cost(100, 100) == 400
    assert Price(1_000_000, 2_000_000, reasoning_usd_micros_per_mtok=1_000_000).worst_cost(100, 100) == 300


def test_a_price_is_free_where_no_kind_of_token_costs_anything():
    assert Price(0, 0).free
    assert Price(0, 0, reasoning_usd_micros_per_mtok=0).free
    assert not Price(0, 0, cached_usd_micros_per_mtok=1).free


def test_a_fabric_s_prices_of_kinds_are_those_that_it_names():
    plain = ModelPrice.model_validate({"input_usd_per_mtok": 1, "output_usd_per_mtok": "2"})
    assert plain.price() == PLAIN
    own = ModelPrice.model_validate({**plain.model_dump(), "cached_usd_per_mtok": 0.1, "reasoning_usd_per_mtok": "2.5"})
    assert own.price() == Price(
        1_000_000, 2_000_000, cached_usd_micros_per_mtok=100_000, reasoning_usd_micros_per_mtok=2_500_000
    )
    with pytest.raises(ValueError, match="is not a price"):
        ModelPrice.model_validate({**plain.model_dump(), "audio_in_usd_per_mtok": "much"})
