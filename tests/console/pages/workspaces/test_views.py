"""The page of the workspace's policy: what it shows, what it takes, and that nothing has to be typed again."""

import pytest

from fabric.models import AuditLine
from fabric.selectors.workspaces.policies import standing_policy

PAGE = "/workspaces/policy"
GIVEN = {
    "expect": "0",
    "irreversible": "http:pay.example.com/*\r\n\r\ncallable:refund",
    "hosts": "*.example.com",
    "waivers": "four_eyes",
    "four_eyes": ["high_stakes", "batch"],
    "protections": ["credentials"],
    "run_usd": "12.50",
    "tier_batch": "3",
    "limit_turns": "40",
    "keys": "https://api.openai.com 20/day 300.5/month",
}
READ = {
    "irreversible": ["http:pay.example.com/*", "callable:refund"],
    "hosts": ["*.example.com"],
    "waivers": "four_eyes",
    "four_eyes": ["batch", "high_stakes"],
    "protections": ["credentials"],
    "caps": {"run_usd_micros": 12_500_000, "tiers": {"batch": 3_000_000}},
    "limits": {"turns": 40},
    "keys": {"https://api.openai.com:443": {"day_usd_micros": 20_000_000, "month_usd_micros": 300_500_000}},
}


def stands(actor):
    return standing_policy(actor.workspace_id).policy.model_dump(mode="json", exclude_defaults=True)


def test_an_owner_sets_it_and_sees_it_as_it_was_set(browser, actor):
    assert "No policy is set" in browser.get(PAGE).content.decode()
    assert browser.post(PAGE, GIVEN).status_code == 302
    assert stands(actor) == READ
    page = browser.get(PAGE).content.decode()
    assert "Version 1 of the policy is in force" in page
    for text in (
        "http:pay.example.com/*\ncallable:refund",
        "https://api.openai.com:443 20.00/day 300.50/month",
        "12.50",
    ):
        assert text in page
    assert "$0 of $20" in page
    assert "$0 of $20" in browser.get("/models").content.decode()
    assert browser.post(PAGE, GIVEN | {"expect": "1"}).status_code == 302, "the same again changes nothing"
    assert AuditLine.objects.filter(kind="policy_set").count() == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"run_usd": "a lot"}, "Money of a run: &#x27;a lot&#x27; cannot be read. Give an amount of dollars"),
        ({"limit_turns": "-1"}, "is too large or below zero"),
        ({"keys": "https://api.openai.com"}, "has no cap"),
        ({"keys": "https://api.openai.com 20/week"}, "is no cap"),
        ({"hosts": "a/b"}, "Hosts.0"),
        ({"irreversible": "pay"}, "is no pattern of a tool"),
        ({"expect": "x"}, "The form was incomplete"),
    ],
)
def test_what_cannot_be_taken_is_said_and_stands_in_the_form(browser, actor, wrong, said):
    answer = browser.post(PAGE, GIVEN | wrong)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert said in page
    assert "*.example.com" in page or "hosts" in wrong
    assert stands(actor) == {}


def test_who_comes_second_is_told(browser, actor):
    browser.post(PAGE, GIVEN)
    answer = browser.post(PAGE, GIVEN | {"run_usd": "1"})
    assert (answer.status_code, stands(actor)) == (409, READ)
    assert "Version 1 of the policy is in force" in answer.content.decode()
