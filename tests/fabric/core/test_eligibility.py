"""Who may answer: the tables of roles are total, and the one rule says yes and no where it should."""

from itertools import product

import pytest

from fabric.core.agreeing import not_theirs
from fabric.core.eligibility import PROGRAM, Asked, Person, is_asked, problem, wanted
from fabric.core.events import EscalationOpened
from fabric.core.flow import Stage
from fabric.core.frozen import replace as changed
from fabric.core.inputs import DecisionMade
from fabric.core.roles import MEANS, PEOPLE_ONLY, RIGHTS, Right, Role, has, held_in, written
from fabric.core.run import OpenQuestion

REVIEW = Asked(required_role="reviewer")
ANN = Person(name="ann", roles=frozenset({"reviewer"}))


def test_every_right_and_role_stands_in_the_tables():
    assert set(RIGHTS) == set(Right)
    assert set(MEANS) == set(Role)
    assert all(roles <= set(Role) for roles in RIGHTS.values())
    assert set(Role) > PEOPLE_ONLY


def test_somebody_has_a_right_by_one_role_of_several():
    for role, right in product(Role, Right):
        assert has({role.value}, right) is (role in RIGHTS[right]), (role, right)
        assert has({role.value, "of-our-own"}, right) is (role in RIGHTS[right]), (role, right)
        assert not has({"of-our-own"}, right), right


def test_roles_in_a_row_come_back():
    assert held_in(written({"safety", "owner", "on-call"})) == {"safety", "owner", "on-call"}
    assert held_in("") == frozenset()


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (REVIEW, ("reviewer",)),
        (Asked(required_role=""), ("reviewer",)),
        (changed(REVIEW, reviewers=("bea", "on-call")), ("bea", "on-call")),
        (Asked(required_role="finance", reviewers=("bea",)), ("finance",)),
        (changed(REVIEW, onward_to=("owner",)), ("reviewer",)),
        (changed(REVIEW, onward_to=("owner", "reviewer"), onward=True), ("reviewer", "owner")),
    ],
)
def test_those_who_are_asked(asked, names):
    assert wanted(asked) == names
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
        (changed(REVIEW, barred=("ann",)), ANN, "it is their own, and somebody else has to agree", ("reject",)),
        (changed(REVIEW, proposed_by="ann"), ANN, "it is their own, and somebody else has to agree", ("edit", "reject")),
        (changed(REVIEW, approved=("ann",)), ANN, "it takes a second person", ("edit", "reject")),
        (changed(REVIEW, releases=True), ANN, "letting an unsafe output pass is for safety", ("edit", "respond", "reject")),
    ],
)  # fmt: skip
def test_what_somebody_may_say(asked, person, said, may, verb):
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
    fact = EscalationOpened(
        escalation_id="x",
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
    given = DecisionMade(input_id="i", escalation_id="x", verb="approve", actor="bot", digest="d")
    assert not_theirs(OpenQuestion(fact, 0), given, bot) == "bot is a program, and people answer this"
