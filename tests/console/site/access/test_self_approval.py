"""A starter lets nothing of their own run pass: by every way in which an answer comes, and each is asked again when the run takes it (H4).

Total over the ways: an address that answers, takes back or hastens needs its row here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.apps import apps
from django.urls import Resolver404, resolve

from console.site.access.callers import SCOPES
from console.site.access.policies import ROUTES
from fabric.composition import engine as wiring
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.people.scopes import Scope
from fabric.management.run_follower import Following
from fabric.models import Event, Inbox, Review, ReviewAssignment
from fabric.selectors.reviews.answers import input_id
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.services.actors import OWNER, find_actor
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.people.members import service_create
from fabric.services.people.tokens import token_create
from fabric.services.reviews.assignments import review_claim
from fabric.services.reviews.decisions import BulkItem, decide_review, decide_reviews
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.api.client import Program
from tests.fabric.management.console import command
from tests.fabric.services.world import DOUBTFUL, NOTES, WATCHED, published_by_two
from tests.people import fresh, member, signed_in, token_of

ANSWERS = ("decide", "reviews-together", "api-review-decision", "api-reviews-decide")
LATER = ("decision-undo", "decision-continue", "api-review-undo", "api-review-continue")

NO_ANSWER = {
    *("api-change-approve", "api-change-reject"),
    *(f"api-review-{way}" for way in ("next", "claim", "reassign", "heartbeat", "release", "comments", "snooze")),
    "api-review-close",
    *("api-review-reveal", "api-run-event-reveal", "api-fabric-memory-reveal"),
}
"""What takes a review in hand, shows what is withheld of it, or closes a follow-up, which parks nothing; and changes of fabrics, which are no review of a run."""


class World:
    """A run that a member started and that waits, and that member's ways in."""

    def __init__(self, user: Any, fabric: str) -> None:
        self.user, self.actor = user, fresh(user)
        self.browser = signed_in(user)
        more: dict[str, Any] = {
            "actor": self.actor,
            "fabric": fabric,
            "text": "What do the notes say?",
            "documents": (NOTES,),
        }
        run_id = run_start(store=wiring.store(), nudge=NullNudge(), **more).run_id
        Following(self.actor, run_id).to_rest()
        (self.item,) = list_open_reviews(self.actor, run_id)

    @property
    def ports(self) -> dict[str, Any]:
        return {"store": wiring.store(), "nudge": NullNudge()}


def by_page(world: World) -> Any:
    data = {"verb": "approve", "digest": world.item.digest, "message": "Mine."}
    return world.browser.post(f"/reviews/{world.item.id}/decision", data).status_code


def by_page_together(world: World) -> Any:
    data = {"item": f"{world.item.id}:{world.item.digest}", "verb": "approve", "message": "Mine.", "sure": "1"}
    return world.browser.post("/reviews/together", data).status_code


def by_session(world: World) -> Any:
    program = Program()
    program.client = world.browser
    body = {"verb": "approve", "digest": world.item.digest}
    return program.post(f"/api/v1/reviews/{world.item.id}/decision", body).status_code


def _token(world: World) -> Program:
    return Program(token_of(world.user, "own"))


def by_token(world: World) -> Any:
    body = {"verb": "approve", "digest": world.item.digest}
    return _token(world).post(f"/api/v1/reviews/{world.item.id}/decision", body).status_code


def by_token_together(world: World) -> Any:
    body = {"verb": "approve", "items": [{"id": world.item.id, "digest": world.item.digest}]}
    told = _token(world).post("/api/v1/reviews/decisions", body).json()
    return told["results"][0]["status"]


def by_command(world: World) -> Any:
    return command("decide", world.item.id, "approve", "--digest", world.item.digest).code


def by_service(world: World) -> Any:
    with pytest.raises(Refused) as caught:
        decide_review(
            **world.ports, actor=world.actor, review_id=world.item.id, digest=world.item.digest, verb="approve"
        )
    return caught.value.code


def _planted(world: World, **more: Any) -> None:
    """An answer in the inbox, past every service."""
    given = DecisionMade(
        input_id=input_id(world.item.id, 0),
        review_id=world.item.id,
        verb="approve",
        actor=world.actor.name,
        digest=world.item.digest,
    )
    wiring.store().put_input(world.item.run_id, given.input_id, INBOX.dump_json(given), **more)


def by_inbox(world: World) -> Any:
    return _planted(world)


def by_continue(world: World) -> Any:
    _planted(world, delay_s=50.0)
    return world.browser.post(f"/reviews/{world.item.id}/continue").status_code


def by_api_continue(world: World) -> Any:
    _planted(world, delay_s=50.0)
    return _token(world).post(f"/api/v1/reviews/{world.item.id}/continue", {}).status_code


