"""Scripted agents: a stand-in for a model that answers from the request alone, the same request always the same way.

The cooperative script does an agent's work without a model: it plans a brief for each worker, reads the attached documents through the tools it
is offered, and answers with their own sentences that fit the request best. The other scripts misbehave, each in one way, for drills and
demonstrations. Which one answers stands in ``ModelSpec.options``:

- ``script``: a key of ``SCRIPTS``. ``slips``: it misbehaves in the first N turns of a step only.
- ``agents``: options by agent name, over the others. ``workers``: those who get a brief.
- ``about``: words by which passages are chosen, in place of the request's.
- ``winner``: the side that a verdict is for. ``score``: the critic's. ``findings``: a judge's.
- ``delay_s``; ``bytes``: answers are padded to that size; ``input_tokens``, ``output_tokens``.
- ``calls``: a list for each turn, ``{"tool", "args"}``; then the agent answers. ``if_asked``: only where the request has one of those words.
- ``fail``: ``{"cause", "times", "status", "retry_after_s"}``; the first N attempts of each call fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fabric.core.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.taxonomy import Cause
from fabric.core.text import parse_json_object
from fabric.runtime.call_ports import ModelRequest
from simulator.kernel.extract import cites, cut, first_line, fitting, listing, quotes, shared_words, terms_of
from simulator.kernel.schema_values import value as value_of
from simulator.kernel.scripted_options import calls_of, done, failed, failure, heard, judgement, options_of
from simulator.kernel.scripted_verdicts import verdict

JSON = Any

CHARS_PER_TOKEN = 4
FLOOD = 200
"""Calls that the flooding script proposes in one answer."""

_request = re.compile(
    r"\ARequest:\n(.*?)(?=\n\n(?:Your part|Results|Exit criteria|Checked result|Workers|Marks such as|Attached documents)\b|\Z)",
    re.DOTALL,
)
_part = re.compile(r"^Your part: (.*?)(?=\n\nMarks such as|\n\nAttached documents|\Z)", re.DOTALL | re.MULTILINE)
_listed = re.compile(r"^Attached documents: (.+)$", re.MULTILINE)
_inlined = re.compile(r"^--- (.+?) ---\n(.*?)(?=^--- .+? ---$|\Z)", re.DOTALL | re.MULTILINE)
_workers = re.compile(r"^Workers:\n(.*?)(?=\n\nDivide the request|\Z)", re.DOTALL | re.MULTILINE)
_worker = re.compile(r"^- ([a-z][a-z0-9_-]*): ?(.*)$", re.MULTILINE)
_branches = re.compile(r"\bat most (\d+) briefs\b")
_result = re.compile(
    r"^## (.+?) \((\S+)\)\n(.*?)(?=^## .+? \(\S+\)$|^Merge these results|\Z)", re.DOTALL | re.MULTILINE
)
_checked = re.compile(r"^Checked result:\n(.*?)\nCitations: ([^\n]*)$", re.DOTALL | re.MULTILINE)
_judged = re.compile(r"^Exit criteria:\n((?:- .*\n)+)\nResult:\n(.*)\nCitations: ([^\n]*)$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Scripted:
    """What to answer, and after how many seconds."""

    delay_s: float
    result: ModelReplied | CallFailed


def answer(request: ModelRequest) -> Scripted:
    """The scripted answer to a request; a function of the request alone."""
    options = options_of(request)
    failed_by = failure(request, options.get("fail"))
    delay_s = max(0.0, float(options.get("delay_s", 0.0)))
    if failed_by is not None:
        return Scripted(delay_s, failed_by)
    seen = _Seen(request, options)
    script = options.get("script", "cooperative")
    if script not in SCRIPTS:
        known = ", ".join(sorted(SCRIPTS))
        message = f"model {request.model.name!r} names script {script!r}; there are: {known}"
        return Scripted(delay_s, failed(request, Cause.BAD_CONFIGURATION, message))
    slipping = seen.turn < int(options.get("slips", 1_000_000))
    said = (SCRIPTS[script] if slipping else cooperative)(seen)
    return Scripted(delay_s, _replied(seen, said))


@dataclass(frozen=True, slots=True)
class Said:
    """What a script says: words, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class _Seen:
    """What a request holds, read out of its messages once and only when asked for."""

    def __init__(self, request: ModelRequest, options: Mapping[str, JSON]) -> None:
        self.request, self.options = request, options
        self.turn = sum(message.role == "assistant" for message in request.messages)
        users = [message.text for message in request.messages if message.role == "user"]
        self.opening = users[0] if users else ""
        self.last = users[-1] if users else ""

    @cached_property
    def question(self) -> str:
        """The caller's request, or the whole first message where it is not marked."""
        found = _request.search(self.opening)
        return (found.group(1) if found else self.opening).strip()

    @property
    def sought(self) -> str:
        """What passages are chosen by."""
        return str(self.options.get("about") or self.question)

    @cached_property
    def part(self) -> str:
        """The agent's share of the plan; empty when it has none."""
        found = _part.search(self.opening)
        return found.group(1).strip() if found else ""

    @cached_property
    def listed(self) -> list[str]:
        """Names of the documents that are attached but not in the prompt."""
        found = _listed.search(self.opening)
        return [name.strip() for name in found.group(1).split(", ") if name.strip()] if found else []

    @cached_property
    def share(self) -> list[str]:
        """The documents that this agent's part names; all of them when it names none."""
        return [name for name in self.listed if name in self.part] or self.listed

    @cached_property
    def read(self) -> dict[str, str]:
        """What was seen of each document: in the prompt, or through tools."""
        start = self.opening.find("\n\nAttached documents:\n")
        found = dict(_inlined.findall(self.opening[start:])) if start >= 0 else {}
        for message in self.request.messages:
            if message.role == "tool":
                value, _ = parse_json_object(message.text, strict=True)
                for piece in (value or {}).get("results", [value]):
                    name, text = (piece.get("name"), piece.get("text")) if isinstance(piece, dict) else (None, None)
                    if isinstance(text, str) and self._mine(name):
                        found[name] = f"{found.get(name, '')}\n\n{text}"
        return found

    def _mine(self, name: JSON) -> bool:
        return isinstance(name, str) and (name in self.share or not self.listed)

    @cached_property
    def asked_tools(self) -> bool:
        """Whether a tool has answered in this step."""
        return any(message.role == "tool" for message in self.request.messages)

    @property
    def offered(self) -> list[str]:
        """Names of the tools on offer."""
        return [tool.name for tool in self.request.tools]

    @cached_property
    def room(self) -> int:
        """Characters that an answer may have and still fit its token limit, JSON and all."""
        return max(200, self.request.max_output_tokens * CHARS_PER_TOKEN * 3 // 4 - 200)

    def call(self, tool: str, args: JSON, number: int = 0, raw: str = "") -> ToolCall:
        """A proposed call, its id unique in the step."""
        return ToolCall(call_id=f"call-{self.turn + 1}-{number + 1}", tool=tool, args=args, raw_args=raw)


# -- the cooperative script --------------------------------------------------------------------------------------------


def cooperative(seen: _Seen) -> Said:
    """Does the agent's work: a plan, a summary of what the documents say, or a critique."""
    if seen.request.output == "plan":
        return _shaped(seen, _plan(seen))
    if seen.request.output == "critique":
        return _shaped(seen, _critique(seen))
    if seen.request.output == "judgement":
        return _shaped(seen, judgement(seen.options))
    if seen.request.output == "verdict":
        return _shaped(seen, verdict(seen.request, seen.question, seen.options))
    calls = _told(seen) or _reading(seen)
    return Said(calls=calls) if calls else _shaped(seen, _summary(seen))


def _plan(seen: _Seen) -> JSON:
    roster = {name: told for block in _workers.findall(seen.opening) for name, told in _worker.findall(block)}
    names = [str(name) for name in seen.options.get("workers", ())] or list(roster)
    limit = _branches.search(seen.opening)
    names = (names or ["worker"])[: max(1, int(limit.group(1))) if limit else None]
    documents = seen.listed or list(seen.read)
    briefs = []
    for number, name in enumerate(names):
        # Where there are enough documents each worker gets its own; else all read all.
        share = documents[number :: len(names)] if len(documents) >= len(names) else documents
        about = (
            f"Read {listing(share)} and say what bears on the request" if share else "Answer your part of the request"
        )
        role = roster.get(name, "").split(". ")[0].strip().rstrip(".")
        told = f"{about}. Your role: {role}." if role else f"{about}."
        title = (
            f"What {listing(share)} says"
            if len(share) == 1
            else f"{name.replace('_', ' ').replace('-', ' ').capitalize()}'s part"
        )
        briefs.append({"agent": name, "title": title, "instructions": told})
    criteria = ["The answer addresses the request itself."]
    if documents:
        criteria.append("Each statement is taken from an attached document, which is cited by name.")
    return {
        "goal": first_line(seen.question, 400) or "Answer the request.",
        "briefs": briefs,
        "exit_criteria": criteria,
    }


def _told(seen: _Seen) -> tuple[ToolCall, ...]:
    """The calls that the options name for this turn."""
    proposed = calls_of(seen.options, seen.turn, seen.offered, seen.question)
    return tuple(seen.call(tool, args, number) for number, (tool, args) in enumerate(proposed))


def _reading(seen: _Seen) -> tuple[ToolCall, ...]:
    """The calls that fetch what the documents say, once: each one's beginning, and the passages that fit the request best."""
    if seen.asked_tools or seen.read or not seen.listed:
        return ()
    calls = []
    if "read_document" in seen.offered:
        calls = [seen.call("read_document", {"name": name}, number) for number, name in enumerate(seen.share[:8])]
    if "search_documents" in seen.offered:
        query = " ".join(terms_of(seen.sought)[:20]) or "summary"
        calls.append(seen.call("search_documents", {"query": query, "limit": 6}, len(calls)))
    return tuple(calls)


def _summary(seen: _Seen) -> JSON:
    checked = _checked.search(seen.opening)
    if checked:
        text = checked.group(1).strip()
        listed = [name for name in checked.group(2).split(", ") if name and name != "none"]
        return {"text": cut(text, seen.room), "citations": listed or cites(text)}
    results = _result.findall(seen.opening)
    if results:
        return _merged(seen, results)
    quoted = {name: quotes(text, seen.sought) for name, text in seen.read.items()}
    lines = [f"{name} says: {' '.join(said)} [{name}]" for name, said in quoted.items() if said]
    if lines:
        kept = fitting(lines, seen.room)
        return {
            "text": "\n\n".join(kept),
            "citations": [name for name in quoted if f"[{name}]" in "\n".join(kept)],
        }
    if outside := done(seen.request):
        return {"text": cut(" ".join(outside), seen.room), "citations": []}
    if spoken := heard(seen.request):  # Nothing of its own to add: the one before said it.
        return {"text": cut(spoken[-1], seen.room), "citations": cites(spoken[-1])}
    topic = seen.part.partition("\n")[0].strip() or "the request"
    why = "nothing in the documents could be read" if seen.listed else "no document is attached"
    text = f"{topic[:1].upper()}{topic[1:]}: {first_line(seen.question, 600)} (Restated from the request alone: {why}.)"
    return {"text": cut(text, seen.room), "citations": []}


def _merged(seen: _Seen, results: Sequence[tuple[str, str, str]]) -> JSON:
    """The parts one after another, each paragraph once."""
    paragraphs: dict[str, None] = {}
    for title, agent, text in results:
        if text.startswith("No result: "):
            paragraphs[f"{title} ({agent}) brought no result: {text.removeprefix('No result: ').strip()}"] = None
            continue
        for paragraph in text.split("\n\n"):
            if paragraph.strip():
                paragraphs[paragraph.strip()] = None
    text = "\n\n".join(fitting(list(paragraphs), seen.room))
    return {"text": text, "citations": cites(text)}


def _critique(seen: _Seen) -> JSON:
    score = min(1.0, max(0.0, float(seen.options.get("score", 0.9))))
    judged = _judged.search(seen.opening)
    if judged is None:
        return {"score": score, "reasons": ["The result answers the request."]}
    criteria = [line.removeprefix("- ").strip() for line in judged.group(1).strip().splitlines()]
    shared = shared_words(seen.question, judged.group(2))
    reasons = [f"Measured against {len(criteria)} exit criteria, the first being: {criteria[0]}"]
    reasons.append(f"It speaks of {listing(shared[:4])}." if shared else "It uses none of the request's own words.")
    reasons.append(f"It cites {judged.group(3)}." if judged.group(3) != "none" else "It cites no document.")
    return {"score": score, "reasons": reasons}


# -- the misbehaving scripts -------------------------------------------------------------------------------------------


def _echo(seen: _Seen) -> Said:
    said = seen.last.strip() or "(nothing was said)"
    if seen.request.output == "plan":
        return _shaped(seen, {**_plan(seen), "goal": first_line(said, 1_000)})
    if seen.request.output == "critique":
        return _shaped(seen, {"score": _critique(seen)["score"], "reasons": [first_line(said, 1_000)]})
    if seen.request.output == "verdict":
        return _shaped(seen, {**verdict(seen.request, said, seen.options), "text": cut(said, seen.room)})
    if seen.request.output == "judgement":
        return _shaped(seen, {**judgement(seen.options), "evidence": [first_line(said, 1_000)]})
    return _shaped(seen, {"text": cut(said, seen.room), "citations": []})


def _some_call(seen: _Seen, number: int = 0, which: int = 0) -> ToolCall:
    """A call that the tool will take, the same each time but for its id."""
    tool = seen.request.tools[which % len(seen.request.tools)]
    name = seen.listed[0] if seen.listed else "notes.md"
    known = {"name": name, "query": "status", "expression": "1 + 1", "url": "https://example.org/"}
    wanted = tool.parameters.get("required", ())
    properties = tool.parameters.get("properties", {})
    plain = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    args = {field: known.get(field, plain.get(properties.get(field, {}).get("type", ""), "status")) for field in wanted}
    return seen.call(tool.name, args, number)


def _loop(seen: _Seen) -> Said:
    return Said(calls=(_some_call(seen),)) if seen.request.tools else cooperative(seen)


def _alternate(seen: _Seen) -> Said:
    return Said(calls=(_some_call(seen, which=seen.turn % 2),)) if seen.request.tools else cooperative(seen)


def _flood(seen: _Seen) -> Said:
    if not seen.request.tools or seen.asked_tools:
        return cooperative(seen)
    return Said(calls=tuple(_some_call(seen, number) for number in range(FLOOD)))


def _unknown_tool(seen: _Seen) -> Said:
    return Said(calls=(seen.call("teleport", {"to": "the answer"}),)) if seen.request.tools else cooperative(seen)


def _bad_args(seen: _Seen) -> Said:
    if not seen.request.tools:
        return cooperative(seen)
    return Said(calls=(seen.call(seen.offered[0], None, raw='{"name": "notes.md'),))


def _off_schema(seen: _Seen) -> Said:
    return Said(json.dumps({"answer": first_line(seen.question, 200), "confidence": "high"}, ensure_ascii=False))


def _bad_json(seen: _Seen) -> Said:
    return Said('{"text": "' + first_line(seen.question, 60).replace('"', "'"))


def _empty(_: _Seen) -> Said:
    return Said()


SCRIPTS: Mapping[str, Callable[[_Seen], Said]] = {
    "cooperative": cooperative,
    "echo": _echo,
    "loop": _loop,
    "alternate": _alternate,
    "flood": _flood,
    "unknown_tool": _unknown_tool,
    "bad_args": _bad_args,
    "off_schema": _off_schema,
    "bad_json": _bad_json,
    "empty": _empty,
}
"""Script name -> what it says. ``loop``: one call for ever; ``alternate``: two in turn; ``flood``: 200 at once; the rest as named."""


# -- answers -----------------------------------------------------------------------------------------------------------


def _shaped(seen: _Seen, value: dict[str, JSON]) -> Said:
    """The value as the agent is asked for it: JSON, with data where it is wanted, or plain words with citations in brackets."""
    if seen.request.data_schema is not None and "citations" in value:
        value = {**value, "data": value_of(seen.request.data_schema, first_line(str(value["text"]), 200))}
    padding = int(seen.options.get("bytes", 0)) - len(json.dumps(value, ensure_ascii=False).encode())
    if padding > 0 and seen.request.output not in ("critique", "judgement"):
        told = value["briefs"][0] if "briefs" in value else value
        field = "instructions" if "briefs" in value else "text"
        told[field] += " " + ("And so on. " * (padding // 11 + 1))[: padding - 1]
    if not seen.request.wants_words or "text" not in value:
        return Said(json.dumps(value, ensure_ascii=False))
    return Said(value["text"])


def _replied(seen: _Seen, said: Said) -> ModelReplied:
    request, options = seen.request, seen.options
    spoken = len(said.text) + sum(len(json.dumps(call.args)) + len(call.tool) for call in said.calls)
    heard = sum(len(message.text) for message in request.messages)
    text, finish = said.text, "stop"
    if "output_tokens" not in options and len(text) > request.max_output_tokens * CHARS_PER_TOKEN:
        text, finish = text[: request.max_output_tokens * CHARS_PER_TOKEN], "length"
        spoken = len(text)
    return ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=text,
        calls=said.calls,
        input_tokens=int(options.get("input_tokens", -(-heard // CHARS_PER_TOKEN))),
        output_tokens=int(options.get("output_tokens", -(-spoken // CHARS_PER_TOKEN))),
        finish="length" if finish == "length" else "stop",
        model=request.model.model or "scripted",
    )
