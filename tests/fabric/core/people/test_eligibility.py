"""The tables of roles are total, and the one rule says yes and no about an answerer where it should."""

from itertools import product

import pytest

from fabric.core.events import ReviewOpened
from fabric.core.events.inputs import DecisionMade
from fabric.core.people.eligibility import PROGRAM, Person, ReviewAsked, is_asked, list_reviewers, problem
from fabric.core.people.roles import MEANS, PEOPLE_ONLY, RIGHTS, Right, Role, has, held_in, write_roles
from fabric.core.reviews.agreement import not_theirs
from fabric.core.state.run import OpenReview
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace as changed

REVIEW = ReviewAsked(required_role="reviewer")
ANN = Person(name="ann", roles=frozenset({"reviewer"}))


def test_every_right_and_role_stands_in_the_tables():
    assert set(RIGHTS) == set(Right)
    assert set(MEANS) == set(Role)
    assert all(roles <= set(Role) for roles in RIGHTS.values())
    assert set(Role) > PEOPLE_ONLY


def test_a_member_has_a_right_by_one_role_of_several():
    for role, right in product(Role, Right):
        assert has({role.value}, right) is (role in RIGHTS[right]), (role, right)
        assert has({role.value, "of-our-own"}, right) is (role in RIGHTS[right]), (role, right)
        assert not has({"of-our-own"}, right), right


def test_roles_in_a_row_come_back():
    assert held_in(write_roles({"safety", "owner", "on-call"})) == {"safety", "owner", "on-call"}
    assert held_in("") == frozenset()


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (REVIEW, ("reviewer",)),
        (ReviewAsked(required_role=""), ("reviewer",)),
        (changed(REVIEW, reviewers=("bea", "on-call")), ("bea", "on-call")),
        (ReviewAsked(required_role="finance", reviewers=("bea",)), ("finance",)),
        (changed(REVIEW, onward_to=("owner",)), ("reviewer",)),
        (changed(REVIEW, onward_to=("owner", "reviewer"), onward=True), ("reviewer", "owner")),
    ],
)
def test_those_who_are_asked(asked, names):
    assert list_reviewers(asked) == names
    assert is_asked(asked, Person(name="x", roles=frozenset(names[:1])))
    assert is_asked(asked, Person(name=names[-1], roles=frozenset()))
    assert not is_asked(asked, Person(name="x", roles=frozenset({"editor", "viewer"})))
    assert not is_asked(asked, Person(name="x", roles=frozenset(names), member=False))


APPROVALS = ("approve", "edit", "respond")


@pytest.mark.parametrize("verb", [*APPROVALS, "reject"])
@pytest.mark.parametrize(
    ("asked", "person", "said", "may"),
    [
        (REVIEW, ANN, "", (*APPROVALS, "reject")),
        (REVIEW, changed(ANN, member=False), "ann is no member of this workspace (any more)", ()),
        (REVIEW, changed(ANN, roles=frozenset({"viewer"})), "ann is not asked: this is for reviewer", ()),
        (changed(REVIEW, barred=("ann",)), ANN, "it is their own, so a second person must approve", ("reject",)),
        (changed(REVIEW, proposed_by="ann"), ANN, "it is their own, so a second person must approve", ("edit", "reject")),
        (changed(REVIEW, approved=("ann",)), ANN, "it takes a second person", ("edit", "reject")),
        (changed(REVIEW, releases=True), ANN, "letting an unsafe output pass is for safety", ("edit", "respond", "reject")),
    ],
)  # fmt: skip
def test_answers_of_a_reviewer(asked, person, said, may, verb):
    found = problem(asked, person, verb)
    assert (found == "") is (verb in may)
    assert said in found or verb in may


def test_new_caps_are_for_finance_and_a_release_for_safety():
    assert (
        problem(REVIEW, ANN, "approve", caps=True) == "ann may answer this and not name a new cap: that is for finance"
    )
    both = changed(ANN, roles=frozenset({"reviewer", "finance", "safety"}))
    assert problem(changed(REVIEW, releases=True), both, "approve", caps=True) == ""


def test_a_program_that_answers_about_a_quarantined_run_is_told_that_people_do():
    fact = ReviewOpened(
        review_id="x",
        item="quarantine",
        reason="damaged",
        failure_type=None,
        stage=Stage.PLAN,
        step_id="",
        scope="run",
        required_role="reviewer",
        verbs=("approve",),
        digest="d",
        remind_at=0,
        onward_at=0,
        due_at=1,
    )
    bot = Person(name="bot", roles=frozenset({PROGRAM, "reviewer"}))
    given = DecisionMade(input_id="i", review_id="x", verb="approve", actor="bot", digest="d")
    assert not_theirs(OpenReview(fact, 0), given, bot) == "bot is a program, and people answer this"