def by_claimed_command(world: World) -> Any:
    """An answer to a review that the owner has taken in hand at the machine first."""
    command("review", "claim", world.item.id)
    return command("decide", world.item.id, "approve", "--digest", world.item.digest).code


def by_bulk_service(world: World) -> Any:
    items = [BulkItem(world.item.id, world.item.digest)]
    (told,) = decide_reviews(**world.ports, actor=world.actor, items=items, verb="approve")
    assert told.refused is not None
    return told.refused.code


def by_takeover(world: World) -> Any:
    """The starter of a run takes over what a colleague let lapse, and answers it."""
    review_claim(
        actor=replace(world.actor, name="ben", roles=frozenset({"owner", "reviewer"})), review_id=world.item.id
    )
    ReviewAssignment.objects.update(lease_until=1)
    with suppress(Refused):  # Who may let nothing pass may take it in hand all the same: to reject it.
        review_claim(actor=world.actor, review_id=world.item.id)
    return by_page(world)


def by_undo_window(world: World) -> Any:
    """With a time in which it could be taken back."""
    decide = partial(decide_review, **world.ports, actor=world.actor, review_id=world.item.id, verb="approve")
    with pytest.raises(Refused) as caught:
        decide(digest=world.item.digest, undo_s=10)
    return caught.value.code


def by_account(world: World) -> Any:
    """By a program that they made: it never holds the scope, so it answers nothing, under no name."""
    service_create(actor=world.actor, name="robot", roles=("operator",))
    with pytest.raises(Refused):
        token_create(actor=world.actor, name="robots", user="robot", scopes=(Scope.READ, Scope.DECIDE))
    secret = token_create(actor=world.actor, name="robots", user="robot", scopes=(Scope.READ, Scope.START)).secret
    body = {"verb": "approve", "digest": world.item.digest}
    return Program(secret).post(f"/api/v1/reviews/{world.item.id}/decision", body).status_code


def by_follow_up(world: World) -> Any:
    """Closing it as if it were a follow-up, which needs no approval."""
    body = {"note": "Mine."}
    return _token(world).post(f"/api/v1/reviews/{world.item.id}/close", body).status_code


def by_undo(world: World) -> Any:
    _planted(world, delay_s=50.0)
    return world.browser.post(f"/reviews/{world.item.id}/undo").status_code


def by_api_undo(world: World) -> Any:
    _planted(world, delay_s=50.0)
    return _token(world).post(f"/api/v1/reviews/{world.item.id}/undo", {}).status_code


WAYS: Mapping[str, tuple[Callable[[World], Any], Any]] = {
    "decide": (by_page, 403),
    "reviews-together": (by_page_together, 200),
    "api-review-decision": (by_token, 403),
    "the API in a browser": (by_session, 403),
    "api-reviews-decide": (by_token_together, 403),
    "manage.py decide": (by_command, 2),
    "manage.py review claim": (by_claimed_command, 2),
    "the service": (by_service, "forbidden"),
    "the service, with an undo window": (by_undo_window, "forbidden"),
    "the service for several": (by_bulk_service, "forbidden"),
    "a claim that lapsed": (by_takeover, 403),
    "a service account": (by_account, 403),
    "api-review-close": (by_follow_up, 422),
    "the inbox": (by_inbox, None),
    "decision-continue": (by_continue, 302),
    "api-review-continue": (by_api_continue, 200),
    "decision-undo": (by_undo, 302),
    "api-review-undo": (by_api_undo, 200),
}
"""Each way, and what it comes to; what was planted past the services may be hastened, and is refused by the run."""


def test_every_address_that_answers_is_a_way():
    answering = {route for (route, _), scope in SCOPES.items() if scope is Scope.DECIDE} - NO_ANSWER
    answering |= {name for name in ROUTES if name.startswith("decision-")} | {"decide", "reviews-together"}
    assert answering == {*ANSWERS, *LATER}
    assert answering <= set(WAYS)


def test_there_is_no_admin_through_which_an_answer_could_be_written():
    """Every way is one of those above: Django's admin, which edits rows past all services, is not installed and has no address."""
    installed = {config.name for config in apps.get_app_configs()}
    assert "django.contrib.auth" in installed
    assert not {name for name in installed if "admin" in name}
    assert not {name for name in ROUTES if "admin" in name}
    with pytest.raises(Resolver404):
        resolve("/admin/")


def all_taken(world: World) -> None:
    """The run has looked at whatever came in."""
    waiting = threading.Event()
    with wiring.local_engine() as engine:
        engine.offer(world.item.run_id)
        for _ in range(400):
            if not Inbox.objects.filter(run_id=world.item.run_id, consumed_seq=None).exists():
                return
            waiting.wait(0.05)
    raise AssertionError("the run did not look at what came in")


