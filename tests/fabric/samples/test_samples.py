"""The sample fabrics: each can be published, explains itself, and the scripted one answers with its sources."""

import re

import pytest

from fabric.core.flow import RunState
from fabric.core.taxonomy import Tier
from fabric.management.base import providers
from fabric.runtime.ports import Document
from fabric.selectors.runs import run_events, run_outcome
from fabric.services.fabric_yaml import fabric_read
from fabric.services.fabrics import fabric_publish
from tests.fabric.services.world import NOTES, SAMPLE_NAMES, ran, sample


def test_the_samples_are_there():
    assert {"research-desk", "document-review", "small-model"} <= set(SAMPLE_NAMES)


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_sample_is_published_without_a_problem_a_warning_or_a_deviation(actor, name):
    published = fabric_publish(actor=actor, source=sample(name), origin=f"{name}.yaml", providers=providers())
    assert (published.name, published.warnings, published.deviations) == (name, (), ())


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_sample_explains_itself(name):
    text, spec = sample(name), fabric_read(sample(name)).spec
    assert spec.example
    assert len(spec.description) > 80
    assert text.startswith("# ")
    # Prices and caps are what people get wrong, so each has its comment.
    assert re.search(r"run_usd_micros: \d+ #", text)
    assert len(re.findall(r"^\s*#|\S #", text, flags=re.MULTILINE)) >= 7


def test_the_scripted_sample_costs_nothing_and_needs_no_address():
    spec = fabric_read(sample("research-desk")).spec
    assert [(model.provider, model.price and model.price.price().cost(10**6, 10**6)) for model in spec.models] == [
        ("scripted", 0)
    ]
    assert spec.gates.citations == "required"


@pytest.mark.parametrize("name", ["document-review", "small-model"])
def test_the_samples_for_real_models_use_the_operators_endpoint(name):
    (model,) = fabric_read(sample(name)).spec.models
    assert (model.provider, model.model, model.base_url) == ("openai", "", "")
    assert model.price is not None
    assert "real price" in sample(name).lower()


def test_the_small_model_is_asked_for_nothing_that_it_cannot_do():
    spec = fabric_read(sample("small-model")).spec
    assert (spec.models[0].structured_output, spec.models[0].tool_calls) == (False, False)
    assert spec.topology.plan is not None
    assert len(spec.topology.plan.briefs) == 3
    (agent,) = spec.agents
    assert (agent.answers, agent.tools, agent.inline_document_chars) == ("text", (), 1500)
    assert spec.tiers.allowed == (Tier.BATCH, Tier.INTERACTIVE)


def test_the_research_desk_answers_from_the_documents(actor):
    at_once = sample("research-desk").replace("delay_s: 0.3", "delay_s: 0")
    fabric_publish(actor=actor, source=at_once)
    terms = Document(
        "terms.md", "The contract costs 90 euros a month. Either side may end it within 30 days of notice."
    )
    run = ran(actor, "research-desk", "What does the contract cost and when is the deadline?", (NOTES, terms))
    assert (run.state, run.cost_usd_micros) == (RunState.COMPLETED, 0)
    outcome = run_outcome(actor, run.id)
    assert outcome is not None
    assert set(outcome["citations"]) == {"notes.md", "terms.md"}
    assert "90 euros" in outcome["text"]
    agents = {event.fact["agent"] for event in run_events(actor, run.id) if event.kind == "call_issued"}
    assert agents == {"planner", "reader", "searcher", "checker", "editor", "critic", "writer"}
