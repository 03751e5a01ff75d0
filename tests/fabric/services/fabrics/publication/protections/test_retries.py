"""A fabric whose retries share no bucket says why, and that is shown as a deviation."""

from fabric.services.fabrics.publication.rules import deviations
from tests.fabric.services.fabrics.publication.test_rules import policy, small, told


def test_retries_that_share_no_bucket_need_a_reason_and_are_told_as_a_deviation():
    alone = small(policy=policy(retry={"shared": False}))
    [(path, sentence)] = told(alone)
    assert path == "policy.retry.shared"
    assert "leave `shared` out, or give `retry` a `deviation` with the reason" in sentence
    said = small(policy=policy(retry={"shared": False, "deviation": "Its provider is its own."}))
    assert told(said) == []
    assert [(one.path, one.reason) for one in deviations(said)] == [("policy.retry.shared", "Its provider is its own.")]
    idle = small(policy=policy(retry={"deviation": "None."}))
    assert [path for path, _ in told(idle)] == ["policy.retry.deviation"]
    assert deviations(idle) == []


def test_a_fabric_without_a_circuit_breaker_says_why():
    alone = small(policy=policy(breakers=[]))
    [(path, sentence)] = told(alone)
    assert (path, "or give `policy` a `breakers_deviation` with the reason" in sentence) == ("policy.breakers", True)
    said = small(policy=policy(breakers=[], breakers_deviation="A gateway does it."))
    assert told(said) == []
    assert [(one.path, one.reason) for one in deviations(said)] == [("policy.breakers", "A gateway does it.")]
    assert [path for path, _ in told(small(policy=policy(breakers_deviation="None.")))] == ["policy.breakers_deviation"]


def test_a_bucket_that_has_no_effect_is_refused_and_more_retries_than_a_fifth_say_why():
    [(path, sentence)] = told(small(policy=policy(retry={"bucket": 40})))
    assert (path, "which holds 10; give 10 or less" in sentence) == ("policy.retry.bucket", True)
    [(path, sentence)] = told(small(policy=policy(retry={"earn": 1.0})))
    assert (path, "may be 100% of the first attempts" in sentence) == ("policy.retry.earn", True)
    apart = small(policy=policy(retry={"bucket": 40, "earn": 0.5, "shared": False, "deviation": "Its own endpoint."}))
    assert told(apart) == []
    assert [one.path for one in deviations(apart)] == ["policy.retry.shared", "policy.retry.earn"]
