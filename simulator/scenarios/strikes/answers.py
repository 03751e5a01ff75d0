"""A struck model call gets its answer here, as the adapters of real providers would report it.

Each function takes the struck call and returns a ``Reply``. All else about the run is left as it is. A fault that
needs a plan, tools or a judge strikes only there (``NEEDS``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.events.inputs import CallFailed, CallStreamed, ModelReplied, ToolCall
from fabric.core.spec.topologies.conversation import TRANSFER
from fabric.core.texts.text import clean_text, parse_json_object
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents import streams
from simulator.agents.schema_values import arguments
from simulator.cast.agents import FRUITLESS, TWIN, Reply, fruitless_query
from simulator.scenarios.strikes.handovers import HUB
from simulator.scenarios.strikes.places import Places, reply_with

SECONDS = 0.5
"""Seconds that an answer takes, where the fault is not about time."""
PAGE = "<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>"
ENDPOINT = "the endpoint"
CLEANED = clean_text("\x00\ud800")[0]
"""The text that the adapters make of a NUL and a lone surrogate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One call that is struck."""

    where: Places
    request: ModelRequest
    parameters: Any
    """The fault's own (``fault.py``)."""
    undisturbed: Callable[[], Reply]
    """Returns the answer that would have come."""
    left_s: float
    """Seconds to the call's deadline."""

    @property
    def turn(self) -> int:
        """Return the number of answers that the step has had before."""
        return sum(message.role == "assistant" for message in self.request.messages)


# -- no answer ---------------------------------------------------------------------------------------------------------


def _build_failure(struck: Struck, cause: Cause, message: str, **more: Any) -> CallFailed:
    request = struck.request
    return CallFailed(command_id=request.command_id, attempt=request.attempt, cause=cause, message=message, **more)


def _limit_rate(struck: Struck, retry_after_s: float | None = None) -> Reply:
    message = f"{ENDPOINT} answered HTTP 429"
    failed = _build_failure(struck, Cause.RATE_LIMIT, message, status=429, retry_after_s=retry_after_s, raw="429")
    return Reply(SECONDS, failed)


def _limited_until(struck: Struck) -> Reply:
    return _limit_rate(struck, struck.parameters.retry_after_s)


def _unavailable(struck: Struck) -> Reply:
    status = struck.parameters.status
    message = f"{ENDPOINT} answered HTTP {status}"
    return Reply(SECONDS, _build_failure(struck, Cause.SERVER_ERROR, message, status=status, raw=str(status)))


def _slow(struck: Struck) -> Reply:
    done = struck.undisturbed()
    return Reply(done.delay_s + struck.parameters.delay_s, done.result, silent=done.silent, billed=done.billed)


def _hang(struck: Struck) -> Reply:
    return Reply(SECONDS, struck.undisturbed().result, silent=True)


def _hang_billed(struck: Struck) -> Reply:
    return Reply(SECONDS, struck.undisturbed().result, silent=True, billed=True)


def _trickle(struck: Struck) -> Reply:
    came = int(struck.left_s * struck.parameters.bytes_per_s)
    message = f"{ENDPOINT} did not finish within {struck.left_s:.1f} seconds: {came} bytes of an answer had come"
    failed = _build_failure(struck, Cause.TIMEOUT, message, status=200, billed=True, partial=came > 0)
    return Reply(struck.left_s, failed, streamed=_select_streamed(struck, struck.left_s))


def _select_streamed(struck: Struck, seconds: float) -> tuple[tuple[float, CallStreamed], ...]:
    """Return the bits of the answer that have come by then."""
    told = streams.add_streamed_parts(struck.request, struck.undisturbed()).streamed
    return tuple((at_s, given) for at_s, given in told if at_s < seconds)


def _drop_answer(struck: Struck) -> Reply:
    message = f"{ENDPOINT} broke the connection inside its answer"
    after_s = struck.parameters.after_s
    failed = _build_failure(struck, Cause.DROPPED_STREAM, message, status=200, billed=True, partial=True)
    return Reply(after_s, failed, streamed=_select_streamed(struck, after_s))


def _html(struck: Struck) -> Reply:
    message = f"{ENDPOINT} answered, but with a web page"
    return Reply(SECONDS, _build_failure(struck, Cause.MALFORMED_ANSWER, message, status=200, raw=PAGE, billed=True))


# -- another answer ----------------------------------------------------------------------------------------------------


def _says(struck: Struck, said: Any, *calls: ToolCall, **more: Any) -> Reply:
    request = struck.request
    reply = reply_with(request, said, *calls)
    heard, spoken = sum(len(message.text) for message in request.messages) // 4, len(reply.text) // 4 + 40 * len(calls)
    usage = {"input_tokens": heard, "output_tokens": min(spoken, request.max_output_tokens)}
    return Reply(SECONDS, replace(reply, **usage, model=request.model.name, **more))


def _break_answer(struck: Struck) -> Reply:
    return _says(struck, '{"text": "half of')


def _off_schema(struck: Struck) -> Reply:
    return _says(struck, {"answer": 42})


