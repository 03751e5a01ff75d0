"""Which model stands in for which, and when none may."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.ladders.failover import ASKS_FIRST, LostCall, PassedOver, choose
from fabric.core.spec.policies.fallbacks import chain, cycles
from fabric.core.spec.tree import Capability, ModelSpec
from fabric.core.values.cost import Price
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Tier


def models(*given):
    """``(name, provider, fallbacks, more)`` each."""
    return {
        name: ModelSpec(name=name, provider=provider, fallbacks=tuple(fallbacks.split()), **more)
        for name, provider, fallbacks, more in given
    }


def prices(**usd):
    return {name: Price(amount * 1_000_000, amount * 1_000_000) for name, amount in usd.items()}


LOST = LostCall(model="a", cause=Cause.SERVER_ERROR, tier=Tier.INTERACTIVE)
TWO = models(("a", "anthropic", "b c", {}), ("b", "google", "", {}), ("c", "openai", "", {}))
ONE_EACH = prices(a=3, b=3, c=3)


# -- the tables --


@pytest.mark.parametrize(
    "cause",
    [Cause.RATE_LIMIT, Cause.SERVER_ERROR, Cause.TIMEOUT, Cause.NETWORK, Cause.DROPPED_STREAM, Cause.QUOTA],
)
def test_what_the_source_lets_fail_over(cause):
    assert choose(replace(LOST, cause=cause), TWO, ONE_EACH).model == "b"


@pytest.mark.parametrize("cause", [Cause.AUTH, Cause.BAD_REQUEST, Cause.CONTEXT_LENGTH, Cause.CONTENT_FILTER])
def test_what_the_source_never_lets_fail_over(cause):
    found = choose(replace(LOST, cause=cause), TWO, ONE_EACH)
    assert (found.model, found.reason) == ("", f"{cause} would not go away with another model")


def test_every_tier_says_whether_a_person_is_asked():
    assert set(ASKS_FIRST) == set(Tier)


@pytest.mark.parametrize(
    ("tier", "approved", "asks"),
    [
        (Tier.INTERACTIVE, False, False),
        (Tier.BATCH, False, False),
        (Tier.HIGH_STAKES, False, True),
        (Tier.HIGH_STAKES, True, False),
    ],
)
def test_high_stakes_only_after_approval(tier, approved, asks):
    found = choose(replace(LOST, tier=tier, approved=approved), TWO, ONE_EACH)
    assert (found.model, found.asks_first) == ("b", asks)


# -- the choice --


def test_endpoints_come_in_the_chain_s_order_whatever_they_cost():
    assert choose(LOST, TWO, prices(a=3, b=90, c=3)).model == "b"


SAME = models(
    ("a", "anthropic", "far near dear", {"capabilities": ("vision", "reasoning")}),
    ("far", "google", "", {"capabilities": ()}),
    ("near", "google", "", {"capabilities": ("vision", "reasoning")}),
    ("dear", "google", "", {"capabilities": ("reasoning", "vision")}),
)


def test_of_one_endpoint_the_closest_by_capabilities_then_by_cost():
    assert choose(LOST, SAME, prices(a=3, far=3, near=9, dear=90)).model == "near"
    assert choose(LOST, SAME, prices(a=80, far=80, near=9, dear=90)).model == "dear"
    assert choose(LOST, SAME, prices(a=10, far=10, near=9, dear=11)).model == "near"  # As far: the chain's order.


def test_a_cheaper_one_is_as_far_as_a_dearer_one_and_the_call_s_shape_counts():
    names = models(("a", "x", "b c", {}), ("b", "y", "", {}), ("c", "y", "", {}))
    costs = {"a": Price(10, 10), "b": Price(10, 90), "c": Price(90, 10)}
    asks = replace(LOST, input_tokens=1_000_000, output_tokens=0)
    assert choose(asks, names, costs).model == "b"
    assert choose(replace(asks, input_tokens=0, output_tokens=1_000_000), names, costs).model == "c"


def test_what_cannot_take_the_call_is_passed_over_with_its_reason():
    names = models(
        ("a", "x", "words same dear tried last", {}),
        ("words", "y", "", {"tool_calls": False}),
        ("same", "x", "", {}),
        ("dear", "y", "", {}),
        ("tried", "y", "", {}),
        ("last", "z", "", {}),
    )
    lost = replace(LOST, cause=Cause.QUOTA, needs=frozenset({Capability.TOOL_USE}), tried=frozenset({"a", "tried"}))
    found = choose(lost, names, prices(a=1, words=1, same=1, tried=1, last=1))
    assert found.model == "last"
    assert found.passed_over == (
        PassedOver("words", "the call needs tool_use", "needs"),
        PassedOver("same", "it is at the same endpoint, and quota is the endpoint's", "endpoint"),
        PassedOver("dear", "its price is not known", "price"),
        PassedOver("tried", "it was asked already", "tried"),
    )


def test_a_rate_limit_may_go_to_another_model_of_the_same_endpoint_but_a_quota_not():
    names = models(("a", "x", "b", {}), ("b", "x", "", {}))
    assert choose(replace(LOST, cause=Cause.RATE_LIMIT), names, ONE_EACH).model == "b"
    found = choose(replace(LOST, cause=Cause.QUOTA), names, ONE_EACH)
    assert (found.model, found.reason) == ("", "no model of 'a''s chain can take the call")
    other = models(("a", "x", "b", {}), ("b", "x", "", {"base_url": "https://other.example.org"}))
    assert choose(replace(LOST, cause=Cause.QUOTA), other, ONE_EACH).model == "b"


def test_without_fallbacks_there_is_none():
    assert choose(replace(LOST, model="c"), TWO, ONE_EACH).reason == "model 'c' names no fallbacks"


# -- chains --


def test_a_chain_goes_on_where_its_models_do_and_names_each_once():
    named = {"a": ("b", "c"), "b": ("d",), "c": ("d", "e"), "d": (), "e": ("f",), "f": ()}
    assert chain(named, "a") == ("b", "c", "d", "e", "f")


@pytest.mark.parametrize(
    ("named", "ways"),
    [
        ({"a": ("a",)}, [("a", "a")]),
        ({"a": ("b",), "b": ("a",)}, [("a", "b", "a")]),
        ({"x": ("a",), "a": ("b",), "b": ("c",), "c": ("a",)}, [("a", "b", "c", "a")]),
        ({"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}, []),
        ({"a": ("nobody",)}, []),
    ],
)
def test_a_way_that_leads_back_is_told_by_its_names(named, ways):
    assert list(cycles(named)) == ways


def test_a_long_chain_is_no_trouble():
    named = {f"m{n}": (f"m{n + 1}",) for n in range(5_000)}
    assert list(cycles(named)) == []
    assert len(list(cycles(named | {"m5000": ("m0",)}))) == 1


NAMES = st.sampled_from("abcde")


@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3, unique=True).map(tuple)))
def test_ways_are_ways_and_there_is_one_whenever_a_model_can_be_reached_from_itself(named):
    found = list(cycles(named))
    for way in found:
        assert way[0] == way[-1]
        assert all(after in named[before] for before, after in pairwise(way))
    reach = {name: set(named[name]) for name in named}
    for _ in named:
        for name in named:
            reach[name] |= {far for near in reach[name] for far in named.get(near, ())}
    assert bool(found) == any(name in reach[name] for name in named)
