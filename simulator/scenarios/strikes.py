"""What a struck model call is answered with: for each fault of the model or of its answers, as the adapters of real providers would tell it.

Each takes the struck call and gives a ``Reply``; everything else about the run is left as it is. A fault that needs a plan, tools or a judge on the other
side strikes only there (``NEEDS``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed, CallStreamed, ModelReplied, ToolCall
from fabric.core.spec_conversation import TRANSFER
from fabric.core.taxonomy import Cause
from fabric.core.text import clean_text, parse_json_object
from fabric.runtime.call_ports import ModelRequest
from simulator.drills.handing import HUB
from simulator.drills.sustained import Places
from simulator.kernel import streams
from simulator.kernel.agents import FRUITLESS, TWIN, Reply, fruitless_query
from simulator.kernel.schema_values import arguments, value

SECONDS = 0.5
"""How long an answer takes, where the fault is not about that."""
PAGE = "<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>"
ENDPOINT = "the endpoint"
CLEANED = clean_text("\x00\ud800")[0]
"""What the adapters make of a NUL and a lone surrogate before anybody sees them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One call that is struck."""

    where: Places
    request: ModelRequest
    parameters: Any
    """The fault's own (``parameters.py``)."""
    undisturbed: Callable[[], Reply]
    """What would have been answered."""
    left_s: float
    """Seconds to the call's deadline."""

    @property
    def turn(self) -> int:
        """How often the step has been answered before."""
        return sum(message.role == "assistant" for message in self.request.messages)


# -- no answer ---------------------------------------------------------------------------------------------------------


def _failed(struck: Struck, cause: Cause, message: str, **more: Any) -> CallFailed:
    request = struck.request
    return CallFailed(command_id=request.command_id, attempt=request.attempt, cause=cause, message=message, **more)


def _limited(struck: Struck, retry_after_s: float | None = None) -> Reply:
    message = f"{ENDPOINT} answered HTTP 429"
    failed = _failed(struck, Cause.RATE_LIMIT, message, status=429, retry_after_s=retry_after_s, raw="429")
    return Reply(SECONDS, failed)


def _limited_until(struck: Struck) -> Reply:
    return _limited(struck, struck.parameters.retry_after_s)


def _unavailable(struck: Struck) -> Reply:
    status = struck.parameters.status
    message = f"{ENDPOINT} answered HTTP {status}"
    return Reply(SECONDS, _failed(struck, Cause.SERVER_ERROR, message, status=status, raw=str(status)))


def _slow(struck: Struck) -> Reply:
    done = struck.undisturbed()
    return Reply(done.delay_s + struck.parameters.delay_s, done.result, silent=done.silent, billed=done.billed)


def _hang(struck: Struck) -> Reply:
    return Reply(SECONDS, struck.undisturbed().result, silent=True, billed=struck.parameters.billed)


def _trickle(struck: Struck) -> Reply:
    came = int(struck.left_s * struck.parameters.bytes_per_s)
    message = f"{ENDPOINT} did not finish within {struck.left_s:.1f} seconds: {came} bytes of an answer had come"
    failed = _failed(struck, Cause.TIMEOUT, message, status=200, billed=True, partial=came > 0)
    return Reply(struck.left_s, failed, streamed=_before(struck, struck.left_s))


def _before(struck: Struck, seconds: float) -> tuple[tuple[float, CallStreamed], ...]:
    """What of an answer that streams in has come by then."""
    told = streams.coming(struck.request, struck.undisturbed()).streamed
    return tuple((at_s, given) for at_s, given in told if at_s < seconds)


def _dropped(struck: Struck) -> Reply:
    message = f"{ENDPOINT} broke the connection inside its answer"
    after_s = struck.parameters.after_s
    failed = _failed(struck, Cause.DROPPED_STREAM, message, status=200, billed=True, partial=True)
    return Reply(after_s, failed, streamed=_before(struck, after_s))


def _html(struck: Struck) -> Reply:
    message = f"{ENDPOINT} answered, but with a web page"
    return Reply(SECONDS, _failed(struck, Cause.MALFORMED_ANSWER, message, status=200, raw=PAGE, billed=True))


# -- another answer ----------------------------------------------------------------------------------------------------


def _says(struck: Struck, said: Any, *calls: ToolCall, **more: Any) -> Reply:
    request = struck.request
    if request.data_schema is not None and isinstance(said, dict) and "citations" in said:
        said = {**said, "data": value(request.data_schema, said["text"])}
    text = said if isinstance(said, str) else json.dumps(said)
    heard, spoken = sum(len(message.text) for message in request.messages) // 4, len(text) // 4 + 40 * len(calls)
    reply = ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=text,
        calls=calls,
        input_tokens=heard,
        output_tokens=min(spoken, request.max_output_tokens),
        model=request.model.name,
    )
    return Reply(SECONDS, replace(reply, **more))


def _malformed(struck: Struck) -> Reply:
    return _says(struck, '{"text": "half of')


def _off_schema(struck: Struck) -> Reply:
    return _says(struck, {"answer": 42})


def _empty(struck: Struck) -> Reply:
    return _says(struck, "")


def _changed(struck: Struck, change: Callable[[ModelReplied], ModelReplied]) -> Reply:
    """What would have been answered, with something else about it; a failure stays what it is."""
    done = struck.undisturbed()
    result = change(done.result) if isinstance(done.result, ModelReplied) else done.result
    return Reply(done.delay_s, result, silent=done.silent, billed=done.billed)


def _nul(struck: Struck) -> Reply:
    def unfit(reply: ModelReplied) -> ModelReplied:
        value, _ = parse_json_object(reply.text, strict=True)
        text = f"{reply.text}{CLEANED}" if value is None else json.dumps(_soiled(value), ensure_ascii=False)
        return replace(reply, text=text, sanitized=True)

    return _changed(struck, unfit)


