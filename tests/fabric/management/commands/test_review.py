"""`review`: the queue at the machine."""

from dataclasses import replace

import pytest

from fabric.models import FollowUpClosure, Review, ReviewAssignment, Run
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.reviews.assignments import review_claim
from tests.fabric.management.console import command
from tests.fabric.services.world import ran
from tests.people import member


@pytest.fixture
def item(actor, doubtful):
    ran(actor, doubtful)
    return list_open_reviews(actor)[0]


@pytest.fixture
def ana(actor):
    member("ana", "owner", "reviewer")
    return replace(actor, name="ana")


@pytest.fixture
def follow_up(item):
    Review.objects.update(item="follow_up", verbs="respond", decided_at=9, by_system=True)
    Run.objects.update(state="aborted")
    return item


def test_there_is_nothing(actor):
    assert command("review", "list").out == "There is nothing here.\n"
    assert command("review", "next").out == "No unclaimed review is open.\n"
    assert command("review", "next", "--json").last == {"item": None}


def test_the_list_says_who_has_what(item, ana):
    review_claim(actor=ana, review_id=item.id)
    (line,) = command("review", "list").out.splitlines()
    assert line.startswith(f"{item.id}  due 20")
    assert "  doubtful  post stage validate: " in line
    assert " [ana until " in line
    assert command("review", "list", "--tab", "mine").out == "There is nothing here.\n"
    told = command("review", "list", "--json", "--fabric", "doubtful").last
    assert [(one["id"], one["assignment"]["holder"], one["may_answer"]) for one in told["items"]] == [
        (item.id, "ana", True)
    ]
    assert command("review", "list", "--text", "nowhere").out == "There is nothing here.\n"


def test_a_page_at_a_time(actor, doubtful, item):
    ran(actor, doubtful)
    first = command("review", "list", "--limit", "1", "--json").last
    second = command("review", "list", "--limit", "1", "--json", "--after", first["next"]).last
    assert [one["id"] for page in (first, second) for one in page["items"]] == [
        one.id for one in list_open_reviews(actor)
    ]
    assert second["next"] is None
    assert "There are more: --after " in command("review", "list", "--limit", "1").err


def test_the_next_is_taken_let_go_and_claimed(item):
    done = command("review", "next")
    assert done.out.startswith(f"Review {item.id} is claimed by owner until ")
    assert f"python3 manage.py review decide {item.id}" in done.err
    assert command("review", "release", item.id).out == f"Review {item.id} is released.\n"
    assert command("review", "release", item.id).out == f"Review {item.id} was not claimed by you.\n"
    assert command("review", "claim", item.id, "--json").last["assignment"]["holder"] == "owner"


def test_what_lapsed_is_taken_over_and_says_so(item, ana):
    review_claim(actor=ana, review_id=item.id)
    ReviewAssignment.objects.update(lease_until=1)
    assert command("review", "claim", item.id).out.endswith(" UTC, taken over from ana.\n")


def test_it_is_handed_on(item, ana):
    done = command("review", "assign", item.id, "--to", "ana")
    assert done.out.startswith(f"Review {item.id} is claimed by ana until ")


def test_it_is_assigned_to_a_role(item, ana):
    done = command("review", "assign", item.id, "--role", "owner")
    assert done.out == f"Review {item.id} is assigned to the role owner.\n"
    assert command("review", "list").out.endswith(" [for owner]\n")
    told = command("review", "show", item.id, "--json").last["assignment"]
    assert (told["holder"], told["role"]) == ("", "owner")


def test_comments_are_added_and_listed(item, ana):
    assert command("review", "comments", item.id).out == "There are no comments.\n"
    done = command("review", "comment", item.id, "Look at it, @ana.")
    assert done.out == f"Your comment is on review {item.id}. It mentions ana.\n"
    assert command("review", "comments", item.id).out.endswith("  owner: Look at it, @ana.\n")
    (told,) = command("review", "comments", item.id, "--json").last["comments"]
    assert (told["author"], told["text"], told["mentions"]) == ("owner", "Look at it, @ana.", ["ana"])


def test_it_is_snoozed_and_shows_again(item):
    Review.objects.update(barred="\ncleo\n", due_at=4_102_444_800_000_000)  # In 2100; another person started the run.
    said = f"Review {item.id} is hidden from your list until 2099-01-01 00:00"
    assert command("review", "snooze", item.id, "--until", "2099-01-01").out.startswith(said)
    assert command("review", "list", "--tab", "yours").out == "There is nothing here.\n"
    assert command("review", "snooze", item.id, "--end").out == f"Review {item.id} shows again.\n"
    assert command("review", "snooze", item.id, "--end").out == f"Review {item.id} was not snoozed.\n"
    assert command("review", "snooze", item.id, "--end", "--json").last == {"item": item.id, "until": None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("claim", "nothing"), "there is no review 'nothing'"),
        (("release", "nothing"), "there is no review 'nothing'"),
        (("assign", "ITEM", "--to", "nobody"), "there is no member 'nobody'"),
        (("assign", "ITEM", "--role", "nothing"), "has the role 'nothing'"),
        (("comment", "ITEM", " "), "the comment is empty"),
        (("comment", "ITEM", "@nobody"), "@nobody is no member of this workspace"),
        (("comment", "nothing", "Why?"), "there is no review 'nothing'"),
        (
            ("snooze", "ITEM", "--until", "soon"),
            "--until 'soon' is no time; write 2026-11-30T18:00 or 2026-11-30 (UTC)",
        ),
        (("snooze", "ITEM", "--until", "2020-01-01"), "is past: choose a later time"),
        (("close", "ITEM", "--note", "Done."), "is no follow-up"),
        (("list", "--after", "x"), "'x' is no cursor of this list"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(item, words, said):
    done = command("review", *(item.id if word == "ITEM" else word for word in words))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_in_another_persons_hand_it_is_neither_claimed_nor_decided(item, ana):
    Review.objects.update(barred="\ncleo\n")  # A third person started it, so that both may answer.
    review_claim(actor=ana, review_id=item.id)
    for words in (("review", "claim", item.id), ("decide", item.id, "approve", "--digest", item.digest)):
        done = command(*words)
        assert done.code == 2
        assert f"ana has claimed review {item.id} until " in done.err


def test_a_follow_up_is_closed_with_a_note(follow_up):
    (line,) = command("review", "list", "--tab", "follow_ups").out.splitlines()
    assert line.startswith(f"{follow_up.id}  a follow-up since 20")
    assert command("review", "close", follow_up.id, "--note", " ").code == 2
    assert command("review", "close", follow_up.id, "--note", "Done.").out == f"Review {follow_up.id} is closed.\n"
    assert (
        command("review", "close", follow_up.id, "--note", "Done.").out == f"Review {follow_up.id} is closed already.\n"
    )
    assert command("review", "list", "--tab", "follow_ups").out == "There is nothing here.\n"


def test_a_follow_up_is_closed_by_its_answer_too(follow_up):
    done = command("decide", follow_up.id, "respond", "--message", "By hand.", "--json")
    assert (done.code, done.last["recorded"]) == (0, True)
    assert "has ended" in done.err
    assert FollowUpClosure.objects.get().note == "By hand."


def test_a_follow_up_starts_a_run(follow_up):
    done = command("review", "close", follow_up.id, "--note", "Again.", "--fork", "2", "--json")
    (fork,) = Run.objects.exclude(id=follow_up.run_id)
    assert done.last["fork"] == fork.id
