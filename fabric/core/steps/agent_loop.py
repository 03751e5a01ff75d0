"""Runs one agent's step: requests until there is an output, with tool calls between them (S2;
docs/specification/agent-step.md).

1. A model's answer has calls, an output that fits, or problems.
2. The model reads each structural error: an unknown tool, arguments that do not fit, an empty or off-schema answer.
   Each costs the step one of its corrections at the end of the wave. When they are spent the step fails. The model also
   reads which calls a mechanism blocked; those are the ladder's.
3. Thinking that leaked into an answer is separated. Servers without a reasoning parser leave it in the content, between
   its marks. If the chat template wrote the opening mark into the prompt, the content has only the closing mark. (vLLM,
   "Reasoning Outputs"; llama.cpp, ``--reasoning-format``)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.calls import dependencies, proposed, screening
from fabric.core.calls import issue as calls
from fabric.core.calls.proposed import CallPlan, Proposed, find_plan
from fabric.core.child_runs.children import too_many
from fabric.core.conversations import tools as conversation_tools
from fabric.core.decision.prompt import find_missing_candidate, find_output
from fabric.core.decision.work import Work
from fabric.core.events.inputs import ModelReplied, ToolCall
from fabric.core.mechanisms import loop_detector
from fabric.core.rules.loops import LoopFinding, repeated_answer
from fabric.core.sagas import mutations
from fabric.core.schema.payloads import AGENT_OUTPUT, TYPED
from fabric.core.spec.tree import CITATION, AgentSpec
from fabric.core.stages import judging
from fabric.core.state.context import call_args
from fabric.core.state.demands import list_problems
from fabric.core.state.failure import Failure
from fabric.core.state.judges import contract, is_judge
from fabric.core.state.run import CallRecord, Pending, Step
from fabric.core.steps import streamed, wave
from fabric.core.texts.places import cited_place as names_document
from fabric.core.texts.text import parse_json_object
from fabric.core.texts.written_calls import written_call
from fabric.core.values.frozen import replace, value
from fabric.core.values.saga import find_by_command
from fabric.core.values.taxonomy import Cause, Details, Evidence, Trip
from fabric.core.values.units import JSON

NAME = "agent_loop"


def move(work: Work, step: Step) -> Failure | None:
    """Decide about the calls of the last answer, or ask the model again; return the failure that stopped it."""
    if not step.agent:
        return judging.move(work, step)
    if step.history and any(call.state == "open" for call in step.history[-1].calls):
        return wave.run(work, step)
    if conversation_tools.end_turn(work, step):
        return None
    if step.corrections > work.policy_in(step.stage).limits.corrections_per_step or _same_again(work, step):
        return _corrections_spent(work, step)
    last = step.history[-1] if step.history else None
    answer = _drained_output(work, step)
    if last is not None and answer:
        work.emit(ev.OutputAccepted(step_id=step.id, answer_ref=last.answer_ref))
        return None
    trips = calls.ask_model(work, step, turn=step.turns + 1)
    return Failure(tuple(trips), step.stage, step.id) if trips else None


def _drained_output(work: Work, step: Step) -> bool:
    """Return True if the last answer had an output besides calls, and all calls came back without an error."""
    if not step.history or step.history[-1].verdict != "calls":
        return False
    last = step.history[-1]
    return "output" in work.ctx.contents.read(last.answer_ref) and not any(call.error for call in last.calls)


def _same_again(work: Work, step: Step) -> LoopFinding | None:
    """Return the repeat of an unusable answer, where the loop detector's rule for answers has been reached; else
    None.
    """
    if not step.history or step.history[-1].verdict != "rejected":
        return None
    row = takewhile(lambda turn: turn.verdict == "rejected", reversed(step.history))
    marks = [loop_detector.answer_mark(work.ctx.contents.read(turn.answer_ref)) for turn in row][::-1]
    return repeated_answer(work.policy_in(step.stage).loop_detector, marks)


def _corrections_spent(work: Work, step: Step) -> Failure:
    limit = work.policy_in(step.stage).limits.corrections_per_step
    problems = _problems(work, step)
    shown = f": {problems[0]}" if problems else ""
    cause = Cause.PLAN_GATE if step.stage == "plan" and not is_judge(step) else Cause.CORRECTIONS_SPENT
    details: Details = {"problems": list(problems[:5])}
    same, scope = _same_again(work, step), f"step:{step.id}"
    evidence = Evidence(limit, step.corrections, "corrections", scope, details=details)
    did = f"did not give a usable answer in {step.turns} turns"
    if same is not None:
        evidence = Evidence(same.limit, same.observed, "answers", scope, details=details)
        did = f"gave the same unusable answer {same.observed} times (limit {same.limit})"
    stopped = f", after it was stopped ({step.message})" if step.final else ""
    message = f"agent {step.agent} {did}{stopped}{shown}"
    return Failure((Trip(NAME, cause, evidence, message),), step.stage, step.id)


def _problems(work: Work, step: Step) -> list[str]:
    """Return the problems of the last answer: of its text, or of the calls it proposed."""
    if not step.history:
        return []
    last = step.history[-1]
    with_text: list[str] = work.ctx.contents.read(last.answer_ref).get("problems", [])
    return with_text or [_named_problem(work, call) for call in last.calls if call.correction]


def _named_problem(work: Work, call: CallRecord) -> str:
    """Return the error of a call, with its tool."""
    said = str(work.ctx.contents.read(call.result_ref)["error"]["message"])
    return said if call.tool in said else f"{call.tool}: {said}"


# -- the model's answer ------------------------------------------------------------------------------------------------


def take_answer(work: Work, pending: Pending, reply: ModelReplied) -> Failure | None:
    """Journal an answer: an output, calls, or a refusal; return the failure, if any."""
    issued = pending.issued
    step = work.run.steps[issued.step_id]
    found = read_answer(work, step, reply, final=issued.final)
    proposals = screening.order_writes(work.compiled_fabric.spec, proposed.proposals(step, found.calls))
    verdict: Any = "calls" if proposals else "output" if found.output is not None else "rejected"
    content = _content(issued, reply, found, proposals, verdict)
    work.emit(
        ev.ModelAnswered(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=step.id,
            verdict=verdict,
            calls=tuple(proposal.fact() for proposal in proposals),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd_micros=calls.build_charge(work, issued, reply).usd_micros,
            problems=found.problems if verdict == "rejected" else (),
            sanitized=reply.sanitized,
            handled=streamed.list_handled_failures(step, proposals),
            finish=reply.finish,
            model=reply.model,
            parts=reply.parts,
            usage_problem=reply.usage_problem,
            probed=reply.probed,
        ),
        content,
    )
    if verdict == "rejected":
        streamed.let_go(work, step.id, "its answer was refused")
    if work.run.ending is not None or work.run.steps[step.id].status != "active":
        return None
    if reply.finish == "content_filter":
        message = f"the provider's content filter withheld the answer of {issued.target}"
        return Failure(
            (Trip(NAME, Cause.CONTENT_FILTER, Evidence(scope=f"step:{step.id}"), message),), step.stage, step.id
        )
    if verdict == "rejected" and issued.final:
        return _corrections_spent(work, work.run.steps[step.id])
    return None


def _content(
    issued: ev.CallIssued, reply: ModelReplied, found: ReadAnswer, proposals: Sequence[Proposed], verdict: str
) -> dict[str, JSON]:
    """Return the journaled content of an answer."""
    content: dict[str, JSON] = {} if found.output is None else {"output": found.output}
    if verdict != "output":
        content["text"] = found.text
    if proposals:
        content["calls"] = [proposal.as_json() for proposal in proposals]
    if found.thinking:
        content["thinking"] = found.thinking
    if proposals or reply.own is not None:
        # Only the model that gave ids and reasoning understands them.
        content["from"] = issued.target
    if reply.own is not None:
        content["own"] = reply.own
    if verdict == "rejected":
        content["problems"] = list(found.problems)
    if verdict == "rejected" and reply.calls:
        content["unused_calls"] = [_unused_call(call) for call in reply.calls]
    return content


def _unused_call(call: ToolCall) -> JSON:
    given = {"args": call.args} if call.args is not None else {"raw_args": call.raw_args}
    return {"tool": call.tool, **given}


# -- tools -------------------------------------------------------------------------------------------------------------


def abort_unanswered(work: Work, pending: Pending, trip: Trip, reason: str) -> None:
    """Abort a call that will not be retried while its step goes on. If a model proposed the tool call, it receives
    the reason.
    """
    issued = pending.issued
    calls.let_go(work, pending, reason)
    step = work.run.steps.get(issued.step_id)
    if issued.call == "tool" and issued.agent:
        args = call_args(work.ctx.contents, issued.args_ref, issued.call_id)
        known_by = "" if step is None else dependencies.find_known_id(step, issued.call_id)
        one = proposed.Proposed(issued.call_id, issued.target, args, "", issued.args_hash, given=known_by)
        wave.refuse(
            work, issued.step_id, one, trip.cause, trip.mechanism, trip.advice or trip.message, correction=False
        )


def issue_again(work: Work, pending: Pending) -> Failure | None:
    """Issue the next attempt of a failed or interrupted call, or return the failure if it may not start. Never
    blindly of what changes the world.
    """
    if mutations.in_doubt(find_by_command(work.run.saga, pending.issued.command_id)):
        return mutations.resolve(work, pending)
    trips = calls.issue_again(work, pending)
    if not trips:
        return None
    step = work.run.steps[pending.issued.step_id]
    abort_unanswered(work, work.run.pending[pending.issued.command_id], trips[0], "it may not start again")
    return Failure(tuple(trips), step.stage, step.id)


THINKING_CHARS = 20_000
"""Characters of leaked thinking that are kept with an answer."""
EMPTY = "the answer is empty"
ONLY_THINKING = "the answer holds only what you thought; give the answer itself"


@value()
class ReadAnswer:
    """An answer as the engine takes it."""

    calls: tuple[tuple[ToolCall, str], ...] = ()
    """Proposed calls, each with its condition."""
    output: JSON = None
    """The typed output; None: there is none."""
    problems: tuple[str, ...] = ()
    """Why its text is no output, where it should have been one."""
    text: str = ""
    """Its words, without the model's thinking."""
    thinking: str = ""
    """The model's thinking, where it leaked into its words."""


