"""Each operation refuses bad input in a problem, and changes nothing. The cases are made from the schema.

What an operation takes is read from the OpenAPI document, so a new one, a new parameter or a new field is tried without being named here.
A new kind of id fails until it is known here what another workspace's looks like.
"""

from __future__ import annotations

import copy
import json
import re
import time
from itertools import product
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.db import connection
from django.middleware.csrf import get_token
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from console.api.openapi import example, operations, resolve_reference, schema
from console.site.requests.body_limit import body_max
from fabric.models import AuditLine, Event, Inbox, Review, Run
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.audit.holds import hold_place
from fabric.services.people.invitations import invitation_create
from fabric.services.runs.stops import stop_new_runs
from simulator.drills.library.services import scenario_save
from tests.console.api.client import check, fits
from tests.console.api.middleware.test_errors import HOSTILE
from tests.console.bad_input import acted_on_many, channel_of, drilled, foreign, model_of
from tests.console.nasty import ELSEWHERE, NASTY, VALUES, crossed, escaped
from tests.fabric.services.notifications.scenes import notification_row
from tests.fabric.services.world import change_waits, ran
from tests.simulator.drills.management.sources import plain

__all__ = ["foreign"]

OPERATIONS = {operation["operationId"]: (method, path, operation) for path, method, operation in operations(schema())}
TAKING = [name for name, (_, _, operation) in OPERATIONS.items() if "requestBody" in operation]
CHANGING = [name for name, (method, _, _) in OPERATIONS.items() if method != "GET"]
NAMING = [name for name, (_, path, _) in OPERATIONS.items() if "{" in path]
UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
NOT_JSON = ("text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json")


@pytest.fixture
def ids(actor, doubtful):
    """Ids that there are: of a run that waits with a review."""
    run = ran(actor, doubtful)
    return {"run_id": run.id, "name": doubtful, "review_id": list_open_reviews(actor, run.id)[0].id} | {
        "notification_id": notification_row(actor, run.id),
        "invitation_id": invitation_create(actor=actor, roles=["viewer"]).id,
        "model_id": model_of(actor.workspace_id),
        "change_id": change_waits(actor, doubtful),
        "hold_id": hold_place(actor=actor, about="fabric", name=doubtful, reason="A case.").id,
        "scenario_name": scenario_save(actor=actor, source=plain("doubtful")).name,
        **drilled(actor, doubtful),
        "job_id": acted_on_many(actor)["job_id"],
        "channel_id": channel_of(actor.workspace_id),
        "stop_id": stop_new_runs(actor=actor, fabric=doubtful, reason="A case.").id,
        "record_id": AuditLine.objects.filter(workspace_id=actor.workspace_id).first().id,
    }


@pytest.fixture
def untouched(ids, foreign):
    """Nothing is different at the end of the test."""
    before = standing()
    yield
    assert standing() == before


def standing():
    """Return what there is: runs, inputs, events, and how reviews stand."""
    kept = [list(model.objects.order_by("pk").values_list("pk", flat=True)) for model in (Run, Inbox, Event)]
    return [*kept, list(Review.objects.order_by("pk").values_list("pk", "decided_at", "verb"))]


def address(name, ids):
    return OPERATIONS[name][1].format(**ids)


def good(name):
    """A body that the operation's schema takes; nothing for one that takes none."""
    _, _, operation = OPERATIONS[name]
    if "requestBody" not in operation:
        return {}
    return copy.deepcopy(operation["requestBody"]["content"]["application/json"]["example"])


def ask(program, name, ids, *, query="", body=None, **more):
    """One request, of whatever method the operation is; the answer was held to the schema."""
    method, _, operation = OPERATIONS[name]
    needed = {
        one["name"]: one["example"] for one in operation["parameters"] if one["in"] == "query" and one["required"]
    }
    path = address(name, ids) + (f"?{query or urlencode(needed)}" if query or needed else "")
    data = json.dumps(good(name) if body is None else body).encode() if "requestBody" in operation else b""
    return program.call(method, path, data=data, **more)


# -- parameters ------------------------------------------------------------------------------------------------------

PARAMETERS = [
    (name, parameter)
    for name, (_, _, operation) in OPERATIONS.items()
    for parameter in operation["parameters"]
    if parameter["in"] in ("query", "header")
]


