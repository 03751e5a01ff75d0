"""A person is there for every cell that asks: the fabric's reviewers, and a user with each role that a cell names."""

from __future__ import annotations

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.http.transport import Gate
from fabric.services.actors import OWNER_ROLES, find_people
from fabric.services.errors import Refused
from fabric.services.fabrics.publication.protections.reviewers import too_few
from fabric.services.fabrics.publication.rules import publication_problems, publication_warnings
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import template_get
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.installation.facts import InstallationFacts
from tests.fabric.services.fabrics.publication.test_rules import cell, small, tool
from tests.fabric.services.world import SMALL, published_by_two
from tests.people import member

HIGH = {"tiers": {"default": "high_stakes", "allowed": ["high_stakes"]}}
EVERY_TIER = {"tiers": {"default": "batch", "allowed": [str(tier) for tier in Tier]}}
GUARDED = {"gates": {"guardrails": [{"rules": ["credentials"]}]}}
LEGAL = SMALL.replace(
    "reviewers:",
    "decision_table:\n  cost_overrun:\n    batch: {rungs: [{reaction: escalate, role: legal}]}\nreviewers:",
)


def told(held, **changes) -> list[tuple[str, str]]:
    where = InstallationFacts(Gate(), held=None if held is None else frozenset((*held, "owner")))
    return [(found.path, found.sentence) for found in publication_problems(small(**changes), where)]


def test_the_default_table_asks_for_two_roles_and_both_must_be_there():
    assert told({"finance", "safety"}, **HIGH) == []
    assert [path for path, _ in told({"safety"}, **HIGH)] == ["decision_table.cost_overrun.high_stakes"]
    ((path, sentence),) = told({"ann", "finance"}, **HIGH)
    assert path == "decision_table.unsafe_output.high_stakes"
    assert sentence == (
        "asks for 'safety' (the default table says so), but no member is or has that; "
        "give a member the role, or name an existing one in the cell: ann, finance, owner"
    )


def test_a_cell_that_no_run_reaches_asks_no_person():
    interactive = {"tiers": {"default": "interactive", "allowed": ["interactive"]}}
    own = cell("cost_overrun", "batch", {"reaction": "escalate", "role": "legal"})
    assert told((), **interactive) == []
    assert told((), **interactive, decision_table=own) == []


def test_without_known_members_nothing_is_asked_for():
    assert told(None, **EVERY_TIER) == []


@pytest.mark.parametrize("failure", FailureType)
@pytest.mark.parametrize("tier", Tier)
def test_a_cell_of_the_author_s_own_names_its_rung(failure, tier):
    rungs = ({"reaction": "retry", "times": 1}, {"reaction": "escalate", "role": "legal", "with": ["block"]})
    own = cell(failure, tier, *rungs)
    changes = {**EVERY_TIER, "decision_table": own}
    named = [one for one in told({"finance", "safety"}, **changes) if "legal" in one[1]]
    assert [path for path, _ in named] == [f"decision_table.{failure}.{tier}.rungs.1.role"]
    assert not [one for one in told({"finance", "safety", "legal"}, **changes) if "legal" in one[1]]


def test_a_user_may_be_named_in_place_of_a_role():
    own = cell("cost_overrun", "batch", {"reaction": "escalate", "role": "ann"})
    assert told({"ann", "finance", "safety"}, **EVERY_TIER, decision_table=own) == []


def test_who_may_let_an_output_pass_must_be_there_for_any_cell():
    own = cell("unsafe_output", "batch", {"reaction": "escalate", "role": "ann", "with": ["block"]})
    batch = {"tiers": {"default": "batch", "allowed": ["batch"]}, "decision_table": own}
    assert told({"ann"}, **batch, gates={"unguarded": "Its users ask for their own keys."}) == []
    assert told({"ann"}, **batch) == told({"ann"}, **batch, **GUARDED), "credentials are always looked for"
    ((path, sentence),) = told({"ann"}, **batch, **GUARDED)
    assert path == "decision_table.unsafe_output.batch"
    assert "only the role 'safety' can approve those" in sentence
    assert told({"ann", "safety"}, **batch, **GUARDED) == []


