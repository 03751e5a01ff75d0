"""Builds a step's next prompt: messages by reference, in order. ``runtime/prompts.py`` fills them with words.

Only references and template names are decided here, so the journal records a digest of them and never a prompt
(docs/specification/durability.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.decision.slices import from_child, is_slice, list_refs
from fabric.core.decision.work import Work
from fabric.core.events.commands import Message
from fabric.core.spec.tree import AgentSpec
from fabric.core.state.judges import FIRST, ORACLE_FROM, is_judge
from fabric.core.state.run import CallRecord, Run, Step, Turn
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.core.values.units import JSON

OUTPUT: Mapping[Stage, str] = {
    Stage.PLAN: "plan",
    Stage.FAN_OUT: "summary",
    Stage.FAN_IN: "summary",
    Stage.VALIDATE: "critique",
    Stage.FINALIZE: "summary",
}
"""Shape of the answer in each stage: a name in ``payloads.AGENT_OUTPUT``."""


def find_output(step: Step) -> str:
    """Return the shape of a step's output. A judge gives a judgement, a deciding turn of a debate a verdict, other
    steps their stage's shape.
    """
    if step.turn is not None and step.turn.choices:
        return "verdict"
    return "judgement" if is_judge(step) else OUTPUT[step.stage]


def find_missing_candidate(step: Step, output: JSON) -> list[str]:
    """Return the problem of a verdict that names none of its candidates; empty for other outputs."""
    choices = () if step.turn is None else step.turn.choices
    if not choices or output["winner"] in choices:
        return []
    return [f"winner: it is for none of {', '.join(choices)}; name one of them"]


def open_messages(run: Run, step: Step) -> tuple[Message, ...]:
    """Return the messages before the first answer: the agent's role, the request, the outputs of earlier stages."""
    system = Message(role="system", template="agent@1")
    if is_judge(step):
        return (system, _build_judge_message(run, step))

    def user(template: str, *stages: Stage, part: int | None = None) -> Message:
        refs = [run.stages[stage].output_ref for stage in stages]
        return Message(role="user", template=template, refs=(run.request_ref, *refs), part=part)

    match step.stage:
        case Stage.PLAN:
            told = tuple(Message(role="user", template="feedback@1", refs=(ref,)) for ref in run.feedback)
            return (system, user("plan@1"), *told)
        case Stage.FAN_OUT:
            return (system, user("brief@1", Stage.PLAN, part=step.brief), *_heard_messages(run, step))
        case Stage.FAN_IN:
            merge = user("merge@1", Stage.PLAN, Stage.FAN_OUT)
            return (system, replace(merge, refs=merge.refs + _summaries(run)))
        case Stage.VALIDATE:
            return (system, user("criticise@1", Stage.PLAN, Stage.FAN_IN))
        case Stage.FINALIZE:
            return (system, user("finish@1", Stage.PLAN, Stage.VALIDATE))


def _heard_messages(run: Run, step: Step) -> Iterator[Message]:
    """Yield the earlier turns' messages that a turn reads, and its instructions; none for a branch that is no turn.
    Failed turns are left out.
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


def _build_judge_message(run: Run, step: Step) -> Message:
    """Return a judge's message: the request, the judged output, and its criteria or sources."""
    if step.stage is Stage.PLAN:
        return Message(role="user", template="vet@1", refs=(run.request_ref, step.note_ref))
    if step.branch == FIRST:
        refs = (run.request_ref, step.note_ref, *_results(run))
        return Message(role="user", template="ground@1", refs=refs)
    refs = (run.request_ref, run.stages[Stage.PLAN].output_ref, step.note_ref)
    return Message(role="user", template="assess@1", refs=refs, part=step.branch - ORACLE_FROM)


def _results(run: Run) -> tuple[str, ...]:
    """Return the tools' results in this epoch, those kept from a fork's origin, and the outputs of child runs
    (``core/grounding/sources.py``).
    """
    kept = () if run.epoch else (ref for _, _, ref in run.control.answers)
    authors = [step for step in run.steps.values() if not is_judge(step)]
    calls = (call for step in authors for turn in step.history for call in turn.calls)
    found = [call.result_ref for call in calls if call.state == "done" and not call.error and call.result_ref]
    slices = (ref for step in authors if from_child(run, step) for ref in list_refs(run, step))
    return tuple(dict.fromkeys((*kept, *found, *slices)))


def _summaries(run: Run) -> tuple[str, ...]:
    """Return the answers of the branches that gave one, in branch order. The parts of the fan-out's output refer to
    them.
    """
    done = (s for s in run.steps.values() if s.stage is Stage.FAN_OUT and (s.status == "done" or is_slice(s.agent)))
    latest = sorted(done, key=lambda step: step.branch)
    return tuple(ref for step in latest for ref in list_refs(run, step))


@value()
class Messages:
    """The whole prompt of a step's next request, message by message. It is built at each reading: a decision issues
    it without reading it, so that a turn costs the engine equally much however long the conversation is.
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
    """Return the whole prompt of the step's next request. ``opened``: its opening, where the caller has it."""
    note = "" if is_judge(step) else step.note_ref  # A judge's note is in its opening.
    return Messages(opened or open_messages(run, step), note, step.history, step.final)


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


def build_digest(step: Step, opened: tuple[Message, ...]) -> str:
    """Return the rolling digest of all references in the step's next prompt; with the templates' names it identifies
    the prompt.
    """
    return digest(step.prompt, *[f"{message.template}/{ref}" for message in opened for ref in message.refs])


def prompt_bytes(work: Work, agent: AgentSpec, step: Step, opened: tuple[Message, ...]) -> int:
    """Return an upper bound of the next prompt's size in bytes, templates and tool definitions included."""
    begun = work.ctx.contents.size([ref for message in opened for ref in message.refs])
    inlined = 0
    if agent.inline_document_chars:
        request = work.ctx.contents.read(work.run.request_ref)
        inlined = sum(min(4 * agent.inline_document_chars, size) for size in request.get("document_bytes", ()))
    overhead = work.compiled_fabric.prompt_overhead.get(step.agent, 0)
    around = TURN_BYTES * (len(step.history) + 1) + CORRECTION_BYTES * step.corrections
    return overhead + begun + inlined + step.prompt_bytes + around


TURN_BYTES = 64
"""Most bytes that the markup of a turn adds."""
CORRECTION_BYTES = 512
"""Bytes of text around the problems of a refused answer: the refusal, and the wanted shape once more."""
