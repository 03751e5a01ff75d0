"""Scripted agents: answer in place of a model, from the request alone, always alike.

The cooperative script works without a model: it plans a brief for each worker, reads the attached documents through
the offered tools, and answers with those of their sentences that fit the request best. The other scripts misbehave,
each in one way, for drills and demonstrations. ``ModelSpec.options`` choose the answer: ``option_table.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fabric.core.events.inputs import CallFailed, ModelReplied, ToolCall
from fabric.core.texts.text import parse_json_object
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents.extracts import (
    cites,
    cut,
    first_line,
    fit_lines,
    list_terms,
    list_words,
    quotes,
    shared_words,
    verdict,
)
from simulator.agents.options import (
    earlier_outputs,
    failed_attempt,
    failure,
    judgement,
    list_calls,
    list_effects,
    map_options,
)
from simulator.agents.schema_values import value as value_of

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
    """An answer, and its delay in seconds."""

    delay_s: float
    result: ModelReplied | CallFailed


def answer(request: ModelRequest) -> Scripted:
    """Return the scripted answer to a request; a function of the request alone."""
    options = map_options(request)
    failed_by = failure(request, options.get("fail"))
    delay_s = max(0.0, float(options.get("delay_s", 0.0)))
    if failed_by is not None:
        return Scripted(delay_s, failed_by)
    seen = _SeenRequest(request, options)
    script = options.get("script", "cooperative")
    if script not in SCRIPTS:
        known = ", ".join(sorted(SCRIPTS))
        message = f"model {request.model.name!r} names script {script!r}; there are: {known}"
        return Scripted(delay_s, failed_attempt(request, Cause.BAD_CONFIGURATION, message))
    slipping = seen.turn < int(options.get("slips", 1_000_000))
    said = (SCRIPTS[script] if slipping else cooperative)(seen)
    return Scripted(delay_s, _make_reply(seen, said))


@dataclass(frozen=True, slots=True)
class ScriptOutput:
    """Output of a script: words, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class _SeenRequest:
    """Contents of a request, read from its messages once and only when needed."""

    def __init__(self, request: ModelRequest, options: Mapping[str, JSON]) -> None:
        self.request, self.options = request, options
        self.turn = sum(message.role == "assistant" for message in request.messages)
        users = [message.text for message in request.messages if message.role == "user"]
        self.opening = users[0] if users else ""
        self.last = users[-1] if users else ""

    @cached_property
    def question(self) -> str:
        """Return the caller's request, or the whole first message where it is not marked."""
        found = _request.search(self.opening)
        return (found.group(1) if found else self.opening).strip()

    @property
    def search_words(self) -> str:
        """Return the words that choose passages."""
        return str(self.options.get("about") or self.question)

    @cached_property
    def part(self) -> str:
        """Return the agent's part of the plan; empty without one."""
        found = _part.search(self.opening)
        return found.group(1).strip() if found else ""

    @cached_property
    def listed_documents(self) -> list[str]:
        """Return the names of attached documents that are not in the prompt."""
        found = _listed.search(self.opening)
        return [name.strip() for name in found.group(1).split(", ") if name.strip()] if found else []

    @cached_property
    def share(self) -> list[str]:
        """Return the documents that this agent's part names; all if it names none."""
        return [name for name in self.listed_documents if name in self.part] or self.listed_documents

    @cached_property
    def read(self) -> dict[str, str]:
        """Return the read text of each document: from the prompt, or through tools."""
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
        return isinstance(name, str) and (name in self.share or not self.listed_documents)

    @cached_property
    def asked_tools(self) -> bool:
        """Return True if a tool has answered in this step."""
        return any(message.role == "tool" for message in self.request.messages)

    @property
    def offered_tools(self) -> list[str]:
        """Return the names of offered tools."""
        return [tool.name for tool in self.request.tools]

    @cached_property
    def room(self) -> int:
        """Return the number of characters of an answer within its token limit, JSON included."""
        return max(200, self.request.max_output_tokens * CHARS_PER_TOKEN * 3 // 4 - 200)

    def call(self, tool: str, args: JSON, number: int = 0, raw: str = "") -> ToolCall:
        """Return a proposed call, its id unique in the step."""
        return ToolCall(call_id=f"call-{self.turn + 1}-{number + 1}", tool=tool, args=args, raw_args=raw)


# -- the cooperative script --------------------------------------------------------------------------------------------


def cooperative(seen: _SeenRequest) -> ScriptOutput:
    """Return an agent's work: a plan, a summary of the documents, or a critique."""
    if seen.request.output == "plan":
        return _shape_value(seen, _plan(seen))
    if seen.request.output == "critique":
        return _shape_value(seen, _critique(seen))
    if seen.request.output == "judgement":
        return _shape_value(seen, judgement(seen.options))
    if seen.request.output == "verdict":
        return _shape_value(seen, verdict(seen.request, seen.question, seen.options))
    calls = _optioned_calls(seen) or _reading_calls(seen)
    return ScriptOutput(calls=calls) if calls else _shape_value(seen, _summary(seen))


def _plan(seen: _SeenRequest) -> JSON:
    roster = {name: told for block in _workers.findall(seen.opening) for name, told in _worker.findall(block)}
    names = [str(name) for name in seen.options.get("workers", ())] or list(roster)
    limit = _branches.search(seen.opening)
    names = (names or ["worker"])[: max(1, int(limit.group(1))) if limit else None]
    documents = seen.listed_documents or list(seen.read)
    briefs = []
    for number, name in enumerate(names):
        # Where there are enough documents each worker gets its own; else all read all.
        share = documents[number :: len(names)] if len(documents) >= len(names) else documents
        about = (
            f"Read {list_words(share)} and say what bears on the request"
            if share
            else "Answer your part of the request"
        )
        role = roster.get(name, "").split(". ")[0].strip().rstrip(".")
        told = f"{about}. Your role: {role}." if role else f"{about}."
        title = (
            f"What {list_words(share)} says"
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


def _optioned_calls(seen: _SeenRequest) -> tuple[ToolCall, ...]:
    """Return the calls that the options name for this turn."""
    proposed = list_calls(seen.options, seen.turn, seen.offered_tools, seen.question)
    return tuple(seen.call(tool, args, number) for number, (tool, args) in enumerate(proposed))


def _reading_calls(seen: _SeenRequest) -> tuple[ToolCall, ...]:
    """Return the calls that read the documents, once: each one's beginning, and the best passages for the request."""
    if seen.asked_tools or seen.read or not seen.listed_documents:
        return ()
    calls = []
    if "read_document" in seen.offered_tools:
        calls = [seen.call("read_document", {"name": name}, number) for number, name in enumerate(seen.share[:8])]
    if "search_documents" in seen.offered_tools:
        query = " ".join(list_terms(seen.search_words)[:20]) or "summary"
        calls.append(seen.call("search_documents", {"query": query, "limit": 6}, len(calls)))
    return tuple(calls)


def _summary(seen: _SeenRequest) -> JSON:
    checked = _checked.search(seen.opening)
    if checked:
        text = checked.group(1).strip()
        listed = [name for name in checked.group(2).split(", ") if name and name != "none"]
        return {"text": cut(text, seen.room), "citations": listed or cites(text)}
    results = _result.findall(seen.opening)
    if results:
        return _merge_parts(seen, results)
    quoted = {name: quotes(text, seen.search_words) for name, text in seen.read.items()}
    lines = [f"{name} says: {' '.join(said)} [{name}]" for name, said in quoted.items() if said]
    if lines:
        kept = fit_lines(lines, seen.room)
        return {
            "text": "\n\n".join(kept),
            "citations": [name for name in quoted if f"[{name}]" in "\n".join(kept)],
        }
    if outside := list_effects(seen.request):
        return {"text": cut(" ".join(outside), seen.room), "citations": []}
    if spoken := earlier_outputs(seen.request):  # It has nothing to add to the one before.
        return {"text": cut(spoken[-1], seen.room), "citations": cites(spoken[-1])}
    topic = seen.part.partition("\n")[0].strip() or "the request"
    why = "nothing in the documents could be read" if seen.listed_documents else "no document is attached"
    text = f"{topic[:1].upper()}{topic[1:]}: {first_line(seen.question, 600)} (Restated from the request alone: {why}.)"
    return {"text": cut(text, seen.room), "citations": []}


def _merge_parts(seen: _SeenRequest, results: Sequence[tuple[str, str, str]]) -> JSON:
    """Return the parts one after another, each paragraph once."""
    paragraphs: dict[str, None] = {}
    for title, agent, text in results:
        if text.startswith("No result: "):
            paragraphs[f"{title} ({agent}) brought no result: {text.removeprefix('No result: ').strip()}"] = None
            continue
        for paragraph in text.split("\n\n"):
            if paragraph.strip():
                paragraphs[paragraph.strip()] = None
    text = "\n\n".join(fit_lines(list(paragraphs), seen.room))
    return {"text": text, "citations": cites(text)}


def _critique(seen: _SeenRequest) -> JSON:
    score = min(1.0, max(0.0, float(seen.options.get("score", 0.9))))
    judged = _judged.search(seen.opening)
    if judged is None:
        return {"score": score, "reasons": ["The result answers the request."]}
    criteria = [line.removeprefix("- ").strip() for line in judged.group(1).strip().splitlines()]
    shared = shared_words(seen.question, judged.group(2))
    reasons = [f"Measured against {len(criteria)} exit criteria, the first being: {criteria[0]}"]
    reasons.append(f"It speaks of {list_words(shared[:4])}." if shared else "It uses none of the request's own words.")
    reasons.append(f"It cites {judged.group(3)}." if judged.group(3) != "none" else "It cites no document.")
    return {"score": score, "reasons": reasons}


# -- the misbehaving scripts -------------------------------------------------------------------------------------------


def _echo(seen: _SeenRequest) -> ScriptOutput:
    said = seen.last.strip() or "(nothing was said)"
    if seen.request.output == "plan":
        return _shape_value(seen, {**_plan(seen), "goal": first_line(said, 1_000)})
    if seen.request.output == "critique":
        return _shape_value(seen, {"score": _critique(seen)["score"], "reasons": [first_line(said, 1_000)]})
    if seen.request.output == "verdict":
        return _shape_value(seen, {**verdict(seen.request, said, seen.options), "text": cut(said, seen.room)})
    if seen.request.output == "judgement":
        return _shape_value(seen, {**judgement(seen.options), "evidence": [first_line(said, 1_000)]})
    return _shape_value(seen, {"text": cut(said, seen.room), "citations": []})


def _some_call(seen: _SeenRequest, number: int = 0, which: int = 0) -> ToolCall:
    """Return a call that the tool accepts, always alike except for its id."""
    tool = seen.request.tools[which % len(seen.request.tools)]
    name = seen.listed_documents[0] if seen.listed_documents else "notes.md"
    known = {"name": name, "query": "status", "expression": "1 + 1", "url": "https://example.org/"}
    wanted = tool.parameters.get("required", ())
    properties = tool.parameters.get("properties", {})
    plain = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    args = {field: known.get(field, plain.get(properties.get(field, {}).get("type", ""), "status")) for field in wanted}
    return seen.call(tool.name, args, number)


def _loop(seen: _SeenRequest) -> ScriptOutput:
    return ScriptOutput(calls=(_some_call(seen),)) if seen.request.tools else cooperative(seen)


def _alternate(seen: _SeenRequest) -> ScriptOutput:
    return ScriptOutput(calls=(_some_call(seen, which=seen.turn % 2),)) if seen.request.tools else cooperative(seen)


def _flood(seen: _SeenRequest) -> ScriptOutput:
    if not seen.request.tools or seen.asked_tools:
        return cooperative(seen)
    return ScriptOutput(calls=tuple(_some_call(seen, number) for number in range(FLOOD)))


def _unknown_tool(seen: _SeenRequest) -> ScriptOutput:
    return (
        ScriptOutput(calls=(seen.call("teleport", {"to": "the answer"}),)) if seen.request.tools else cooperative(seen)
    )


def _bad_args(seen: _SeenRequest) -> ScriptOutput:
    if not seen.request.tools:
        return cooperative(seen)
    return ScriptOutput(calls=(seen.call(seen.offered_tools[0], None, raw='{"name": "notes.md'),))


def _off_schema(seen: _SeenRequest) -> ScriptOutput:
    return ScriptOutput(
        json.dumps({"answer": first_line(seen.question, 200), "confidence": "high"}, ensure_ascii=False)
    )


def _bad_json(seen: _SeenRequest) -> ScriptOutput:
    return ScriptOutput('{"text": "' + first_line(seen.question, 60).replace('"', "'"))


def _empty(_: _SeenRequest) -> ScriptOutput:
    return ScriptOutput()


SCRIPTS: Mapping[str, Callable[[_SeenRequest], ScriptOutput]] = {
    "cooperative": cooperative,
    "echo": _echo,
    "tool_loop": _loop,
    "tool_loop_of_2": _alternate,
    "flood": _flood,
    "unknown_tool": _unknown_tool,
    "bad_arguments": _bad_args,
    "off_schema": _off_schema,
    "malformed": _bad_json,
    "empty": _empty,
}
"""Script by name. ``loop``: one call for ever. ``alternate``: two in turn. ``flood``: 200 at once."""


# -- answers -----------------------------------------------------------------------------------------------------------


def _shape_value(seen: _SeenRequest, value: dict[str, JSON]) -> ScriptOutput:
    """Return the value in the requested form: JSON, with data if wanted, or plain words with citations in brackets."""
    if seen.request.data_schema is not None and "citations" in value:
        value = {**value, "data": value_of(seen.request.data_schema, first_line(str(value["text"]), 200))}
    padding = int(seen.options.get("bytes", 0)) - len(json.dumps(value, ensure_ascii=False).encode())
    if padding > 0 and seen.request.output not in ("critique", "judgement"):
        told = value["briefs"][0] if "briefs" in value else value
        field = "instructions" if "briefs" in value else "text"
        told[field] += " " + ("And so on. " * (padding // 11 + 1))[: padding - 1]
    if not seen.request.wants_words or "text" not in value:
        return ScriptOutput(json.dumps(value, ensure_ascii=False))
    return ScriptOutput(value["text"])


def _make_reply(seen: _SeenRequest, said: ScriptOutput) -> ModelReplied:
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