def read_answer(work: Work, step: Step, reply: ModelReplied, *, final: bool) -> ReadAnswer:
    """Read an answer. ``final``: tools were stripped, so its calls are not made."""
    text, thinking = split_thinking(reply.text)
    read = _read(work, step, replace(reply, text=text.strip()), final=final, thought=bool(thinking))
    return replace(read, text=text, thinking=thinking[:THINKING_CHARS])


def _read(work: Work, step: Step, reply: ModelReplied, *, final: bool, thought: bool) -> ReadAnswer:
    native = () if final else tuple((call, "") for call in reply.calls)
    agent, text = work.compiled_fabric.spec.agent(step.agent), reply.text
    if reply.finish == "content_filter":
        return ReadAnswer(native, None, ("the provider's content filter withheld the answer",))
    if reply.finish == "length":
        # A part of an answer may parse and mean something else than the whole, so no part is used.
        return ReadAnswer((), None, (_cut(reply),))
    if not text:
        return ReadAnswer(native, None, (ONLY_THINKING if thought else EMPTY,))
    if not native and (problem := _written_call_problem(work, agent, text)):
        return ReadAnswer((), None, (problem,))
    if agent.answers == "text":  # With calls, plain words are no output yet.
        return ReadAnswer(native) if native else ReadAnswer((), _text_output(work, agent, text))
    given, problem = parse_json_object(text)
    if given is None:
        return ReadAnswer(native, None, (problem,))
    plan = find_plan(given) if plans(agent, step) else None
    return _fit_output(work, step, given, native) if plan is None else _read_plan(work, step, plan, native, final=final)


