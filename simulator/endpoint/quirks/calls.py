"""Calls that come in an odd form: their ids, their arguments, their names, and calls that come as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from simulator.endpoint.answers import ABSENT, Answer, Call
from simulator.endpoint.misbehaviour import healthy
from simulator.endpoint.quirks.saying import Change, calling, in_calls, own_tools, unchanged, with_arguments, with_ids
from simulator.endpoint.rules.names import names
from simulator.endpoint.scenario import Form, Name, Scenario
from simulator.endpoint.steps import Step
from simulator.endpoint.turns import Turn, calls

JSON = Any

TWO = ("part 1", "part 2")
LONG_ID = "call_" + "0123456789" * 49 + "01234"
"""500 characters."""
BIG = (2512292042121000001, 18446744073709551615)
"""Beyond 2^53, and beyond 2^63."""
SPECIAL = "<|channel|>commentary"
"""The text that a chat template leaves behind a tool's name."""


def _id(value: JSON) -> Change:
    return lambda answer, turn: with_ids(answer, lambda at: value)


def _empty_arguments(turn: Turn) -> Step:
    tools = own_tools(turn)
    found = calling(turn)
    if found is None:
        return healthy(turn)
    free = next((tool for tool in tools if not (tool.get("parameters") or {}).get("required")), None)
    name = str(free["name"]) if free else found.calls[0].name
    return Step(answer=replace(found, calls=(Call(name, "", found.calls[0].id),)))


def _fields(turn: Turn, call: Call) -> tuple[Mapping[str, JSON], list[str]]:
    """The properties of the tool that is called, and which of them are required."""
    tool = next((one for one in turn.tools if one.get("name") == call.name), {})
    parameters = tool.get("parameters") or {}
    return parameters.get("properties") or {}, list(parameters.get("required") or ())


def _null_optional(answer: Answer, turn: Turn) -> Answer:
    made = []
    for call in answer.calls:
        fields, required = _fields(turn, call)
        args = call.args if isinstance(call.args, dict) else {}
        nulls = {name: None for name in fields if name not in required}
        made.append(replace(call, arguments=json.dumps(args | nulls)))
    return replace(answer, calls=tuple(made))


def _big_integers(answer: Answer, turn: Turn) -> Answer:
    big = BIG[min(turn.number, 1)]
    made = []
    for call in answer.calls:
        fields, _ = _fields(turn, call)
        whole = [name for name, field in fields.items() if isinstance(field, dict) and field.get("type") == "integer"]
        args = call.args if isinstance(call.args, dict) else {}
        made.append(replace(call, arguments=json.dumps(args | dict.fromkeys(whole, big))))
    return replace(answer, calls=tuple(made))


def _special(answer: Answer, turn: Turn) -> Answer:
    return replace(answer, calls=tuple(replace(one, name=one.name + SPECIAL) for one in answer.calls))


