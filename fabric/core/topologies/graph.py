"""Graph: after each turn the first rule with a true condition names the next speaker
(docs/specification/topologies.md; S4). A turn is committed as one packet, and its decision journaled.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core import events as ev
from fabric.core.conversations import tools as conversation_tools
from fabric.core.conversations import turns as conversations
from fabric.core.decision import guard, slices
from fabric.core.decision.work import Work
from fabric.core.graph.conversation import Decision, ViewMessage, default_view, fold
from fabric.core.graph.registry import RegisteredUnanswered
from fabric.core.graph.retry_targets import RetryTarget, after_failure, before_goal
from fabric.core.graph.state import Packet, SpeakerReason
from fabric.core.ladders import routing
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.failure_signature import crossing_signature
from fabric.core.spec.topologies.conversation import TRANSFER
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step
from fabric.core.topologies import conversation
from fabric.core.topologies import time_limits as paces
from fabric.core.topologies.conversation import NextTurn
from fabric.core.topologies.shape import StageOutput, list_steps
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause, Evidence, Trip
from fabric.core.values.units import JSON


def plan(work: Work) -> JSON:
    """Return the author's plan, or one with a brief for each participant."""
    topology = conversations.find_topology(work)
    if topology.plan is not None:
        return topology.plan.model_dump(mode="json")
    briefs = [{"agent": name, "title": name, "instructions": TAKES_PART} for name in topology.workers]
    return {"goal": work.compiled_fabric.spec.title, "briefs": briefs, "exit_criteria": ["The request is answered."]}


TAKES_PART = (
    "You and others take turns. Do your part of the request, as your instructions say, with what the others have said."
)


def begins(work: Work) -> tuple[str, ...]:
    """Return no agents: the first turn is opened like any other."""
    return ()


def conclude_fan_out(work: Work, steps: list[Step]) -> StageOutput | Failure | None:
    """Open the turn of the chosen speaker; once the conversation is closed, conclude with all turns."""
    return conversation.conclude_fan_out(work, steps, _list_next_turns)


def join_outputs(work: Work) -> StageOutput:
    """Conclude with the answer of the last turn that had a result."""
    done = [step for step in _turns_since_restart(work, list_steps(work, Stage.FAN_OUT)) if step.status == "done"]
    if not done:
        return StageOutput({"text": "No worker returned a result.", "citations": []})
    output = work.ctx.output(done[-1].output_ref)
    return StageOutput({"text": output["text"], "citations": output["citations"]})


def _list_next_turns(work: Work, steps: list[Step]) -> list[NextTurn] | Failure:
    if steps and not work.run.talk.closed and work.run.talk.turns < len(steps):
        failure = commit_turn(work, steps[-1])
        if failure is not None:
            return failure
    if work.run.talk.closed:
        return []
    speaker = work.run.talk.speaker or conversations.find_graph(work).initial_speaker
    visit = Proposal(kind="visit", stage=Stage.FAN_OUT, agent=speaker)
    if trips := guard.judge(visit, work.view, work.compiled_fabric.spec.policy):
        return Failure(tuple(trips), Stage.FAN_OUT)
    return [_turn(work, steps, speaker)]


def _turn(work: Work, steps: list[Step], speaker: str) -> NextTurn:
    """Return the next turn. Its agent reads the last messages in full, and message counts by speaker for the rest."""
    done = [step for step in _turns_since_restart(work, steps) if step.status == "done"]
    said = [ViewMessage(conversations.find_speaker(step), str(step.branch)) for step in done]
    view = default_view(said, len(conversations.find_graph(work).participants))
    briefs = slices.plan(work)["briefs"]
    brief = next(n for n, one in enumerate(briefs) if one["agent"] == speaker)
    return NextTurn(
        agent=speaker,
        brief=brief,
        hears=tuple(int(one.ref) for one in view.messages),
        told="\n\n".join(filter(None, (view.summary, *_list_messages(work)))),
        chooses=True,
        due_at=paces.first_due(work),
    )


def _turns_since_restart(work: Work, steps: list[Step]) -> list[Step]:
    """Return the turns since the conversation last began anew."""
    return [step for step in steps if step.branch >= work.run.talk.begun]


def _list_messages(work: Work) -> Iterator[str]:
    """Yield people's messages that no agent has read yet."""
    for ref in work.run.talk.waiting:
        told = work.ctx.contents.read(ref)
        yield f"{told['actor']}, a person, says: {told['text']}"


