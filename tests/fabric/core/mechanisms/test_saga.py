"""The idempotency key is the engine's, and nothing mutates without a registered way back (docs/specification/changes.md)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.mechanisms import saga
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.taxonomy import PASS, Cause
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import STEP, at, issued


def key(args, *, state=None, run="run-1", step=STEP, target="look"):
    return saga.key(state or saga.State(), run, step, target, fingerprint(args))


def called(args, state=None, **fields):
    fact = issued(call="tool", target="look", args_hash=fingerprint(args), **fields)
    return saga.observe(state or saga.State(), at(fact))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 1}, {"n": 1.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"name": "Caf\u00e9"}, {"name": "Cafe\u0301"}),
        ({"Caf\u00e9": 1}, {"Cafe\u0301": 1}),
        ({"deep": [{"x": 2.0}]}, {"deep": [{"x": 2}]}),
        ({"n": -0.0}, {"n": 0}),
    ],
)
def test_equal_arguments_have_one_key(one, other):
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"q": None}),
        ({"n": 1}, {"n": "1"}),
        ({"n": 1}, {"n": True}),
        ({"n": 1}, {"n": 1.5}),
        ({"page": 1}, {"page": 2}),
        ({"list": [1, 2]}, {"list": [2, 1]}),
        ({"q": ""}, {"q": " "}),
        ({"day": "2024-01-01"}, {"day": "2024-01-02"}),
    ],
)
def test_other_arguments_have_another(one, other):
    assert key(one) != key(other)


def test_the_key_names_run_step_epoch_and_target():
    keys = {
        key({}),
        key({}, run="run-2"),
        key({}, step="fan_out.1.e0.r0"),
        key({}, step="fan_out.0.e1.r0"),
        key({}, step="fan_out.0.e0.r1"),
        key({}, target="find"),
    }
    assert len(keys) == 6


def test_a_legitimate_second_call_has_a_key_of_its_own():
    state = called({"q": "x"})
    assert key({"q": "x"}, state=state) != key({"q": "x"})
    assert key({"q": "y"}, state=state) == key({"q": "y"})


def test_a_retry_is_the_same_call():
    state = called({"q": "x"})
    assert called({"q": "x"}, state, attempt=2) == state


@given(
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.booleans() | st.none(), max_size=5)
)
def test_the_order_of_keys_never_matters(args):
    assert key(args) == key(dict(reversed(args.items())))


def test_a_mutation_without_a_compensation_is_refused_before_it_is_executed():
    verdict = saga.check(saga.Config(), saga.State(), proposal(target="pay", effect="mutating"), view())
    assert (verdict.cause, verdict.evidence.details) == (Cause.POLICY_DENIED, {"effect": "mutating"})
    assert verdict.message == "tool pay changes the world and has no registered compensation, so it was not executed"


@pytest.mark.parametrize("effect", ["mutating", "irreversible"])
def test_what_may_have_been_executed_is_not_sent_again(effect):
    asked = proposal(target="pay", effect=effect, compensated=True, in_doubt=True)
    verdict = saga.check(saga.Config(), saga.State(), asked, view())
    assert (verdict.cause, verdict.evidence.scope) == (Cause.OUTCOME_UNKNOWN, "tool:pay")
    assert "it is unknown whether pay was executed" in verdict.message


@pytest.mark.parametrize(
    "fields",
    [
        {"effect": "read_only"},
        {"effect": "idempotent", "in_doubt": True},
        {"effect": "mutating", "compensated": True},
        {"effect": "irreversible"},
    ],
)
def test_what_changes_nothing_or_can_be_undone_or_has_its_persons_word_passes(fields):
    assert saga.check(saga.Config(), saga.State(), proposal(**fields), view()) is PASS