def acceptable(shape, text):
    """Return True if a parameter's schema takes a text."""
    if shape.get("type") == "integer":
        return bool(re.fullmatch(r"[+-]?[0-9]{1,18}", text)) and fits(shape, int(text)) == []
    if shape.get("format") == "uuid":
        return bool(UUID.fullmatch(text))
    return fits(shape, text) == []


@pytest.mark.usefixtures("untouched")
def test_every_parameter_may_be_anything(program, ids):
    for (name, parameter), (kind, text) in crossed(PARAMETERS, NASTY.items()):
        said = f"{name}, {parameter['name']}: {kind}"
        if parameter["in"] == "header":
            if not text.isascii() or not text.isprintable() or len(text) > 10_000:
                continue  # No server lets it through.
            answer = ask(program, name, ids, headers={parameter["name"]: text}, body={})
        else:
            answer = ask(program, name, ids, query=f"{parameter['name']}={escaped(text[:4_000])}")
        # Bytes that are no text arrive as U+FFFD.
        read = text[:4_000].encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        if not acceptable(resolve_reference(schema(), parameter["schema"]), read):
            assert answer.status_code in (400, 422), (said, answer.status_code)
            if answer.status_code == 422:
                assert parameter["name"] in [error["path"] for error in answer.json()["errors"]], said


@pytest.mark.usefixtures("untouched")
def test_each_operation_takes_each_parameter_that_it_knows_once(program, ids):
    for name in OPERATIONS:
        for unknown in ("colour", "Limit", "__proto__", escaped("\0"), escaped("\ud800")):
            assert ask(program, name, ids, query=f"{unknown}=1").status_code == 422, (name, unknown)
        for parameter in OPERATIONS[name][2]["parameters"]:
            if parameter["in"] == "query":
                one = f"{parameter['name']}={parameter['example']}"
                answer = ask(program, name, ids, query=f"{one}&{one}")
                assert [error["path"] for error in answer.json()["errors"]] == [parameter["name"]], name


# -- bodies ----------------------------------------------------------------------------------------------------------


def places(shape, before=()):
    """Every field of a body: the way to it."""
    shape = resolve_reference(schema(), shape)
    for field, one in shape.get("properties", {}).items():
        yield (*before, field)
        told = resolve_reference(schema(), one)
        if told.get("type") == "array":
            yield from places(told["items"], (*before, field, 0))


def shape_of(name):
    return OPERATIONS[name][2]["requestBody"]["content"]["application/json"]["schema"]


def put(name, body, place, value):
    """The body with a value in a place. A list that is empty there gets an item first."""
    *way, last = place
    for number, step in enumerate(way):
        if step == 0 and not body:
            body.append(example(schema(), item_shape(name, way[:number])))
        body = body[step]
    body[last] = value


def item_shape(name, way):
    """The schema of a list's items."""
    shape = shape_of(name)
    for step in way:
        shape = resolve_reference(schema(), resolve_reference(schema(), shape)["properties"][step])
    return shape["items"]


@pytest.mark.usefixtures("untouched")
def test_every_field_of_every_body_may_be_anything(program, ids):
    for name in TAKING:
        for place, (kind, value) in crossed(places(shape_of(name)), VALUES.items()):
            body = good(name)
            put(name, body, place, value)
            if fits(shape_of(name), body) == []:
                continue  # It is what the operation takes; what becomes of it is told elsewhere.
            answer = ask(program, name, ids, body=body)
            assert answer.status_code == 422, (name, place, kind, answer.status_code)
            where = ".".join(map(str, place))
            told = [error["path"] for error in answer.json()["errors"]]
            assert all(path.startswith(where) for path in told), (name, kind, answer.json())


@pytest.mark.usefixtures("untouched")
def test_a_unknown_field_beside_each(program, ids):
    for name, place in [(one, place) for one in TAKING for place in places(shape_of(one))]:
        body = good(name)
        put(name, body, (*place[:-1], "colour"), "red")
        answer = ask(program, name, ids, body=body)
        assert answer.status_code == 422, (name, place)
        assert [error["path"].rpartition(".")[2] for error in answer.json()["errors"]] == ["colour"], (name, place)


@pytest.mark.usefixtures("untouched")
def test_each_body_is_read_alike_by_all_or_refused_at_once(program, ids):
    for name, (what, data) in crossed(TAKING, HOSTILE.items()):
        began = time.process_time()
        answer = program.call("POST", address(name, ids), data=data)
        assert time.process_time() - began < 1, (name, what)
        whole = len(data) <= body_max("POST", address(name, ids))
        assert answer.status_code == (400 if whole else 413), (name, what)