def _empty(struck: Struck) -> Reply:
    return _says(struck, "")


def _change_answer(struck: Struck, change: Callable[[ModelReplied], ModelReplied]) -> Reply:
    """Return the answer that would have come, with one change. A failure stays as it is."""
    done = struck.undisturbed()
    result = change(done.result) if isinstance(done.result, ModelReplied) else done.result
    return Reply(done.delay_s, result, silent=done.silent, billed=done.billed)


def _unfit_text(struck: Struck) -> Reply:
    def unfit(reply: ModelReplied) -> ModelReplied:
        value, _ = parse_json_object(reply.text, strict=True)
        text = f"{reply.text}{CLEANED}" if value is None else json.dumps(_soil_value(value), ensure_ascii=False)
        return replace(reply, text=text, sanitized=True)

    return _change_answer(struck, unfit)


def _soil_value(value: Any) -> Any:
    """Return a JSON object with an unfit character at the end of its first text."""
    for key, inner in value.items():
        if isinstance(inner, str):
            return {**value, key: f"{inner}{CLEANED}"}
    return value


def _dear(struck: Struck) -> Reply:
    bill = int(struck.where.cap_usd_micros * struck.parameters.cap_share)
    return _change_answer(struck, lambda reply: replace(reply, cost_usd_micros=bill))


def _wordy(struck: Struck) -> Reply:
    given = struck.parameters

    def count_tokens(reply: ModelReplied) -> ModelReplied:
        return replace(
            reply,
            input_tokens=max(reply.input_tokens, given.input_tokens),
            output_tokens=max(reply.output_tokens, given.output_tokens),
        )

    return _change_answer(struck, count_tokens)


def _answer_ungrounded(struck: Struck) -> Reply:
    document = struck.parameters.document
    if struck.request.wants_words:
        return _says(struck, f"It is so. [{document}]")
    return _says(struck, {"text": "It is so.", "citations": [document]})


def _unsure(struck: Struck) -> Reply:
    score = struck.parameters.score
    if struck.request.output == "judgement":
        return _says(struck, {"accept": True, "score": score, "evidence": ["It was read."]})
    return _says(struck, {"score": score, "reasons": ["It is not clear that this answers the request."]})


def _filtered_answer(struck: Struck) -> Reply:
    return _says(struck, "", finish="content_filter")


def _filter_answer(struck: Struck) -> Reply:
    message = f"{ENDPOINT}'s content filter refused the request"
    return Reply(SECONDS, _build_failure(struck, Cause.CONTENT_FILTER, message, status=400))


# -- plans -------------------------------------------------------------------------------------------------------------


def _plan(struck: Struck, *briefs: Mapping[str, str]) -> Reply:
    return _says(struck, {"goal": "Answer it.", "briefs": briefs, "exit_criteria": ["It is answered."]})


def _brief(agent: str, told: str) -> dict[str, str]:
    return {"agent": agent, "title": "Part", "instructions": told}


def _bad_plan(struck: Struck) -> Reply:
    how = struck.parameters.how
    if how == "no_json":
        return _says(struck, "First I would ask the others, then I would see.")
    return _plan(struck, *([] if how == "no_briefs" else [_brief("nobody", "Say what bears on it.")]))


def _twins(struck: Struck) -> Reply:
    """Give one worker the same brief twice. Where workers take turns, the others have theirs."""
    where = struck.where
    briefed = [where.worker, where.worker, *(name for name in where.briefed if name != where.worker)]
    return _plan(struck, *(_brief(name, TWIN) for name in briefed))


def _spawn_agents(struck: Struck) -> Reply:
    many = struck.parameters.briefs
    return _plan(struck, *(_brief(struck.where.worker, f"Say what bears on part {n + 1}.") for n in range(many)))


MORE = "I need more information before I can answer this."


def _repeat_work(struck: Struck) -> Reply:
    """The hub gives the work out in other words each time, and its worker always asks for more.

    All others do their work.
    """
    if struck.request.agent == HUB:
        brief = NEWS.format(number=int(struck.request.command_id.split(".")[1]) + 1)
        args = {"to": struck.where.briefed[1], "brief": brief}
        return _says(struck, "", ToolCall(call_id=f"c{struck.turn}", tool=TRANSFER, args=args))
    if struck.request.agent not in struck.where.briefed:
        return struck.undisturbed()
    return _says(struck, MORE if struck.request.output_schema is None else {"text": MORE, "citations": []})


# -- handing on --------------------------------------------------------------------------------------------------------

SAME_BRIEF = "This is more in your line than in mine. Please look at it once more, and say what is to be done."
NEWS = "Point {number} is open still, and it is more in your line than in mine. Please say what is to be done about it."


def _hands_on(struck: Struck) -> Reply:
    """Agents in the circle, or on the way into it, hand on. All others do their work."""
    given, request = struck.parameters, struck.request
    onward = struck.where.pair if given.peers == 2 else struck.where.three
    if request.agent not in onward:
        return struck.undisturbed()
    turn = request.command_id.split(".")[1]
    brief = SAME_BRIEF if given.how == "the_same" else NEWS.format(number=int(turn) + 1)
    args = {"to": onward[request.agent], "brief": brief}
    return _says(struck, "", ToolCall(call_id=f"c{struck.turn}", tool=TRANSFER, args=args))


