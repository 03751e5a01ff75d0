"""Graph: after each turn the first rule that holds says whose the next is (semantics.md 5; S4). A turn is committed as one packet, and its decision journaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core import conversation_tools, conversations, guard, paces, routing
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.graph.conversation import Decision, fold
from fabric.core.graph.registry import Unanswered
from fabric.core.graph.retry_targets import Way, after_failure, before_goal
from fabric.core.graph.state import Packet, Why
from fabric.core.graph.view import Message, default_view
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.failure_signature import of_crossing
from fabric.core.run import Step
from fabric.core.spec_conversation import TRANSFER
from fabric.core.taxonomy import Cause
from fabric.core.topologies import conversation, slices
from fabric.core.topologies.conversation import Turn
from fabric.core.topologies.shape import Concluded, steps_of
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work

JSON = Any


def plan(work: Work) -> JSON:
    """The author's, or a brief for each who takes part."""
    topology = conversations.topology_of(work)
    if topology.plan is not None:
        return topology.plan.model_dump(mode="json")
    briefs = [{"agent": name, "title": name, "instructions": TAKES_PART} for name in topology.workers]
    return {"goal": work.compiled.spec.title, "briefs": briefs, "exit_criteria": ["The request is answered."]}


TAKES_PART = (
    "You and others take turns. Do your part of the request, as your instructions say, with what the others have said."
)


def begins(work: Work) -> tuple[str, ...]:
    """Nobody at once: the first turn is opened as any other."""
    return ()


def concluded(work: Work, steps: list[Step]) -> Concluded | Failure | None:
    """The turn of whoever was chosen after the last one; once the conversation is closed, all turns."""
    return conversation.concluded(work, steps, _following)


def joined(work: Work) -> Concluded:
    """What the last turn that came back with a result said."""
    done = [step for step in _heard(work, steps_of(work, Stage.FAN_OUT)) if step.status == "done"]
    if not done:
        return Concluded({"text": "Nobody came back with a result.", "citations": []})
    output = work.ctx.output(done[-1].output_ref)
    return Concluded({"text": output["text"], "citations": output["citations"]})


def _following(work: Work, steps: list[Step]) -> list[Turn] | Failure:
    if steps and not work.run.talk.closed and work.run.talk.turns < len(steps):
        failure = committed(work, steps[-1])
        if failure is not None:
            return failure
    if work.run.talk.closed:
        return []
    speaker = work.run.talk.speaker or conversations.graph_of(work).initial_speaker
    visit = Proposal(kind="visit", stage=Stage.FAN_OUT, agent=speaker)
    if trips := guard.judge(visit, work.view, work.compiled.spec.policy):
        return Failure(tuple(trips), Stage.FAN_OUT)
    return [_turn(work, steps, speaker)]


def _turn(work: Work, steps: list[Step], speaker: str) -> Turn:
    """The next turn: its agent reads the last messages in full, and of the rest who said how much."""
    done = [step for step in _heard(work, steps) if step.status == "done"]
    said = [Message(conversations.speaker_of(step), str(step.branch)) for step in done]
    view = default_view(said, len(conversations.graph_of(work).participants))
    briefs = slices.plan(work)["briefs"]
    brief = next(n for n, one in enumerate(briefs) if one["agent"] == speaker)
    return Turn(
        agent=speaker,
        brief=brief,
        hears=tuple(int(one.ref) for one in view.messages),
        told="\n\n".join(filter(None, (view.summary, *_said_by_people(work)))),
        chooses=True,
        due_at=paces.first_due(work),
    )


def _heard(work: Work, steps: list[Step]) -> list[Step]:
    """The turns since the conversation began anew the last time."""
    return [step for step in steps if step.branch >= work.run.talk.begun]


def _said_by_people(work: Work) -> Iterator[str]:
    """People's messages that nobody has read yet."""
    for ref in work.run.talk.waiting:
        told = work.ctx.contents.read(ref)
        yield f"{told['actor']}, a person, says: {told['text']}"