def test_of_many_people_a_few_are_named():
    held = [f"user-{n:02}" for n in range(10)]
    (_, sentence), _ = told(held, **HIGH)
    assert sentence.endswith(
        "owner, user-00, user-01, user-02, user-03, user-04, user-05, user-06, user-07, user-08 and 1 more"
    )
    (_, sentence), _ = told(held[:9], **HIGH)
    assert sentence.endswith("user-07, user-08")


def test_unknown_reviewers_are_refused(actor):
    unknown = SMALL.replace("reviewers: [owner]", "reviewers: [nobody-here, legal]")
    with pytest.raises(Refused, match="names 'nobody-here', 'legal', but no member is or has that, so no review"):
        fabric_publish(actor=actor, source=unknown)
    member("ann", "legal")
    published = fabric_publish(actor=actor, source=unknown)
    assert [said for said in published.warnings if "nobody-here" in said] == [
        "line 23, column 13, reviewers.0: 'nobody-here' is no member here and no role that a member has, so the others answer alone"
    ]


def test_an_edit_that_no_second_person_could_approve_is_warned_of(actor):
    high = f"{SMALL}tiers: {{default: high_stakes, allowed: [high_stakes]}}\n"
    alone = fabric_publish(actor=actor, source=high).warnings
    assert not [one for one in alone if "approve an edit" in one], "there is no one to name"
    member("ann", "reviewer")
    (said,) = [one for one in fabric_publish(actor=actor, source=high).warnings if "approve an edit" in one]
    assert "asks owner alone, and in tier high_stakes a second person has to approve an edit" in said
    two = high.replace("reviewers: [owner]", "reviewers: [reviewer]")
    assert not [one for one in fabric_publish(actor=actor, source=two).warnings if "approve an edit" in one]


def test_the_local_owner_has_every_role_of_the_default_table(actor):
    assert find_people(actor.workspace_id) == {"owner": OWNER_ROLES}
    assert fabric_publish(
        actor=actor, source=f"{SMALL}tiers: {{default: high_stakes, allowed: [high_stakes]}}\n"
    ).changed


def test_a_role_is_held_by_an_active_member_who_is_a_person(actor):
    with pytest.raises(Refused, match="asks for 'legal'"):
        fabric_publish(actor=actor, source=LEGAL)
    user = member("ann", "legal", is_active=False)
    with pytest.raises(Refused, match="asks for 'legal'"):
        fabric_publish(actor=actor, source=LEGAL)
    member("pipeline", "legal", service=True)
    with pytest.raises(Refused, match="asks for 'legal'"):
        fabric_publish(actor=actor, source=LEGAL)
    user.is_active = True
    user.save()
    assert fabric_publish(actor=actor, source=LEGAL).changed


def test_in_a_workspace_without_members_no_one_is_looked_for(stranger):
    assert find_people(stranger.workspace_id) is None


BUDGET = {"run_usd_micros": 1_000_000}
ANY = {"reviewers": ["reviewer"]}
FOUR = {**HIGH, **ANY, "policy": {"budget": BUDGET, "humans": {"four_eyes": ["high_stakes"]}}}


def agreed(people, **changes) -> list[tuple[str, str]]:
    held = {name: frozenset(roles) for name, roles in people.items()}
    where = InstallationFacts(Gate(), people=held)
    return [(found.path, found.sentence) for found in publication_problems(small(**changes), where)]


ALL_ROLES = ("reviewer", "finance", "safety")


def test_where_two_have_to_agree_there_are_two(actor):
    assert agreed({"ann": ALL_ROLES, "ben": ALL_ROLES, "owner": ALL_ROLES}, **FOUR) == []
    assert agreed({"owner": ALL_ROLES}, **HIGH) == [], "where one is enough"
    found = agreed({"owner": ALL_ROLES}, **FOUR)
    ((path, said),) = found
    assert path == "policy.humans.four_eyes"
    assert said.startswith("high-stakes needs two approvers, and only owner can answer ")
    assert "cost overrun (finance)" in said
    assert said.endswith("; invite a second person, or take the tier out of four_eyes")
    ((_, said),) = agreed({"owner": ALL_ROLES, "ann": ("reviewer", "finance")}, **FOUR, **GUARDED)
    assert "only owner can answer unsafe output (safety);" in said


