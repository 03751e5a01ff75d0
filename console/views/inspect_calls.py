"""What the inspector says of calls: the prompt as it was sent, what came back, what it cost, which attempt it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.templatetags.figures import span, usd
from console.views.inspect_tokens import charged_words, token_parts
from console.views.sections import Pair, Section, content, erased, listed, pairs, part, text, told, unread
from fabric.adapters.tools.registry import offers
from fabric.core.words import words
from fabric.selectors.display import EVENT_DISPLAY
from fabric.selectors.errors import Refused
from fabric.selectors.moments import Erased, Moment, Unread, contents_of, prompt_at, settled_by

if TYPE_CHECKING:
    from console.views.inspect import Seen
    from fabric.runtime.call_ports import ChatMessage, ModelRequest

JSON = Any

MESSAGE_MAX = 20_000
"""Characters of one message of a prompt that are shown."""
PROMPT_MAX = 100_000
"""Characters of one prompt that are shown."""
TOO_FAR = "It lies too far into this run to be worked out again here; the facts below are complete."


@dataclass(frozen=True, slots=True)
class Shown:
    """One message of a prompt, cut where it is very long."""

    role: str
    text: str
    left_out: int
    tool: str
    calls: tuple[tuple[str, str], ...]
    open: bool


def issued(seen: Seen) -> list[Section]:
    """A call that goes out: the intent, and what was sent."""
    fact = seen.fact
    facts = pairs(
        "Intent",
        Pair("asked", fact["target"], "code", fact["call"]),
        Pair("by", fact["agent"], "text", f"turn {fact['turn']}, attempt {fact['attempt']}"),
        Pair(
            "reserved",
            fact["reserved_usd_micros"] if fact["call"] == "model" else fact["reserved_usd_micros"] or None,
            "usd",
            "the worst it may cost",
        ),
        Pair(
            "tokens reserved",
            fact["reserved_tokens"] or None,
            "count",
            f"{fact['max_output_tokens']:,} of them for the answer",
        ),
        Pair("deadline", fact["deadline_at"], "at", "then it is over, whatever comes"),
        *_result(seen),
        Pair("last answer", "no more tools" if fact["final"] else None),
        Pair("idempotency key", fact["key"], "code"),
        Pair("prompt digest", fact["prompt"], "code"),
        Pair("arguments hash", fact["args_hash"], "code"),
    )
    # What was said comes first, as with answers.
    return [*(_prompt(seen) if fact["call"] == "model" else _arguments(seen)), facts]


def _result(seen: Seen) -> tuple[Pair, ...]:
    """What ended the attempt, and after how long."""
    row = seen.record.row
    found = settled_by(seen.run.id, row.seq, seen.fact["command_id"], seen.fact["attempt"])
    if found is None:
        return () if seen.run.terminal else (Pair("result", "still out"),)
    seq, kind, at = found
    display = EVENT_DISPLAY.get(kind)
    return (Pair("result", seq, "seq", f"{display.label.lower() if display else kind} after {span(at - row.at)}"),)


def _prompt(seen: Seen) -> list[Section]:
    if seen.moment is None:
        return [told("Prompt", TOO_FAR)]
    _, fact = seen.moment.issued[seen.fact["command_id"]]
    try:
        spec = seen.fabric.spec
        asked = prompt_at(seen.actor, seen.run.id, seen.moment, fact, spec, {t.name: offers(t) for t in spec.all_tools})
    except Erased:
        return [erased("Prompt")]
    except Unread:
        return [unread("Prompt")]
    except (KeyError, LookupError, TypeError, ValueError, Refused):
        return [told("Prompt", "This version does not know the templates that it was made with.")]
    return [_messages(asked), *_own_parts(asked), *_offered(asked)]


def _own_parts(asked: ModelRequest) -> list[Section]:
    """Reasoning and signatures of earlier answers: those that go back to their model, and those left out for another model."""
    carried = [one for one in asked.messages if one.own is not None or any(call.own is not None for call in one.calls)]
    foreign = sorted({one.model for one in carried if one.model != asked.model.name})
    back = sum(one.model == asked.model.name for one in carried)
    lines = [f"Reasoning of {back} earlier answers goes back to {asked.model.name}."] if back else []
    lines += [f"Reasoning of {model} is left out: only that model understands it." for model in foreign]
    return [listed("Reasoning sent back", lines)] if lines else []


def _messages(asked: ModelRequest) -> Section:
    left, shown = PROMPT_MAX, []
    last = len(asked.messages) - 1
    for n, message in enumerate(asked.messages):
        body = message.text[: max(0, min(MESSAGE_MAX, left))]
        left -= len(body)
        shown.append(
            Shown(message.role, body, len(message.text) - len(body), message.tool, _calls(message), n in (last, 1))
        )
    note = f"{len(shown)} messages, rendered again from their references"
    return Section("prompt", "Prompt", note, {"messages": shown})


def _calls(message: ChatMessage) -> tuple[tuple[str, str], ...]:
    return tuple((call.tool, (call.raw_args or str(call.args))[:1_000]) for call in message.calls)


def _offered(asked: ModelRequest) -> list[Section]:
    wanted = words(asked.output) if asked.output_schema is not None else "text"
    tools = [f"{tool.name}: {' '.join(tool.description.split())[:300]}" for tool in asked.tools]
    if not tools:
        return [told("Tools offered", f"None: only an answer was wanted ({wanted}).")]
    return [listed("Tools offered", tools, f"wanted: {wanted}")]


def _arguments(seen: Seen) -> list[Section]:
    fact = seen.fact
    if seen.moment is None:
        return [told("Arguments", TOO_FAR)]
    return arguments(seen, seen.moment, fact["args_ref"], fact["call_id"])


def arguments(seen: Seen, moment: Moment, ref: str, call_id: str) -> list[Section]:
    """The arguments of a proposed call, as they stand in the answer that proposed it."""
    if not moment.reads:
        return [unread("Arguments")]
    answer = contents_of(seen.run.id, moment, [ref]).values.get(ref)
    if answer is None:
        return [erased("Arguments")]
    calls = answer.get("calls", ()) if isinstance(answer, dict) else ()
    found = next(((n, call) for n, call in enumerate(calls) if call.get("call_id") == call_id), None)
    if found is None:
        return []
    number, call = found
    if call.get("args") is None:
        return [text("Arguments", str(call.get("raw_args", "")), "no JSON object")]
    body = {"value": call["args"], "path": f"/calls/{number}/args", "seq": moment.where[ref]}
    return [Section("tree", "Arguments", f"proposed in seq {moment.where[ref]}", body)]


def model_answered(seen: Seen) -> list[Section]:
    """A model's answer: what it said, what it proposes, what it used."""
    fact = seen.fact
    sections = [*problems(fact["problems"])]
    sections += part(seen.record, "output", "Output", "typed")
    sections += part(seen.record, "text", "Text")
    sections += part(seen.record, "thinking", "Thinking", "it leaked into the answer and is no part of it")
    sections += part(seen.record, "unused_calls", "Calls not made")
    if fact["calls"]:
        sections += part(seen.record, "calls", "Calls proposed", f"{len(fact['calls'])}") or []
    used = (
        Pair(
            "verdict",
            VERDICTS.get(fact["verdict"], fact["verdict"]),
            tone="warn" if fact["verdict"] == "rejected" else "",
        ),
        Pair(
            "tokens",
            fact["input_tokens"] + fact["output_tokens"],
            "count",
            f"{fact['input_tokens']:,} in, {fact['output_tokens']:,} out",
        ),
        Pair("ended", FINISHES.get(fact.get("finish", "")), tone="warn"),
        Pair("answered by", fact.get("model") or None, "code"),
        Pair("probe of the breaker", fact.get("probed") or None, "code"),
        *token_parts(seen),
        Pair("charge in doubt", fact.get("usage_problem") or None, tone="warn"),
        Pair("cost", fact["cost_usd_micros"], "usd", _of_reserved(seen)),
        Pair("cleaned", "characters that cannot be stored were replaced" if fact["sanitized"] else None),
    )
    return [*sections, pairs("Used", *used, *answers(seen))]