def committed(work: Work, step: Step) -> Failure | None:
    """Commits a turn that is over, and journals who speaks next and why; gives back what speaks against it."""
    graph, ended = conversations.graph_of(work), conversations.over(work, step)
    try:
        found = fold(graph, conversations.state_of(work, step), ended.packet, work.compiled.registry)
    except Unanswered as error:
        return Failure((_unanswered(step, str(error)),), step.stage)
    assert found.decision is not None, found.refused  # Its speaker is the one that was expected.
    decision, way = _led(work, step, found.decision, found.state.turns)
    crossed = _crosses(step, ended.packet, decision)
    if trips := _blocked(work, step, crossed):
        return Failure(tuple(trips), step.stage, step.id)
    text = work.ctx.output(step.output_ref)["text"] if step.status == "done" else ""
    brief = ended.reasons.get(decision.tool) or text
    if trips := _against(work, step, decision, brief):
        return Failure(tuple(trips), step.stage)
    speaker = ended.packet.speaker
    fact = ev.SpeakerChosen(
        step_id=step.id,
        turn=found.state.turns,
        from_agent=speaker,
        speaker=decision.speaker or "",
        why=decision.why,
        transition=decision.transition,
        tool=decision.tool,
        close_reason=decision.close_reason,
        outcome=ended.packet.outcome,
        failure_class=ended.packet.error,
        errors=decision.errors,
        said_ref=step.output_ref,
        level="" if way is None else way.level,
        crossed=crossed,
    )
    work.emit(fact, {"context": dict(found.state.context), "reason": brief if decision.why is Why.HANDOFF else ""})
    if decision.why is Why.HANDOFF and decision.speaker not in (None, speaker):
        handed = ev.HandedOff(step_id=step.id, from_agent=speaker, to_agent=decision.speaker or "")
        work.emit(handed, {"text": brief})
    return None


def _unanswered(step: Step, sentence: str) -> Trip:
    """What an installation registered does not say who is next: nobody can tell, so nobody speaks and nothing has ended well."""
    message = f"{sentence}, so nobody can tell who speaks next after turn {step.branch + 1}"
    return Trip("transition_graph", Cause.BAD_CONFIGURATION, Evidence(scope=f"step:{step.id}"), message)


def _crosses(step: Step, packet: Packet, decision: Decision) -> str:
    """The signature of a failure that is about to cross a restart edge; empty: none is."""
    if decision.why is not Why.RESTART or packet.error is None or step.cause is None:
        return ""
    return of_crossing(packet.speaker, step.cause, step.message)


def _blocked(work: Work, step: Step, crossed: str) -> list[Trip]:
    """What keeps a failure from crossing a restart edge."""
    if not crossed:
        return []
    proposal = Proposal(
        kind="crossing",
        stage=step.stage,
        step_id=step.id,
        agent=conversations.speaker_of(step),
        cause=step.cause,
        message=step.message,
    )
    return guard.judge(proposal, work.view, work.compiled.spec.policy)


def _led(work: Work, step: Step, decision: Decision, turns: int) -> tuple[Decision, Way | None]:
    """The decision with what retry targets say of it: where a turn failed without a rule on that, and where an end comes before a goal is met."""
    if routing.last_turn(work, turns):
        return decision, None
    graph, failed = conversations.graph_of(work), step.status != "done"
    if failed and not step.partial and not routing.by_rule(work, decision):
        ways = after_failure(graph, conversations.speaker_of(step))
        if way := routing.back_from(work, step, ways, step.cause, step.message):
            return replace(decision, speaker=way.to, why=Why.RETRY_TARGET, transition=None, close_reason=""), way
    if decision.speaker is not None:
        return decision, None
    for goal in _unmet(work):
        cause = step.cause if failed else None
        if way := routing.back_from(work, step, before_goal(graph, goal), cause, step.message):
            return replace(decision, speaker=way.to, why=Why.GOAL, close_reason=""), way
    return decision, None


def _unmet(work: Work) -> list[str]:
    """Participants that are goals and have reached neither success nor partial success since the conversation began anew, in the policy's order."""
    steps = _heard(work, steps_of(work, Stage.FAN_OUT))
    met = {conversations.speaker_of(step) for step in steps if step.status == "done" or step.partial}
    there = conversations.graph_of(work).participants
    return [goal for goal in work.compiled.spec.policy.goal_gates.nodes if goal in there and goal not in met]


def _against(work: Work, step: Step, decision: Decision, brief: str) -> list[Trip]:
    """What speaks against the next speaker. A handover by the engine's own tool was judged before its call was made."""
    to, why = decision.speaker, decision.why
    if to is None or to == conversations.speaker_of(step) or (why is Why.HANDOFF and decision.tool == TRANSFER):
        return []
    return conversation_tools.handing_over(work, step, to, brief, by_rule=why is not Why.HANDOFF)
