"""Conversations for AG2 and for us: drawn by hypothesis, played on our fold, told in one form."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fabric.core.graph.conversation import fold, open_conversation
from fabric.core.graph.state import ContextWritten, Finish, Handoff, Happening, Packet, ToolUse, Writes
from fabric.services.importers.ag2 import ag2_read

PEOPLE = ["alice", "bob", "carol"]
AGENTS, TOOLS, KEYS = st.sampled_from(PEOPLE), st.sampled_from(["t1", "t2", "t3"]), st.sampled_from(["k1", "k2"])
VALUES = st.sampled_from([None, True, False, 0, 1, 1.0, "1", "x", [], [1], {"a": 1}])


def _named(name: str, **args: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"name": st.just(name), "args": st.fixed_dictionaries(args)})


CONDITIONS = st.one_of(
    _named("always"),
    _named("from_speaker", agent_id=AGENTS),
    _named("tool_called", tool_name=TOOLS),
    _named("context_equals", key=KEYS, value=VALUES),
)
TARGETS = st.one_of(
    _named("agent", agent_id=AGENTS),
    _named("round_robin"),
    _named("stay"),
    _named("revert_to_initiator"),
    _named("terminate", reason=st.sampled_from(["done", "after_work", ""])),
)
GRAPHS = st.fixed_dictionaries(
    {
        "initial_speaker": AGENTS,
        "transitions": st.lists(
            st.fixed_dictionaries({"when": CONDITIONS, "then": TARGETS, "priority": st.integers(-2, 2)}), max_size=6
        ),
        "default_target": st.none() | TARGETS,
        "max_turns": st.none() | st.integers(-1, 8),
    }
)
UPDATES = st.fixed_dictionaries(
    {"set": st.dictionaries(KEYS, VALUES, max_size=2), "delete": st.lists(KEYS, max_size=2)}
)
CALLS = st.one_of(
    st.fixed_dictionaries({"tool": TOOLS}),
    st.fixed_dictionaries({"tool": TOOLS, "handoff": AGENTS}),
    st.fixed_dictionaries({"tool": TOOLS, "finish": st.sampled_from(["enough", ""])}),
)
WHOSE = st.sampled_from(["expected"] * 8 + [*PEOPLE, "mallory"])
"""Mostly the expected speaker, as we have it: a step is a real one where the other has it so too."""
STEPS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"kind": st.just("text"), "speaker": WHOSE}),
        st.fixed_dictionaries({"kind": st.just("context"), "speaker": WHOSE, "updates": UPDATES}),
        st.fixed_dictionaries(
            {"kind": st.just("packet"), "speaker": WHOSE, "updates": UPDATES, "calls": st.lists(CALLS, max_size=4)}
        ),
    ),
    max_size=12,
)


def _cases(
    graphs: st.SearchStrategy[dict[str, Any]], steps: st.SearchStrategy[list[dict[str, Any]]]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "graph": graphs,
            "participants": st.permutations(PEOPLE),
            "creator": AGENTS,
            "context": st.dictionaries(KEYS, VALUES, max_size=1),
            "steps": steps,
        }
    )


_A_RULE_EACH = st.permutations(["t1", "t2", "t3"]).flatmap(
    lambda tools: st.permutations(PEOPLE).map(
        lambda people: [
            {
                "when": {"name": "tool_called", "args": {"tool_name": tool}},
                "then": {"name": "agent", "args": {"agent_id": one}},
                "priority": 0,
            }
            for tool, one in zip(tools, people, strict=True)
        ]
    )
)
_SEVERAL_CALLS = st.fixed_dictionaries(
    {
        "kind": st.just("packet"),
        "speaker": st.just("expected"),
        "updates": st.just({"set": {}, "delete": []}),
        "calls": st.permutations([{"tool": "t1"}, {"tool": "t2"}, {"tool": "t3"}]),
    }
)
CASES = st.one_of(
    _cases(GRAPHS, STEPS),
    _cases(GRAPHS, STEPS),
    # The first of several calls that have rules decides, and not the first of the rules.
    _cases(
        st.fixed_dictionaries(
            {
                "initial_speaker": AGENTS,
                "transitions": _A_RULE_EACH,
                "default_target": st.none(),
                "max_turns": st.none(),
            }
        ),
        st.lists(_SEVERAL_CALLS, min_size=1, max_size=3),
    ),
)


def channel(case: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a workflow channel, as AG2 keeps it, in what of it we read."""
    return {
        "manifest": {"type": "workflow", "version": 1},
        "creator_id": case["creator"],
        "participants": [{"agent_id": one, "order": n} for n, one in enumerate(case["participants"])],
        "knobs": {"graph": case["graph"], "context_vars": case["context"]},
    }


def _happening(step: dict[str, Any]) -> Happening:
    updates = step.get("updates", {"set": {}, "delete": []})
    writes = Writes(tuple(updates["delete"]), updates["set"])
    if step["kind"] == "context":
        return ContextWritten(step["speaker"], writes)
    return Packet(step["speaker"], calls=tuple(_used(one) for one in step.get("calls", ())), writes=writes)


def _used(call: dict[str, Any]) -> ToolUse:
    if "handoff" in call:
        return ToolUse(call["tool"], Handoff(call["handoff"]))
    return ToolUse(call["tool"], Finish(call["finish"]) if "finish" in call else None)


def played(case: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return what became of each step here, in the form of the peer, and the steps with the names of who was expected filled in."""
    read = ag2_read(channel(case))
    state, told, steps = open_conversation(read.graph, read.context), list[Any](), list[dict[str, Any]]()
    for drawn in case["steps"]:
        step = {**drawn, "speaker": state.expected or PEOPLE[0]} if drawn["speaker"] == "expected" else drawn
        steps.append(step)
        found = fold(read.graph, state, _happening(step))
        state = found.state
        context = {key: held for key, held in state.context.items() if key in ("k1", "k2")}
        told.append(
            "refused"
            if found.refused
            else {"speaker": state.expected, "reason": state.close_reason, "turns": state.turns, "context": context}
        )
    return told, steps
