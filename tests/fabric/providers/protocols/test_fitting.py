"""A history that every endpoint takes: names, turns, empties, unanswered calls, stray results, sizes, ids, what goes back to whom."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.events.inputs import ToolCall
from fabric.core.spec.tree import ModelSpec
from fabric.providers.protocols.chat import Chat
from fabric.providers.protocols.fitting import (
    GO_ON,
    NO_RESULT,
    NO_TEXT,
    NOT_MADE,
    TEXT_CHARS_MAX,
    fit,
    fit_name,
    short_id,
)
from fabric.providers.protocols.gemini import GenerateContent
from fabric.providers.protocols.messages_api import MessagesApi
from fabric.providers.protocols.responses import Responses
from fabric.runtime.ports.calls import ChatMessage
from tests.fabric.providers.asking import request

SYSTEM, ASK = ChatMessage("system", "You are a reader."), ChatMessage("user", "Hello?")


def call(call_id="a", tool="look", args=None, **more):
    return ToolCall(call_id=call_id, tool=tool, args={} if args is None else args, **more)


def said(*calls, text="", model="main", own=None):
    return ChatMessage("assistant", text, calls, model=model, own=own)


def result(call_id="a", text="seen"):
    return ChatMessage("tool", text, call_id=call_id, tool="look")


def shape(*messages, model="main"):
    """Each turn as (who, texts, call ids, result ids)."""
    turns = fit((SYSTEM, ASK, *messages), model, "chat").turns
    return [
        ("user" if turn.user else "assistant", turn.texts, [c.id for c in turn.calls], [r.id for r in turn.results])
        for turn in turns
    ]


FIRST: tuple[str, list[str], list[str], list[str]] = ("user", ["Hello?"], [], [])


def test_an_empty_answer_leaves_no_two_users_in_a_row():
    correction = ChatMessage("user", "the answer is empty")
    assert shape(said(), correction) == [("user", ["Hello?", "the answer is empty"], [], [])]
    assert shape(said(text=" \n"), correction) == [("user", ["Hello?", "the answer is empty"], [], [])]


def test_two_answers_in_a_row_are_one_turn():
    assert shape(said(text="one"), said(text="two")) == [
        FIRST,
        ("assistant", ["one", "two"], [], []),
        ("user", [GO_ON], [], []),
    ]


def test_a_call_without_an_answer_is_answered():
    turns = fit((ASK, said(call("a"), call("b")), result("b"), ChatMessage("user", "go on")), "main", "chat").turns
    assert [(one.id, one.text) for one in turns[2].results] == [("a", NOT_MADE), ("b", "seen")]
    assert turns[2].texts == ["go on"]


def test_results_stand_in_the_order_of_their_calls():
    assert shape(said(call("a"), call("b")), result("b"), result("a"))[2] == ("user", [], [], ["a", "b"])


def test_a_result_without_its_call_is_told_in_words():
    assert shape(result("z", "found")) == [("user", ["Hello?", "Result of look: found"], [], [])]
    answered_twice = shape(said(call("a")), result("a"), result("a", "again"))
    assert answered_twice[2] == ("user", ["Result of look: again"], [], ["a"])


def test_empty_words_are_said_to_be_empty():
    turns = fit((ChatMessage("user", " "), said(call("a")), result("a", "")), "main", "chat").turns
    assert (turns[0].texts, turns[2].results[0].text) == ([NO_TEXT], NO_RESULT)


def test_a_conversation_begins_and_ends_with_a_user():
    turns = fit((SYSTEM, said(text="hi")), "main", "chat").turns
    assert [(turn.user, turn.texts) for turn in turns] == [(True, [GO_ON]), (False, ["hi"]), (True, [GO_ON])]


def test_system_texts_are_one():
    assert (
        fit((SYSTEM, ASK, ChatMessage("system", "Be brief.")), "main", "chat").system
        == "You are a reader.\n\nBe brief."
    )


@pytest.mark.parametrize(
    ("name", "fitted"),
    [("x<|channel|>commentary", "x__channel__commentary"), ("", "unnamed"), ("ü b", "__b"), ("a" * 80, "a" * 64)],
)
def test_a_name_is_made_fit(name, fitted):
    assert fit_name(name) == fitted
    turns = fit((ASK, said(call(tool=name)), result()), "main", "chat").turns
    assert (turns[1].calls[0].tool, turns[2].results[0].tool) == (fitted, fitted)


def test_a_text_that_is_too_long_says_so():
    text = fit((ChatMessage("user", "x" * (TEXT_CHARS_MAX + 7)),), "main", "chat").turns[0].text
    assert text.endswith("[7 more characters are left out]")


# -- ids ---------------------------------------------------------------------------------------------------------------


def test_the_model_that_gave_an_id_gets_it_back_whole():
    long = "call_" + "x" * 500
    assert shape(said(call("call-1-1", server_id=long)), result("call-1-1"))[1:] == [
        ("assistant", [], [long], []),
        ("user", [], [], [long]),
    ]


def test_the_same_id_in_each_turn_goes_back_as_it_came():
    turns = shape(said(call("0")), result("0"), said(call("call-2-1", server_id="0")), result("call-2-1"))
    assert [one[2] or one[3] for one in turns[1:]] == [["0"], ["0"], ["0"], ["0"]]


def test_another_model_gets_ids_that_every_endpoint_takes():
    turns = shape(said(call("toolu_01|x")), result("toolu_01|x"), model="other")
    (wire,) = turns[1][2]
    assert re.fullmatch(r"[a-z0-9]{9}", wire)
    assert (wire, turns[2][3]) == (short_id("toolu_01|x"), [wire])


def test_two_calls_of_one_answer_never_share_an_id():
    turns = shape(said(call("a"), call("call-1-2", server_id="a")), result("a"), result("call-1-2"))
    assert len(set(turns[1][2])) == 2
    assert turns[1][2] == turns[2][3]


def test_an_answer_of_before_the_models_were_known_goes_back_as_it_is():
    assert shape(said(call("old"), model=""), result("old"))[1][2] == ["old"]


# -- what is a provider's own ------------------------------------------------------------------------------------------


def of(protocol, parts):
    return {"protocol": protocol, "parts": parts}


def test_what_a_provider_marked_as_its_own_goes_back_to_its_model_alone():
    parts, signed = [{"opaque": {"type": "thinking"}}], {"thoughtSignature": "s"}
    messages = (ASK, said(call(own=of("gemini", signed)), own=of("gemini", parts)), result())
    same, other, moved = (
        fit(messages, *asked) for asked in (("main", "gemini"), ("other", "gemini"), ("main", "chat"))
    )
    assert (same.turns[1].own, same.turns[1].calls[0].own) == (parts, signed)
    for fitted in (other, moved):
        assert (fitted.turns[1].own, fitted.turns[1].calls[0].own) == (None, None)


PROTOCOLS = {one.key: one for one in (Chat(), MessagesApi(), GenerateContent(), Responses())}


def body(protocol, messages, options=None, model="small", name="main"):
    spec = ModelSpec(name=name, model=model, options=options or {})
    given = request(model=spec, messages=(SYSTEM, *messages))
    fitted = fit(given.messages, name, protocol)
    return PROTOCOLS[protocol].body(given, fitted, model=model, schema=False, stream=False)


def test_reasoning_goes_back_with_calls_and_not_with_words():
    called = (ASK, said(call(), own=of("chat", {"reasoning_content": "hm"})), result())
    spoken = (ASK, said(text="hi", own=of("chat", {"reasoning_content": "hm"})), ChatMessage("user", "again"))
    assert body("chat", called)["messages"][2]["reasoning_content"] == "hm"
    assert "reasoning_content" not in body("chat", spoken)["messages"][2]
    assert body("chat", spoken, {"reasoning_back": "always"})["messages"][2]["reasoning_content"] == "hm"
    assert "reasoning_content" not in body("chat", called, {"reasoning_back": "never"})["messages"][2]


def test_a_providers_parts_go_back_in_their_places():
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    own = [{"opaque": thought}, {"text": True}, {"call": "a"}, {"opaque": {"type": "redacted_thinking"}}, {"call": "b"}]
    messages = (ASK, said(call("a"), call("b"), text="I look.", own=of("messages", own)), result("a"), result("b"))
    content = body("messages", messages)["messages"][1]["content"]
    assert [part.get("id", part["type"]) for part in content] == ["thinking", "text", "a", "redacted_thinking", "b"]


def test_a_stored_response_gets_only_what_is_new():
    messages = (ASK, said(call(), own=of("responses", [{"response": "resp_1"}])), result())
    stored = body("responses", messages, {"api": "responses", "store": True})
    assert (stored["previous_response_id"], [one["type"] for one in stored["input"]]) == (
        "resp_1",
        ["function_call_output"],
    )
    taken_over = body("responses", messages, {"api": "responses", "store": True}, name="other")
    assert "previous_response_id" not in taken_over
    assert len(taken_over["input"]) == 3


@pytest.mark.parametrize(
    ("options", "model"), [({"strict_turns": True}, "small"), ({}, "mistral-small"), ({}, "google/gemma-3")]
)
def test_where_turns_are_strict_no_user_speaks_right_after_a_tool(options, model):
    messages = (ASK, said(call()), result(), ChatMessage("user", "Answer now."))
    sent = body("chat", messages, options, model)["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool"]
    assert sent[-1]["content"] == "seen\n\nAnswer now."
    assert [one["role"] for one in body("chat", messages)["messages"]][-2:] == ["tool", "user"]


@pytest.mark.parametrize("role", ["developer", "user"])
def test_where_there_is_no_system_role_another_one_is_taken(role):
    sent = body("chat", (ASK,), {"system_role": role})["messages"]
    assert sent == (
        [{"role": "user", "content": "You are a reader.\n\nHello?"}]
        if role == "user"
        else [{"role": "developer", "content": "You are a reader."}, {"role": "user", "content": "Hello?"}]
    )


# -- whatever the history is -------------------------------------------------------------------------------------------

ids = st.sampled_from(["a", "b", "call-1-1", ""])
messages = st.one_of(
    st.builds(ChatMessage, st.sampled_from(["user", "system"]), st.sampled_from(["", "x"])),
    st.builds(lambda i, text: ChatMessage("tool", text, call_id=i, tool="look"), ids, st.sampled_from(["", "r"])),
    st.builds(
        lambda calls, text, model: said(*[call(i) for i in calls], text=text, model=model),
        st.lists(ids, unique=True, max_size=3),
        st.sampled_from(["", "t"]),
        st.sampled_from(["main", "other", ""]),
    ),
)


@given(st.lists(messages, max_size=12))
def test_every_history_is_made_fit(history):
    turns = fit(history, "main", "chat").turns
    assert [turn.user for turn in turns] == [n % 2 == 0 for n in range(len(turns))]
    assert turns[-1].user
    for before, turn in zip([None, *turns], turns, strict=False):
        wanted = [] if before is None or before.user else [one.id for one in before.calls]
        if turn.user:
            assert [one.id for one in turn.results] == wanted
            assert turn.texts or turn.results
        else:
            assert turn.texts or turn.calls
            assert len({one.id for one in turn.calls}) == len(turn.calls)
        assert all(text.strip() for text in turn.texts)
