"""The parts of a review's page by themselves: the difference, the time line, what follows, the filters, the claim and its nearest source."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.forms.values.diff import diff_of
from console.pages.reviews.assignments import QUEUE, TABS
from console.pages.reviews.parts.consequences import ACTS, WORDS, consequences, name_act
from console.pages.reviews.parts.due_line import due_line
from console.pages.reviews.parts.queue import URGENCIES, find_group
from console.templatetags.marks import ITEMS
from console.words.reviews import find_schema
from fabric.core import events as ev
from fabric.core.reviews.consequences import SECOND_FIRST
from fabric.core.reviews.reviews import VERBS
from fabric.core.schema.payloads import Aggregate, Brief, Outcome, Plan
from fabric.models import Attachment
from fabric.runtime.quarantine.verdicts import VERBS as VERBS_OF_A_QUARANTINE
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.evidence.review_evidence import PendingUndo, build_evidence, list_claims
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.queue import QueueFilter, Tab
from tests.fabric.services.world import ran

HOUR = 3_600_000_000


@pytest.fixture
def doubt(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


# -- the difference --------------------------------------------------------------------------------------------------


def marked(shown, value):
    """The lines that change, each with its sign and what is marked in it."""
    signs = {"del": "-", "add": "+"}
    return [(signs[line.kind], line.mark) for line in diff_of(shown, value).lines if line.kind in signs]


def test_only_what_changes_is_marked():
    shown = {"to": "Ana", "usd": 90, "names": ["a", "b"]}
    assert marked(shown, {"to": "Ana", "usd": 40, "names": ["a", "b"]}) == [("-", "9"), ("+", "4")]
    assert marked(shown, {"to": "Ana Maria", "usd": 90, "names": ["a", "b"]}) == [("-", ""), ("+", " Maria")]
    found = diff_of(shown, {**shown, "names": ["a", "b", "c"]})
    assert (found.changed, found.total) == (1, 3)


def test_the_order_of_keys_is_no_change_and_a_type_is_one():
    assert diff_of({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}).lines == ()
    assert marked({"a": 1}, {"a": "1"}) == [("-", "1"), ("+", '"1"')]
    assert diff_of({"a": 1}, {"a": 1.0}).changed == 1
    assert diff_of({"a": None}, {}).changed == 1


def test_what_stays_the_same_is_folded():
    shown = {f"k{n}": n for n in range(20)}
    kinds = [line.kind for line in diff_of(shown, {**shown, "k10": 0}).lines]
    assert kinds == ["same", "", "", "del", "add", "", "", "same"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_two_values_have_a_difference_that_says_both(shown, value):
    found = diff_of(shown, value)
    assert 0 <= found.changed <= found.total
    assert all(line.head + line.mark + line.tail is not None for line in found.lines)
    assert bool(found.lines) == bool(found.changed)


# -- time ------------------------------------------------------------------------------------------------------------


def test_the_line_ends_with_the_expiry_or_with_the_answer(actor, doubt):
    known = build_evidence(actor, doubt)
    open_line = due_line(doubt, known, doubt.opened_at, "rejected by the system", "owner")
    assert [tick.says for tick in open_line.ticks] == ["reminder", "escalated to owner", "rejected by the system"]
    assert [tick.x for tick in open_line.ticks] == [49.5, pytest.approx(73.75, abs=0.06), 98.0]
    assert open_line.now == 1.0
    answered = replace(doubt, decided_at=known.remind_at + 1, decided_by="ana", verb="approve")
    line = due_line(answered, known, doubt.due_at, "rejected by the system", "owner")
    assert [tick.says for tick in line.ticks] == ["reminder", "answered"]
    withdrawn = replace(answered, verb="withdrawn", by_system=True)
    assert due_line(withdrawn, known, doubt.due_at, "rejected", "owner").ticks[-1].says == "withdrawn"
    lapsed = replace(doubt, decided_at=doubt.due_at, by_system=True, verb="reject")
    assert [tick.says for tick in due_line(lapsed, known, doubt.due_at, "rejected", "owner").ticks][-1] == "rejected"


@pytest.mark.parametrize(
    ("left", "group"), [(-1, "overdue"), (0, "overdue"), (HOUR, "due-soon"), (HOUR + 1, "today"), (30 * HOUR, "later")]
)
def test_groups_of_a_list(left, group):
    assert find_group(1_000 * HOUR + left, 1_000 * HOUR) == group
    assert "onward" in URGENCIES


# -- what follows ----------------------------------------------------------------------------------------------------


def test_every_verb_and_kind_has_words():
    assert set(WORDS) == {verb for verbs in VERBS.values() for verb in verbs} | {"edit", "respond"}
    kinds = get_args(ev.ReviewOpened.__annotations__["item"]) or set(VERBS) | {"quarantine"}
    assert set(ITEMS) >= set(kinds)


def test_every_verb_of_every_kind_names_its_act():
    verbs = {**VERBS, "quarantine": VERBS_OF_A_QUARANTINE}
    assert {kind: set(named) for kind, named in ACTS.items()} == {kind: set(some) for kind, some in verbs.items()}


@pytest.mark.parametrize(
    ("item", "content", "act"),
    [
        ("failure", {}, "Try again"),
        ("failure", {"needs_cap": {"scope": "run"}}, "Raise the cap"),
        ("failure", {"releases": "unsafe"}, "Let it pass"),
        ("post_stage", {}, "Let it pass"),
        ("pre_action", {}, "Make the call"),
        ("pre_action", {"asks": {"message": "Which one?"}}, "Send this answer"),
    ],
)
def test_an_approval_is_named_for_what_it_does(doubt, item, content, act):
    known = replace(doubt, item=item, given=content)
    assert name_act(known, "approve") == act
    assert name_act(known, "reject") == "Reject"


def steps(item, known, verb, second=""):
    return next(one.steps for one in consequences(item, known, second) if one.verb == verb)


def test_each_answer_says_what_happens_then(actor, doubt):
    known = build_evidence(actor, doubt)
    approve = steps(doubt, known, "approve", "A second person must confirm the same content.")
    assert approve[0].startswith("Held for ")
    assert approve[1] == "A second person must confirm the same content."
    assert "esumes at " in approve[-1]
    assert "2 replans left" in approve[-1]
    assert "its clock runs on" in approve[-1], "it is interactive"
    with_undo = replace(known, undo=(PendingUndo("book", "unbook", "executed"), PendingUndo("pay", "", "executed")))
    reject = steps(doubt, with_undo, "reject", "A second person must confirm the same content.")
    assert "A second person" not in " ".join(reject), "one is enough to reject"
    assert reject[-3:] == (
        "unbook undoes book.",
        "pay stays: it cannot be undone.",
        f"The run ends as aborted. You can fork it from event {known.seq}.",
    )
    offered = {one.verb: one.short for one in consequences(doubt, with_undo)}
    assert offered["reject"].endswith("; runs 1 compensation"), "what stays has none"
    only = {
        one.verb: one.short for one in consequences(doubt, replace(known, undo=(PendingUndo("pay", "", "executed"),)))
    }
    assert "compensation" not in only["reject"]
    strict = replace(doubt, tier="high_stakes", verbs=("edit", "respond"))
    assert "A second person must approve your version first." in steps(strict, known, "edit")
    assert "A second person" not in " ".join(steps(strict, known, "respond", "A second person ..."))
    told = replace(strict, given={**strict.given, "edit": f"the branch runs once more; {SECOND_FIRST}"})
    assert "econd person must approve your" not in " ".join(steps(told, known, "edit")), "the review says it"


def test_money_is_never_below_nothing(actor, doubt):
    known = build_evidence(actor, doubt)
    written = replace(doubt, given={**doubt.given, "approve": "again: resumes at plan, -$0.60 and 2 replans left"})
    assert steps(written, known, "approve")[-1].startswith("Resumes at plan, no money and 2 replans left")
    (short,) = {one.short for one in consequences(written, known) if one.verb == "approve"}
    assert "-$" not in short


def test_where_a_run_cannot_be_folded_nothing_is_made_up(actor, doubt):
    known = replace(build_evidence(actor, doubt), folded=False)
    plain = replace(doubt, given={"approve": "the run continues with this result"})
    assert steps(plain, known, "approve")[1:] == ("The run continues with this result.",)
    whole = replace(doubt, given={"approve": "the run continues: resumes at finalize, $0.31 and 1 replan left"})
    assert steps(whole, known, "approve")[1:] == (
        "The run continues.",
        "Resumes at finalize, $0.31 and 1 replan left; its clock runs on.",
    )


# -- filters ---------------------------------------------------------------------------------------------------------


def test_every_tab_has_a_word_and_every_filter_is_one_of_the_queue():
    assert set(TABS) == set(Tab)
    assert {field.name for field in QUEUE.fields} <= set(QueueFilter.__dataclass_fields__)


def test_an_address_says_what_is_asked_for_and_comes_back():
    told = QUEUE.read({"text": "a & b", "fabric": "paying", "tier": "batch", "tab": "mine", "other": "x"})
    assert told.address() == "/reviews?tab=mine&text=a+%26+b&fabric=paying&tier=batch"
    assert told.read_filter() == QueueFilter(fabric="paying", tier="batch", text="a & b")
    assert [(chip.name, chip.value) for chip in told.chips] == [
        ("text", "a & b"),
        ("fabric", "paying"),
        ("tier", "long-running batch"),
    ]
    assert QUEUE.read({"fabric": "paying"}).chips[0].without == "/reviews"
    assert QUEUE.read({}).choice == Tab.YOURS
    with pytest.raises(Refused, match="'no' is not offered for 'tab'; offered are: yours"):
        QUEUE.read({"tab": "no"}).read_filter()


# -- what an edit is made of -----------------------------------------------------------------------------------------


def test_a_form_has_its_fields_in_the_order_of_who_declared_them(actor, paying, doubt):
    """A journal keeps its JSON with sorted keys."""
    payment = list_open_reviews(actor, ran(actor, paying).id)[0]
    assert list(find_schema(payment)["properties"]) == ["to", "usd"]
    for model in (Plan, Brief, Aggregate, Outcome):
        kept = json.loads(json.dumps(model.model_json_schema(), sort_keys=True))
        told = find_schema(replace(doubt, given={"edit_of": "payload", "edit_schema": kept}))
        assert list(told["properties"]) == list(model.model_fields)
        other = {**kept, "maxProperties": 1}
        assert find_schema(replace(doubt, given={"edit_of": "payload", "edit_schema": other})) == other


# -- claims ----------------------------------------------------------------------------------------------------------


def test_a_claim_stands_in_its_sentence_beside_the_nearest_source(actor, doubt):
    Attachment.objects.filter(run_id=doubt.run_id).update(
        text="Repair total: €18,740.00. Payable to the holder: €18,240.00. The weather was fine."
    )
    content = {
        "cause": "grounding",
        "payload": {"text": "Hello. We propose to pay the holder €18,420.00 now. Goodbye."},
        "problems": ["text: €18,420.00 is in no source and no tool's answer, and follows from no stated formula"],
    }
    (claim,) = list_claims(replace(doubt, given=content))
    assert (claim.head, claim.mark, claim.tail) == ("We propose to pay the holder ", "€18,420.00", " now.")
    assert claim.source == "Payable to the holder: €18,240.00."
    assert claim.document == "notes.md"


@pytest.mark.parametrize(
    "change", [{"cause": "below_tau"}, {"payload": {"text": 3}}, {"payload": None}, {"problems": []}]
)
def test_what_is_no_claim(doubt, change):
    content = {"cause": "grounding", "payload": {"text": "Pay 4."}, "problems": ["text: 4 is in no source and so on"]}
    assert len(list_claims(replace(doubt, given=content))) == 1
    assert list_claims(replace(doubt, given={**content, **change})) == []


def test_a_page_costs_few_statements(browser, doubt, django_assert_max_num_queries):
    browser.get(f"/reviews/{doubt.id}")
    # The frame, the review with its answers, its run folded, the decision and the events before it, its history, its hands, who was told, its comments and snooze, and the queue beside it.
    with django_assert_max_num_queries(36):
        browser.get(f"/reviews/{doubt.id}")
