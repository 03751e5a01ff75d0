"""AG2's own workflow adapter, played turn by turn: cases come as lines of JSON, and what it did goes out the same way. Runs where AG2 is installed, and needs nothing else."""

import importlib.metadata
import json
import sys

from ag2.events import DataInput, ToolCallEvent, ToolResult, ToolResultEvent
from ag2.network.adapters.workflow import WorkflowAdapter, _resolve_routing
from ag2.network.channel import ChannelManifest, ChannelMetadata, ChannelState, Participant, ParticipantRole
from ag2.network.envelope import EV_CONTEXT_SET, EV_PACKET, EV_TEXT, Envelope
from ag2.network.errors import NetworkError
from ag2.network.handoff import Finish, Handoff
from ag2.network.transitions import TransitionGraph

ADAPTER = WorkflowAdapter()


def opened(case):
    people = [
        Participant(one, ParticipantRole.PARTICIPANT if n else ParticipantRole.INITIATOR, n)
        for n, one in enumerate(case["participants"])
    ]
    return ChannelMetadata(
        channel_id="c",
        manifest=ChannelManifest(type="workflow"),
        creator_id=case["creator"],
        participants=people,
        state=ChannelState.ACTIVE,
        created_at="",
        knobs={"graph": case["graph"], "context_vars": case["context"]},
    )


def events(calls):
    """Return what an agent's stream holds after a round of these calls."""
    found = []
    for n, call in enumerate(calls):
        found.append(ToolCallEvent(id=f"call-{n}", name=call["tool"], arguments="{}"))
        returned = "done"
        if "handoff" in call:
            returned = DataInput(Handoff(target=call["handoff"]))
        elif "finish" in call:
            returned = DataInput(Finish(reason=call["finish"]))
        found.append(ToolResultEvent(parent_id=f"call-{n}", name=call["tool"], result=ToolResult(returned)))
    return found


def envelope(step, graph, people):
    if step["kind"] == "text":
        return Envelope("c", step["speaker"], None, EV_TEXT, {"text": "hello"})
    if step["kind"] == "context":
        return Envelope("c", step["speaker"], None, EV_CONTEXT_SET, step["updates"])
    routing = _resolve_routing(events(step["calls"]), graph, {one: one for one in people})
    data = {"routing": routing, "context_updates": step["updates"], "body": "hello"}
    return Envelope("c", step["speaker"], None, EV_PACKET, data)


def played(case):
    """Return what became of each step: refused, or who speaks next and why it is closed."""
    metadata, graph = opened(case), TransitionGraph.loads(case["graph"])
    ADAPTER.validate_create(metadata)
    state, closed, told = ADAPTER.initial_state(metadata), "", []
    for step in case["steps"]:
        sent = envelope(step, graph, case["participants"])
        try:
            if closed:
                raise NetworkError("closed")
            ADAPTER.validate_send(metadata, sent, state)
        except NetworkError:
            told.append("refused")
            continue
        state = ADAPTER.fold(sent, state)
        result = ADAPTER.on_accepted(metadata, sent, state)
        closed = result.auto_close_reason if result.next_state is ChannelState.CLOSED else ""
        told.append(
            {
                "speaker": None if closed else state.expected_next_speaker,
                "reason": closed,
                "turns": state.turn_count,
                "context": state.context_vars,
            }
        )
    return told


def main():
    print(json.dumps({"version": importlib.metadata.version("ag2")}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        if "steps" in case:
            print(json.dumps(played(case)), flush=True)
        else:
            print(json.dumps(TransitionGraph.loads(case["graph"]).to_dict()), flush=True)


main()
