"""The evidence of each kind of failure, from runs that really failed so."""

from dataclasses import replace

import pytest

from fabric.composition import engine as wiring
from fabric.core import events as ev
from fabric.core.mechanisms import ORDER
from fabric.core.values.flow import Stage
from fabric.models import Event
from fabric.selectors.reviews.evidence.box import build_box
from fabric.selectors.reviews.evidence.builders import BUILDERS, ROWS_MAX
from fabric.selectors.reviews.evidence.review_evidence import build_evidence
from fabric.selectors.reviews.evidence.rows import EXCERPT_CHARS, Asked, excerpts
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from tests.fabric.selectors.journals import Teller, write
from tests.fabric.services.world import COSTLY, PAYING, SMALL, SPARED_STRICT, HeardNudge, ran
from tests.servers.unguarded import unguarded

STEP = "fan_out.0.e0.r0"
STRICT = "tiers: {default: high_stakes, allowed: [high_stakes]}\n"
LOOPING = (
    SMALL.replace("name: small", "name: looping").replace(
        "    provider: scripted\n", "    provider: scripted\n    options: {agents: {reader: {script: tool_loop}}}\n"
    )
    + "decision_table:\n  infinite_tool_loop:\n    high_stakes: {rungs: [{reaction: escalate}]}\n"
    + STRICT
)
UNFIT = (
    SMALL.replace("name: small", "name: unfit").replace(
        "    provider: scripted\n", "    provider: scripted\n    options: {agents: {reader: {script: off_schema}}}\n"
    )
    + "decision_table:\n  schema_grounding_fail:\n    high_stakes: {rungs: [{reaction: escalate}], deviation: a test}\n"
    + STRICT
)


def evidence(actor, source):
    """The review that a run of a fabric waits for, with its box."""
    (item,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=source).name).id)
    return item, build_evidence(actor, item).box


def test_every_mechanism_has_evidence():
    others = {"agent_loop", "provider", "tool", "child", "fan_in", "transition_graph", ""}
    assert set(BUILDERS) == {module.NAME for module in ORDER} | others


def test_a_loop_shows_the_equal_calls_with_arguments_and_results(actor):
    item, box = evidence(actor, LOOPING)
    assert item.content["mechanism"] == "loop_detector"
    assert len(box.rows) >= 2
    shown = [{part.name: part.text for part in row.parts} for row in box.rows]
    arguments = {one["arguments"] for one in shown}
    assert len(arguments) == 1
    assert "notes.md" in arguments.pop()
    assert all(len(one) > 1 for one in shown)
    assert ("their results", "equal, apart from clocks and ids") in box.facts


def test_a_provider_failure_shows_attempts_with_status_and_wait(actor):
    item, box = evidence(actor, SPARED_STRICT)
    assert item.failure_type == "provider_failure"
    said = " ".join(row.says for row in box.rows)
    assert "Attempt 1 failed" in said
    assert "scheduled attempt 2" in said
    assert dict(box.facts)["shown"].endswith("of waits")


def test_a_misfit_shows_the_last_answer_and_what_did_not_fit_by_path(actor):
    item, box = evidence(actor, UNFIT)
    assert item.content["mechanism"] in ("agent_loop", "validation_gate")
    assert "confidence" in box.rows[-1].parts[0].text
    assert box.facts
    assert all(path and problem for path, problem in box.facts)


def test_a_gate_shows_its_checks_and_score(actor, doubtful):
    (item,) = list_open_reviews(actor, ran(actor, doubtful).id)
    box = build_evidence(actor, item).box
    assert dict(box.facts)["confidence"] == "the score is 0.55, and the fabric needs at least 0.70"
    assert dict(box.facts)["score"] == "0.55, needed 0.7"
    assert any(row.parts for row in box.rows)
    assert box.finished == (), "the critic's answer is shown once"


def test_results_of_the_stage_so_far_are_there(actor, doubtful):
    (item,) = list_open_reviews(actor, ran(actor, doubtful).id)
    late = replace(item, given={**item.given, "mechanism": "deadline"})
    (row,) = build_evidence(actor, late).box.finished
    assert row.says == "critic finished"
    assert "0.55" in row.parts[0].text


def test_money_shows_the_next_calls_worst_case(actor):
    item, box = evidence(actor, COSTLY)
    assert item.content["mechanism"] == "budget"
    assert box.title == "Dearest calls"
    assert dict(box.facts)["the next call, at most"].startswith("$")


