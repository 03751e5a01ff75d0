"""A fabric whose retries share no bucket says why, and that is shown as a deviation."""

from fabric.services.publication import deviations
from tests.fabric.services.test_publication import policy, small, told


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