CRITIC = {
    "agents": [
        *small().model_dump(mode="json", by_alias=True)["agents"],
        {"name": "judge", "model": "script", "instructions": "Judge."},
    ],
}
NO_CELL = {
    **FOUR,
    "decision_table": {
        failure: {"high_stakes": {"rungs": [{"reaction": "halt"}], "deviation": "Nobody is asked."}}
        for failure in FailureType
    },
}
BESIDE_CELLS = {
    "a critic's score below the needed score": {},
    "a call that the rule of read_document asks about": {"tools": [tool(approve_when="true")]},
    "a change by read_document with an unknown outcome": {
        "tools": [tool(effect="mutating", compensation="read_document")]
    },
    "what read_document asks": {"tools": [tool(kind="builtin", target="ask_person")]},
}


@pytest.mark.parametrize("what", BESIDE_CELLS)
def test_two_have_to_be_there_for_reviews_of_no_cell_too(what):
    given = {**NO_CELL, **BESIDE_CELLS[what]}
    fabric = small(**given)
    if "critic" in what:
        fabric = small(**{**given, **CRITIC})
        fabric = fabric.model_copy(update={"topology": fabric.topology.model_copy(update={"critic": "judge"})})
    held = {name: frozenset(ALL_ROLES) for name in ("owner", "ann")}
    assert list(too_few(fabric, held)) == []
    found = list(too_few(fabric, {"owner": held["owner"]}))
    who = f"high-stakes needs two approvers, and only owner can answer {what}"
    then = "invite a second person, or take the tier out of four_eyes"
    assert found == [("policy.humans.four_eyes", f"{who}; {then}")]
    assert list(too_few(small(**NO_CELL), {"owner": held["owner"]})) == [], "no person is asked anything"


def test_of_others_tiers_no_second_person_is_needed(actor):
    elsewhere = {**EVERY_TIER, **ANY, "policy": {"budget": BUDGET, "humans": {"four_eyes": ["batch"]}}}
    found = agreed({"owner": ALL_ROLES}, **elsewhere)
    assert found
    assert all(said.startswith("batch needs two approvers") for _, said in found)


def test_an_owner_who_is_alone_publishes_nothing_that_two_have_to_agree_to(actor):
    source = f"{SMALL}tiers: {{default: high_stakes, allowed: [high_stakes]}}\n".replace(
        "policy:\n", "policy:\n  humans: {four_eyes: [high_stakes]}\n"
    ).replace("reviewers: [owner]", "reviewers: [reviewer]")
    with pytest.raises(Refused, match="high-stakes needs two approvers"):
        fabric_publish(actor=actor, source=source)
    member("ann", *ALL_ROLES)
    with pytest.raises(
        Refused, match="second person"
    ):  # Two could agree to its runs now; to publishing it two have to.
        fabric_publish(actor=actor, source=source)
    assert published_by_two(actor, source).changed


def test_one_person_who_lets_calls_out_that_cannot_be_undone_is_a_warning():
    alone = [one.path for one in publication_warnings(template_get("payment-approval").spec)]
    assert "policy.humans.four_eyes" not in alone, "two people approve there"
    single = "one person alone approves calls of pay, which cannot be undone"
    text = template_get("payment-approval").text.replace("four_eyes: [high_stakes]", "four_eyes: []")
    found = publication_warnings(fabric_read(text).spec)
    assert [one.path for one in found if one.sentence.startswith(single)] == ["policy.humans.four_eyes"]
    batch = text.replace("default: high_stakes", "default: batch").replace("allowed: [high_stakes]", "allowed: [batch]")
    assert not [one for one in publication_warnings(fabric_read(batch).spec) if one.sentence.startswith(single)]


def test_the_role_for_passed_deadlines_must_be_there_too():
    late = {**HIGH, "policy": {"budget": {"run_usd_micros": 1_000_000}, "humans": {"time_role": "operator"}}}
    ((path, sentence),) = told({"finance", "safety"}, **late)
    assert path == "policy.humans.time_role"
    assert sentence.startswith("asks for 'operator', but no member is or has that")
    assert told({"finance", "safety", "operator"}, **late) == []
