"""The adapter speaks Anthropic's Messages API where it differs from others."""

import json

import pytest

from fabric.core.schema.payloads import json_schema
from fabric.core.values.taxonomy import Cause
from simulator.endpoint import Step
from tests.fabric.providers.asking import TOOL
from tests.fabric.providers.wires import ANTHROPIC, step

refusal = ANTHROPIC.refusal

ROWS = [
    (refusal(400, "no", "invalid_request_error"), Cause.BAD_REQUEST),
    (refusal(401, "invalid x-api-key", "authentication_error"), Cause.AUTH),
    (refusal(403, "no", "permission_error"), Cause.AUTH),
    (refusal(402, "no", "billing_error"), Cause.QUOTA),
    (refusal(400, "Your credit balance is too low to access the Anthropic API."), Cause.QUOTA),
    (refusal(404, "model: claude-nothing", "not_found_error"), Cause.UNKNOWN_MODEL),
    (refusal(404, "Not Found", "not_found_error"), Cause.BAD_CONFIGURATION),
    (refusal(413, "Request exceeds the maximum size", "request_too_large"), Cause.CONTEXT_LENGTH),
    (refusal(400, "prompt is too long: 210000 tokens > 200000 maximum"), Cause.CONTEXT_LENGTH),
    (refusal(400, "input length and `max_tokens` exceed context limit: 199000 + 8192"), Cause.CONTEXT_LENGTH),
    (refusal(400, "Output blocked by content filtering policy"), Cause.CONTENT_FILTER),
    (refusal(429, "slow down", "rate_limit_error"), Cause.RATE_LIMIT),
    (refusal(500, "Internal server error", "api_error"), Cause.SERVER_ERROR),
    (refusal(504, "Request timed out", "timeout_error"), Cause.TIMEOUT),
    (refusal(529, "Overloaded", "overloaded_error"), Cause.SERVER_ERROR),
    (refusal(200, "Overloaded", "overloaded_error"), Cause.SERVER_ERROR),
    (step({"type": "message", "content": [7]}), Cause.MALFORMED_ANSWER),
    (step({"type": "message"}), Cause.MALFORMED_ANSWER),
]


@pytest.mark.parametrize(("given", "cause"), ROWS, ids=lambda one: str(getattr(one, "status", one)))
def test_each_refusal_has_its_cause_after_one_request(given, cause):
    result, received = ANTHROPIC.ask(given)
    assert (result.cause, len(received)) == (cause, 1), result


def test_a_timeout_of_theirs_may_have_cost():
    assert ANTHROPIC.ask(refusal(504, "Request timed out", "timeout_error"))[0].billed


def test_cached_tokens_are_charged_too():
    body = json.loads(ANTHROPIC.answer("hi").body)
    body["usage"] |= {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}
    result, _ = ANTHROPIC.ask(Step(body=json.dumps(body).encode()))
    assert (result.input_tokens, result.output_tokens) == (117, 5)


def test_a_limit_that_is_used_up_says_when_it_is_full_again():
    headers = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2999-01-01T00:00:00Z",
        "anthropic-ratelimit-tokens-remaining": "500",
        "anthropic-ratelimit-tokens-reset": "2001-01-01T00:00:00Z",
    }
    result, _ = ANTHROPIC.ask(refusal(429, "slow", "rate_limit_error", headers=headers))
    assert result.retry_after_s == 86_400.0


def test_a_schema_goes_out_beside_tools():
    _, received = ANTHROPIC.ask(ANTHROPIC.answer("{}"), tools=(TOOL,), output_schema=json_schema("plan"), output="plan")
    assert ANTHROPIC.schema(received[0].body) is not None
    _, received = ANTHROPIC.ask(
        ANTHROPIC.answer("{}"),
        spec={"options": {"schema_with_tools": False}},
        tools=(TOOL,),
        output_schema=json_schema("plan"),
    )
    assert ANTHROPIC.schema(received[0].body) is None


def test_a_model_without_schemas_says_what_to_set():
    given = refusal(400, "output_config.format: structured outputs are not supported by this model")
    result, received = ANTHROPIC.ask(given, output_schema=json_schema("plan"))
    assert "set `structured_output: false` on the fabric's model 'main'" in result.message
    assert len(received) == 1
