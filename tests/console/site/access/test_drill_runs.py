"""Runs of drills under the addresses of runs: members of the workspace see them, no member changes them, no list of real runs and no other workspace has them."""

from __future__ import annotations

import json
import re

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.live.admission import NOT_ALLOWED, Credentials, admissions
from console.site.access.fabric_roles import CHANGES
from fabric.core.people.roles import Right
from fabric.core.people.scopes import Scope
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Run
from fabric.selectors.overview.attention import attention
from fabric.selectors.runs.lookup import runs_list
from fabric.services.actors import drills_workspace, find_actor, owner_actor
from fabric.services.people.tokens import token_create
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill
from simulator.drills.services.drills import drill_ask
from tests.console.site.access.test_actors import patterns
from tests.people import member, signed_in
from tests.servers.unguarded import unguarded

SEEN = (
    "",
    "?view=events",
    "?view=graph",
    "?view=protections",
    "?view=cost",
    "?view=io",
    "/events/3",
    "/events.ndjson",
    "/review",
)
API = ("", "/events", "/explain")
CHANGING = ("cancel", "terminate", "pause", "resume", "say", "context", "fork/5", "scenario", "labels")


@pytest.fixture
def one(actor, small):
    """A drill in simulated time with its runs."""
    found = drill_ask(actor=actor, fabric="small", cells=[(FailureType.PROVIDER, Tier.BATCH)], seed=7)
    batch_drill(found.batch, "h")
    return Drill.objects.get(batch=found.batch)


@pytest.fixture
def token(owner):
    return token_create(actor=owner_actor(), name="t", scopes=tuple(Scope)).secret


def asked(secret, method, path, **body):
    client = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {secret}")
    return getattr(client, method)(f"/api/v1/runs/{path}", **({"data": json.dumps(body), "content_type": "application/json"} if method == "post" else {}))  # fmt: skip


@pytest.mark.parametrize("path", SEEN)
def test_every_page_of_a_run_shows_a_drills_run(browser, one, path):
    for run_id in json.loads(one.body)["runs"].values():
        assert browser.get(f"/runs/{run_id}{path}").status_code == 200


def test_it_lies_under_the_drills(browser, one):
    page = browser.get(f"/runs/{one.run_id}").content.decode()
    links = page[page.index('id="nav-links"') :].partition("</nav>")[0]
    (current,) = (link for link in re.findall("<a [^>]*>", links) if "aria-current" in link)
    assert 'href="/drills"' in current


def test_its_page_says_that_it_is_a_drill_and_leads_to_the_drill_and_to_the_real_fabric(browser, one):
    page = browser.get(f"/runs/{one.run_id}").content.decode()
    assert 'id="drill-mark" data-tone="drill"' in page
    assert "<b>Drill: provider failure × long-running batch</b>" in page
    assert "virtual clock, seed 7" in page
    assert f'href="/drills/{one.id}"' in page
    assert '<a href="/fabrics/small/r1">small@r1</a>' in page
    assert "Run again" not in page
    for word, run_id in json.loads(one.body)["runs"].items():
        assert f'href="/runs/{run_id}"' in page, word
    assert "Fork from here" not in browser.get(f"/runs/{one.run_id}/events/3").content.decode()
    assert "Fork from here" in browser.get(f"/runs/{real(one)}/events/1").content.decode()


def real(one):
    """A drill's run made a real one: the same rows in the workspace itself."""
    run = Run.objects.get(id=json.loads(one.body)["runs"]["before"])
    with unguarded():
        run.events.update(workspace_id=one.workspace_id)
        Run.objects.filter(id=run.id).update(workspace_id=one.workspace_id, fabric_id=one.fabric_id, start_key="")
    return run.id


def test_the_api_lists_what_a_drills_run_spawned(token, one):
    runs = json.loads(one.body)["runs"]
    parent, child = runs["before"], one.run_id
    with unguarded():
        Run.objects.filter(id=child).update(parent_run_id=parent)
    client = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token}")
    found = client.get("/api/v1/runs", {"parent": parent}).json()["runs"]
    assert [run["id"] for run in found] == [child]
    assert client.get("/api/v1/runs").json()["runs"] == [], "drills' runs are in no list of real ones"


