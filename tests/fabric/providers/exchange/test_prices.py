import pytest

from fabric.core.spec.price import ModelPrice
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.cost import Price
from fabric.providers.exchange.prices import OperatorModels, find_price, tier_problem


def test_the_fabric_s_own_price_wins_where_the_list_does_not_know_the_address():
    price = ModelPrice(input_usd_per_mtok="0", output_usd_per_mtok="0.15")
    spec = ModelSpec(name="main", model="gpt-4o-mini", price=price, base_url="http://127.0.0.1:8000/v1")
    assert find_price(spec) == Price(0, 150_000)


@pytest.mark.parametrize(("provider", "model"), [("openai", "gpt-4o"), ("anthropic", "claude-opus-4-1")])
@pytest.mark.parametrize("options", [{}, {"priced_as": "gpt-4o-mini"}, {"service_tier": "priority"}])
def test_a_known_model_costs_what_the_list_says_at_least(provider, model, options):
    said = find_price(ModelSpec(name="main", provider=provider, model=model))
    free = ModelPrice(input_usd_per_mtok="0", output_usd_per_mtok="0")
    spec = ModelSpec(name="main", provider=provider, model=model, price=free, options=options)
    found = find_price(spec)
    assert found is not None
    assert found.cost(1_000_000, 1_000_000) >= said.cost(1_000_000, 1_000_000) > 0
    assert find_price(spec, OperatorModels(below_list=frozenset({model}))) == Price(0, 0)


def test_a_model_priced_as_a_cheaper_one_costs_its_own_price():
    own = find_price(ModelSpec(name="main", model="gpt-4o"))
    as_mini = find_price(ModelSpec(name="main", model="gpt-4o", options={"priced_as": "gpt-4o-mini"}))
    assert as_mini.input_usd_micros_per_mtok == own.input_usd_micros_per_mtok
    assert as_mini.output_usd_micros_per_mtok == own.output_usd_micros_per_mtok


def test_a_price_of_the_list_s_first_tier_stands():
    first = ModelPrice(input_usd_per_mtok="1.25", output_usd_per_mtok="10", cached_usd_per_mtok="0.125")
    spec = ModelSpec(name="main", provider="google", model="gemini-2.5-pro", price=first)
    assert find_price(spec) == first.price()


@pytest.mark.parametrize("url", ["", "https://api.openai.com/v1"])
def test_a_known_model_is_in_the_offline_list(url):
    found = find_price(ModelSpec(name="main", model="gpt-4o-mini", base_url=url))
    assert found is not None
    assert 0 < found.input_usd_micros_per_mtok < found.output_usd_micros_per_mtok


@pytest.mark.parametrize(
    "spec",
    [
        ModelSpec(name="main", model="no-such-model"),
        ModelSpec(name="main", model="gpt-4o-mini", base_url="http://127.0.0.1:8000/v1"),
        ModelSpec(name="main", provider="scripted", model="gpt-4o-mini"),
        ModelSpec(name="main"),
    ],
    ids=["unknown model", "known name elsewhere", "unknown provider", "no model"],
)
def test_what_is_not_known_has_no_price(spec):
    assert find_price(spec) is None


def test_the_operator_s_model_and_url_fill_in():
    spec = ModelSpec(name="main")
    assert (
        find_price(spec, OperatorModels(default_model="gpt-4o-mini", default_url="https://api.openai.com/v1"))
        is not None
    )
    assert find_price(spec, OperatorModels(default_model="gpt-4o-mini", default_url="http://127.0.0.1:1/v1")) is None


def test_another_provider_does_not_cost_what_the_operator_s_model_costs():
    spec = ModelSpec(name="main", provider="scripted")
    assert (
        find_price(spec, OperatorModels(default_model="gpt-4o-mini", default_url="https://api.openai.com/v1")) is None
    )


def test_of_tiers_the_dearest_is_charged():
    found = find_price(
        ModelSpec(name="main", model="gemini-2.5-pro", base_url="https://generativelanguage.googleapis.com/")
    )
    assert found == Price(2_500_000, 15_000_000, cached_usd_micros_per_mtok=250_000)