# -- tool calls --------------------------------------------------------------------------------------------------------

PERIOD = ("the same", "another", "a third")
OTHER_WORDS = ("please", "exactly", "now", "again", "really", "precisely", "perhaps", "then")
SAME_QUESTION = f"{FRUITLESS} how sales and costs have changed in the report that was attached here"
"""A question that is long enough to be paraphrased by one other word. It finds nothing."""


def _asks(struck: Struck, words: str) -> Reply:
    """Call the tool that only reads, or the first one where that is not on offer."""
    offered = struck.request.tools
    offer = next((one for one in offered if one.name == struck.where.tool), offered[0])
    return _says(
        struck, "", ToolCall(call_id=f"c{struck.turn}", tool=offer.name, args=arguments(offer.parameters, words))
    )


def _loop(period: int) -> Callable[[Struck], Reply]:
    return lambda struck: _asks(struck, PERIOD[struck.turn % period])


def _paraphrase_question(struck: Struck) -> Reply:
    return _asks(struck, f"{SAME_QUESTION} {OTHER_WORDS[struck.turn % len(OTHER_WORDS)]}")


def _fruitless(struck: Struck) -> Reply:
    return _asks(struck, fruitless_query(struck.turn))


def _unknown_tool(struck: Struck) -> Reply:
    return _says(struck, "", ToolCall(call_id=f"c{struck.turn}", tool="teleport", args={"to": "the answer"}))


def _bad_arguments(struck: Struck) -> Reply:
    name = struck.request.tools[0].name
    return _says(struck, "", ToolCall(call_id=f"c{struck.turn}", tool=name, args=None, raw_args='{"query": '))


def _flood(struck: Struck) -> Reply:
    offer, turn = struck.request.tools[0], struck.turn
    calls = (
        ToolCall(call_id=f"c{turn}-{n}", tool=offer.name, args=arguments(offer.parameters, f"part {n}"))
        for n in range(struck.parameters.calls)
    )
    return _says(struck, "", *calls)


EFFECTS: Mapping[str, Callable[[Struck], Reply]] = {
    "rate_limit": _limit_rate,
    "retry_after": _limited_until,
    "unavailable": _unavailable,
    "outage": _unavailable,
    "slow": _slow,
    "hang": _hang,
    "hang_billed": _hang_billed,
    "trickle": _trickle,
    "dropped_stream": _drop_answer,
    "html": _html,
    "filtered": _filter_answer,
    "malformed": _break_answer,
    "off_schema": _off_schema,
    "empty": _empty,
    "unfit_text": _unfit_text,
    "tool_loop": _loop(1),
    "tool_loop_of_2": _loop(2),
    "tool_loop_of_3": _loop(3),
    "tool_loop_paraphrased": _paraphrase_question,
    "fruitless_search": _fruitless,
    "unknown_tool": _unknown_tool,
    "bad_arguments": _bad_arguments,
    "flood": _flood,
    "handoff_cycle": _hands_on,
    "handoff_cycle_of_3": _hands_on,
    "twin_briefs": _twins,
    "supervisor_stuck": _repeat_work,
    "spawning": _spawn_agents,
    "bad_plan": _bad_plan,
    "cost_spike_price": _dear,
    "cost_spike_tokens": _wordy,
    "ungrounded": _answer_ungrounded,
    "unsure": _unsure,
    "filtered_answer": _filtered_answer,
    "partial_fan_in": _off_schema,
}
"""The answer of each fault that strikes a model call. A test holds it total."""


def _plans(request: ModelRequest) -> bool:
    return request.output == "plan"


def _may_hand_on(request: ModelRequest) -> bool:
    return any(offer.name == TRANSFER for offer in request.tools)


def _has_tools(request: ModelRequest) -> bool:
    return bool(request.tools)


def _answers(request: ModelRequest) -> bool:
    return request.output == "summary"


def _judges(request: ModelRequest) -> bool:
    return request.output in ("critique", "judgement")


ARMED = frozenset(
    {
        *("tool_loop", "tool_loop_of_2", "tool_loop_of_3", "tool_loop_paraphrased"),
        *("fruitless_search", "unknown_tool", "bad_arguments", "flood"),
    }
)
"""Faults of agents that have tools."""
PLANNED = frozenset({"twin_briefs", "spawning", "bad_plan"})
"""Faults of planners."""
NEEDS: Mapping[str, Callable[[ModelRequest], bool]] = {
    **dict.fromkeys(PLANNED, _plans),
    **dict.fromkeys(ARMED, _has_tools),
    **dict.fromkeys(("handoff_cycle", "handoff_cycle_of_3"), _may_hand_on),
    "ungrounded": _answers,
    "unsure": _judges,
}
"""The calls that a fault can strike. A fault without a row strikes any call."""