def _cut(reply: ModelReplied) -> str:
    """Return the correction of an answer that ended at the token limit."""
    calls = len(reply.calls)
    if not calls:
        return f"the answer was cut at {reply.output_tokens:,} tokens, the most it may have, so nothing of it is used; give a shorter one, whole"
    made = "the call in it is not made" if calls == 1 else f"none of the {calls} calls in it is made"
    return f"the answer was cut at {reply.output_tokens:,} tokens, the most it may have, so {made}; give each call again, whole, with fewer words around it"


def _written_call_problem(work: Work, agent: AgentSpec, text: str) -> str:
    """Return the correction of an answer that writes a tool call as text; "": it writes none."""
    tool = written_call(text, work.compiled_fabric.spec.tools_of(agent))
    if tool is None:
        return ""
    named = f" of {tool!r}" if tool else ""
    return (
        f"the answer writes a call{named} as text, which calls nothing; propose it as a tool call, or answer in words"
    )


def plans(agent: AgentSpec, step: Step) -> bool:
    """Return True if a step's answers may be plans of calls; a judge's may not."""
    return agent.calls == "planned" and not is_judge(step)


def _read_plan(
    work: Work, step: Step, plan: CallPlan, native: tuple[tuple[ToolCall, str], ...], *, final: bool
) -> ReadAnswer:
    if plan.problems:
        return ReadAnswer((), None, plan.problems)
    asked = native if final else (*native, *plan.calls)
    if plan.output is not None:
        found = _fit_output(work, step, plan.output, asked)
        return ReadAnswer((), None, found.problems) if found.problems else found
    return ReadAnswer(asked, None, () if asked else ("output is null, and no more calls are made: give the output",))


