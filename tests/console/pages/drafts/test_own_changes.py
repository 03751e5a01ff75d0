"""An author neither agrees to their own change of a fabric nor publishes it alone: by pages, the API with a session or a token, or the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.test import Client

from fabric.core.people.scopes import Scope
from fabric.models import ChangeRequest
from fabric.selectors.drafts.change_requests import change_request_get
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.change_requests import change_request_open
from fabric.services.people.tokens import token_create
from tests.console.api.client import Program
from tests.fabric.management.console import command
from tests.fabric.services.world import EYES, published_by_two
from tests.people import member, token_of

OTHER = EYES.replace("A small fabric", "Another")


class World:
    """A fabric to whose changes two agree, the owner's request for one, and the owner's ways in."""

    def __init__(self, actor: Any, browser: Client, folder: Any) -> None:
        self.actor, self.browser, self.folder = actor, browser, folder
        published_by_two(actor, EYES)
        self.asked = change_request_open(actor=actor, source=OTHER)
        self.session = Program()
        self.session.client = browser
        self.token = Program(token_create(actor=actor, name="own", scopes=tuple(Scope)).secret)


def _draft(world: World) -> Any:
    drafts.draft_of_fabric(actor=world.actor, name="small")
    step = drafts.draft_replace(actor=world.actor, name="small", step=0, text=OTHER).step
    return world.browser.post("/fabrics/small/draft/publish", {"step": step, "act": "publish"}).status_code


def _command(world: World) -> Any:
    file = world.folder / "small.yaml"
    file.write_text(OTHER)
    return command("fabric", "publish", str(file)).code


def _api(program: Program, world: World) -> Any:
    return program.post(f"/api/v1/change-requests/{world.asked.id}/approve", {"digest": world.asked.digest}).status_code


WAYS: Mapping[str, tuple[Callable[[World], Any], Any]] = {
    "approve on its page": (
        lambda world: (
            world.browser.post(
                f"/fabrics/small/requests/{world.asked.id}", {"act": "approve", "digest": world.asked.digest}
            ).status_code
        ),
        403,
    ),
    "approve over the API in a browser": (lambda world: _api(world.session, world), 403),
    "approve over the API with a token": (lambda world: _api(world.token, world), 403),
    "manage.py fabric approve": (lambda world: command("fabric", "approve", world.asked.id).code, 2),
    "publish the draft": (_draft, 409),
    "publish over the API": (lambda world: world.token.post("/api/v1/fabrics", {"source": OTHER}).status_code, 409),
    "manage.py fabric publish": (_command, 2),
}
"""Each way, and what it comes to."""


@pytest.mark.parametrize("way", WAYS)
def test_the_owner_alone_gets_round_it_by_no_way(actor, browser, tmp_path, way):
    act, told = WAYS[way]
    world = World(actor, browser, tmp_path)
    assert act(world) == told
    assert revision_get(actor, "small").spec.title == "A small fabric"
    assert change_request_get(actor, world.asked.id).waits


def test_a_program_asks_and_a_person_agrees(actor, browser, tmp_path):
    world = World(actor, browser, tmp_path)
    found = world.token.get("/api/v1/change-requests").json()["requests"]
    assert [(one["id"], one["state"], one["author"]) for one in found] == [(world.asked.id, "open", "owner")]
    assert world.token.get(f"/api/v1/change-requests/{world.asked.id}").json()["source"] == OTHER
    robot = member("robot", "editor", service=True)
    secret = token_create(actor=actor, name="robots", user=robot.username, scopes=(Scope.READ, Scope.START)).secret
    assert _api(Program(secret), world) == 403  # No token of an account of programs has the scope to decide.
    ana = member("ana")
    theirs = Program(token_of(ana, "anas"))
    wrong = theirs.post(f"/api/v1/change-requests/{world.asked.id}/approve", {"digest": "0" * 32})
    assert wrong.status_code == 409
    done = theirs.post(f"/api/v1/change-requests/{world.asked.id}/approve", {"digest": world.asked.digest}).json()
    assert (done["state"], done["decided_by"], done["number"]) == ("published", "ana", 2)
    again = theirs.post("/api/v1/change-requests", {"source": EYES, "message": "Back."})
    assert (again.status_code, again.json()["base"]) == (201, 2)
    here = f"/api/v1/change-requests/{again.json()['id']}"
    assert world.token.post(f"{here}/reject", {"reason": "Stay."}).json()["state"] == "rejected"
    assert theirs.post(f"{here}/withdraw", {}).status_code == 409
    assert ChangeRequest.objects.filter(state="open").count() == 0


def test_who_made_a_programs_token_does_not_agree_to_what_it_asks_for(actor, browser, tmp_path):
    world = World(actor, browser, tmp_path)
    robot = Program(token_of(member("robot", "editor", service=True), "robots", (Scope.READ, Scope.PUBLISH)))
    asked = robot.post("/api/v1/change-requests", {"source": OTHER}).json()
    here = f"/api/v1/change-requests/{asked['id']}/approve"
    refused = world.session.post(here, {"digest": asked["digest"]})
    assert refused.status_code == 403
    assert "Owner caused robot to make this request" in refused.json()["detail"]
    assert Program(token_of(member("ana"), "anas")).post(here, {"digest": asked["digest"]}).status_code == 200
