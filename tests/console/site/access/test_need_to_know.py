"""A member or token with rights at one fabric sees that and no other: by every address, in every list, whatever a body names."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.test import Client

from console.site.access.callers import ANY_CALLER, SCOPES
from console.site.access.fabric_roles import FABRIC_OF, OTHER_NAMES, WORKSPACES
from console.site.access.policies import ROUTES, Policy
from console.site.access.rights import CHANGES, LOOKS
from fabric.core.people.roles import Role
from fabric.core.people.scopes import Scope
from fabric.models import AuditLine, Member
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.people.members import member_roles_set
from fabric.services.people.tokens import token_create
from simulator.drills.library.captures import scenario_capture
from simulator.drills.library.services import scenario_duplicate
from simulator.drills.models.tables import Drill
from tests.console.site.access import test_actors as test_access
from tests.console.site.access.test_contents import body as read_body
from tests.console.site.access.test_rights import API, PAGES, World, standing, where, world
from tests.fabric.services.world import SMALL, ran
from tests.people import fresh, member, signed_in
from tests.simulator.drills.library.test_captures import FAILING

__all__ = ["world"]

SCOPED = [f"{role}@mine" for role in Role if role != Role.OWNER]
"""Every role that can be had at one fabric."""
WITHIN = tuple(scope for scope in Scope if scope is not Scope.MANAGE)


@pytest.fixture
def mine(world: World, actor, monkeypatch) -> dict[str, str]:
    """A fabric beside those of the world, with a run of its own; the ids of what is foreign."""
    fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: mine"))
    own = ran(actor, "mine").id
    drill = Drill.objects.filter(batch=world.of["batch"]).order_by("place")[0].id
    monkeypatch.setitem(test_access.SAMPLE, "drill_id", drill)
    ids = ("run_id", "review_id", "batch", "schedule_id", "change_id", "stop_id")
    return {"own": own, "drill_id": drill} | {name: str(world.of[name]) for name in ids}


@pytest.fixture
def browser(mine) -> Client:
    return signed_in(member("rosa", *SCOPED))


@pytest.fixture(params=["member", "confined"])
def program(request, actor, mine) -> Client:
    """A token of who has roles at one fabric alone; and the owner's, confined to it."""
    if request.param == "member":
        made = token_create(actor=fresh(member("bea", *SCOPED)), name="hers", scopes=WITHIN)
    else:
        made = token_create(actor=actor, name="confined", scopes=WITHIN, fabrics=["mine"])
    return Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {made.secret}")


def named(route: str) -> set[str]:
    pattern = next(one for one in test_access.patterns() if one.name == route)
    return set(pattern.pattern.converters)


def foreign(route: str) -> bool:
    """Return True if an address is about one thing of a fabric: of the sample, another's."""
    return bool(named(route) & set(FABRIC_OF)) or ("name" in named(route) and route not in OTHER_NAMES)


def told_of(said: str, mine: dict[str, str]) -> list[str]:
    """Return what of the other fabrics stands in an answer."""
    words = [value for name, value in mine.items() if name != "own"]
    words += [
        mark.format(name)
        for name in ("small", "doubtful", "halted")
        for mark in ("/fabrics/{}", '"{}"', ">{}<", "fabric={}")
    ]
    return [word for word in words if word in said]


def looks(door: str) -> Iterator[str]:
    routes = LOOKS if door == "pages" else {route for route, method in SCOPES if method == "GET"}
    return (route for route in sorted(routes) if ROUTES[route] is not Policy.STAFF)


def test_every_address_says_at_which_fabric_it_is_or_that_it_is_at_none():
    known = (
        set(FABRIC_OF)
        | WORKSPACES
        | {"name", "memory", "tool", "agent", "number", "seq", "digest", "form", "rest", "document", "picture"}
    )
    assert set().union(*map(named, ROUTES)) <= known
    assert {route for route in OTHER_NAMES if "name" not in named(route)} <= {
        f"run-{verb}" for verb in ("pause", "resume", "cancel", "terminate")
    }


def wrong_looks(client: Client, door: str, mine: dict[str, str]) -> list[str]:
    wrong = []
    for route in looks(door):
        answer = client.get(test_access.address(route))
        if foreign(route) and answer.status_code != 404:
            wrong.append(f"{route}: {answer.status_code}")
        elif not foreign(route) and (answer.status_code >= 500 or (found := told_of(read_body(answer), mine))):
            wrong.append(f"{route}: {answer.status_code} {found}")
    return wrong


def test_pages_show_nothing_of_other_fabrics(browser, mine):
    assert wrong_looks(browser, "pages", mine) == []


def test_the_search_finds_nothing_of_other_fabrics(browser, mine):
    by_title = browser.get("/search?q=notes").content.decode()
    assert f"/runs/{mine['own']}" in by_title
    assert mine["run_id"] not in by_title
    assert "/fabrics/small" not in browser.get("/search?q=small").content.decode()
    assert f'/runs/{mine["run_id"]}"' not in browser.get(f"/search?q={mine['run_id'][:13]}").content.decode()
    assert f"/reviews/{mine['review_id']}" not in browser.get(f"/search?q={mine['review_id']}").content.decode()


def test_operations_tell_nothing_of_other_fabrics(program, mine):
    assert wrong_looks(program, "api", mine) == []