@pytest.mark.parametrize("path", API)
def test_the_api_gives_it(token, one, path):
    answer = asked(token, "get", f"{one.run_id}{path}")
    assert answer.status_code == 200
    assert one.run_id in answer.content.decode() or path == "/events"


def test_it_can_be_exported_and_a_socket_follows_it(browser, token, one):
    assert asked(token, "post", f"{one.run_id}/export").status_code == 200
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME].value
    (admission,) = admissions([(Credentials(cookie), one.run_id)]).values()
    assert admission.key.workspace_id == drills_workspace(one.workspace_id)


def test_routes_that_change_a_run_are_all_known():
    names = {one.name for one in patterns() if "run_id" in one.pattern.converters}
    reads = {"run", "api-run", "run-export", "run-review", "run-compare", "run-event", "run-event-json", "run-events-download", "api-run-explain", "api-run-cost", "api-run-events", "api-run-at", "api-run-stream", "api-run-export", "run-event-reveal", "api-run-event-reveal"}  # fmt: skip
    assert set(CHANGES) == names - reads


@pytest.mark.parametrize("how", CHANGING)
def test_nothing_of_a_run_in_virtual_time_can_be_changed(browser, token, one, how):
    before = list(Run.objects.order_by("id").values())
    for answer in (
        browser.get(f"/runs/{one.run_id}/{how}"),
        browser.post(f"/runs/{one.run_id}/{how}", {"reason": "x"}),
    ):
        assert answer.status_code == 409
        assert "This is the run of a drill in simulated time: it has ended" in answer.content.decode()
    answer = asked(token, "post", f"{one.run_id}/{how.partition('/')[0]}", seq=5, reason="x")
    assert (answer.status_code, answer.json()["type"].rpartition("#")[2]) == (409, "problem-conflict")
    assert "drill it again" in answer.json()["detail"]
    assert list(Run.objects.order_by("id").values()) == before


def test_a_live_drills_run_is_ended_by_operators_alone_and_never_paused(owner, browser, one):
    Drill.objects.update(mode="live")
    Run.objects.filter(id=one.run_id).update(state="waiting", ended_at=None)
    vera = signed_in(member("vera"))
    assert vera.get(f"/runs/{one.run_id}").status_code == 200
    assert vera.post(f"/runs/{one.run_id}/cancel").status_code == 403
    for how in ("pause", "say"):
        answer = browser.post(f"/runs/{one.run_id}/{how}", {"text": "Hello?"})
        assert (answer.status_code, "it can be cancelled or terminated" in answer.content.decode()) == (409, True)
    assert (
        signed_in(member("oscar", "operator")).post(f"/runs/{one.run_id}/cancel", {"reason": "enough"}).status_code
        == 302
    )


def test_who_looks_in_there_may_look_and_nothing_else(one):
    from fabric.services.actors import actor_inside_drills

    inside = actor_inside_drills(owner_actor(), one.run_id)
    assert (inside.name, inside.workspace_id) == ("owner", drills_workspace(one.workspace_id))
    assert {right for right in Right if inside.may(right)} == {Right.LOOK, Right.CONTENTS, Right.AUDIT, Right.REVEAL}
    assert actor_inside_drills(inside, one.run_id) is None
    assert actor_inside_drills(find_actor(member("fay", "finance", "operator")), one.run_id).roles == {"reader"}
    assert actor_inside_drills(find_actor(member("vera", "viewer")), one.run_id).roles == frozenset()


def test_who_takes_bytes_away_and_has_credentials_revealed_does_so_in_there(one):
    lines, event = f"/runs/{one.run_id}/events.ndjson", f"/runs/{one.run_id}/events/3/reveal"
    for role, takes, reveals in (
        ("auditor", 403, 403),
        ("auditor,reader", 200, 403),
        ("safety", 200, 409),
        ("viewer", 403, 403),
    ):
        who = signed_in(member(role.replace(",", "-"), *role.split(",")))
        assert who.get(f"{lines}?form=readable").status_code == 200
        assert (who.get(lines).status_code, who.post(event).status_code) == (takes, reveals), role