def _soiled(value: Any) -> Any:
    """A JSON object with what is no text at the end of its first words."""
    for key, inner in value.items():
        if isinstance(inner, str):
            return {**value, key: f"{inner}{CLEANED}"}
    return value


def _dear(struck: Struck) -> Reply:
    bill = int(struck.where.cap_usd_micros * struck.parameters.cap_share)
    return _changed(struck, lambda reply: replace(reply, cost_usd_micros=bill))


def _wordy(struck: Struck) -> Reply:
    given = struck.parameters

    def counted(reply: ModelReplied) -> ModelReplied:
        return replace(
            reply,
            input_tokens=max(reply.input_tokens, given.input_tokens),
            output_tokens=max(reply.output_tokens, given.output_tokens),
        )

    return _changed(struck, counted)


def _ungrounded(struck: Struck) -> Reply:
    document = struck.parameters.document
    if struck.request.wants_words:
        return _says(struck, f"It is so. [{document}]")
    return _says(struck, {"text": "It is so.", "citations": [document]})


def _unsure(struck: Struck) -> Reply:
    score = struck.parameters.score
    if struck.request.output == "judgement":
        return _says(struck, {"accept": True, "score": score, "evidence": ["It was read."]})
    return _says(struck, {"score": score, "reasons": ["It is not clear that this answers the request."]})


def _unsafe(struck: Struck) -> Reply:
    if struck.parameters.how == "cut":
        return _says(struck, "", finish="content_filter")
    message = f"{ENDPOINT}'s content filter refused the request"
    return Reply(SECONDS, _failed(struck, Cause.CONTENT_FILTER, message, status=400))


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
    return _plan(struck, *[_brief(struck.where.worker, TWIN)] * 2)


def _spawning(struck: Struck) -> Reply:
    many = struck.parameters.briefs
    return _plan(struck, *(_brief(struck.where.worker, f"Say what bears on part {n + 1}.") for n in range(many)))


MORE = "I need more information before I can answer this."


def _stuck(struck: Struck) -> Reply:
    """The hub gives the work out in other words each time, and its worker says the same each time; everybody else does their work."""
    if struck.request.agent == HUB:
        brief = NEWS.format(number=int(struck.request.command_id.split(".")[1]) + 1)
        args = {"to": struck.where.briefed[1], "brief": brief}
        return _says(struck, "", ToolCall(call_id=f"c{struck.turn}", tool=TRANSFER, args=args))
    if struck.request.agent not in struck.where.briefed:
        return struck.undisturbed()
    return _says(struck, MORE if struck.request.output_schema is None else {"text": MORE, "citations": []})


# -- handing on ----------------------------------------------------------------------------------------------------------

SAME_BRIEF = "This is more in your line than in mine. Please look at it once more, and say what is to be done."
NEWS = "Point {number} is open still, and it is more in your line than in mine. Please say what is to be done about it."


def _hands_on(struck: Struck) -> Reply:
    """Whoever is in the circle, or on the way there, hands on; everybody else does their work."""
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
"""Long enough that one other word makes a paraphrase of it; it finds nothing, each time the same."""


def _asks(struck: Struck, words: str) -> Reply:
    offer = struck.request.tools[0]
    return _says(
        struck, "", ToolCall(call_id=f"c{struck.turn}", tool=offer.name, args=arguments(offer.parameters, words))
    )


def _loop(struck: Struck) -> Reply:
    return _asks(struck, PERIOD[struck.turn % struck.parameters.period])


def _paraphrased(struck: Struck) -> Reply:
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
    "rate_limit": _limited,
    "rate_limit_retry_after": _limited_until,
    "unavailable": _unavailable,
    "outage": _unavailable,
    "slow": _slow,
    "hang": _hang,
    "trickle": _trickle,
    "dropped_stream": _dropped,
    "html": _html,
    "malformed": _malformed,
    "off_schema": _off_schema,
    "empty": _empty,
    "nul": _nul,
    "tool_loop": _loop,
    "paraphrased_loop": _paraphrased,
    "fruitless_search": _fruitless,
    "unknown_tool": _unknown_tool,
    "bad_arguments": _bad_arguments,
    "tool_flood": _flood,
    "handoff_cycle": _hands_on,
    "twin_briefs": _twins,
    "supervisor_stuck": _stuck,
    "spawning": _spawning,
    "malformed_plan": _bad_plan,
    "cost_spike_price": _dear,
    "cost_spike_tokens": _wordy,
    "ungrounded": _ungrounded,
    "low_confidence": _unsure,
    "unsafe": _unsafe,
    "partial_fan_in": _off_schema,
}
"""What each fault of the model or of its answers does. Total over those that can be injected, by test."""


def _plans(request: ModelRequest) -> bool:
    return request.output == "plan"


def _may_hand_on(request: ModelRequest) -> bool:
    return any(offer.name == TRANSFER for offer in request.tools)


def _armed(request: ModelRequest) -> bool:
    return bool(request.tools)


def _answers(request: ModelRequest) -> bool:
    return request.output == "summary"


def _judges(request: ModelRequest) -> bool:
    return request.output in ("critique", "judgement")


NEEDS: Mapping[str, Callable[[ModelRequest], bool]] = {
    **dict.fromkeys(("twin_briefs", "spawning", "malformed_plan"), _plans),
    **dict.fromkeys(
        ("tool_loop", "paraphrased_loop", "fruitless_search", "unknown_tool", "bad_arguments", "tool_flood"), _armed
    ),
    "handoff_cycle": _may_hand_on,
    "ungrounded": _answers,
    "low_confidence": _judges,
}
"""Which calls a fault can strike at all; one that is not named strikes any."""