@pytest.mark.usefixtures("untouched")
def test_each_body_is_a_json_object_within_its_bound_and_says_so(program, ids):
    for name in TAKING:
        path = address(name, ids)
        for announced in NOT_JSON:
            answer = program.call("POST", path, data=b'{"reason": "x"}', content_type=announced)
            assert answer.status_code == 415, (name, announced)
        for body in (None, [], "text", 7, True, [{}]):
            assert program.call("POST", path, data=json.dumps(body).encode()).status_code == 422, (name, body)
        assert program.call("POST", path, data=b" " * (body_max("POST", path) + 1)).status_code == 413, name


# -- ids -------------------------------------------------------------------------------------------------------------


def test_every_kind_of_id_is_known_here(ids, foreign):
    named = {parameter for _, path, _ in OPERATIONS.values() for parameter in re.findall(r"{(\w+)}", path)}
    assert (
        named == set(ids) == set(foreign) - {"scope", "digest", "member_id", "view_id"}
    )  # A breaker is named in a body, a member by name; saved views are of the console.


@pytest.mark.usefixtures("untouched")
def test_what_is_another_workspaces_is_told_like_what_there_is_not(program, ids, foreign):
    unknown = {"run_id": str(uuid4()), "name": "nobodys", "review_id": "0123456789abcdef"}
    unknown["notification_id"] = "fedcba9876543210fedcba9876543210"
    unknown |= {
        "scenario_name": "nobodys",
        "drill_id": str(uuid4()),
        "batch": str(uuid4()),
        "schedule_id": str(uuid4()),
        "invitation_id": str(uuid4()),
        "model_id": uuid4().hex,
        "change_id": str(uuid4()),
        "hold_id": uuid4().hex,
        "record_id": uuid4().hex,
        "stop_id": str(uuid4()),
        "channel_id": uuid4().hex,
        "job_id": str(uuid4()),
    }
    for name in NAMING:
        ask(program, name, unknown)  # What is asked once and kept has been asked.
        told = [told_of(program, name, named) for named in (unknown, foreign)]
        assert told[0] == told[1], name
        assert told[0][0] == 404, name


def told_of(program, name, named):
    """Return what is answered to who names these: status, text without the names, number of queries."""
    with CaptureQueriesContext(connection) as asked:
        answer = ask(program, name, named)
    body = answer.content.decode()
    for value in named.values():
        body = body.replace(value, "ID")
    return answer.status_code, re.sub(r'"request_id": "\w+"', "", body), len(asked.captured_queries)


@pytest.mark.usefixtures("untouched")
def test_ids_of_any_shape_name_nothing(program, ids):
    for name, text in crossed(NAMING, (*NASTY.values(), ".", "%", "a" * 3_000)):
        odd = {key: escaped(text[:3_000]) for key in ids}
        assert ask(program, name, odd).status_code in (404, 405), (name, text[:20])


@pytest.mark.usefixtures("untouched")
def test_ids_elsewhere_than_in_the_path(program, ids, foreign):
    for run_id in (str(uuid4()), foreign["run_id"]):
        found = ask(program, "listReviews", ids, query=f"run_id={run_id}").json()
        assert found == {"reviews": [], "next_cursor": None}
    told = [ask(program, "startRun", ids, body={"fabric": name, "text": "Why?"}) for name in ("nobodys", "theirs")]
    assert [answer.status_code for answer in told] == [404, 404]
    first, second = (answer.json()["detail"].replace("nobodys", "theirs") for answer in told)
    assert first == second


# -- other sites -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("untouched")
def test_a_change_from_another_site_or_without_the_sessions_token(browser, ids):
    browser.handler.enforce_csrf_checks = True
    for name, (headers, announced) in crossed(CHANGING, product(ELSEWHERE, ("application/json", "text/plain"))):
        path = address(name, ids)
        answer = browser.generic("POST", path, json.dumps(good(name)), content_type=announced, headers=headers)
        check("POST", path, answer)
        assert answer.status_code == 403, (name, headers)
    secret = get_token(RequestFactory().get("/"))
    browser.cookies["fabric-csrf-8420"] = secret
    for name, origin in product(
        CHANGING, ("http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1")
    ):
        sent = {"content_type": "application/json", "headers": {"X-CSRFToken": secret, "Origin": origin}}
        assert browser.post(address(name, ids), good(name), **sent).status_code == 403, (name, origin)
