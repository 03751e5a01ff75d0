"""The adapter speaks Google's Gemini API where it differs from others."""

import json

import pytest

from fabric.core.values.taxonomy import Cause
from simulator.endpoint import Step
from tests.fabric.providers.asking import TOOL
from tests.fabric.providers.wires import GOOGLE, google_refusal, step

TYPE = "type.googleapis.com/google.rpc."
PER_MINUTE = {"@type": f"{TYPE}QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}
PER_DAY = {"@type": f"{TYPE}QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerDayPerProject-FreeTier"}]}
AGAIN = {"@type": f"{TYPE}RetryInfo", "retryDelay": "17s"}
WRONG_KEY = {"@type": f"{TYPE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
EXCEEDED = "You exceeded your current quota, please check your plan and billing details."
refusal = google_refusal

ROWS = [
    (refusal(400, "API key not valid. Please pass a valid API key.", details=[WRONG_KEY]), Cause.AUTH),
    (refusal(401, "no", "UNAUTHENTICATED"), Cause.AUTH),
    (refusal(403, "no", "PERMISSION_DENIED"), Cause.AUTH),
    (refusal(400, "Invalid JSON payload received."), Cause.BAD_REQUEST),
    (
        refusal(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        Cause.CONTEXT_LENGTH,
    ),
    (refusal(404, "models/gemini-0 is not found for API version v1beta", "NOT_FOUND"), Cause.UNKNOWN_MODEL),
    (refusal(429, EXCEEDED, "RESOURCE_EXHAUSTED", details=[PER_MINUTE, AGAIN]), Cause.RATE_LIMIT),
    (refusal(429, EXCEEDED, "RESOURCE_EXHAUSTED", details=[PER_DAY, AGAIN]), Cause.QUOTA),
    (refusal(429, EXCEEDED, "RESOURCE_EXHAUSTED", details=[AGAIN]), Cause.RATE_LIMIT),
    (refusal(429, EXCEEDED, "RESOURCE_EXHAUSTED"), Cause.QUOTA),
    (refusal(429, "Resource has been exhausted", "RESOURCE_EXHAUSTED"), Cause.RATE_LIMIT),
    (refusal(429, "Your prepayment credits are depleted.", "RESOURCE_EXHAUSTED"), Cause.QUOTA),
    (refusal(500, "An internal error has occurred.", "INTERNAL"), Cause.SERVER_ERROR),
    (refusal(503, "The model is overloaded.", "UNAVAILABLE", details=[AGAIN]), Cause.SERVER_ERROR),
    (refusal(504, "Deadline expired", "DEADLINE_EXCEEDED"), Cause.TIMEOUT),
    (step([{"error": {"code": 503, "status": "UNAVAILABLE", "message": "no"}}], 503), Cause.SERVER_ERROR),
    (step({"candidates": [7]}), Cause.MALFORMED_ANSWER),
    (step({"candidates": []}), Cause.MALFORMED_ANSWER),
    (step({"promptFeedback": {}}), Cause.MALFORMED_ANSWER),
]


@pytest.mark.parametrize(("given", "cause"), ROWS, ids=lambda one: str(getattr(one, "status", one)))
def test_each_refusal_has_its_cause_after_one_request(given, cause):
    result, received = GOOGLE.ask(given)
    assert (result.cause, len(received)) == (cause, 1), result


def test_when_to_come_back_stands_in_the_details():
    given = refusal(429, EXCEEDED, "RESOURCE_EXHAUSTED", details=[PER_MINUTE, AGAIN])
    assert GOOGLE.ask(given)[0].retry_after_s == 17.0
    late = Step(status=given.status, body=given.body, headers={"Retry-After": "3"})
    assert GOOGLE.ask(late)[0].retry_after_s == 3.0


@pytest.mark.parametrize(
    "body",
    [
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}},
        {"candidates": [{"finishReason": "SAFETY"}]},
        {"candidates": [{"finishReason": "PROHIBITED_CONTENT"}]},
        {"candidates": [{"finishReason": "RECITATION"}]},
    ],
    ids=["prompt", "answer", "prohibited", "recitation"],
)
def test_what_is_blocked_ends_as_content_filter(body):
    result, _ = GOOGLE.ask(step(body))
    assert (result.text, result.finish) == ("", "content_filter")


def test_thinking_and_cached_tokens_are_charged():
    body = json.loads(GOOGLE.answer("hi", usage=(10, 3)).body)
    body["usageMetadata"] |= {"thoughtsTokenCount": 20, "cachedContentTokenCount": 4}
    result, _ = GOOGLE.ask(step(body))
    assert (result.input_tokens, result.output_tokens) == (10, 23)


def test_calls_without_ids_are_read():
    parts = [{"functionCall": {"name": "look", "args": {"at": at}}} for at in ("x", "y")]
    given = step({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
    result, _ = GOOGLE.ask(given, tools=(TOOL,))
    assert [(one.call_id, one.args) for one in result.calls] == [("", {"at": "x"}), ("", {"at": "y"})]


def test_a_call_that_was_no_call_is_an_empty_answer():
    given = step({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print("}]})
    result, _ = GOOGLE.ask(given)
    assert (result.text, result.calls, result.finish) == ("", (), "stop")


def test_an_answer_that_could_go_on_is_cut_and_not_asked_for_again():
    body = json.loads(GOOGLE.answer("half").body)
    body["candidates"][0] |= {"finishReason": "CONTINUATION", "continuationToken": "YWJj"}
    result, received = GOOGLE.ask(step(body))
    assert (result.text, result.finish, len(received)) == ("half", "length", 1)


@pytest.mark.parametrize("model", ["../secrets", "a/b/c", "m?x=y", "m#", "models/../x", " ", "m:other", ".."])
def test_a_model_id_that_would_lead_elsewhere_is_not_asked(model):
    result, received = GOOGLE.ask(GOOGLE.answer("ok"), spec={"model": model})
    assert (result.cause, result.never_sent, received) == (Cause.BAD_CONFIGURATION, True, [])
    assert "which is none of Google's" in result.message
