"""What a step's next prompt is made of: messages by reference, in order. ``runtime/prompts.py`` fills them with words.

Only references and template names are decided here, so the journal keeps a digest of them and never a prompt (design.md 5 "Chain").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabric.core.commands import Message
from fabric.core.fingerprint import digest
from fabric.core.flow import Stage
from fabric.core.frozen import replace, value
from fabric.core.judges import FIRST, ORACLE_FROM, is_judge
from fabric.core.run import CallRecord, Run, Step, Turn
from fabric.core.topologies.slices import from_child, is_slice, refs_of
from fabric.core.work import Work

JSON = Any
OUTPUT: Mapping[Stage, str] = {
    Stage.PLAN: "plan",
    Stage.FAN_OUT: "summary",
    Stage.FAN_IN: "summary",
    Stage.VALIDATE: "critique",
    Stage.FINALIZE: "summary",
}
"""The shape that a stage's agent is asked for: a name in ``payloads.AGENT_OUTPUT``."""


def output_of(step: Step) -> str:
    """The shape that a step's agent is asked for; of a judge it is a judgement, whatever its stage, and of who decides a debate a verdict."""
    if step.turn is not None and step.turn.choices:
        return "verdict"
    return "judgement" if is_judge(step) else OUTPUT[step.stage]


def for_nobody(step: Step, output: JSON) -> list[str]:
    """What is wrong with a verdict that is for none of whom it may be for; nothing with any other output."""
    choices = () if step.turn is None else step.turn.choices
    if not choices or output["winner"] in choices:
        return []
    return [f"winner: it is for none of {', '.join(choices)}; name one of them"]


def opening(run: Run, step: Step) -> tuple[Message, ...]:
    """The messages before the first answer: who the agent is, what was asked, what earlier stages left."""
    system = Message(role="system", template="agent@1")
    if is_judge(step):
        return (system, _judging(run, step))

    def user(template: str, *stages: Stage, part: int | None = None) -> Message:
        refs = tuple(run.stages[stage].output_ref for stage in stages)
        return Message(role="user", template=template, refs=(run.request_ref, *refs), part=part)

    match step.stage:
        case Stage.PLAN:
            told = tuple(Message(role="user", template="feedback@1", refs=(ref,)) for ref in run.feedback)
            return (system, user("plan@1"), *told)
        case Stage.FAN_OUT:
            return (system, user("brief@1", Stage.PLAN, part=step.brief), *_heard(run, step))
        case Stage.FAN_IN:
            merge = user("merge@1", Stage.PLAN, Stage.FAN_OUT)
            return (system, replace(merge, refs=merge.refs + _summaries(run)))
        case Stage.VALIDATE:
            return (system, user("criticise@1", Stage.PLAN, Stage.FAN_IN))
        case Stage.FINALIZE:
            return (system, user("finish@1", Stage.PLAN, Stage.VALIDATE))


def _heard(run: Run, step: Step) -> Iterator[Message]:
    """What a turn reads of those before it, and what it is told; nothing for a branch that is no turn. Of one that has
    failed since, nothing.
    """
    if step.turn is None:
        return
    said = {other.branch: other for other in run.steps.values() if other.stage is Stage.FAN_OUT}
    for branch in step.turn.hears:
        if said[branch].id in run.withheld or said[branch].status != "done":
            continue
        yield Message(role="user", template="said@1", refs=(said[branch].output_ref,), speaker=said[branch].agent)
    if step.turn.told_ref:
        yield Message(role="user", template="note@1", refs=(step.turn.told_ref,))


def _judging(run: Run, step: Step) -> Message:
    """What a judge is given: the request, what is judged, and what it is held against."""
    if step.stage is Stage.PLAN:
        return Message(role="user", template="vet@1", refs=(run.request_ref, step.note_ref))
    if step.branch == FIRST:
        refs = (run.request_ref, step.note_ref, *_results(run))
        return Message(role="user", template="ground@1", refs=refs)
    refs = (run.request_ref, run.stages[Stage.PLAN].output_ref, step.note_ref)
    return Message(role="user", template="assess@1", refs=refs, part=step.branch - ORACLE_FROM)