FINISHES = {
    "length": "cut at its token limit: nothing of it is used",
    "content_filter": "withheld by the provider's content filter",
}
VERDICTS = {"output": "an output", "calls": "proposes calls", "rejected": "cannot be used"}


def problems(found: list[str]) -> list[Section]:
    """What was wrong, sentence by sentence."""
    return [listed("Problems", [str(problem) for problem in found])] if found else []


def _of_reserved(seen: Seen) -> str:
    call = seen.call
    return "" if call is None else f"of {usd(call[1].reserved_usd_micros)} reserved"


def answers(seen: Seen) -> tuple[Pair, ...]:
    """The call that this event belongs to, and how long it was out."""
    fact = seen.fact
    if seen.call is None:
        return (Pair("call", fact.get("command_id", ""), "code"), Pair("attempt", fact.get("attempt"), "count"))
    seq, call = seen.call
    return (
        Pair("call", seq, "seq", f"{call.target}, attempt {fact.get('attempt', call.attempt)}"),
        Pair("command", fact["command_id"], "code"),
    )


def tool_answered(seen: Seen) -> list[Section]:
    """A tool's result."""
    fact, call = seen.fact, seen.call
    asked = arguments(seen, seen.moment, call[1].args_ref, fact["call_id"]) if call and seen.moment else []
    whole = content(seen.record, "Result", "the tool says it is an error" if fact["error"] else "")
    facts = pairs(
        "Tool",
        Pair("tool", fact["tool"], "code"),
        Pair("outcome", "an error" if fact["error"] else "an answer", tone="warn" if fact["error"] else ""),
        Pair("cost", fact.get("cost_usd_micros") or None, "usd", "the price of one call"),
        Pair("probe of the breaker", fact.get("probed") or None, "code"),
        Pair("cleaned", "characters that cannot be stored were replaced" if fact["sanitized"] else None),
        *answers(seen),
        Pair("arguments hash", fact["args_hash"], "code"),
        Pair("masked result", fact["masked_hash"], "code", "equal results have equal hashes"),
    )
    return [*whole, *asked, facts]