def _fit_output(work: Work, step: Step, given: JSON, asked: tuple[tuple[ToolCall, str], ...]) -> ReadAnswer:
    """Return the output in its shape and its author's schema, or its problems."""
    shape, author = AGENT_OUTPUT[find_output(step)], contract(work.run, work.compiled_fabric.spec, step)
    misfits = work.compiled_fabric.evaluators.misfits(author, given) if author else []
    try:
        output = (TYPED[shape] if author else shape).model_validate(given).model_dump(mode="json")
    except ValidationError as error:
        return ReadAnswer(asked, None, (*list_problems(error), *misfits))
    misfits += [*find_missing_candidate(step, output), *too_many(work, step, output)]
    return ReadAnswer(asked, None, tuple(misfits)) if misfits else ReadAnswer(asked, output)


def _text_output(work: Work, agent: AgentSpec, text: str) -> JSON:
    known = work.ctx.contents.read(work.run.request_ref).get("documents", ())
    cited = dict.fromkeys(name for name in CITATION.findall(text) if names_document(name, known))
    return {"text": text, "citations": list(cited)}


MARKS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
"""The marks with which models open and close their thinking."""
_OPENING = tuple(opens for opens, _ in MARKS)

_code = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
"""Matches code and quoted text, in which a mark is an ordinary word."""


def split_thinking(text: str) -> tuple[str, str]:
    """Return the answer and the thinking in a model's text. Each is "" if the text has none of it."""
    thinking: list[str] = []
    rest = text
    while (found := _split_leading(rest) or _split_closing(rest)) is not None:
        thought, rest = found
        thinking.append(thought.strip())
    return (rest.strip(), "\n".join(thinking)) if thinking else (text, "")


def _split_leading(text: str) -> tuple[str, str] | None:
    """Return the thinking that opens the text, and the text after it; None: none."""
    start = text.lstrip()
    if not start.startswith(_OPENING):
        return None
    for opens, closes in MARKS:
        if start.startswith(opens):
            thought, _, rest = start[len(opens) :].partition(closes)
            return thought, rest
    return None


def _split_closing(text: str) -> tuple[str, str] | None:
    """Return the thinking that only a closing mark ends, and the text after it; None: none. A mark inside a line of
    prose is a word and ends nothing.
    """
    quoted: list[tuple[int, int]] | None = None
    for _, closes in MARKS:
        at = text.find(closes)
        while at >= 0:
            quoted = _find_code_spans(text) if quoted is None else quoted
            end = at + len(closes)
            if not _inside(quoted, at) and _stands_apart(text, at, end):
                return text[:at], text[end:]
            at = text.find(closes, end)
    return None


def _find_code_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _code.finditer(text)]


def _inside(spans: list[tuple[int, int]], at: int) -> bool:
    index = bisect_right(spans, (at, len(spans) + at + 1)) - 1
    return index >= 0 and spans[index][0] <= at < spans[index][1]


def _stands_apart(text: str, start: int, end: int) -> bool:
    """Return True if a mark ends its line or its text, or begins a line. It may also stand between a sentence or object
    and the following text.
    """
    before, after = text[:start].rstrip(" \t"), text[end:].lstrip(" \t")
    return not after or after[0] in "\r\n{[" or not before or before[-1] in "\r\n}"