def _results(run: Run) -> tuple[str, ...]:
    """What tools answered in this epoch, of a fork in its origin too; of a child run what was said there (``rests.py``)."""
    kept = () if run.epoch else (ref for _, _, ref in run.control.answers)
    authors = [step for step in run.steps.values() if not is_judge(step)]
    calls = (call for step in authors for turn in step.history for call in turn.calls)
    found = [call.result_ref for call in calls if call.state == "done" and not call.error and call.result_ref]
    slices = (ref for step in authors if from_child(run, step) for ref in refs_of(run, step))
    return tuple(dict.fromkeys((*kept, *found, *slices)))


def _summaries(run: Run) -> tuple[str, ...]:
    """The answers of the branches that gave one, in branch order: what the parts of the fan-out's output refer to."""
    done = (s for s in run.steps.values() if s.stage is Stage.FAN_OUT and (s.status == "done" or is_slice(s.agent)))
    latest = sorted(done, key=lambda step: step.branch)
    return tuple(ref for step in latest for ref in refs_of(run, step))


@value()
class Messages:
    """The whole prompt of a step's next request, message by message. Made each time it is read: a decision issues it and looks at none of it, so that a
    turn costs the engine the same however long the conversation is.
    """

    opened: tuple[Message, ...]
    note_ref: str
    history: tuple[Turn, ...]
    final: bool

    def __iter__(self) -> Iterator[Message]:
        yield from self.opened
        if self.note_ref:
            yield Message(role="user", template="note@1", refs=(self.note_ref,))
        for turn in self.history:
            yield from _turn(turn)
        if self.final:
            yield Message(role="user", template="final@1")


def messages(run: Run, step: Step, opened: tuple[Message, ...] = ()) -> Messages:
    """The whole prompt of the step's next request. ``opened``: its opening, where the caller has it."""
    note = "" if is_judge(step) else step.note_ref  # A judge's stands in its opening, with what it judges.
    return Messages(opened or opening(run, step), note, step.history, step.final)


def _turn(turn: Turn) -> list[Message]:
    found = [Message(role="assistant", template="answer@1", refs=(turn.answer_ref,))]
    found += [_result(call) for call in turn.calls]
    if turn.verdict == "rejected":
        found.append(Message(role="user", template="correction@1", refs=(turn.answer_ref,)))
    found += [Message(role="user", template="note@1", refs=(ref,)) for ref in turn.notes]
    return found


def _result(call: CallRecord) -> Message:
    refs = (call.result_ref,)
    return Message(role="tool", template="result@1", refs=refs, call_id=call.call_id, tool=call.tool, error=call.error)


def digest_of(step: Step, opened: tuple[Message, ...]) -> str:
    """Rolling digest of all references that make up the step's next prompt: with the templates' names it stands for the prompt."""
    return digest(step.prompt, *(f"{message.template}/{ref}" for message in opened for ref in message.refs))


def prompt_bytes(work: Work, step: Step, opened: tuple[Message, ...]) -> int:
    """An upper bound of the next prompt's size in bytes, templates and tool definitions included."""
    agent = work.compiled.spec.agent(step.agent)
    begun = work.ctx.contents.size(tuple(ref for message in opened for ref in message.refs))
    inlined = 0
    if agent.inline_document_chars:
        request = work.ctx.contents.read(work.run.request_ref)
        inlined = sum(min(4 * agent.inline_document_chars, size) for size in request.get("document_bytes", ()))
    overhead = work.compiled.prompt_overhead.get(step.agent, 0)
    around = TURN_BYTES * (len(step.history) + 1) + CORRECTION_BYTES * step.corrections
    return overhead + begun + inlined + step.prompt_bytes + around


TURN_BYTES = 64
"""What the markup of a turn may add."""
CORRECTION_BYTES = 512
"""What is said around the problems of a refused answer: that it could not be used, and once more the wanted shape."""
