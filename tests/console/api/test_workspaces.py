"""The workspace's policy over the API."""

from fabric.core.workspace_policy.rules import RULES

POLICY = "/api/v1/policy"
GIVEN = {"hosts": ["*.example.com"], "keys": {"https://api.openai.com:443": {"day_usd_micros": 5}}}


def test_it_is_read_and_set_over_the_version_that_stands(program):
    nothing = program.get(POLICY).json()
    assert (nothing["number"], nothing["policy"], nothing["set_at"]) == (0, {}, None)
    assert [one["field"] for one in nothing["rules"]] == [rule.field for rule in RULES]
    told = program.post(POLICY, {"policy": GIVEN, "expect": 0})
    assert told.status_code == 200, told.content
    assert (told.json()["number"], told.json()["policy"]) == (1, GIVEN)
    assert [(one["period"], one["cap_usd_micros"], one["spent_usd_micros"]) for one in told.json()["keys"]] == [
        ("day", 5, 0)
    ]
    again = program.post(POLICY, {"policy": {}, "expect": 0})
    assert (again.status_code, program.get(POLICY).json()["number"]) == (409, 1)


def test_what_means_nothing_is_refused_with_its_field(program):
    answer = program.post(POLICY, {"policy": {"hosts": ["a/b"]}, "expect": 0})
    assert answer.status_code == 422
    assert "hosts.0" in answer.content.decode()