def nothing_passed(world: World) -> None:
    """It has, and still asks."""
    all_taken(world)
    item = get_review(world.actor, world.item.id)
    assert (item.open, item.agreed) == (True, ())
    kinds = ("review_decided", "review_approved", "review_edited")
    assert not Event.objects.filter(run_id=item.run_id, kind__in=kinds).exists()


@pytest.mark.parametrize(
    ("way", "name"), [*((way, "ana") for way in WAYS if "manage.py" not in way), *((way, OWNER) for way in WAYS)]
)
def test_who_started_a_run_lets_nothing_of_it_pass(owner, way, name):
    """The local owner, under any name, is not alone where another person may sign in."""
    act, told = WAYS[way]
    fabric = fabric_publish(actor=find_actor(owner), source=DOUBTFUL).name
    who = owner if name == OWNER else member(name, "owner", "editor", "reviewer")
    member("ben", "owner", "reviewer")
    world = World(who, fabric)
    assert act(world) == told
    nothing_passed(world)


def test_who_is_alone_in_the_workspace_answers_for_their_own_run(owner):
    member("robot", "operator", service=True)
    member("gone", "owner", is_active=False)
    world = World(owner, fabric_publish(actor=find_actor(owner), source=DOUBTFUL).name)
    assert world.actor.alone
    assert by_page(world) == 302
    assert Following(world.actor, world.item.run_id, answered=frozenset({world.item.id})).to_rest().state == "completed"
    assert Review.objects.values_list("decided_by", "alone").get() == (OWNER, True)


def test_who_is_joined_before_the_run_takes_the_answer_is_alone_no_longer(owner):
    world = World(owner, fabric_publish(actor=find_actor(owner), source=DOUBTFUL).name)
    assert by_page(world) == 302
    member("ben", "owner", "reviewer")
    nothing_passed(world)


def test_who_made_a_programs_token_lets_nothing_of_what_it_started_pass(owner):
    robot = member("robot", "operator", service=True)
    fabric = fabric_publish(actor=find_actor(owner), source=DOUBTFUL).name
    secret = token_of(robot, "robots", (Scope.READ, Scope.START))
    body = {"fabric": fabric, "text": "What do the notes say?", "documents": [{"name": NOTES.name, "text": NOTES.text}]}
    run_id = Program(secret).post("/api/v1/runs", body).json()["id"]
    ben = member("ben", "owner", "reviewer")
    Following(find_actor(owner), run_id).to_rest()
    (item,) = list_open_reviews(find_actor(owner), run_id)
    assert item.barred == ("robot", OWNER)
    decide = partial(
        decide_review,
        store=wiring.store(),
        nudge=NullNudge(),
        review_id=item.id,
        verb="approve",
        digest=item.digest,
    )
    with pytest.raises(Refused, match="it is their own"):
        decide(actor=find_actor(owner))
    assert decide(actor=find_actor(ben)).created


def test_two_are_asked_of_whom_neither_started_it(owner):
    """Not even the owner of an installation of their own decides alone where four eyes are asked."""
    for name in ("ben", "carla"):
        member(name, "owner", "reviewer")
    world = World(owner, published_by_two(find_actor(owner), WATCHED).name)
    assert world.actor.name == OWNER
    assert by_page(world) == 403
    decide = partial(decide_review, **world.ports, review_id=world.item.id, verb="approve", digest=world.item.digest)
    ben, carla = (replace(world.actor, name=name, roles=frozenset({"owner", "reviewer"})) for name in ("ben", "carla"))
    assert decide(actor=ben).second_wanted
    all_taken(world)
    assert get_review(world.actor, world.item.id).agreed == ("ben",)
    assert not decide(actor=ben).created
    with pytest.raises(Refused, match="has agreed to this already"):
        decide(actor=ben, message="Once more.")
    last = decide(actor=carla)
    assert (last.created, last.second_wanted) == (True, False)
    assert Following(world.actor, world.item.run_id, answered=frozenset({world.item.id})).to_rest().state == "completed"
    assert Review.objects.get().decided_by == "carla"


def test_who_started_it_may_stop_it(owner):
    fabric = fabric_publish(actor=find_actor(owner), source=DOUBTFUL).name
    world = World(member("ana", "owner", "editor", "reviewer"), fabric)
    asked = {**world.ports, "actor": world.actor, "review_id": world.item.id}
    assert decide_review(**asked, verb="reject", message="Not that.").created
    run = Following(world.actor, world.item.run_id, answered=frozenset({world.item.id})).to_rest()
    assert run.state == "aborted"