def commit_turn(work: Work, step: Step) -> Failure | None:
    """Commit a finished turn, and journal the next speaker with the reason; return the failure if the choice is
    refused.
    """
    graph, ended = conversations.find_graph(work), conversations.close_turn(work, step)
    try:
        found = fold(graph, conversations.build_state(work, step), ended.packet, work.compiled_fabric.registry)
    except RegisteredUnanswered as error:
        return Failure((_build_trip(step, str(error)),), step.stage)
    assert found.decision is not None, found.refused  # Its speaker is the expected one.
    decision, way = _with_retry_target(work, step, found.decision, found.state.turns)
    crossed = _crosses(step, ended.packet, decision)
    if trips := _blocking_trips(work, step, crossed):
        return Failure(tuple(trips), step.stage, step.id)
    text = work.ctx.output(step.output_ref)["text"] if step.status == "done" else ""
    brief = ended.reasons.get(decision.tool) or text
    if trips := _judge_next_speaker(work, step, decision, brief):
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
    work.emit(
        fact, {"context": dict(found.state.context), "reason": brief if decision.why is SpeakerReason.HANDOFF else ""}
    )
    if decision.why is SpeakerReason.HANDOFF and decision.speaker not in (None, speaker):
        handed = ev.HandedOff(step_id=step.id, from_agent=speaker, to_agent=decision.speaker or "")
        work.emit(handed, {"text": brief})
    return None


def _build_trip(step: Step, sentence: str) -> Trip:
    """Return the trip of an installation's function that names no next speaker. Without one the conversation has not
    ended well.
    """
    message = f"{sentence}, so the next speaker is unknown after turn {step.branch + 1}"
    return Trip("transition_graph", Cause.BAD_CONFIGURATION, Evidence(scope=f"step:{step.id}"), message)


def _crosses(step: Step, packet: Packet, decision: Decision) -> str:
    """Return the signature of a failure that is about to cross a restart edge; "" if none is."""
    if decision.why is not SpeakerReason.RESTART or packet.error is None or step.cause is None:
        return ""
    return crossing_signature(packet.speaker, step.cause, step.message)


def _blocking_trips(work: Work, step: Step, crossed: str) -> list[Trip]:
    """Return the trips that keep a failure from crossing a restart edge."""
    if not crossed:
        return []
    proposal = Proposal(
        kind="crossing",
        stage=step.stage,
        step_id=step.id,
        agent=conversations.find_speaker(step),
        cause=step.cause,
        message=step.message,
    )
    return guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)


def _with_retry_target(work: Work, step: Step, decision: Decision, turns: int) -> tuple[Decision, RetryTarget | None]:
    """Return the decision, with the retry target that replaces it. The turn failed without a rule, or the conversation
    would end before a goal is met.
    """
    if routing.last_turn(work, turns):
        return decision, None
    graph, failed = conversations.find_graph(work), step.status != "done"
    if failed and not step.partial and not routing.by_rule(work, decision):
        ways = after_failure(graph, conversations.find_speaker(step))
        if way := routing.back_from(work, step, ways, step.cause, step.message):
            return replace(
                decision, speaker=way.to, why=SpeakerReason.RETRY_TARGET, transition=None, close_reason=""
            ), way
    if decision.speaker is not None:
        return decision, None
    for goal in _unmet(work):
        cause = step.cause if failed else None
        if way := routing.back_from(work, step, before_goal(graph, goal), cause, step.message):
            return replace(decision, speaker=way.to, why=SpeakerReason.GOAL, close_reason=""), way
    return decision, None


def _unmet(work: Work) -> list[str]:
    """Return the goal participants without success or partial success since the conversation last began anew, in the
    policy's order.
    """
    steps = _turns_since_restart(work, list_steps(work, Stage.FAN_OUT))
    met = {conversations.find_speaker(step) for step in steps if step.status == "done" or step.partial}
    there = conversations.find_graph(work).participants
    return [goal for goal in work.compiled_fabric.spec.policy.goal_gates.nodes if goal in there and goal not in met]


def _judge_next_speaker(work: Work, step: Step, decision: Decision, brief: str) -> list[Trip]:
    """Return the trips against the next speaker. A handover by the engine's own tool was judged before its call."""
    to, why = decision.speaker, decision.why
    if (
        to is None
        or to == conversations.find_speaker(step)
        or (why is SpeakerReason.HANDOFF and decision.tool == TRANSFER)
    ):
        return []
    return conversation_tools.handing_over(work, step, to, brief, by_rule=why is not SpeakerReason.HANDOFF)
