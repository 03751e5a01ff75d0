"""A run over real HTTP against a scripted endpoint: the whole path, and every way in which an endpoint can be bad."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from fabric.runtime.ports.journal import Document
from simulator.endpoint import ScriptedEndpoint, answer, hang, html, refusal, trickle, unfit_text
from simulator.endpoint.behaviour.misbehaviour import agents
from tests.fabric.composition.installation import Installation, installation

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENTS = (
    Document("bridge.md", "The bridge is 40 metres long. It was built in 1931 and repaired in 1988."),
    Document("ferry.md", "The ferry crosses in 12 minutes. It has run since 1902."),
)
SHORT = {"interactive: {call_s: 60, stage_s: 180, run_s: 600}": "interactive: {call_s: 2.5, stage_s: 20, run_s: 40}"}
"""For an endpoint that never answers: how long a call waits for it. Where it answers, the sample's own deadlines leave a busy machine time."""
CELL = """
decision_table:
  provider_failure:
    interactive: {rungs: [{reaction: retry, times: 1}, {reaction: fallback_model, times: 1}, {reaction: surface}]}
"""
ONE_RETRY = {"reviewers: [owner]\n": f"reviewers: [owner]\n{CELL}"}
"""Each of four steps then waits for two calls, and at most a second between them: the run is over long before its deadline."""

WITHOUT_WAITS = {"reviewers: [owner]\n": f"reviewers: [owner]\n{CELL.replace('retry, times: 1', 'retry, times: 2')}"}
"""The default retries and swap, and no wait for the breaker, which closes after 30 seconds."""

UNGUARDED = {"policy:\n  budget:\n": "policy:\n  breakers: []\n  breakers_deviation: Each step asks anew.\n  budget:\n"}
"""No breaker keeps a step from asking an endpoint that failed in the step before."""


@pytest.fixture
def site(settings: Any) -> Iterator[Installation]:
    """An installation whose model is whatever the test starts."""
    settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = "scripted", "sk-test"
    settings.FABRIC_MODEL_URL = "http://127.0.0.1:1/v1"
    with installation() as found:
        yield found


def run_against(settings: Any, script: Any, **replaced: str) -> tuple[Any, list[Any], int]:
    """One run of the document review, with texts replaced, against a scripted endpoint: its row, its events, the requests it made."""
    with ScriptedEndpoint(script) as endpoint:
        settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, settings.FABRIC_MODEL_URL = (
            "scripted",
            "sk-test",
            endpoint.url,
        )
        with installation() as site:
            name = site.publish("document-review", **replaced)
            run_id = site.start(name, "Which is older, the bridge or the ferry?", DOCUMENTS, "interactive")
            row = site.rest(run_id)
            return row, site.events(run_id), len(endpoint.wait(0))


def test_a_run_goes_end_to_end_over_real_http(settings: Any) -> None:
    """Plan, tools, merge, critic, outcome: all of it asked of an endpoint that speaks the protocol."""
    row, events, requests = run_against(settings, agents())
    assert row.state == "completed", row.reason
    kinds = [event.kind for event in events]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_ended"
    assert "tool_answered" in kinds
    assert requests == kinds.count("call_issued") - kinds.count("tool_answered")
    assert row.tokens > 0


@pytest.mark.parametrize(
    ("script", "words", "deadlines"),
    [
        ([refusal(401, "Incorrect API key provided", code="invalid_api_key")], "key", {}),
        ([html()], "web page", {}),
        ([trickle()], "second", SHORT),
        ([hang()], "second", SHORT),
        ([answer("")], "empty", {}),
        ([refusal(503, "overloaded")], "503", WITHOUT_WAITS),
    ],
    ids=["wrong key", "html", "trickle", "hang", "empty", "unavailable"],
)
def test_a_bad_endpoint_ends_the_run_with_a_sentence(
    settings: Any, script: Any, words: str, deadlines: dict[str, str]
) -> None:
    """The run ends truthfully with any answer: never an exception, never a silent success."""
    row, events, _ = run_against(settings, script, **deadlines)
    assert row.state in ("failed", "aborted"), (row.state, row.reason)
    assert words in row.reason.lower(), row.reason
    assert events[-1].kind == "run_ended"
    assert "sk-test" not in json.dumps([event.fact for event in events])


def test_a_quota_is_asked_once_and_the_run_says_when_it_is_back(settings: Any) -> None:
    back = (datetime.now(UTC) + timedelta(hours=5)).replace(second=0, microsecond=0)
    said = f"5-hour quota has been exhausted, it will reset at {back:%Y-%m-%d %H:%M} UTC"
    used_up = refusal(429, said, code="1308", headers={"Retry-After": "1"})
    row, events, requests = run_against(settings, [used_up])
    assert (row.state, requests) == ("aborted", 1), row.reason
    assert f"it is back at {back:%Y-%m-%d %H:%M} UTC" in row.reason
    failed = next(event.fact for event in events if event.kind == "attempt_failed")
    assert (failed["cause"], failed["charged_usd_micros"]) == ("quota", 0)


