"""Names the options and scripts of scripted agents, in words. The page of the reference is made of these tables."""

from __future__ import annotations

from collections.abc import Mapping

OPTIONS: Mapping[str, str] = {
    "script": "How the agent behaves: a name of the table below. Default: `cooperative`.",
    "slips": "The agent misbehaves in the first N turns of a step only.",
    "agents": "Options of single agents by name. They go before the others.",
    "workers": "Workers to whom the planner gives a brief. Default: all.",
    "about": "Words that choose passages of documents. Default: the request's.",
    "winner": "The side that a judge of a debate names.",
    "score": "The critic's score, 0 to 1. Default: 0.9.",
    "findings": "Sentences of a judge. With any, the judge accepts nothing.",
    "delay_s": "Seconds before each answer. Default: 0.",
    "bytes": "Answers are padded to this size.",
    "input_tokens": "Tokens that each call reports as read.",
    "output_tokens": "Tokens that each call reports as written.",
    "calls": "A list of calls for each turn: `{tool, args}`. With `if_asked`, only if the request has one of these words.",
    "fail": "`{cause, times, status, retry_after_s}`: the first `times` attempts of each call fail with that cause.",
    "stream": "`true`: calls of tools arrive one by one, before the answer ends.",
}
"""Effect of each option of ``ModelSpec.options``."""
SCRIPT_WORDS: Mapping[str, str] = {
    "cooperative": "Plans, reads the documents, and answers with their sentences.",
    "echo": "Answers with what it was told last.",
    "tool_loop": "Makes one call for ever.",
    "tool_loop_of_2": "Makes two calls in turn for ever.",
    "flood": "Makes 200 calls in one answer.",
    "unknown_tool": "Calls a tool that does not exist.",
    "bad_arguments": "Calls a tool with arguments that are no JSON.",
    "off_schema": "Answers with other fields than were asked for.",
    "malformed": "Answers with JSON that breaks off.",
    "empty": "Answers with nothing.",
}
"""Behaviour of each script; total over ``script.SCRIPTS``."""