def test_no_list_of_real_runs_has_one(browser, actor, token, one):
    ids = json.loads(one.body)["runs"].values()
    assert runs_list(actor) == []
    for path in (
        "/",
        "/runs",
        "/reviews",
        "/models/breakers",
        "/notifications",
        "/search?q=What",
        f"/search?q={one.run_id}",
        "/fabrics/small",
    ):
        page = browser.get(path).content.decode()
        assert not [run_id for run_id in ids if run_id in page and f"q={run_id}" not in path], path
    listed = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token}").get("/api/v1/runs").json()
    assert listed["runs"] == []
    now = Run.objects.order_by("-ended_at").values_list("ended_at", flat=True)[0]
    assert not [run_id for run_id in ids if run_id in repr(attention(actor, now))]


def test_a_member_of_another_workspace_finds_nothing(browser, token, one, monkeypatch):
    with unguarded():
        Run.objects.update(workspace_id="elsewhere")
    for path in SEEN:
        assert browser.get(f"/runs/{one.run_id}{path}").status_code == 404
    for path in API:
        assert asked(token, "get", f"{one.run_id}{path}").status_code == 404
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME].value
    assert [found.code for found in admissions([(Credentials(cookie), one.run_id)]).values()] == [NOT_ALLOWED]


def test_a_page_costs_no_statement_more_without_drills_and_one_look_with_them(browser, one):
    def statements(path):
        browser.get(path)
        with CaptureQueriesContext(connection) as seen:
            assert browser.get(path).status_code == 200
        return [query["sql"] for query in seen]

    path = f"/runs/{real(one)}"
    with_drills = statements(path)
    assert len([sql for sql in with_drills if drills_workspace(one.workspace_id) in sql]) <= 1
    Drill.objects.all().delete()
    Run.objects.filter(workspace_id=drills_workspace(one.workspace_id)).delete()
    with unguarded():
        Run.objects.model._meta.get_field("workspace").related_model.objects.filter(drills_of__isnull=False).update(
            drills_of=None
        )
    assert len(statements(path)) == len(with_drills) - 1


def test_the_list_of_drills_runs_has_each_with_its_drills_verdict(browser, actor, one):
    page = browser.get("/runs/drills?fabric=small").content.decode()
    for run_id in json.loads(one.body)["runs"].values():
        assert f'id="run-{run_id}"' in page
    assert f'id="of-{one.id}"' in page
    assert "Undisturbed" in page
    assert 'id="tab-drills-runs"' in page
    assert browser.get("/runs/drills?fabric=none").status_code == 404


def test_the_list_goes_on_a_page_at_a_time(browser, actor, one, monkeypatch):
    from console.pages.runs.list import views as drill_runs

    found = drill_ask(actor=actor, fabric="small", cells=[(FailureType.PROVIDER, Tier.INTERACTIVE)])
    batch_drill(found.batch, "h")
    monkeypatch.setattr(drill_runs, "PAGE", 1)
    first = browser.get("/runs/drills").content.decode()
    assert f"of-{found.drills[0]}" in first
    assert f"of-{one.id}" not in first
    second = browser.get(f"/runs/drills?before={found.drills[0]}").content.decode()
    assert f"of-{one.id}" in second
    assert "Older drills" in first
    assert "Older drills" not in second


def test_the_list_without_any_leads_to_the_coverage(browser, small):
    page = browser.get("/runs/drills").content.decode()
    assert "No drill has a stored run." in page
    assert 'href="/drills"' in page


def test_the_actor_knows_the_workspace_of_drills_in_the_statement_that_it_takes_anyway(owner, actor):
    with CaptureQueriesContext(connection) as seen:
        find_actor(owner)
    assert [("drills_of_id" in query["sql"]) for query in seen][-1]
    assert len(seen) == 1, "the workspace with that of its drills"


def test_the_api_tells_the_runs_of_a_drill(token, one):
    client = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token}")
    told = client.get(f"/api/v1/drills/{one.id}").json()
    assert told["runs"] == json.loads(one.body)["runs"]
    assert asked(token, "get", told["runs"]["after"]).json()["state"] == "completed"
    Drill.objects.update(body="{}")
    assert client.get(f"/api/v1/drills/{one.id}").json()["runs"] == {"before": None, "during": None, "after": None}
