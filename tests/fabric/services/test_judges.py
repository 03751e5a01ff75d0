"""Judges on the real host: a plan's critic, an oracle by address over real HTTP, and an unsafe output that only one role lets pass."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from console.words.fabrics import list_stages
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Review
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_events, run_outcome
from fabric.services.actors import owner_ensure
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import SMALL, ran
from tests.people import member, signed_in

JUDGE = "  - name: judge\n    model: script\n    instructions: Judge.\n"


class Answers(BaseHTTPRequestHandler):
    """Says how the outcome fares, and keeps what it was asked."""

    asked: list[str]
    status = 200

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        body = json.dumps({"ok": True}).encode()
        self.send_response(type(self).status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said: object) -> None:
        """Nothing is said."""


@pytest.fixture
def service(settings):
    handler = type("Handler", (Answers,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    settings.FABRIC_ALLOWED_HOSTS = (f"127.0.0.1:{server.server_port}",)
    handler.port = server.server_port
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def fabric(name: str, *, topology: str = "", rest: str = "") -> str:
    source = SMALL.replace("name: small", f"name: {name}").replace("topology:\n", f"{JUDGE}topology:\n{topology}")
    return source + rest


def oracle_at(service, path: str) -> str:
    url = f"http://127.0.0.1:{service.port}{path}"
    check = {"name": "record", "message": "The record says otherwise.", "http": {"url": url}}
    return f"gates:\n  oracle: [{json.dumps({**check, 'expression': 'answer.json.ok'})}]\n"


def facts(actor, run, kind):
    return [row.fact for row in run_events(actor, run.id, limit=500) if row.kind == kind]


def test_an_outcome_is_held_against_an_address_over_real_http(actor, service):
    source = fabric(
        "tested", topology="  plan_critic: judge\n", rest=oracle_at(service, "/runs/{run.id}?n={exit_criteria.0}")
    )
    source_name = fabric_publish(actor=actor, source=source).name
    run = ran(actor, source_name)
    client = signed_in(owner_ensure())
    assert run.state is RunState.COMPLETED
    (asked,) = service.asked
    assert asked.startswith(f"/runs/{run.id}?n=")
    assert " " not in asked
    for view in ("", "?view=events", "?view=graph", "?view=timeline", "?view=cost"):
        page = client.get(f"/runs/{run.id}{view}")
        assert page.status_code == 200
    for row in run_events(actor, run.id, limit=500):
        page = client.get(f"/runs/{run.id}/events/{row.seq}")
        assert page.status_code == 200
        if row.kind == "call_issued" and not row.fact["agent"]:
            assert "record" in page.content.decode()
    lines = {line.stage: line.checks for line in list_stages(fabric_read(source).spec)}
    assert lines["plan"][-1] == "critic: judge accepts the plan before it goes out"
    assert lines["finalize"][-1] == f"oracle: record, asked of 127.0.0.1:{service.port}"
    checks = {one["stage"]: [c["name"] for c in one["gate"]["checks"]] for one in facts(actor, run, "stage_left")}
    assert (checks["plan"][-2], checks["finalize"][-2]) == ("critic", "oracle")


def test_an_address_that_says_no_is_no_success(actor, service):
    service.status = 404
    source = fabric("tested", rest=oracle_at(service, "/runs/{run.id}"))
    run = ran(actor, fabric_publish(actor=actor, source=source).name)
    assert run.state is RunState.FAILED
    assert "answered HTTP 404" in str(facts(actor, run, "reaction_decided")[0])


def test_an_address_that_the_installation_does_not_allow_is_refused_at_publication(actor, service, settings):
    source = fabric("tested", rest=oracle_at(service, "/runs/{run.id}"))
    settings.FABRIC_ALLOWED_HOSTS = ()
    with pytest.raises(Refused, match=r"gates\.oracle\.0\.http\.url"):
        fabric_publish(actor=actor, source=source)


# -- an unsafe output ------------------------------------------------------------------------------------------------

GUARDED = fabric(
    "guarded", rest="gates:\n  guardrails:\n    - {places: [finalize], patterns: [{name: any, pattern: '[a-z]'}]}\n"
).replace("topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n")


@pytest.fixture
def held(actor):
    """A run whose outcome a guardrail holds back."""
    run = ran(actor, fabric_publish(actor=actor, source=GUARDED).name)
    (item,) = list_open_reviews(actor, run.id)
    return item


@pytest.fixture
def decide(store, nudge, held):
    def decided(actor, verb="approve"):
        given = {"review_id": held.id, "digest": held.digest, "verb": verb, "message": "It is harmless."}
        return decide_review(store=store, nudge=nudge, actor=actor, **given)

    return decided


def test_it_is_let_pass_by_the_safety_role_alone_and_as_it_was_shown(actor, held, decide):
    assert held.required_role == "safety"
    colleague = replace(actor, name="carla", roles=frozenset({"reviewer", "finance", "owner"}))
    with pytest.raises(Refused, match="carla is not asked: this is for safety") as caught:
        decide(colleague)
    assert caught.value.code == "forbidden"
    member("sam", "safety")
    decide(replace(actor, name="sam", roles=frozenset({"safety"})))
    run = Following(actor, held.run_id, answered=frozenset({held.id})).to_rest()
    assert run.state is RunState.COMPLETED
    assert run_outcome(actor, run.id)["text"] == held.content["payload"]["text"]


def test_the_role_it_was_passed_on_to_may_keep_it_back_and_not_let_it_pass(actor, held, decide):
    Review.objects.update(onward=True, onward_to=names_text(["owner"]))
    colleague = replace(actor, name="carla", roles=frozenset({"owner"}))
    with pytest.raises(Refused, match="letting an unsafe output pass is for safety"):
        decide(colleague)
    assert decide(colleague, "reject").created


def test_it_is_kept_back(actor, held, decide):
    decide(actor, "reject")
    assert Following(actor, held.run_id, answered=frozenset({held.id})).to_rest().state is RunState.ABORTED
