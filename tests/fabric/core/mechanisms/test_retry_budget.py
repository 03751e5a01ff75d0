"""Retries are a share of first attempts, whatever fails (docs/specification/retries.md)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.mechanisms import retry_budget
from fabric.core.spec.policies.limits import Retry
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import PASS, Cause
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import at, issued, retried

CONFIG = Retry()
S = 1_000_000


class Bucket:
    """The mechanism as the engine uses it: ask, and when it passes schedule the retry with what it leaves."""

    def __init__(self, config: Retry = CONFIG) -> None:
        self.config, self.state, self.now = config, retry_budget.State(), 10 * S

    def first(self, times: int = 1) -> Bucket:
        for _ in range(times):
            self.state = retry_budget.observe(self.state, at(issued()))
        return self

    def ask(self, stage: Stage = Stage.FAN_OUT):
        return retry_budget.check(self.config, self.state, proposal(kind="retry", stage=stage), view(now=self.now))

    def retry(self, stage: Stage = Stage.FAN_OUT) -> bool:
        if self.ask(stage) is not PASS:
            return False
        left = retry_budget.balance(self.config, self.state) - retry_budget.UNITS
        self.state = retry_budget.observe(self.state, at(retried(left, f"{stage}.0.e0.r0.t1"), self.now))
        return True

    @property
    def level(self) -> float:
        return retry_budget.balance(self.config, self.state) / retry_budget.UNITS


def test_the_defaults_are_those_of_the_document():
    assert (CONFIG.bucket, CONFIG.earn, CONFIG.base_s, CONFIG.factor, CONFIG.cap_s) == (10, 0.1, 1.0, 2.0, 60.0)


def test_the_bucket_starts_full_and_holds_ten():
    bucket = Bucket()
    assert bucket.level == 10
    assert [bucket.retry() for _ in range(11)] == [True] * 10 + [False]
    assert bucket.level == 0


def test_a_denial_names_the_bucket_and_is_deterministic():
    bucket = Bucket()
    while bucket.retry():
        pass
    assert bucket.ask() == bucket.ask()
    verdict = bucket.ask()
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (Cause.RETRY_BUDGET_EMPTY, 10, 0.0)


def test_ten_first_attempts_earn_one_retry_and_nine_do_not():
    bucket = Bucket()
    while bucket.retry():
        pass
    assert not bucket.first(9).retry()
    assert bucket.first(1).retry()
    assert not bucket.retry()


def test_it_never_holds_more_than_its_size():
    assert Bucket().first(1_000).level == 10


def test_a_retry_is_no_first_attempt():
    state = retry_budget.State(level=0)
    assert retry_budget.observe(state, at(issued(attempt=2))) == state


def empty(bucket: Bucket, stage: Stage = Stage.PLAN) -> Bucket:
    while bucket.retry(stage):
        pass
    return bucket


def test_a_run_that_has_not_retried_in_this_stage_takes_one_on_credit():
    bucket = empty(Bucket())
    assert not bucket.retry(Stage.PLAN)
    bucket.now += S
    assert bucket.retry(Stage.FAN_OUT)
    assert bucket.level == -1
    bucket.now += S
    assert not bucket.retry(Stage.FAN_OUT), "one a stage"


def test_credit_is_given_once_a_second_at_most():
    bucket = empty(Bucket())
    bucket.now += S - 1
    assert not bucket.retry(Stage.FAN_OUT)
    bucket.now += 1
    assert bucket.retry(Stage.FAN_OUT)


def test_going_back_to_a_stage_renews_no_credit():
    bucket, taken = empty(Bucket()), []
    for stage in (Stage.FAN_OUT, Stage.PLAN, Stage.FAN_OUT, Stage.PLAN):
        bucket.now += S
        taken.append(bucket.retry(stage))
    assert taken == [True, False, False, False]


def test_credit_ends_at_minus_ten():
    config = Retry(bucket=2)
    bucket = empty(Bucket(config))
    taken = []
    for stage in (Stage.FAN_OUT, Stage.FAN_IN, Stage.VALIDATE, Stage.FINALIZE):
        bucket.now += S
        taken.append(bucket.retry(stage))
    assert taken == [True, True, False, False]
    assert bucket.level == -2


@pytest.mark.parametrize("earn", [0.0, 0.1, 0.25, 1.0])
@given(data=st.data())
def test_retries_never_pass_twenty_and_a_share_of_first_attempts(earn, data):
    bucket = Bucket(Retry(earn=earn))
    firsts = retries = 0
    for act, stage, wait in data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["first", "retry", "retry"]), st.sampled_from(list(Stage)), st.integers(0, 2 * S)
            ),
            max_size=120,
        )
    ):
        bucket.now += wait
        if act == "first":
            bucket.first()
            firsts += 1
        else:
            retries += bucket.retry(stage)
        assert retries <= 20 + earn * firsts + 1e-9
        assert bucket.level >= -10
