"""Scheduled publications: judged when they are scheduled and at their time, refused with a reason, and cancelled."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth import get_user_model

from fabric.core.people.actor import Actor
from fabric.core.values.units import US
from fabric.models import AuditLine, ChangeRequest, Draft, Member, Notification, Revision
from fabric.selectors.drafts.change_requests import (
    ChangeState,
    change_request_get,
    change_requests,
    changes_to_approve,
    requests_open,
)
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.actors import find_actor
from fabric.services.drafts.change_requests import change_approve, change_reject, change_withdraw
from fabric.services.drafts.changes import draft_of_fabric, draft_replace
from fabric.services.drafts.publication import draft_publish, draft_schedule
from fabric.services.drafts.scheduled import (
    AHEAD_DAYS,
    publication_schedule,
    publications_carry_out,
    read_time,
)
from fabric.services.drafts.scheduled_duty import publications_wait
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.workspaces.policies import policy_set
from fabric.worker.process.duties import database_us
from tests.fabric.services.world import EYES, SMALL
from tests.people import member

pytestmark = pytest.mark.django_db(transaction=True)
SECOND = SMALL.replace("A small fabric", "Second")
HOUR = 3_600 * US


def scheduled(actor: Actor, source: str = SECOND, **more: Any) -> str:
    return publication_schedule(actor=actor, source=source, publish_at=database_us() + HOUR, **more).id


def carried_out() -> int:
    return publications_carry_out(now=database_us() + 2 * HOUR)


def state(actor: Actor, request: str) -> tuple[ChangeState, str]:
    found = change_request_get(actor, request)
    return found.state, found.reason


def lines(kind: str) -> list[dict[str, Any]]:
    return [json.loads(bytes(row.body)) for row in AuditLine.objects.filter(kind=kind)]


def test_it_is_published_at_its_time_and_not_before(actor: Actor, small: str) -> None:
    request = scheduled(actor, message="At night.")
    assert not publications_wait()
    assert publications_carry_out() == 0
    assert revision_get(actor, small).number == 1
    assert carried_out() == 1
    page = revision_get(actor, small)
    assert (page.number, page.spec.title, page.message, page.published_by) == (2, "Second", "At night.", "owner")
    assert state(actor, request)[0] is ChangeState.PUBLISHED
    assert lines("publication_scheduled")[0]["request"] == request
    line = AuditLine.objects.filter(kind="fabric_published").order_by("-at", "-id").first()
    assert line is not None
    assert (line.actor, line.via) == ("owner", f"schedule:{request}")
    assert carried_out() == 0


def test_a_draft_stays_until_its_time_and_is_gone_then(actor: Actor, small: str) -> None:
    draft = draft_of_fabric(actor=actor, name=small)
    draft = draft_replace(actor=actor, name=small, step=draft.step, text=SECOND)
    draft_schedule(actor=actor, name=small, step=draft.step, publish_at=database_us() + HOUR)
    assert Draft.objects.exists()
    assert carried_out() == 1
    assert not Draft.objects.exists()


def test_a_change_of_the_draft_voids_it(actor: Actor, small: str) -> None:
    draft = draft_of_fabric(actor=actor, name=small)
    draft = draft_replace(actor=actor, name=small, step=draft.step, text=SECOND)
    request = draft_schedule(actor=actor, name=small, step=draft.step, publish_at=database_us() + HOUR).id
    draft_replace(actor=actor, name=small, step=draft.step, text=SECOND.replace("Second", "Third"))
    assert state(actor, request) == (ChangeState.VOIDED, "the draft was changed")
    assert carried_out() == 0


def test_publishing_the_draft_now_voids_it(actor: Actor, small: str) -> None:
    draft = draft_of_fabric(actor=actor, name=small)
    draft = draft_replace(actor=actor, name=small, step=draft.step, text=SECOND)
    request = draft_schedule(actor=actor, name=small, step=draft.step, publish_at=database_us() + HOUR).id
    draft_publish(actor=actor, name=small, step=draft.step)
    assert state(actor, request) == (ChangeState.VOIDED, "its draft was published")


def test_a_publication_in_between_keeps_it_from_being_published(actor: Actor, small: str) -> None:
    request = scheduled(actor)
    fabric_publish(actor=actor, source=SMALL.replace("A small fabric", "Third"))
    assert carried_out() == 0
    found, said = state(actor, request)
    assert found is ChangeState.FAILED
    assert said == "r2 is published by now, and this is a change of r1: owner has to bring that in, and ask again"
    assert revision_get(actor, small).spec.title == "Third"
    (told,) = lines("publication_failed")
    assert (told["request"], told["reason"], told["author"]) == (request, said, "owner")
    assert carried_out() == 0
    assert len(lines("publication_failed")) == 1


def test_what_no_longer_passes_is_not_published(actor: Actor, small: str) -> None:
    source = SECOND.replace("tools:\n", "tools:\n  - {name: http_get, allowed_hosts: [a.example]}\n")
    request = scheduled(actor, source)
    policy_set(actor=actor, policy={"hosts": ("other.example",)}, expect=0)
    assert carried_out() == 0
    found, said = state(actor, request)
    assert found is ChangeState.FAILED
    assert "the workspace's policy allows" in said


def test_four_eyes_that_came_meanwhile_keep_it_from_being_published(actor: Actor, small: str) -> None:
    request = scheduled(actor)
    row = revision_get(actor, small)
    # The published content itself wants two people by now.

    spec = json.loads(Revision.objects.get(id=row.fabric.revision_id).spec)
    spec["policy"]["humans"]["four_eyes"] = ["interactive"]
    Revision.objects.filter(id=row.fabric.revision_id).update(spec=json.dumps(spec))
    assert carried_out() == 0
    found, said = state(actor, request)
    assert found is ChangeState.FAILED
    assert "needs two people" in said


def test_an_author_who_may_publish_no_more_does_not(actor: Actor, small: str) -> None:
    editor = find_actor(member("ed", "editor"))
    request = scheduled(editor)
    Member.objects.filter(name="ed").delete()
    assert carried_out() == 0
    assert state(actor, request)[0] is ChangeState.FAILED


def test_it_is_cancelled_by_its_author_and_rejected_by_another_editor(actor: Actor, small: str) -> None:
    editor = find_actor(member("ed", "editor"))
    request = scheduled(actor)
    with pytest.raises(Refused, match="without a second person: wait, or reject it"):
        change_approve(actor=editor, request_id=request, digest=change_request_get(actor, request).digest)
    change_withdraw(actor=actor, request_id=request)
    assert state(actor, request)[0] is ChangeState.WITHDRAWN
    assert carried_out() == 0
    request = scheduled(actor)
    change_reject(actor=editor, request_id=request, reason="Not on a Friday.")
    assert state(actor, request) == (ChangeState.REJECTED, "Not on a Friday.")
    assert carried_out() == 0
    assert revision_get(actor, small).number == 1


def test_no_second_person_is_asked(actor: Actor, small: str) -> None:
    scheduled(actor)
    assert changes_to_approve(find_actor(member("ed", "editor"))) == []
    assert not requests_open(actor)
    assert [one.publish_at is not None for one in change_requests(actor, small)] == [True]


def test_another_time_takes_the_place_of_the_first(actor: Actor, small: str) -> None:
    at = database_us() + HOUR
    first = publication_schedule(actor=actor, source=SECOND, publish_at=at)
    assert publication_schedule(actor=actor, source=SECOND, publish_at=at).id == first.id
    second = publication_schedule(actor=actor, source=SECOND, publish_at=at + HOUR)
    assert state(actor, first.id)[0] is ChangeState.VOIDED
    assert state(actor, second.id)[0] is ChangeState.OPEN


@pytest.mark.parametrize(
    ("source", "ahead", "said"),
    [
        (SECOND, -HOUR, "is past: choose a later time"),
        (SECOND, (AHEAD_DAYS + 1) * 24 * HOUR, "is more than a year away: choose an earlier time"),
        (SMALL, HOUR, "which is published: there is nothing to publish"),
        (SECOND.replace("critic", "x").replace("planner: planner", "planner: ghost"), HOUR, "ghost"),
        (EYES, HOUR, "needs two people"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(actor: Actor, small: str, source: str, ahead: int, said: str) -> None:
    with pytest.raises(Refused, match=said):
        publication_schedule(actor=actor, source=source, publish_at=database_us() + ahead)
    assert not ChangeRequest.objects.exists()


def test_only_who_may_edit_schedules(actor: Actor, small: str) -> None:
    with pytest.raises(Refused) as refused:
        scheduled(find_actor(member("vera", "viewer")))
    assert refused.value.code == "forbidden"


@pytest.mark.parametrize("text", ["", "soon", "2026-12-01", "2026-13-01T10:00", "0001-01-01T00:00", "9" * 50])
def test_a_time_that_cannot_be_read_is_one_sentence(text: str) -> None:
    if text == "0001-01-01T00:00":
        assert read_time(text, UTC) < 0
        return
    with pytest.raises(Refused, match="is no date and time: write it as 2026-12-01T18:00"):
        read_time(text, UTC)


def test_a_time_is_read_in_its_authors_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert read_time("2026-12-01T18:00", berlin) == read_time("2026-12-01T17:00Z", berlin)
    assert read_time("2026-07-01 18:00", berlin) == read_time("2026-07-01T16:00", UTC)


def test_an_error_of_ours_ends_one_publication_alone(actor: Actor, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = scheduled(replace(actor, name="owner"))
    ChangeRequest.objects.filter(id=first).update(base=None, text="\0")
    assert carried_out() == 0
    assert state(actor, first)[0] is ChangeState.FAILED


def test_its_author_is_told_why_by_mail(actor: Actor, small: str, settings: Any) -> None:
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "127.0.0.1", "fabric@example.org"
    editor = find_actor(member("ed", "editor"))
    get_user_model().objects.filter(username="ed").update(email="ed@example.org")
    scheduled(editor)
    assert not Notification.objects.exists(), "no second person is asked"
    ChangeRequest.objects.update(base=None)
    assert carried_out() == 0
    (row,) = Notification.objects.all()
    told = json.loads(bytes(row.content))
    assert (row.shown, row.told, told["became"]) == ("ed", "changed", "failed")
    assert told["reason"].startswith("r1 is published by now")
