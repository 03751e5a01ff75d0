"""Thinking that leaks into an answer is taken out of it; a mark that is only spoken of stays."""

from __future__ import annotations

import pytest

from fabric.core.steps.agent_loop import MARKS, split_thinking

LEAKED = {
    '{"a": 1}</think>{"b": 2}': ('{"b": 2}', '{"a": 1}'),
    "draft\n</think>\n\nright": ("right", "draft"),
    "one</think>\ntwo</think>\nthree": ("three", "one\ntwo"),
    "<think>hm": ("", "hm"),
    "hm </think>": ("", "hm"),
    "<think></think>ok": ("ok", ""),
    "\n<think>a</think><think>b</think> c": ("c", "a\nb"),
    "<|channel|>analysis<|message|>hm<|channel|>final<|message|>Yes.": ("Yes.", "hm"),
}
KEPT = (
    "plain",
    "",
    "Use the `</think>` tag.",
    "Use the </think> tag to end it.",
    '{"text": "say </think>\\n"}',
    "```\nhm\n</think>\n```",
    "a <think> b",
)


@pytest.mark.parametrize("text", LEAKED)
def test_leaked_thinking_is_no_answer(text):
    assert split_thinking(text) == LEAKED[text]


@pytest.mark.parametrize("text", KEPT)
def test_a_mark_that_is_spoken_of_stays(text):
    assert split_thinking(text) == (text, "")


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark[0])
def test_each_models_marks_are_known(mark):
    opens, closes = mark
    assert split_thinking(f"{opens}hm{closes}ok") == ("ok", "hm")
    assert split_thinking(f"hm\n{closes}\nok") == ("ok", "hm")
