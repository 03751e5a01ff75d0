"""A fabric in the hands of the drills' provider: only its models and its name are others, and what runs share is its own."""

from __future__ import annotations

import asyncio

import pytest

from fabric.composition.engine import compile_revision
from fabric.core.breaker.gates import find_name, row_scope
from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.mechanisms.retry_budget import buckets
from fabric.core.spec.endpoints import endpoint_name
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.http.transport import Gate
from fabric.services.fabrics.publication.rules import publication_problems
from fabric.services.installation.facts import InstallationFacts
from simulator.drills.fabrics import default_table, samples
from simulator.drills.live.cells import PROVIDER, adapt_fabric, is_alone, make_failing
from simulator.drills.live.provider import DrillProvider
from simulator.scenarios.play.cells import promised_by
from tests.fabric.core.breaker.test_passing import MODEL
from tests.fabric.providers.asking import request
from tests.simulator.drills.drilled import behind_breaker, drilled
from tests.simulator.world.quiet_worlds import PRICED

ONE, OTHER = "019abcde-0000-7000-8000-000000000001", "019abcde-0000-7000-8000-000000000002"


@pytest.mark.parametrize("spec", [default_table(), *samples()], ids=lambda spec: spec.name)
def test_everything_but_its_models_and_its_name_stays(spec):
    held = adapt_fabric(spec, ONE, {})
    kept = set(FabricSpec.model_fields) - {"name", "models", "tiers"}
    assert {name for name in kept if getattr(held, name) != getattr(spec, name)} == set()
    assert {model.provider for model in held.models} == {PROVIDER}
    assert held.tiers.allowed == tuple(Tier)
    compiled, before = compile_revision(held), compile_revision(spec)
    assert compiled.prices == before.prices, "the meter counts as ever"


def test_a_price_of_the_list_is_written_out():
    listed = drilled(models=[{"name": "model", "provider": "openai", "model": "gpt-4o"}])
    assert compile_revision(adapt_fabric(listed, ONE, {})).prices == compile_revision(listed).prices


def test_two_drills_share_no_endpoint_and_one_keeps_its_models_apart_as_they_were():
    plain = drilled(fallbacks=2).model_dump(mode="json", by_alias=True)
    plain["models"][2]["provider"] = "anthropic"
    spec = FabricSpec.model_validate(plain)
    one, other = (adapt_fabric(spec, drill, {}) for drill in (ONE, OTHER))
    first, second = ([endpoint_name(model) for model in held.models] for held in (one, other))
    assert not set(first) & set(second)
    assert first[0] == first[1] != first[2]
    assert one.name != other.name


def test_two_drills_share_no_row_of_a_breaker_or_of_a_retry_bucket():
    rows = []
    for n, drill in enumerate((ONE, OTHER)):
        held = adapt_fabric(drilled(), drill, {})
        call = replace(MODEL, step_id="finalize", agent="finalizer", model="model")
        names = {scope: find_name(scope, held, call) for scope in BreakerScope}
        guards = {row_scope(scope, f"fabric-{n}", name) for scope, name in names.items() if name}
        rows.append(guards | {bucket for bucket, _ in buckets(held.policy.retry, f"fabric-{n}", held, "model")})
    assert len(rows[0]) == len(rows[1]) == 4
    assert not rows[0] & rows[1]


RATE = {"names": ["server_error"], "mode": "rate", "threshold": 0.5, "min_calls": 2}


@pytest.mark.parametrize(
    ("signals", "alone"),
    [
        ([], True),
        ([{**RATE, "mode": "consecutive", "threshold": 2}], True),
        ([{**RATE, "mode": "window", "threshold": 2}], True),
        ([RATE], False),
        ([{**RATE, "names": ["rate_limit"]}], True),
    ],
    ids=["no breaker", "a streak", "a count", "a share", "a share of what a 503 is not"],
)
def test_a_drill_is_alone_but_for_its_own_undisturbed_run_whose_answers_a_share_counts(signals, alone):
    policy = drilled().policy.model_dump(mode="json")
    breakers = [{"scope": "agent", "signals": signals}] if signals else []
    spec = drilled(policy={**policy, "breakers": breakers})
    assert is_alone(spec) is alone
    promised, why = promised_by(spec, FailureType.PROVIDER, Tier.BATCH, "reject", alone=is_alone(spec))
    assert (promised is not None) is alone
    assert ("other runs move the breakers" in why) is not alone


def test_a_breaker_in_front_of_a_provider_stands_in_front_of_what_is_in_its_place():
    spec = behind_breaker(2, scope="provider", only=(endpoint_name(drilled().models[0]),))
    held = adapt_fabric(spec, ONE, {})
    assert held.policy.breakers[0].only == (endpoint_name(held.models[0]),)
    assert adapt_fabric(behind_breaker(2, only=("one",)), ONE, {}).policy.breakers[0].only == ("one",)


@pytest.mark.parametrize("failure", FailureType)
def test_the_provider_is_told_each_failure_and_where_it_strikes(failure):
    spec, told = make_failing(drilled(), failure)
    held = adapt_fabric(spec, ONE, told)
    revision = FabricSpec.model_validate_json(held.model_dump_json(by_alias=True))
    assert revision.models[0].options["failure"] == failure
    assert asyncio.run(DrillProvider().ask(request(30.0, model=revision.models[0]))).kind in (
        "model_replied",
        "call_failed",
    )


def test_without_a_failure_the_scripted_agents_answer_and_what_cannot_be_read_is_a_failed_call():
    def asked(**options):
        return asyncio.run(
            DrillProvider().ask(request(30.0, model=ModelSpec(name="m", provider=PROVIDER, options=options)))
        )

    assert isinstance(asked(), ModelReplied)
    for options in (
        {"failure": "no_such_row"},
        {"failure": "tool_loop"},
        {"failure": "provider_failure", "places": {"x": 1}},
    ):
        failed = asked(**options)
        assert isinstance(failed, CallFailed)
        assert failed.cause is Cause.BAD_CONFIGURATION
        assert "are no drill's" in failed.message


def test_the_provider_of_drills_is_no_fabrics_for_any_caller():
    for providers in ((), ("scripted", "drill")):
        where = InstallationFacts(Gate(), providers=frozenset(providers))
        [problem] = publication_problems(
            drilled(models=[{"name": "model", "provider": PROVIDER, "price": PRICED}], reviewers=["owner"]), where
        )
        assert (problem.path, problem.sentence) == (
            "models.0.provider",
            "'drill' answers failure drills and no run of a fabric; name the provider whose model it is",
        )