def test_a_retry_after_of_0_makes_no_burst(settings: Any) -> None:
    """The backoff holds, where the endpoint says that it may be asked at once."""
    row, events, requests = run_against(settings, [refusal(429, "slow", headers={"Retry-After": "0"})], **WITHOUT_WAITS)
    assert (row.state, requests) == ("failed", 3), row.reason
    waited = [event.fact for event in events if event.kind == "retry_scheduled"]
    assert {fact["source"] for fact in waited} == {"backoff"}
    assert all(fact["delay_s"] > 0 for fact in waited)


def test_an_endpoint_that_is_down_is_named(settings: Any) -> None:
    """Nothing listens: retried as the table says, then surfaced with the address."""
    settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, settings.FABRIC_MODEL_URL = (
        "m",
        "sk-test",
        "http://127.0.0.1:9/v1",
    )
    with installation() as site:
        name = site.publish("document-review", **WITHOUT_WAITS)
        row = site.rest(site.start(name, "Which is older?", DOCUMENTS, "interactive"))
        kinds = site.kinds(row.id)
    assert row.state == "failed"
    assert "127.0.0.1:9" in row.reason
    assert kinds.count("attempt_failed") == 3
    assert kinds.count("retry_scheduled") == 2


def test_a_missing_key_is_said_before_any_request(settings: Any) -> None:
    """No key is configured: the reason names the variable."""
    with ScriptedEndpoint([refusal(401, "missing key")]) as endpoint:
        settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, settings.FABRIC_MODEL_URL = "m", "", endpoint.url
        with installation() as site:
            row = site.rest(site.start(site.publish("document-review"), "Which?", DOCUMENTS, "interactive"))
    assert row.state == "failed"
    assert "FABRIC_MODEL_KEY" in row.reason


def test_nul_and_lone_surrogates_are_stored_as_replacement_characters(settings: Any) -> None:
    """The writer replaces what no database can hold, and the event says so."""
    row, events, _ = run_against(settings, [unfit_text()])
    assert row.state in ("failed", "aborted", "completed")
    said = [event for event in events if event.kind == "model_answered"]
    assert said
    assert all(event.fact["sanitized"] for event in said)
    assert "\x00" not in json.dumps([event.content for event in events], ensure_ascii=False)


def test_high_stakes_asks_a_person_when_the_endpoint_is_down(site: Installation) -> None:
    """Retries spent: an open review, nothing hosted meanwhile."""
    name = site.publish("document-review")
    row = site.rest(site.start(name, "Which is older?", DOCUMENTS, "high_stakes"), 90.0)
    assert row.state == "waiting"
    assert [review.stage for review in site.reviews(row.id)] == ["plan"]


# -- data of the author's own schema ---------------------------------------------------------------------------------

TOTALS = (
    "output_schema: {type: object, properties: {total: {type: integer, minimum: 5}, at: {type: string, format: date}}, "
    "required: [total, at], additionalProperties: false}"
)


def test_the_authors_schema_goes_out_and_its_data_comes_back(settings: Any) -> None:
    """In the first message in full, beside it as far as an endpoint can be held to it; data that misfits is told, and asked for again."""
    said = agents()
    sent: list[Any] = []

    def script(received: Any) -> Any:
        if received.agent != "editor":
            return said(received)
        sent.append(received.body)
        bad = json.dumps({"text": "It is older.", "citations": [], "data": {"total": "many", "at": "1931-01-01"}})
        return answer(bad) if len(sent) == 1 else said(received)

    with ScriptedEndpoint(script) as endpoint:
        settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, settings.FABRIC_MODEL_URL = (
            "scripted",
            "sk-test",
            endpoint.url,
        )
        with installation() as site:
            name = site.publish("document-review", **{"  - name: editor\n": f"  - name: editor\n    {TOTALS}\n"})
            row = site.rest(site.start(name, "Which is older, the bridge or the ferry?", DOCUMENTS, "interactive"))
            outcome = site.outcome(row.id)
    assert row.state == "completed", row.reason
    assert outcome["data"] == {"total": 5, "at": "2026-01-31"}
    form = sent[0]["response_format"]["json_schema"]
    assert form["schema"]["properties"]["data"] == {
        "type": "object",
        "properties": {"total": {"type": "integer", "minimum": 5}, "at": {"type": "string"}},
        "required": ["total", "at"],
        "additionalProperties": False,
    }
    assert '"format":"date"' in sent[0]["messages"][0]["content"]
    assert 'data.total: it is not of type "integer"' in sent[1]["messages"][-1]["content"]


# -- another model ---------------------------------------------------------------------------------------------------


def with_fallback(url: str) -> dict[str, str]:
    """Texts of the sample replaced, so that another endpoint's model stands behind its one."""
    price = "price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}"
    spare = f"{{name: spare, provider: openai, model: scripted, base_url: '{url}', {price}}}"
    return {f"    {price}\n": f"    {price}\n    fallbacks: [spare]\n  - {spare}\n"}


