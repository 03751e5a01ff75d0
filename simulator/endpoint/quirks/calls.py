"""Calls that come in an odd form: their ids, their arguments, their names, and calls that come as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Behaviour, Form, Name
from simulator.endpoint.behaviour.misbehaviour import healthy
from simulator.endpoint.behaviour.turns import Turn, calls
from simulator.endpoint.quirks.wording import (
    Change,
    answer_with_call,
    change_calls,
    keep_answer,
    own_tools,
    replace_ids,
    rewrite_arguments,
)
from simulator.endpoint.validation.names import names
from simulator.endpoint.wire.steps import ABSENT, SimulatedAnswer, SimulatedCall, Step

TWO = ("part 1", "part 2")
LONG_ID = "call_" + "0123456789" * 49 + "01234"
"""500 characters."""
BIG = (2512292042121000001, 18446744073709551615)
"""Beyond 2^53, and beyond 2^63."""
SPECIAL = "<|channel|>commentary"
"""The text that a chat template leaves behind a tool's name."""


def _id(value: JSON) -> Change:
    return lambda answer, turn: replace_ids(answer, lambda at: value)


def _empty_arguments(turn: Turn) -> Step:
    tools = own_tools(turn)
    found = answer_with_call(turn)
    if found is None:
        return healthy(turn)
    free = next((tool for tool in tools if not (tool.get("parameters") or {}).get("required")), None)
    name = str(free["name"]) if free else found.calls[0].name
    return Step(answer=replace(found, calls=(SimulatedCall(name, "", found.calls[0].id),)))


def _fields(turn: Turn, call: SimulatedCall) -> tuple[Mapping[str, JSON], list[str]]:
    """Return the properties of the called tool, and the names of the required ones."""
    tool = next((one for one in turn.tools if one.get("name") == call.name), {})
    parameters = tool.get("parameters") or {}
    return parameters.get("properties") or {}, list(parameters.get("required") or ())


def _null_optional(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    made = []
    for call in answer.calls:
        fields, required = _fields(turn, call)
        args = call.args if isinstance(call.args, dict) else {}
        nulls = {name: None for name in fields if name not in required}
        made.append(replace(call, arguments=json.dumps(args | nulls)))
    return replace(answer, calls=tuple(made))


def _big_integers(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    big = BIG[min(turn.number, 1)]
    made = []
    for call in answer.calls:
        fields, _ = _fields(turn, call)
        whole = [name for name, field in fields.items() if isinstance(field, dict) and field.get("type") == "integer"]
        args = call.args if isinstance(call.args, dict) else {}
        made.append(replace(call, arguments=json.dumps(args | dict.fromkeys(whole, big))))
    return replace(answer, calls=tuple(made))


def _special(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    return replace(answer, calls=tuple(replace(one, name=one.name + SPECIAL) for one in answer.calls))


def _cut(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    """Cut the texts inside the arguments, so that the rest is JSON by luck."""

    def shorter(text: str) -> str:
        args = json.loads(text)
        return json.dumps({name: one[: len(one) // 2] if isinstance(one, str) else one for name, one in args.items()})

    return replace(rewrite_arguments(answer, shorter), finish="length")


def _break_arguments(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
    return rewrite_arguments(answer, lambda text: text[: max(1, len(text) - 4)])


def _function_call(protocol: Name, body: JSON) -> JSON:
    """Move the call into the field that had it before calls were several."""
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


def _write_as_text(write: Callable[[str, str], str]) -> Change:
    """Return a change that writes the first call as text."""

    def change(answer: SimulatedAnswer, turn: Turn) -> SimulatedAnswer:
        call = answer.calls[0]
        return replace(answer, text=write(call.name, call.arguments), calls=(), finish="stop")

    return change


def _name_call(name: str, args: str, key: str = "arguments") -> str:
    return f'{{"name": "{name}", "{key}": {args}}}'


def _xml(name: str, args: str) -> str:
    fields = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in json.loads(args).items())
    return f"<tool_call>\n<function={name}>\n{fields}</function>\n</tool_call>"


AS_TEXT: Mapping[str, Callable[[str, str], str]] = {
    "text_call": lambda n, a: f"<tool_call>\n{_name_call(n, a)}\n</tool_call>",
    "text_call_open": lambda n, a: f"I look.\n<tool_call>\n{_name_call(n, a)}",
    "text_call_xml": _xml,
    "text_call_llama": lambda n, a: f"<function={n}>{a}</function>",
    "text_call_python": lambda n, a: f"<|python_tag|>{_name_call(n, a, 'parameters')}",
    "text_call_mistral": lambda n, a: f"[TOOL_CALLS][{_name_call(n, a)}]",
    "text_call_mistral_args": lambda n, a: f"[TOOL_CALLS]{n}[ARGS]{a}",
    "text_call_deepseek": lambda n, a: f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{a}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "text_call_bare": _name_call,
    "text_call_fence": lambda n, a: f"I will call the tool:\n\n```json\n{_name_call(n, a)}\n```",
}  # fmt: skip
"""The ways of models to write a call as text, where their server does not read it."""


def _parallel(turn: Turn) -> Step:
    return healthy(turn) if turn.result or not own_tools(turn) else calls(turn, TWO, own_tools(turn)[0])


BEHAVIOURS: Mapping[str, Behaviour] = {
    "parallel_calls": Behaviour(_parallel),
    "empty_arguments": Behaviour(_empty_arguments),
    "arguments_turned": Behaviour(change_calls(lambda answer, turn: replace(answer, turned=True))),
    "same_id": Behaviour(change_calls(_id("call_0"), rounds=3)),
    "same_id_at_once": Behaviour(change_calls(_id("call_0"), words=TWO)),
    "no_id": Behaviour(change_calls(_id(ABSENT), rounds=2)),
    "empty_id": Behaviour(change_calls(_id(""), rounds=2)),
    "null_id": Behaviour(change_calls(_id(None), rounds=2)),
    "number_id": Behaviour(change_calls(_id(7), rounds=2)),
    "long_id": Behaviour(change_calls(_id(LONG_ID), rounds=2)),
    "odd_id": Behaviour(change_calls(lambda answer, turn: replace_ids(answer, lambda at: f"functions.{answer.calls[at].name}:{at} x"), rounds=2)),
    "cut_call": Behaviour(change_calls(_cut), spoken=1),
    "cut_call_broken": Behaviour(change_calls(lambda answer, turn: replace(_break_arguments(answer, turn), finish="length")), spoken=1),
    "cut_arguments": Behaviour(change_calls(_break_arguments), spoken=1),
    "special_name": Behaviour(change_calls(_special), spoken=1, rules=(names,)),
    "function_call": Behaviour(change_calls(keep_answer), form=Form(_function_call, _function_call_events), protocols=("chat",)),
    "null_optional": Behaviour(change_calls(_null_optional)),
    "big_integers": Behaviour(change_calls(_big_integers, rounds=2)),
    **{name: Behaviour(change_calls(_write_as_text(write)), spoken=1) for name, write in AS_TEXT.items()},
}  # fmt: skip
"""The behaviour of each fault whose ``play`` is this module."""