def late(seen: Seen) -> list[Section]:
    """A result that came too late."""
    facts = pairs("Why it is not used", Pair("reason", seen.fact["reason"]), *answers(seen))
    return [facts, *content(seen.record, "Result", "kept as a fact, ignored as data")]


def attempt_failed(seen: Seen) -> list[Section]:
    """An attempt without an answer."""
    fact = seen.fact
    facts = pairs(
        "Failure",
        Pair("cause", words(fact["cause"]), tone="warn"),
        Pair("class", words(fact["error_class"])),
        Pair("message", fact["message"]),
        Pair("came", "a part of the answer" if fact.get("partial") else None),
        Pair("probe of the breaker", fact.get("probed") or None, "code"),
        Pair("not sent", f"held back by the {words(fact['trip']['mechanism'])}" if fact.get("trip") else None),
        Pair("breaker opens in", int(wait * 1e6) if (wait := fact.get("breaker_wait_s")) is not None else None, "us"),
        Pair(
            "breaker open before", ", ".join(fact.get("shut") or ()) or None, "code", "models that could not stand in"
        ),
        Pair("status", fact["status"], "code"),
        Pair("Retry-After", None if fact["retry_after_s"] is None else int(fact["retry_after_s"] * 1e6), "us"),
        Pair("charged", fact["charged_usd_micros"], "usd", charged_words(fact)),
        *token_parts(seen),
        Pair("charge in doubt", fact.get("usage_problem") or None, tone="warn"),
        *answers(seen),
    )
    return [facts, *content(seen.record, "What came back", "raw")]


def settled(seen: Seen) -> list[Section]:
    """A call that was lost or let go: why, and what it is charged with."""
    fact = seen.fact
    facts = pairs(
        "Settled at its worst case",
        Pair("reason", fact.get("reason", "its worker is gone; whether it was billed is not known")),
        Pair("charged", fact["charged_usd_micros"], "usd", f"{fact['charged_tokens']:,} tokens"),
        *answers(seen),
    )
    return [facts]


def refused(seen: Seen) -> list[Section]:
    """A proposed call that was not executed."""
    fact = seen.fact
    facts = pairs(
        "Refused",
        Pair("tool", fact["tool"], "code"),
        Pair("cause", words(fact["cause"]), tone="warn"),
        Pair("mechanism", words(fact["mechanism"])),
        Pair("problem", fact["problem"]),
        Pair("costs a correction", "yes" if fact["correction"] else "no"),
        Pair("call id", fact["call_id"], "code"),
        Pair("arguments hash", fact["args_hash"], "code"),
    )
    return [facts, *content(seen.record, "What the model is told")]


def repeated(seen: Seen) -> list[Section]:
    """A call that was asked again."""
    fact = seen.fact
    found = seen.moment.where.get(fact["result_ref"]) if seen.moment else None
    facts = pairs(
        "Asked again",
        Pair("tool", fact["tool"], "code", f"turn {fact['turn']}"),
        Pair("made for", "an answer that broke off" if fact.get("begun") else None),
        Pair("first answer", found, "seq", f"{fact['result_bytes']:,} bytes"),
        Pair("call id", fact["call_id"], "code"),
        Pair("arguments hash", fact["args_hash"], "code"),
    )
    return [facts]


WAITS = {
    "backoff": "backoff with full jitter",
    "retry_after": "as the provider asked",
    "breaker": "until its circuit breaker lets somebody probe",
    "named": "as the provider asked, beyond its retries",
    "failover": "at once, with another model of the same endpoint",
}
"""Why a call waits for its next attempt; total by test."""


def node_retry(seen: Seen) -> list[Section]:
    """A wait before a node runs again."""
    fact = seen.fact
    facts = pairs(
        "Node retry",
        Pair("step", fact["step_id"], "code"),
        Pair(
            "waits", int(fact["delay_s"] * 1e6), "us", "then its step is opened anew, with calls and retries of its own"
        ),
        Pair("not before", fact["not_before"], "at"),
        Pair("attempt", f"{fact['attempt']} of {fact['attempts']}"),
        *_tokens(seen),
    )
    return [facts]


def _tokens(seen: Seen) -> list[Pair]:
    """What a retry left in the budgets."""
    fact, bucket = seen.fact, seen.revision.spec.policy.retry.bucket
    said = "the run's own; when none is left, nothing is retried"
    shared = (
        Pair(f"left in {one['bucket']}", f"{one['level'] / 1_000:.1f}", "text", "shared by all workers")
        for one in fact["buckets"]
    )
    return [Pair("retry tokens left", f"{fact['tokens_left'] / 1_000:.1f} of {bucket}", "text", said), *shared]


def retry(seen: Seen) -> list[Section]:
    """A wait before the next attempt."""
    fact = seen.fact
    facts = pairs(
        "Retry",
        Pair(
            "waits",
            int(fact["delay_s"] * 1e6),
            "us",
            WAITS[fact["source"]],
        ),
        Pair("not before", fact["not_before"], "at"),
        Pair("attempt", fact["attempt"], "count"),
        *_tokens(seen),
        *answers(seen),
    )
    return [facts]
