"""What a model's answer says: calls, an output that fits, or what is wrong with it (S2; semantics.md 6)."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from fabric.core.call_plans import CallPlan, plan_of
from fabric.core.demands import problems_of
from fabric.core.frozen import replace, value
from fabric.core.handing_out import too_many
from fabric.core.inputs import ModelReplied, ToolCall
from fabric.core.judges import is_judge
from fabric.core.leaked_thinking import split_thinking
from fabric.core.payloads import AGENT_OUTPUT, TYPED
from fabric.core.places import cited as names_document
from fabric.core.prompt import for_nobody, output_of
from fabric.core.run import Step
from fabric.core.spec import CITATION, AgentSpec
from fabric.core.text import parse_json_object
from fabric.core.typed_output import contract
from fabric.core.work import Work
from fabric.core.written_calls import written_call

JSON = Any
THINKING_CHARS = 20_000
"""Characters of leaked thinking that are kept with an answer."""
EMPTY = "the answer is empty"
ONLY_THINKING = "the answer holds only what you thought; give the answer itself"


@value()
class Said:
    """An answer as the engine takes it."""

    calls: tuple[tuple[ToolCall, str], ...] = ()
    """What it asks for, each with its condition."""
    output: JSON = None
    """The typed output; None: there is none."""
    problems: tuple[str, ...] = ()
    """Why its text is no output, where it should have been one."""
    text: str = ""
    """Its words, without what the model thought."""
    thinking: str = ""
    """The model's thinking, where it leaked into its words."""


def said(work: Work, step: Step, reply: ModelReplied, *, final: bool) -> Said:
    """Reads an answer. ``final``: tools were stripped, so its calls are not made."""
    text, thinking = split_thinking(reply.text)
    read = _read(work, step, replace(reply, text=text.strip()), final=final, thought=bool(thinking))
    return replace(read, text=text, thinking=thinking[:THINKING_CHARS])


def _read(work: Work, step: Step, reply: ModelReplied, *, final: bool, thought: bool) -> Said:
    native = () if final else tuple((call, "") for call in reply.calls)
    agent, text = work.compiled.spec.agent(step.agent), reply.text
    if reply.finish == "content_filter":
        return Said(native, None, ("the provider's content filter withheld the answer",))
    if reply.finish == "length":
        # A part of an answer may parse and mean something else than the whole, so nothing of it is used.
        return Said((), None, (_cut(reply),))
    if not text:
        return Said(native, None, (ONLY_THINKING if thought else EMPTY,))
    if not native and (problem := _written(work, agent, text)):
        return Said((), None, (problem,))
    if agent.answers == "text":  # With calls, plain words are no output yet.
        return Said(native) if native else Said((), _text_output(work, agent, text))
    given, problem = parse_json_object(text)
    if given is None:
        return Said(native, None, (problem,))
    plan = plan_of(given) if plans(agent, step) else None
    return _fitting(work, step, given, native) if plan is None else _planned(work, step, plan, native, final=final)


def _cut(reply: ModelReplied) -> str:
    """Returns the correction of an answer that ended at the token limit."""
    calls = len(reply.calls)
    if not calls:
        return f"the answer was cut at {reply.output_tokens:,} tokens, the most it may have, so nothing of it is used; give a shorter one, whole"
    made = "the call in it is not made" if calls == 1 else f"none of the {calls} calls in it is made"
    return f"the answer was cut at {reply.output_tokens:,} tokens, the most it may have, so {made}; give each call again, whole, with fewer words around it"


def _written(work: Work, agent: AgentSpec, text: str) -> str:
    """Returns the correction of an answer that writes a tool call as text; empty: it writes none."""
    tool = written_call(text, work.compiled.spec.tools_of(agent))
    if tool is None:
        return ""
    named = f" of {tool!r}" if tool else ""
    return (
        f"the answer writes a call{named} as text, which calls nothing; propose it as a tool call, or answer in words"
    )


def plans(agent: AgentSpec, step: Step) -> bool:
    """Whether a step's answers may be plans of calls; a judge only judges."""
    return agent.calls == "planned" and not is_judge(step)


def _planned(work: Work, step: Step, plan: CallPlan, native: tuple[tuple[ToolCall, str], ...], *, final: bool) -> Said:
    if plan.problems:
        return Said((), None, plan.problems)
    asked = native if final else (*native, *plan.calls)
    if plan.output is not None:
        found = _fitting(work, step, plan.output, asked)
        return Said((), None, found.problems) if found.problems else found
    return Said(asked, None, () if asked else ("output is null, and no more calls are made: give the output",))


def _fitting(work: Work, step: Step, given: JSON, asked: tuple[tuple[ToolCall, str], ...]) -> Said:
    """The output as its shape and its author's schema have it, or what does not fit."""
    shape, author = AGENT_OUTPUT[output_of(step)], contract(work.run, work.compiled.spec, step)
    misfits = work.compiled.evaluators.misfits(author, given) if author else []
    try:
        output = (TYPED[shape] if author else shape).model_validate(given).model_dump(mode="json")
    except ValidationError as error:
        return Said(asked, None, (*problems_of(error), *misfits))
    misfits += [*for_nobody(step, output), *too_many(work, step, output)]
    return Said(asked, None, tuple(misfits)) if misfits else Said(asked, output)


def _text_output(work: Work, agent: AgentSpec, text: str) -> JSON:
    known = work.ctx.contents.read(work.run.request_ref).get("documents", ())
    cited = dict.fromkeys(name for name in CITATION.findall(text) if names_document(name, known))
    return {"text": text, "citations": list(cited)}