def run_with_fallback(settings: Any, script: Any, **replaced: str) -> tuple[Any, list[Any], list[int]]:
    """One run, with texts of its fabric replaced, whose own endpoint answers by the script, and whose fallback is well: its row, its events, requests of each."""
    with ScriptedEndpoint(script) as own, ScriptedEndpoint(agents()) as spare:
        settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, settings.FABRIC_MODEL_URL = "scripted", "sk-test", own.url
        settings.FABRIC_ALLOWED_HOSTS = [urlsplit(spare.url).netloc]
        with installation() as site:
            name = site.publish("document-review", **with_fallback(spare.url), **replaced)
            row = site.rest(site.start(name, "Which is older, the bridge or the ferry?", DOCUMENTS, "interactive"))
            return row, site.events(row.id), [len(own.wait(0)), len(spare.wait(0))]


@pytest.mark.parametrize(
    ("script", "cause", "replaced"),
    [
        ([refusal(503, "overloaded")], "server_error", UNGUARDED),
        ([hang()], "timeout", SHORT | ONE_RETRY | UNGUARDED),
    ],
    ids=["unavailable", "hang"],
)
def test_a_run_goes_on_with_the_fallback_of_an_endpoint_that_is_down(
    settings: Any, script: Any, cause: str, replaced: dict[str, str]
) -> None:
    """Retried while there is a budget for it, then asked of the other endpoint, in every step; each attempt and each swap is an event."""
    row, events, (own, spare) = run_with_fallback(settings, script, **replaced)
    assert row.state == "completed", row.reason
    changes = [event.fact for event in events if event.kind == "model_changed"]
    assert {(fact["before"], fact["model"], fact["cause"]) for fact in changes} == {("reviewer-model", "spare", cause)}
    assert own == len(changes) + sum(event.kind == "retry_scheduled" for event in events)
    assert len(changes) >= 4
    asked = [event.fact for event in events if event.kind == "call_issued" and event.fact["call"] == "model"]
    assert len(asked) == own + spare


def test_a_retry_after_over_the_cap_goes_to_the_fallback_at_once(settings: Any) -> None:
    """Over the cap there is no waiting: the other endpoint is asked instead, and after three times this one no more: the breaker in front of it is its own."""
    row, events, (own, _) = run_with_fallback(settings, [refusal(429, "slow down", headers={"Retry-After": "3600"})])
    assert row.state == "completed", row.reason
    changes = [event.kind for event in events].count("model_changed")
    assert own == 3 < changes
    skipped = [event.fact["reason"] for event in events if event.kind == "rung_skipped"]
    assert skipped[:3] == ["Retry-After of 3600 s is over the cap of 60 s"] * 3
    assert all(one.startswith("its circuit breaker is open") for one in skipped[3:])


def test_a_retry_after_is_waited_for_as_it_says(settings: Any) -> None:
    """Two seconds, not the backoff's one at most."""
    row, events, _ = run_with_fallback(settings, after_one(refusal(429, "slow down", headers={"Retry-After": "2"})))
    assert row.state == "completed", row.reason
    (waited,) = [event for event in events if event.kind == "retry_scheduled"]
    assert (waited.fact["delay_s"], waited.fact["source"]) == (2.0, "retry_after")
    again = next(e for e in events if e.kind == "call_issued" and e.fact["attempt"] == 2)
    assert again.at - waited.at >= 2_000_000


def after_one(first: Any) -> Any:
    """One refusal, then the scripted agents."""
    reply, said = agents(), iter([first])
    return lambda received: next(said, None) or reply(received)


def test_a_wrong_key_is_never_swapped(settings: Any) -> None:
    """The same would come of it, or it is not ours to go round: the run says so."""
    row, events, (_, spare) = run_with_fallback(settings, [refusal(401, "Incorrect API key", code="invalid_api_key")])
    assert (row.state, spare) == ("failed", 0)
    assert "model_changed" not in [event.kind for event in events]


def test_in_high_stakes_the_other_endpoint_is_asked_when_a_person_approved_it(settings: Any) -> None:
    """The cell has no swap: a person is asked, sees which model it would be, and names it."""
    with ScriptedEndpoint([refusal(503, "overloaded")]) as own, ScriptedEndpoint(agents()) as spare:
        settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY, settings.FABRIC_MODEL_URL = "scripted", "sk-test", own.url
        settings.FABRIC_ALLOWED_HOSTS = [urlsplit(spare.url).netloc]
        with installation() as site:
            name = site.publish("document-review", **with_fallback(spare.url))
            row = site.rest(site.start(name, "Which is older?", DOCUMENTS, "high_stakes"), 90.0)
            assert (row.state, len(spare.wait(0))) == ("waiting", 0)
            (review,) = site.reviews(row.id)
            assert review.content["takes_model"]["model"] == "spare"
            site.answer(review, "approve", model="spare", message="The spare one may read it.")
            with site.heard:
                site.heard.wait_for(lambda: "model_changed" in site.kinds(row.id), 60.0)
            (changed,) = [event.fact for event in site.events(row.id) if event.kind == "model_changed"]
    assert (changed["model"], changed["actor"] != "") == ("spare", True)