def test_a_call_shows_what_its_agent_answered(actor):
    item, box = evidence(actor, PAYING)
    assert item.item == "pre_action"
    (row,) = box.rows
    assert '"usd": 90' in row.parts[-1].text


# -- journals made by hand ---------------------------------------------------------------------------------------------


@pytest.fixture
def told(actor, doubtful):
    """Asks for the box of a run whose journal a test tells, as if a mechanism had stopped it."""
    (item,) = list_open_reviews(actor, ran(actor, doubtful).id)
    known = build_evidence(actor, item)

    def make(teller, mechanism, *, step_id="", details=None):
        run_id = run_start(
            store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=doubtful, text="What do the notes say?"
        ).run_id
        write(run_id, teller.events)
        asked = Asked(
            item=replace(
                item,
                given={"mechanism": mechanism},
                step_id=step_id,
                stage="fan_out",
                opened_at=teller.at,
            ),
            run=replace(known.run, id=run_id, last_seq=len(teller.events)),
            spec=known.spec,
            moment=None,
            seq=len(teller.events) + 1,
            details=details or {},
        )
        return build_box(asked)

    return make


def test_a_deadline_shows_what_took_how_long_the_longest_first(told):
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader", "reader", stage_s=60)
    teller.ask(STEP, 1, "reader").wait(2).answer(STEP, 1, calls=1).use(STEP, 1, 0, "reader").wait(9).result(STEP, 1, 0)
    teller.ask(STEP, 2, "reader").wait(49)
    box = told(teller, "deadline")
    assert [row.says for row in box.rows] == [
        "reader called script: no answer in 49 s",
        "reader called read_document: 9.0 s",
        "reader called script: 2.0 s",
    ]
    assert box.rows[0].failed
    assert box.facts == (("the stage took", "60 s of the 60 s that it had"),)


def test_a_deadlock_shows_what_went_round(told):
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader")
    for one, other in (("reader", "writer"), ("writer", "reader")) * 6:
        teller.tell(ev.HandedOff(step_id=STEP, from_agent=one, to_agent=other))
    box = told(teller, "deadlock_monitor", details={"cycle": ["reader", "writer"]})
    assert len(box.rows) == ROWS_MAX
    assert box.facts == (("the round", "reader → writer"),)


def test_a_reader_without_the_right_gets_rows_without_contents(actor, doubtful):
    (item,) = list_open_reviews(actor, ran(actor, doubtful).id)
    viewer = replace(actor, name="vera", roles=frozenset({"viewer"}), held=frozenset({"viewer"}))
    (seen,) = list_open_reviews(viewer, item.run_id)
    box = build_evidence(viewer, seen).box
    assert box.unread
    assert box.rows
    assert not any(row.parts for row in (*box.rows, *box.finished))
    assert build_evidence(actor, item).box.unread is False


def test_credentials_are_masked(actor, doubtful):
    (item,) = list_open_reviews(actor, ran(actor, doubtful).id)
    secret = "sk-proj-" + "a1B2" * 12
    answers = Event.objects.filter(run_id=item.run_id, kind="model_answered", payload__isnull=False)
    with unguarded():
        assert answers.update(payload=f'{{"text": "the key is {secret}"}}'.encode())
    box = build_evidence(actor, item).box
    shown = " ".join(part.text for row in (*box.rows, *box.finished) for part in row.parts)
    assert "the key is" in shown
    assert secret not in shown


def test_long_texts_are_cut():
    (part,) = excerpts({"text": "a" * (EXCERPT_CHARS + 1)})
    assert (len(part.text), part.cut) == (EXCERPT_CHARS, True)
    (part,) = excerpts({"text": "a" * EXCERPT_CHARS})
    assert part.cut is False


@pytest.mark.parametrize("source", [LOOPING, SPARED_STRICT, COSTLY], ids=["loop", "attempts", "money"])
def test_a_box_costs_few_statements(actor, source, django_assert_max_num_queries):
    item, _ = evidence(actor, source)
    known = build_evidence(actor, item)
    asked = Asked(item=item, run=known.run, spec=known.spec, moment=None, seq=known.seq, details={})
    with django_assert_max_num_queries(5):
        build_box(asked)