def test_what_is_theirs_is_there(browser, program, mine):
    for path in ("/runs", "/fabrics", "/runs/start"):
        assert "mine" in browser.get(path).content.decode(), path
    assert browser.get(f"/runs/{mine['own']}").status_code == 200
    listed = program.get("/api/v1/runs").json()["runs"]
    assert [one["run_id"] if "run_id" in one else one["id"] for one in listed] == [mine["own"]]
    assert program.get("/api/v1/fabrics/mine").status_code == 200
    assert [one["name"] for one in program.get("/api/v1/fabrics").json()["fabrics"]] == ["mine"]


def test_no_member_changes_hidden_records(browser, program, mine, world):
    """Addresses about another fabric are not there; bodies that name one are refused."""
    before, wrong = standing(), []
    for route in sorted(CHANGES):
        if ROUTES[route] not in (Policy.SIGNED_IN, Policy.API) or route in (
            "api-notifications-mine",
            "notifications-mine",
            "account",
            "drills-stale",
            "api-drills",
        ):
            continue
        if ROUTES[route] is Policy.API:
            body = json.dumps(
                {
                    **API.get(route, {}),
                    **({"scope": world.of["scope"], "kind": world.of["kind"]} if "breakers" in route else {}),
                }
            )
            answer = program.post(where(route), body, content_type="application/json")
        else:
            answer = browser.post(where(route), PAGES.get(route, {}))
        if foreign(route) and answer.status_code != 404:
            wrong.append(f"{route}: {answer.status_code}")
    assert wrong == []
    after = standing()
    assert {name: after[name] for name in before if name != "AuditLine"} == {
        name: before[name] for name in before if name != "AuditLine"
    }


@pytest.mark.parametrize("door", ["page", "api"])
def test_drills_of_all_stale_cells_are_of_their_own_fabrics(browser, program, mine, door):
    before = set(Drill.objects.values_list("id", flat=True))
    if door == "page":
        assert browser.post("/drills/stale").status_code == 302
    else:
        assert program.post("/api/v1/drills", "{}", content_type="application/json").status_code == 202
    made = Drill.objects.exclude(id__in=before)
    assert {one.fabric.name for one in made.select_related("fabric")} == {"mine"}


def test_what_was_captured_of_another_fabric_is_not_in_their_library(actor, browser, program, mine):
    failing = fabric_publish(actor=actor, source=FAILING["server_error"]).name
    kept = scenario_capture(actor=actor, run_id=ran(actor, failing, "The secret of others.").id).view.name
    assert kept not in browser.get("/scenarios").content.decode()
    assert browser.get(f"/scenarios/{kept}").status_code == 404
    assert program.get(f"/api/v1/scenarios/{kept}").status_code == 404
    assert program.get(f"/api/v1/scenarios/{kept}/export").status_code == 404
    assert kept not in program.get("/api/v1/scenarios").content.decode()
    copy = scenario_duplicate(actor=actor, name=kept).name
    assert program.get(f"/api/v1/scenarios/{copy}").status_code == 404


def test_who_reaches_for_another_fabric_stands_in_the_audit_stream(browser, program, mine):
    before = set(AuditLine.objects.values_list("id", flat=True))
    assert browser.get(f"/runs/{mine['run_id']}").status_code == 404
    assert program.get(f"/api/v1/runs/{mine['run_id']}").status_code == 404
    made = AuditLine.objects.exclude(id__in=before).filter(kind="request_refused")
    assert sorted(made.values_list("subject", flat=True)) == ["api-run", "run"]


def test_they_do_what_their_roles_say_where_they_hold(program, mine):
    started = program.post(
        "/api/v1/runs", json.dumps({"fabric": "mine", "text": "Go."}), content_type="application/json"
    )
    assert started.status_code == 201
    refused = program.post(
        "/api/v1/runs", json.dumps({"fabric": "small", "text": "Go."}), content_type="application/json"
    )
    assert refused.status_code in (403, 404)
    source = SMALL.replace("name: small", "name: mine").replace("A small fabric", "Another title")
    assert (
        program.post("/api/v1/fabrics", json.dumps({"source": source}), content_type="application/json").status_code
        == 200
    )
    assert (
        program.post("/api/v1/fabrics", json.dumps({"source": SMALL}), content_type="application/json").status_code
        == 403
    )
    assert (
        program.post(
            "/api/v1/drill-stop/pull", json.dumps({"reason": "To see."}), content_type="application/json"
        ).status_code
        == 403
    )


def test_a_role_that_is_given_or_taken_holds_from_the_next_request_on(browser, actor, world):
    path = f"/runs/{world.of['run_id']}"
    assert browser.get(path).status_code == 404
    member_roles_set(actor=actor, name="rosa", roles=["viewer@doubtful"])
    assert browser.get(path).status_code == 200
    assert browser.post(f"{path}/cancel", {"reason": "To see."}).status_code == 403
    assert browser.get("/fabrics/mine").status_code == 404
    assert Member.objects.get(name="rosa").roles == "viewer@doubtful"


def test_no_route_is_missed():
    assert {route for route, _ in SCOPES} | ANY_CALLER == {
        name for name, policy in ROUTES.items() if policy is Policy.API
    }