def _cut(answer: Answer, turn: Turn) -> Answer:
    """Cuts the arguments so that the rest is JSON by luck: the texts in them are shorter than they were to be."""

    def shorter(text: str) -> str:
        args = json.loads(text)
        return json.dumps({name: one[: len(one) // 2] if isinstance(one, str) else one for name, one in args.items()})

    return replace(with_arguments(answer, shorter), finish="length")


def _broken(answer: Answer, turn: Turn) -> Answer:
    return with_arguments(answer, lambda text: text[: max(1, len(text) - 4)])


def _function_call(protocol: Name, body: JSON) -> JSON:
    """The field that calls stood in before there were several."""
    for choice in body["choices"]:
        made = choice["message"].pop("tool_calls", None)
        if made:
            choice["message"]["function_call"] = made[0]["function"]
            choice["finish_reason"] = "function_call"
    return body


def _function_call_events(protocol: Name, events: list[Any]) -> list[Any]:
    for event in events:
        for choice in event.data["choices"] if isinstance(event.data, dict) else ():
            made = choice["delta"].pop("tool_calls", None)
            if made:
                choice["delta"]["function_call"] = made[0]["function"]
            if choice["finish_reason"] == "tool_calls":
                choice["finish_reason"] = "function_call"
    return events


def _written(write: Callable[[str, str], str]) -> Change:
    """The first call, as text."""

    def change(answer: Answer, turn: Turn) -> Answer:
        call = answer.calls[0]
        return replace(answer, text=write(call.name, call.arguments), calls=(), finish="stop")

    return change


def _named(name: str, args: str, key: str = "arguments") -> str:
    return f'{{"name": "{name}", "{key}": {args}}}'


def _xml(name: str, args: str) -> str:
    fields = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in json.loads(args).items())
    return f"<tool_call>\n<function={name}>\n{fields}</function>\n</tool_call>"


AS_TEXT: Mapping[str, tuple[str, Callable[[str, str], str]]] = {
    "text_call": ("in <tool_call> tags, as Qwen and Hermes do", lambda n, a: f"<tool_call>\n{_named(n, a)}\n</tool_call>"),
    "text_call_open": ("in a <tool_call> tag that is never closed", lambda n, a: f"I look.\n<tool_call>\n{_named(n, a)}"),
    "text_call_xml": ("in <function=...> and <parameter=...> tags, as Qwen Coder does", _xml),
    "text_call_llama": ("in a <function=...> tag, as Llama does", lambda n, a: f"<function={n}>{a}</function>"),
    "text_call_python": ("behind <|python_tag|>, as Llama does", lambda n, a: f"<|python_tag|>{_named(n, a, 'parameters')}"),
    "text_call_mistral": ("behind [TOOL_CALLS], as Mistral does", lambda n, a: f"[TOOL_CALLS][{_named(n, a)}]"),
    "text_call_mistral_args": ("behind [TOOL_CALLS] with [ARGS], as newer Mistrals do", lambda n, a: f"[TOOL_CALLS]{n}[ARGS]{a}"),
    "text_call_deepseek": ("between DeepSeek's tokens", lambda n, a: f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{a}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
    "text_call_bare": ("as a bare JSON object", _named),
    "text_call_fence": ("in a ```json fence", lambda n, a: f"I will call the tool:\n\n```json\n{_named(n, a)}\n```"),
}  # fmt: skip
"""The ways of models to write a call as text, where their server does not read it."""


def _parallel(turn: Turn) -> Step:
    return healthy(turn) if turn.result or not own_tools(turn) else calls(turn, TWO, own_tools(turn)[0])


SCENARIOS: Mapping[str, Scenario] = {
    "parallel_calls": Scenario("Makes two calls in one answer, then does its work.", _parallel),
    "empty_arguments": Scenario("Calls a tool with an empty text for arguments, where it can one that requires none.", _empty_arguments),
    "arguments_turned": Scenario("Gives arguments in the other form: an object where text is due, text where an object is.", in_calls(lambda answer, turn: replace(answer, turned=True))),
    "same_id": Scenario("Gives each call of the first three turns the same id, as llama.cpp does.", in_calls(_id("call_0"), rounds=3)),
    "same_id_at_once": Scenario("Gives two calls of one answer the same id.", in_calls(_id("call_0"), words=TWO)),
    "no_id": Scenario("Makes calls without an id.", in_calls(_id(ABSENT), rounds=2)),
    "empty_id": Scenario("Makes calls whose id is an empty text.", in_calls(_id(""), rounds=2)),
    "null_id": Scenario("Makes calls whose id is null.", in_calls(_id(None), rounds=2)),
    "number_id": Scenario("Makes calls whose id is a number.", in_calls(_id(7), rounds=2)),
    "long_id": Scenario("Makes calls whose id has 500 characters.", in_calls(_id(LONG_ID), rounds=2)),
    "odd_id": Scenario("Makes calls whose id has colons, dots and blanks, as Kimi's do.", in_calls(lambda answer, turn: with_ids(answer, lambda at: f"functions.{answer.calls[at].name}:{at} x"), rounds=2)),
    "cut_call": Scenario("Cuts its first answer by length within a call whose arguments are JSON by luck.", in_calls(_cut), spoken=1),
    "cut_call_broken": Scenario("Cuts its first answer by length within a call whose arguments are no JSON.", in_calls(lambda answer, turn: replace(_broken(answer, turn), finish="length")), spoken=1),
    "cut_arguments": Scenario("Breaks off the arguments of its first call, and says that the call is whole.", in_calls(_broken), spoken=1),
    "special_name": Scenario("Leaves special tokens in the name of its first call, and refuses a history with such a name.", in_calls(_special), spoken=1, rules=(names,)),
    "function_call": Scenario("Makes its call in the old field function_call.", in_calls(unchanged), form=Form(_function_call, _function_call_events), protocols=("chat",)),
    "null_optional": Scenario("Fills each optional argument with null.", in_calls(_null_optional)),
    "big_integers": Scenario("Gives whole numbers beyond 2^53, and in its second turn beyond 2^63.", in_calls(_big_integers, rounds=2)),
    **{name: Scenario(f"Writes its first call as text, {how}.", in_calls(_written(write)), spoken=1) for name, (how, write) in AS_TEXT.items()},
}  # fmt: skip
"""By what ``--scenario`` takes."""
