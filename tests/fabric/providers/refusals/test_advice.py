"""Which setting a refusal of a parameter names."""

import re

import pytest

from fabric.core.spec.tree import AgentSpec, ModelSpec
from fabric.providers.openai_compatible import OpenAICompatible
from fabric.providers.refusals.errors import ADVICE, advice_on

ROWS = [
    ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens", "`max_tokens_field: max_completion_tokens`"),
    ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "", "`max_tokens_field: max_completion_tokens`"),
    ("Unrecognized request argument supplied: max_completion_tokens", "", "`max_tokens_field: max_tokens`"),
    ("body.max_completion_tokens: Extra inputs are not permitted", "max_completion_tokens", "`max_tokens_field: max_tokens`"),
    ("max_tokens is too large: 99999. This model supports at most 4096 completion tokens", "max_tokens", "`max_output_tokens`"),
    ("Unsupported value: 'temperature' does not support 0.2 with this model.", "temperature", "`temperature`"),
    ("temperature: Extra inputs are not permitted", "", "`temperature`"),
    ("`temperature` and `top_p` cannot both be specified for this model.", "", "`temperature`"),
    ("Unsupported parameter: 'top_p' is not supported with this model.", "top_p", "`top_p`"),
    ("Unsupported parameter: 'stop' is not supported with this model.", "stop", "`stop_sequences`"),
    ("stop_sequences: this field is not supported", "", "`stop_sequences`"),
    ("Unknown parameter: 'parallel_tool_calls'.", "", "`parallel_tool_calls`"),
    ("'response_format.type' must be 'json_schema' or 'text'", "", "`structured_output: false`"),
    ("This response_format type is unavailable now", "", "`structured_output: false`"),
    ("JSON mode is not enabled for models/gemma-3-27b-it", "", "`structured_output: false`"),
    ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "", "`tool_calls: false`"),
    ("Thinking mode does not support this tool_choice", "", "`tool_calls: false`"),
    ("registry.ollama.ai/library/gemma:2b does not support tools", "", "`tool_calls: false`"),
    ("No endpoints found that support tool use.", "", "`tool_calls: false`"),
    ("Function calling is not enabled for models/gemma-3-27b-it", "", "`tool_calls: false`"),
    ("Function calling with a response mime type: 'application/json' is unsupported", "", "`schema_with_tools: false`"),
    ("System role not supported", "", "`system_role: user`"),
    ("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role", "`system_role: user`"),
    ("Developer instruction is not enabled for models/gemma-3-27b-it", "", "`system_role: user`"),
    ("Conversation roles must alternate user/assistant", "", "`strict_turns: true`"),
    ("'messages.2' : for 'role:assistant' property 'reasoning_content' is unsupported", "", "`reasoning_back: never`"),
    ("streaming is not supported for this model", "", "`stream: false`"),
    ("Your organization must be verified to stream this model.", "stream", "`stream: false`"),
    ("seed: Extra inputs are not permitted", "", "`seed`"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "param", "names"), ROWS)
def test_a_refused_parameter_names_what_to_set(message, param, names):
    advice = advice_on({"message": message, "param": param}, ()).format(name="main")
    assert names in advice
    assert "fabric's model 'main'" in advice


@pytest.mark.parametrize("param", ["temperature", "max_tokens"])
def test_a_code_is_enough_where_the_words_are_of_another_language(param):
    said = {"message": "参数错误", "param": param}
    assert param in advice_on(said, ("unsupportedparameter",))
    assert advice_on(said, ()) == ""


@pytest.mark.parametrize(
    "message",
    [
        "bad value for field x",
        "the tool name is too long",
        "Unknown parameter: 'foo'",
        "An internal system error",
        "The model `seed-1.6` does not exist",
        "An assistant message with 'tool_calls' must be followed by tool messages",
        "This model's maximum context length is 4096 tokens",
        "",
    ],
)
def test_what_no_setting_mends_has_no_advice(message):
    assert advice_on({"message": message}, ()) == ""


def test_every_row_is_met_and_names_a_setting_that_there_is():
    met = {advice_on({"message": message, "param": param}, ()) for message, param, _ in ROWS}
    assert met == {row.do for row in ADVICE}
    known = OpenAICompatible.OPTIONS | set(ModelSpec.model_fields) | set(AgentSpec.model_fields)
    for row in ADVICE:
        named = re.findall(r"`([a-z_]+)", row.do)
        assert named
        assert set(named) <= known
