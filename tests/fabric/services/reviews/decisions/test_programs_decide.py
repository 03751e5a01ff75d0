"""A program answers reviews: the kinds and fabrics that an owner named for its account, and never in the place of a person who is demanded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.people.eligibility import Person, ReviewAsked, is_asked, problem, why_people
from fabric.core.values.taxonomy import Tier
from fabric.management.run_follower import Following
from fabric.models import AuditLine, Review, Run
from fabric.selectors.reviews.eligibility import may_answer
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.reviews.queue import Tab, queue_page
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.people.members import member_roles_set, roles_checked, service_create
from fabric.services.people.tokens import token_create, token_use
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import PAYING, ran
from tests.people import fresh, member

NAME = "approver"


@pytest.fixture
def item(actor):
    source = PAYING.replace("reviewers: [owner]\n", "reviewers: [reviewer, owner]\n")
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=source).name, documents=()).id)
    return found


@pytest.fixture
def program(actor, item):
    """An account that answers the calls of this fabric, as its token lets it in."""
    service_create(actor=actor, name=NAME, roles=("viewer", f"decides:{item.fabric_name}:pre_action"))
    made = token_create(actor=actor, name="bot", user=NAME, scopes=("read", "decide"))
    return token_use(made.secret).actor


@pytest.fixture
def decide(store, nudge, item):
    def decided(actor, verb="approve", **changes):
        asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id, "verb": verb}
        return decide_review(**asked, digest=item.digest, **changes)

    return decided


def to_rest(actor, item):
    return Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()


def test_a_program_approves_what_an_owner_named_for_it(decide, actor, item, program):
    assert decide(program).created
    to_rest(actor, item)
    issued = [row.fact for row in run_events(actor, item.run_id, limit=500) if row.kind == "call_issued"]
    assert "pay" in {fact["target"] for fact in issued}, "it is made, although no server is at its address"
    (decided,) = [row.fact for row in run_events(actor, item.run_id, limit=500) if row.kind == "review_decided"]
    assert (decided["actor"], decided["system"]) == (NAME, False)
    assert "decides" in decided["roles"], "the journal says that it was a program"
    assert get_review(actor, item.id).decided_by == NAME
    assert AuditLine.objects.filter(actor=NAME).exists()


@pytest.mark.parametrize("verb", ["decline", "reject", "respond"])
def test_it_gives_the_other_answers_too(decide, actor, item, program, verb):
    assert decide(program, verb, message="Not by rule 7.").created
    to_rest(actor, item)
    assert get_review(actor, item.id).verb == verb


def test_who_declines_says_why_at_once(decide, item, program):
    with pytest.raises(Refused) as refused:
        decide(program, "decline")
    assert "write in the message why the call is not made" in str(refused.value.message)


def test_it_sees_in_its_queue_what_is_its_to_answer(program, item):
    assert [row.review.id for row in queue_page(program, Tab.UNCLAIMED).rows] == [item.id]


@pytest.mark.parametrize(
    "columns",
    [
        {"required_role": "legal", "asked": "\nlegal\n"},
        {"asked": "\nanna\n", "onward": True, "onward_to": "\nreviewer\n"},
    ],
)
def test_its_queue_has_what_it_may_answer_and_nothing_else(decide, actor, program, item, columns):
    member_roles_set(actor=actor, name=NAME, roles=(*program.roles, "legal"))
    held = replace(program, roles=program.roles | {"legal"})
    Review.objects.filter(id=item.id).update(**columns)
    listed = [row.review.id for row in queue_page(held, Tab.UNCLAIMED).rows]
    assert listed == ([item.id] if may_answer(get_review(actor, item.id), held) else [])


UNNAMED = [("viewer",), ("viewer", "decides:another:pre_action"), ("viewer", "decides:paying:failure")]


@pytest.mark.parametrize("roles", UNNAMED)
def test_its_queue_is_empty_where_no_owner_named_what_waits(program, item, roles):
    assert queue_page(replace(program, roles=frozenset(roles)), Tab.UNCLAIMED).rows == ()


@pytest.mark.parametrize("demanded", ["two people", "people in high-stakes"])
def test_its_queue_leaves_to_people_what_is_theirs(program, item, demanded):
    if demanded == "two people":
        Review.objects.filter(id=item.id).update(approvals=2)
    else:
        Run.objects.filter(id=item.run_id).update(tier=Tier.HIGH_STAKES)
    assert not may_answer(get_review(program, item.id), program)
    assert queue_page(program, Tab.UNCLAIMED).rows == ()


@pytest.mark.parametrize("roles", UNNAMED)
def test_what_no_owner_named_it_does_not_answer(decide, actor, item, program, roles):
    member_roles_set(actor=actor, name=NAME, roles=roles)
    held = type(program)(**{**{f: getattr(program, f) for f in program.__slots__}, "roles": frozenset(roles)})
    with pytest.raises(Refused) as refused:
        decide(held)
    assert refused.value.code == "forbidden"
    assert item.open


def test_a_right_that_is_taken_away_between_sending_and_taking_counts_for_nothing(decide, actor, item, program):
    """The run asks again what the program holds when it takes the answer."""
    decide(program)
    member_roles_set(actor=actor, name=NAME, roles=("viewer",))
    to_rest(actor, item)
    assert get_review(actor, item.id).open
    ignored = [row.fact for row in run_events(actor, item.run_id, limit=500) if row.kind == "input_ignored"]
    assert "no owner has named this kind of review" in ignored[0]["reason"]


@pytest.mark.parametrize(("column", "names"), [("barred", "\n{}\n"), ("agreed", "\n{}\n"), ("proposed_by", "{}")])
def test_it_lets_nothing_pass_that_the_maker_of_its_token_may_not(decide, actor, item, program, column, names):
    member("ben", "reviewer")  # Who is alone there may let pass what is their own, and so may their program.
    # Each column alone: the starter of the run is barred anyway.
    Review.objects.filter(id=item.id).update(**{"barred": "", column: names.format(actor.name)})
    with pytest.raises(Refused) as refused:
        decide(program)
    assert "made its token, and may not approve it either" in str(refused.value.message)
    assert decide(program, "decline", message="No.").created, "stopping is no own act"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"approvals": 2}, "two people have to agree"),
        ({"required_role": "finance", "asked": "\nfinance\n"}, "this is for finance"),
    ],
)
def test_where_people_are_demanded_no_program_answers(decide, item, program, columns, said):
    Review.objects.filter(id=item.id).update(**columns)
    with pytest.raises(Refused) as refused:
        decide(program)
    assert said in str(refused.value.message)


def test_the_run_itself_leaves_to_people_what_is_theirs(actor, store):
    """An answer that came past every other check."""
    tiers = "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n"
    source = PAYING.replace("reviewers: [owner]\n", "reviewers: [reviewer, owner]\n").replace("topology:\n", tiers)
    (item,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=source).name, documents=()).id)
    service_create(actor=actor, name=NAME, roles=("viewer", f"decides:{item.fabric_name}:pre_action"))
    given = DecisionMade(input_id="answer", review_id=item.id, verb="approve", actor=NAME, digest=item.digest)
    store.put_input(item.run_id, "answer", INBOX.dump_json(given))
    to_rest(actor, item)
    (ignored,) = [row.fact for row in run_events(actor, item.run_id, limit=500) if row.kind == "input_ignored"]
    assert "is a program, and in high-stakes people decide" in ignored["reason"]
    assert get_review(actor, item.id).open


def test_only_who_gives_roles_makes_a_token_that_decides(actor, item, program):
    with pytest.raises(Refused) as refused:
        token_create(actor=fresh(member("ben", "reviewer")), name="bens", user=NAME, scopes=("decide",))
    assert (refused.value.code, "make tokens of programs" in str(refused.value.message)) == ("forbidden", True)
    with pytest.raises(Refused, match="only ben can make tokens") as refused:
        token_create(actor=actor, name="bens", user="ben", scopes=("decide",))
    assert refused.value.code == "forbidden"


def test_the_core_asks_the_same():
    bot = Person(name=NAME, roles=frozenset({"decides", "decides:payments:pre_action"}))
    asked = ReviewAsked(required_role="reviewer", fabric="payments", item="pre_action")
    assert is_asked(asked, bot)
    assert problem(asked, bot, "approve") == ""
    for tier, approvals, role, releases in (
        (Tier.HIGH_STAKES, 1, "reviewer", False),
        (Tier.BATCH, 2, "reviewer", False),
        (Tier.BATCH, 1, "safety", False),
        (Tier.BATCH, 1, "reviewer", True),
    ):
        people = why_people(tier, approvals, role, releases=releases)
        assert people
        other = ReviewAsked(required_role=role, fabric="payments", item="pre_action", for_people=people)
        assert people in problem(other, bot, "approve")
    named = ReviewAsked(required_role="reviewer", reviewers=("ann",), fabric="payments", item="pre_action")
    assert not is_asked(named, bot), "where the fabric names its reviewers, the program has to be one of them"
    general = ReviewAsked(required_role="reviewer", fabric="", item="pre_action")
    assert not is_asked(general, bot)


@pytest.mark.parametrize("role", ["decides", "decides:payments:quarantine", "decides:payments", "decides:*:pre_action"])
def test_what_is_no_such_role(role):
    with pytest.raises(Refused):
        roles_checked((role,), service=True)


def test_people_have_no_such_role():
    with pytest.raises(Refused):
        roles_checked(("decides:payments:pre_action",))


def test_a_token_that_decides_needs_something_to_decide(actor, item):
    service_create(actor=actor, name="looker", roles=("viewer",))
    with pytest.raises(Refused) as refused:
        token_create(actor=actor, name="bot", user="looker", scopes=("decide",))
    assert "decides nothing" in str(refused.value.message)


def test_a_program_makes_no_token_since_its_maker_would_be_unknown(actor, item, program):
    made = token_create(actor=actor, name="managing", user=NAME, scopes=("decide", "manage"))
    itself = token_use(made.secret).actor
    for scope in ("decide", "read"):
        with pytest.raises(Refused, match="a token cannot make tokens") as refused:
            token_create(actor=itself, name="second", user=NAME, scopes=(scope,))
        assert refused.value.code == "forbidden"
