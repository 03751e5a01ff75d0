"""Comments on reviews: who may write and read them, whom they may mention, and who hears of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from fabric.core.values.units import US
from fabric.models import AuditLine, Notification, ReviewComment, ReviewSnooze
from fabric.selectors.reviews.comments import list_comments
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.services.errors import Refused
from fabric.services.notifications.member_mail import notification_preference_set
from fabric.services.reviews.comments import COMMENTS_MAX, TEXT_CHARS_MAX, comment_add
from fabric.services.reviews.snoozes import review_snooze
from tests.fabric.services.at_once import at_once
from tests.fabric.services.world import ran
from tests.people import fresh, member


@pytest.fixture
def item(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def ana(actor):
    """A member who reads contents, with an address."""
    made = member("ana", "reviewer")
    made.email = "ana@example.org"
    made.save()
    return fresh(made)


@pytest.fixture
def vera(actor):
    """A member who reads no contents and is not asked."""
    return fresh(member("vera", "viewer"))


def refused(**given):
    with pytest.raises(Refused) as caught:
        comment_add(**given)
    assert "\n" not in caught.value.message
    return caught.value


def test_a_comment_is_kept_with_its_author_and_recorded_without_its_words(actor, item):
    made = comment_add(actor=actor, review_id=item.id, text="  Is 0.55 usual here?\r\n")
    assert (made.author, made.text, made.mentions) == ("owner", "Is 0.55 usual here?", ())
    assert list_comments(item) == [made]
    (line,) = AuditLine.objects.filter(kind="review_commented")
    assert (line.actor, line.subject) == ("owner", item.run_id)
    assert b"usual" not in bytes(line.body)


def test_it_mentions_members_who_may_read_the_run_and_mails_them(actor, item, ana, settings):
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "mail.example.org", "flow@example.org"
    made = comment_add(actor=actor, review_id=item.id, text="Look, @ana. And again: @ana; not me@example.org")
    assert made.mentions == ("ana",)
    (row,) = Notification.objects.filter(told="mention")
    assert (row.shown, row.seq, row.run_id) == ("ana", -1, item.run_id)
    assert b"Look" not in bytes(row.content)
    notification_preference_set(actor=ana, wants=["review"])
    comment_add(actor=actor, review_id=item.id, text="@ana once more")
    assert Notification.objects.filter(told="mention").count() == 1


def test_no_other_member_is_mentioned(actor, item, vera):
    problem = refused(actor=actor, review_id=item.id, text="What do you say, @vera?")
    assert (problem.code, problem.field) == ("invalid", "text")
    assert "@vera may not read this run" in problem.message
    assert "@bob is no member" in refused(actor=actor, review_id=item.id, text="@bob").message
    assert not ReviewComment.objects.exists()


def test_who_may_not_read_writes_nothing_and_reads_nothing(actor, item, vera):
    comment_add(actor=actor, review_id=item.id, text="The notes say 40 dollars.")
    assert refused(actor=vera, review_id=item.id, text="Hm.").code == "forbidden"
    assert refused(actor=replace(actor, kind="service"), review_id=item.id, text="Hm.").code == "forbidden"
    (seen,) = list_comments(get_review(vera, item.id))
    assert "40 dollars" not in seen.text


def test_another_workspace_finds_nothing(stranger, item):
    assert refused(actor=stranger, review_id=item.id, text="Hm.").code == "not_found"


def test_credentials_in_it_are_masked(actor, item):
    secret = "sk-proj-" + "a1B2" * 12
    made = comment_add(actor=actor, review_id=item.id, text=f"It used {secret}.")
    assert secret not in made.text
    assert made.text.startswith("It used ")


def test_it_has_limits(actor, item):
    assert refused(actor=actor, review_id=item.id, text=" \n").code == "invalid"
    assert refused(actor=actor, review_id=item.id, text="a" * (TEXT_CHARS_MAX + 1)).code == "too_large"
    comment_add(actor=actor, review_id=item.id, text="a" * TEXT_CHARS_MAX)
    same = {"workspace_id": actor.workspace_id, "run_id": item.run_id, "review": item.id, "author": "x", "at": 1}
    ReviewComment.objects.bulk_create(
        ReviewComment(number=number, text="a", **same) for number in range(2, COMMENTS_MAX + 1)
    )
    assert refused(actor=actor, review_id=item.id, text="One more.").code == "conflict"


def test_two_at_once_both_stand(actor, item):
    at_once([partial(comment_add, actor=actor, review_id=item.id, text=f"Number {n}") for n in (1, 2)])
    assert sorted(ReviewComment.objects.values_list("number", flat=True)) == [1, 2]


def test_a_comment_ends_snoozes(actor, item):
    review_snooze(actor=actor, review_id=item.id, until=item.due_at - 30 * US)
    assert ReviewSnooze.objects.exists()
    comment_add(actor=actor, review_id=item.id, text="News.")
    assert not ReviewSnooze.objects.exists()
