"""A call that a model writes as text is found; what only speaks of one is not."""

from __future__ import annotations

import pytest

from fabric.core.texts.written_calls import written_call

OFFERED = ("look", "find")
WRITTEN = {
    '<tool_call>\n{"name": "look", "arguments": {"q": "x"}}\n</tool_call>': "look",
    'I will look. <tool_call>{"name": "look", "arguments": {}}': "look",
    '<function=look>{"q": "x"}</function>': "look",
    '<|python_tag|>{"name": "find", "parameters": {}}': "find",
    '[TOOL_CALLS] [{"name": "look", "arguments": {}}]': "look",
    "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}": "",
    '<invoke name="look"><parameter name="q">x</parameter></invoke>': "look",
    "<｜tool▁calls▁begin｜>": "",
    "```tool_code\nprint(look(q='x'))\n```": "",
    '{"name": "look", "arguments": {"q": "x"}}': "look",
    '[{"function": {"name": "find", "arguments": "{}"}}]': "find",
    '{"tool": "look", "input": {}}': "look",
    '```json\n{"name": "look", "parameters": {}}\n```': "look",
    'I will call the tool:\n\n```json\n{"name": "look", "arguments": {}}\n```': "look",
    'look(q="x (y)")': "look",
}
SPOKEN = (
    "",
    "The answer is 5.",
    "Models write `<tool_call>` before a call.",
    "```\n<tool_call>{}</tool_call>\n```\nis what Qwen writes.",
    '{"name": "Ada", "arguments": {}}',
    '{"name": "look", "age": 7}',
    '```json\n{"name": "look", "arguments": {}}\n```\nis an example of a call.',
    "teleport(now)",
    "look (at this)",
    "look(q)\nlook(r)",
)


@pytest.mark.parametrize("text", WRITTEN)
def test_a_call_written_as_text_is_found(text):
    assert written_call(text, OFFERED) == WRITTEN[text]


@pytest.mark.parametrize("text", SPOKEN)
def test_words_about_a_call_are_words(text):
    assert written_call(text, OFFERED) is None