def test_the_list_s_prices_of_cached_and_audio_tokens_are_used():
    opus = find_price(ModelSpec(name="main", provider="anthropic", model="claude-opus-4-8"))
    # A cache may keep for five minutes or for an hour: the dearer is charged.
    assert opus == Price(
        5_000_000, 25_000_000, cached_usd_micros_per_mtok=500_000, cache_write_usd_micros_per_mtok=10_000_000
    )
    flash = find_price(ModelSpec(name="main", provider="google", model="gemini-2.5-flash"))
    assert flash is not None
    assert flash.audio_in_usd_micros_per_mtok == 1_000_000


@pytest.mark.parametrize(("tier", "known"), [("flex", True), ("default", True), ("priority", False), ("auto", False)])
def test_a_service_tier_that_may_cost_more_than_the_list_says_needs_the_fabric_s_price(tier, known):
    spec = ModelSpec(name="main", model="gpt-4o-mini", options={"service_tier": tier})
    assert (find_price(spec) is not None) is known
    own = ModelPrice(input_usd_per_mtok="1", output_usd_per_mtok="2")
    assert find_price(spec.model_copy(update={"price": own})) == Price(1_000_000, 2_000_000)


VENDORS = {"anthropic": "https://api.anthropic.com", "google": "https://generativelanguage.googleapis.com"}


@pytest.mark.parametrize(("provider", "model"), [("anthropic", "claude-opus-4-8"), ("google", "gemini-2.5-flash")])
def test_the_other_providers_models_are_in_the_list_at_their_vendors(provider, model):
    spec = ModelSpec(name="main", provider=provider, model=model)
    assert find_price(spec, OperatorModels(default_model="gpt-4o-mini", urls=VENDORS)) == find_price(spec)
    assert find_price(spec) is not None


def test_behind_the_operator_s_gateway_their_price_is_unknown():
    spec = ModelSpec(name="main", provider="anthropic", model="claude-opus-4-8")
    assert find_price(spec, OperatorModels(urls={"anthropic": "https://gateway.example.org"})) is None


def test_without_a_model_of_their_own_they_have_no_price():
    assert (
        find_price(
            ModelSpec(name="main", provider="anthropic"), OperatorModels(default_model="gpt-4o-mini", urls=VENDORS)
        )
        is None
    )


def test_a_deployment_costs_what_the_model_behind_it_costs_where_the_fabric_names_that():
    named = {"options": {"priced_as": "gpt-4o"}}
    listed = find_price(ModelSpec(name="main", provider="azure", model="gpt-4o"))
    assert listed is not None
    assert find_price(ModelSpec(name="main", provider="azure", model="sales-bot")) is None
    for url in ("", "https://sales.openai.azure.com", "https://gateway.example.org/v1"):
        assert find_price(ModelSpec(name="main", provider="azure", model="sales-bot", base_url=url, **named)) == listed
    assert find_price(ModelSpec(name="main", provider="azure", **named)) == listed
    unknown = ModelSpec(name="main", provider="azure", model="gpt-4o", options={"priced_as": "no-such-model"})
    assert find_price(unknown) is None


OWN = ModelPrice(input_usd_per_mtok="1", output_usd_per_mtok="2")


@pytest.mark.parametrize(
    ("tier", "wanted", "price", "doubted"),
    [
        ("", None, None, False),
        ("auto", None, None, False),
        *(
            (tier, None, None, False)
            for tier in ("default", "standard", "Flex", "batch", "ON_DEMAND", "ON_DEMAND_FLEX")
        ),
        *((tier, None, None, False) for tier in ("scale", "reserved", "PROVISIONED_THROUGHPUT")),
        ("priority", None, None, True),
        ("priority", None, OWN, True),
        ("priority", "auto", OWN, True),
        ("priority", "priority", OWN, False),
        ("priority", "priority", None, True),
        ("Turbo", None, None, True),
    ],
)
def test_an_answers_tier_without_a_known_price_is_said(tier, wanted, price, doubted):
    options = {} if wanted is None else {"service_tier": wanted}
    said = tier_problem(ModelSpec(name="main", model="gpt-4o", price=price, options=options), tier)
    assert bool(said) == doubted
    if doubted:
        assert said.startswith(f"the endpoint answered in its service tier {tier!r}, whose price is not known")
