"""Each row of the tables that answers are read by and histories are made fit by, which no other test would miss."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core.events.inputs import ToolCall
from fabric.core.values.metering import ReportedTokens
from fabric.providers.exchange.settlement import NAME_CHARS, RAW_ARGS_CHARS, settle
from fabric.providers.protocols import chat, converse, gemini
from fabric.providers.protocols.contract import FINISHES, ModelAnswer, SaidCall, build_finish, own_fields, plain
from fabric.providers.protocols.fitting import compact, fit, short_id
from fabric.runtime.ports.calls import ChatMessage, ToolOffer
from tests.fabric.providers.asking import request

CUT = """length max_tokens max_output_tokens max_completion_tokens max_new_tokens max_tokens_reached max_length model_length length_limit
 length_capped token_limit continuation truncated incomplete model_context_window_exceeded context_window_exceeded context_length_exceeded"""
WITHHELD = """content_filter content_filtered content-filter guardrail_intervened refusal safety recitation blocklist prohibited_content spii
 image_safety image_prohibited_content image_recitation model_armor language sensitive"""
BROKEN = """error abort aborted cancel cancelled canceled user_cancel failed failure interrupted timeout time_limit network_error server_error
 internal_error engine_error insufficient_system_resource repetition_truncation malformed_response other expired"""
WORDS = {
    word: end
    for end, words in (("length", CUT), ("content_filter", WITHHELD), ("broken", BROKEN))
    for word in words.split()
}


def test_every_word_for_an_end_has_its_meaning_in_any_case():
    assert {plain(word): end for word, end in WORDS.items()} == FINISHES
    assert {word: build_finish(word.upper()) for word in WORDS} == WORDS


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        (["stop", "max_tokens"], "length"),
        ([{"type": "length"}], "length"),
        ([["length"]], "length"),
        (["Max-Tokens"], "length"),
        ([7, None, "null", {}, []], "stop"),
    ],
)
def test_an_end_is_read_in_any_form_and_the_word_that_says_most_holds(said: list[Any], finish: str):
    assert build_finish(*said) == finish


OWN = ("reasoning_content", "thinking_blocks", "thoughts", "signature", "encrypted_content", "extra_content")


@pytest.mark.parametrize("name", [*OWN, "provider_specific_fields"])
def test_a_field_of_a_providers_own_is_known_by_its_name(name: str):
    assert own_fields({name: "x", "content": "hi"}) == {name: "x"}


CHAT_COUNTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"prompt_tokens": 3}, {"input": 3}),
    ({"input_tokens": 3}, {"input": 3}),
    ({"completion_tokens": 3}, {"output": 3}),
    ({"output_tokens": 3}, {"output": 3}),
    ({"total_tokens": 3}, {"total": 3}),
    *(({name: 3}, {"cached": 3}) for name in ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")),
    ({"cache_creation_input_tokens": 3}, {"cache_written": 3}),
    ({"reasoning_tokens": 3}, {"reasoning": 3}),
    *(
        ({details: {name: 3}}, {field: 3})
        for details in ("prompt_tokens_details", "input_tokens_details")
        for name, field in [
            ("cached_tokens", "cached"),
            ("cache_write_tokens", "cache_written"),
            ("cache_creation_tokens", "cache_written"),
            ("audio_tokens", "audio_in"),
        ]
    ),
    *(
        ({details: {name: 3}}, {field: 3})
        for details in ("completion_tokens_details", "output_tokens_details")
        for name, field in [("reasoning_tokens", "reasoning"), ("audio_tokens", "audio_out")]
    ),
]


@pytest.mark.parametrize("row", range(len(CHAT_COUNTS)))
def test_each_count_of_a_chat_is_read(row: int):
    usage, counts = CHAT_COUNTS[row]
    assert chat.read_usage(usage) == ReportedTokens(**counts)


def test_every_count_of_gemini_is_read():
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3, "cachedContentTokenCount": 4}
    usage |= {"thoughtsTokenCount": 5}
    details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}, {"modality": "AUDIO", "tokenCount": 6}]}
    details |= {"candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 7}]}
    counts = {"input": 1, "output": 2, "total": 3, "cached": 4, "reasoning": 5, "audio_in": 6, "audio_out": 7}
    assert gemini.read_usage(usage | details) == ReportedTokens(**counts, reasoning_inside=False)


def test_every_count_of_converse_is_read():
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "cacheReadInputTokens": 4}
    usage |= {"cacheWriteInputTokens": 5}
    counts = {"input": 1, "output": 2, "total": 3, "cached": 4, "cache_written": 5}
    assert converse.read_usage(usage) == ReportedTokens(**counts, cached_inside=False)


# -- settling ----------------------------------------------------------------------------------------------------------

SCHEMAS = {"enum": {"enum": ["a", None]}, "closed": {"enum": ["a"]}, "fixed": {"const": 1}, "any": {}, "odd": True}
LOOK = ToolOffer(name="look", description="", parameters={"type": "object", "properties": SCHEMAS})


def settled(**fields: Any):
    return settle(request(tools=(LOOK,)), ModelAnswer(**fields), protocol="chat", mended=False)


def test_a_null_stays_where_the_schema_may_take_one():
    said = SaidCall("a", "look", {**dict.fromkeys(SCHEMAS), "other": None})
    assert settled(calls=[said]).calls[0].args == {"enum": None, "any": None, "odd": None, "other": None}


def test_what_is_kept_of_a_call_is_clean_and_bounded():
    (call,) = settled(calls=[SaidCall("a\x00b", "t" * 500, "{" + "x" * 30_000)]).calls
    assert "\x00" not in call.call_id
    assert (len(call.tool), len(call.raw_args)) == (NAME_CHARS, RAW_ARGS_CHARS)


def test_what_is_kept_of_a_providers_own_is_clean_and_what_cannot_be_kept_is_dropped():
    result = settled(text="hi", own={"reasoning": "a\x00b"})
    assert result.own["protocol"] == "chat"
    assert "\x00" not in result.own["parts"]["reasoning"]
    assert result.sanitized
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    dropped = settled(text="hi", own={"reasoning": deep})
    assert (dropped.own, dropped.sanitized) == (None, True)


def test_without_a_count_the_bytes_of_calls_and_of_reasoning_are_charged_too():
    usage = ReportedTokens(input=10)
    alone = settled(text="hi", usage=usage).output_tokens
    called = settled(text="hi", usage=usage, calls=[SaidCall("a", "look", {"key": "x" * 30})]).output_tokens
    thought = settled(text="hi", usage=usage, own={"reasoning": "y" * 30}).output_tokens
    assert (alone, called, thought) == (2, 2 + len('{"key": ""}') + 30, 2 + len('{"reasoning": ""}') + 30)


# -- fitting -----------------------------------------------------------------------------------------------------------

ASK = ChatMessage("user", "Hello?")


def test_a_system_text_that_is_blank_is_none():
    assert fit((ChatMessage("system", " "), ASK), "main", "chat").system == ""
    assert fit((ChatMessage("system", "A"), ChatMessage("system", "\n"), ASK), "main", "chat").system == "A"


def test_what_is_a_providers_own_goes_back_where_its_model_was_not_known_yet():
    own = {"protocol": "chat", "parts": {"reasoning": "hm"}}
    assert fit((ASK, ChatMessage("assistant", "A", model="", own=own)), "main", "chat").turns[1].own == own["parts"]


def test_two_answers_in_one_turn_have_nothing_of_a_providers_own():
    own = {"protocol": "chat", "parts": {"reasoning": "hm"}}
    said = (ChatMessage("assistant", "A", model="main", own=own), ChatMessage("assistant", "B", model="main", own=own))
    (_, turn, _) = fit((ASK, *said), "main", "chat").turns
    assert (turn.text, turn.own) == ("A\n\nB", None)


def test_an_id_that_the_engine_gave_goes_out_short_and_arguments_that_are_none_are_cut():
    call = ToolCall(call_id="call-1-1", tool="look", args=None, raw_args="x" * 3_000)
    turn = fit((ASK, ChatMessage("assistant", "", (call,), model="main")), "main", "chat").turns[1]
    assert turn.calls[0].id == short_id("call-1-1")
    assert turn.calls[0].args == {"invalid_json": "x" * 2_000}


def test_json_goes_out_in_its_own_letters():
    assert compact({"a": "ł"}) == '{"a": "ł"}'
