"""The sample fabrics: each can be published, explains itself, and the scripted one answers with its sources."""

import re

import pytest

from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.management.base import providers
from fabric.management.run_follower import Following
from fabric.runtime.ports.journal import Document
from fabric.selectors.memories.lookup import memory_history
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_events, run_outcome
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import list_example_files
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.reviews.decisions import decide_review
from simulator.booking import BookingDesk, Faults, Ledger, entries
from simulator.endpoint import ScriptedEndpoint
from tests.fabric.services.world import NOTES, SAMPLE_NAMES, HeardNudge, ran, sample


def test_the_samples_are_there():
    names = {"research-desk", "checked-answer", "document-review", "small-model", "supplier-notes", "trip-desk"}
    assert names <= set(SAMPLE_NAMES)


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_sample_is_published_without_a_problem_a_warning_or_a_deviation(actor, name, settings):
    settings.FABRIC_ALLOWED_HOSTS = ("127.0.0.1:8421",)
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


def test_the_first_look_costs_something_and_meets_the_loop_detector(actor):
    fabric_publish(actor=actor, source=sample("first-look").replace("delay_s: 2.4", "delay_s: 0"))
    files = tuple(Document(name, data.decode()) for name, data in list_example_files("first-look"))
    run = ran(actor, "first-look", fabric_read(sample("first-look")).spec.example, files)
    assert run.state == RunState.COMPLETED
    assert 10_000 < run.cost_usd_micros < 30_000
    decided = [
        event.fact["cause"]["mechanism"] for event in run_events(actor, run.id) if event.kind == "reaction_decided"
    ]
    assert decided == ["loop_detector"]
    outcome = run_outcome(actor, run.id)
    assert outcome is not None
    assert "31 March" in outcome["text"]
    assert "15 March" in outcome["text"]


TERMS = Document("terms.md", "The contract costs 90 euros a month. Either side may end it within 30 days of notice.")
JUDGES = {("plan", "second"), ("fan_in", "auditor"), ("finalize", "examiner")}


def judged(actor, *, refuses: str = "", documents=(TERMS,)):
    """A run of the checked answer, and what its judges said: ``(stage, agent)`` of those that were asked. ``refuses``: who finds something."""
    said = f"{{delay_s: 0, agents: {{{refuses}: {{findings: [It says too much.]}}}}}}" if refuses else "{delay_s: 0}"
    fabric_publish(actor=actor, source=sample("checked-answer").replace("{delay_s: 0.3}", said))
    run = ran(actor, "checked-answer", "What does the contract cost?", documents)
    asked = {
        (e.fact["step_id"].partition(".")[0], e.fact["agent"])
        for e in run_events(actor, run.id)
        if e.kind == "call_issued"
    }
    return run, {one for one in asked if one in JUDGES}


@pytest.mark.parametrize("documents", [(TERMS,), ()], ids=["with a document", "without"])
def test_a_checked_answer_was_accepted_by_every_judge(actor, documents):
    run, asked = judged(actor, documents=documents)
    assert (run.state, run.cost_usd_micros) == (RunState.COMPLETED, 0)
    assert asked == JUDGES
    checks = [
        [c["name"] for c in e.fact["gate"]["checks"]] for e in run_events(actor, run.id) if e.kind == "stage_left"
    ]
    assert "critic" in checks[0]
    assert "grounding_critic" in checks[2]
    assert "oracle" in checks[-1]


@pytest.mark.parametrize("judge", [judge for _, judge in sorted(JUDGES)])
def test_an_answer_that_one_judge_refuses_is_not_given(actor, judge):
    run, asked = judged(actor, refuses=judge)
    assert run.state in (RunState.ABORTED, RunState.FAILED)
    assert "It says too much." in run.reason
    assert judge in {agent for _, agent in asked}


@pytest.fixture
def _memories():
    wiring.memories.cache_clear()
    yield
    wiring.memories().close_connections()
    wiring.memories.cache_clear()


@pytest.mark.usefixtures("_memories")
def test_the_second_run_of_the_supplier_notes_reads_what_the_first_wrote(actor):
    fabric_publish(actor=actor, source=sample("supplier-notes").replace("delay_s: 0.3", "delay_s: 0"))
    asked = fabric_read(sample("supplier-notes")).spec.example
    first, second = ran(actor, "supplier-notes", asked, ()), ran(actor, "supplier-notes", asked, ())
    assert {first.state, second.state} == {RunState.COMPLETED}
    told = [run_outcome(actor, run.id)["text"] for run in (first, second)]
    assert "Nothing is remembered under supplier/acme yet." in told[0]
    assert f"Remembered under supplier/acme, by keeper of run {first.id[:8]} (version 1): {{" in told[1]
    history = memory_history(actor, "supplier-notes", "suppliers", "supplier/acme")
    assert [(one.version, one.became.value, one.run_id) for one in history.entries] == [
        (2, "stands", second.id),
        (1, "replaced", first.id),
    ]


def booked_at(port: int, **more: str) -> str:
    """The trip desk's YAML for a booking service on that port, without its pauses."""
    text = sample("trip-desk").replace("127.0.0.1:8421", f"127.0.0.1:{port}").replace("delay_s: 0.3", "delay_s: 0")
    for old, new in more.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture(params=[0.0], ids=["well"])
def desk(tmp_path, settings, request):
    """A real booking service with its ledger: ``(port, ledger path)``. The parameter: the share of first answers that are lost."""
    path = tmp_path / "booking.ndjson"
    desk = BookingDesk(Ledger(path), Faults(lost=request.param))
    with ScriptedEndpoint(desk.reply, keep=False) as endpoint:
        settings.FABRIC_ALLOWED_HOSTS = (endpoint.authority,)
        yield int(endpoint.authority.rpartition(":")[2]), path


def test_the_trip_desk_books_for_real_and_puts_the_trip_to_a_person(actor, desk):
    port, path = desk
    fabric_publish(actor=actor, source=booked_at(port))
    run = ran(actor, "trip-desk", "Book a flight to Lisbon and a hotel for two nights.", ())
    assert run.state is RunState.WAITING
    done = entries(path)
    assert [(entry.kind, entry.about["kind"], entry.applied) for entry in done] == [
        ("book", "flight", True),
        ("book", "hotel", True),
    ]
    assert len({entry.key for entry in done}) == 2


@pytest.mark.parametrize("desk", [0.0, 1.0], indirect=True, ids=["well", "each first answer is lost"])
def test_a_trip_that_is_rejected_is_cancelled_in_reverse(actor, desk):
    """Lost answers: the bookings are asked about, never sent again; the cancellations are sent again under their keys, and done once."""
    port, path = desk
    fabric_publish(actor=actor, source=booked_at(port))
    run = ran(actor, "trip-desk", "Book a flight to Lisbon and a hotel for two nights.", ())
    (review,) = list_open_reviews(actor, run.id)
    decide_review(
        store=wiring.store(),
        nudge=HeardNudge(),
        actor=actor,
        review_id=review.id,
        digest=review.digest,
        verb="reject",
        message="no",
    )
    over = Following(actor, run.id, answered={review.id}).to_rest()
    assert over.state is RunState.ABORTED
    assert "2 of its changes were undone" in over.reason
    outcome = run_outcome(actor, run.id)
    assert outcome["gaps"] == ["written before the run was unwound: 2 of its changes were undone"]
    done = entries(path)
    booked = [entry.about["id"] for entry in done if entry.kind == "book"]
    applied = [(entry.kind, entry.about["id"]) for entry in done if entry.applied]
    assert applied == [*(("book", one) for one in booked), *(("cancel", one) for one in booked[::-1])]
