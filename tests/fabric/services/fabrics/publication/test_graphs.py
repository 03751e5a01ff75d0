"""Graphs and chains of peers at publication: names of no agent, rules that never end it, tools of a conversation in other hands."""

from typing import Any

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.publication.rules import publication_warnings
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.fabrics.publication.test_rules import told
from tests.fabric.services.world import SMALL

ALWAYS = {"kind": "always"}
END = {"kind": "terminate"}


def turns(*rules: Any, tools: tuple[str, ...] = (), editor: tuple[str, ...] = (), **topology: Any) -> FabricSpec:
    """The small fabric with two who take turns and an editor who merges."""
    found = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    found["agents"] = [
        {"name": name, "model": "script", "instructions": "Work.", "tools": tools} for name in ("ana", "ben")
    ]
    found["agents"].append({"name": "editor", "model": "script", "instructions": "Merge.", "tools": editor})
    rules_ = [{"when": when, "then": then} for when, then in rules]
    found["topology"] = {
        "kind": "graph",
        "workers": ["ana", "ben"],
        "initial_speaker": "ana",
        "aggregator": "editor",
        **({"transitions": rules_} if rules_ else {}),
        **topology,
    }
    return FabricSpec.model_validate(found)


ROUND = (ALWAYS, {"kind": "round_robin"})


def about(problems: list[Any]) -> list[tuple[str, str]]:
    return [(path, sentence) for path, sentence in problems if path.startswith(("topology", "agents"))]


def test_a_round_of_two_may_be_published() -> None:
    assert about(told(turns(ROUND, max_turns=4))) == []


@pytest.mark.parametrize(
    ("fabric", "path", "sentence"),
    [
        (turns(ROUND, (ALWAYS, END)), "topology.transitions.1", "can never end the conversation: rule 1 (always) is tried before it and holds whenever it would; move this one up"),
        (turns((ALWAYS, {"kind": "agent", "agent": "carl"})), "topology.transitions.0.then.agent", "no participant is named 'carl'; there are: ana, ben"),
        (turns(({"kind": "from_speaker", "agent": "carl"}, END)), "topology.transitions.0.when.agent", "no participant is named 'carl'; there are: ana, ben"),
        (turns(ROUND, workers=["ana", "ben", "ana"]), "topology.workers.2", "'ana' is there twice; name each participant once"),
        (turns(ROUND, workers=["ana"]), "topology.workers", "has fewer than two; a graph needs another worker to hand over to"),
        (turns(({"kind": "tool_called", "tool": "look"}, END)), "topology.transitions.0.when.tool", "no participant has a tool 'look'; their tools are: none"),
        (turns(({"kind": "registered", "name": "odd"}, END)), "topology.transitions.0.when", "no condition is registered as 'odd'; there are: none"),
        (turns(ROUND, editor=("transfer",)), "agents.2.tools.0", "agent 'editor' takes no part in the conversation, and only workers may call transfer; take it out"),
    ],
    ids=["never ends", "edge to a stranger", "from a stranger", "twice", "alone", "no such tool", "not registered", "takes no part"],
)  # fmt: skip
def test_what_a_graph_gets_wrong_is_refused_with_its_path(fabric: FabricSpec, path: str, sentence: str) -> None:
    assert (path, sentence) in told(fabric)


def test_what_is_odd_about_a_graph_is_a_warning() -> None:
    found = {one.path: one.sentence for one in publication_warnings(turns((ALWAYS, {"kind": "stay"})))}
    assert "nothing ever leads to 'ben'" in found["topology.workers.1"]
    assert "no rule can end the conversation" in found["topology.max_turns"]
    assert about(told(turns((ALWAYS, {"kind": "stay"})))) == []


def test_an_agent_with_hand_overs_leads_to_every_agent() -> None:
    warned = [one.path for one in publication_warnings(turns((ALWAYS, END), tools=("transfer",)))]
    assert "topology.workers.1" not in warned


def test_peers_of_whom_none_can_pass_the_request_on_are_warned_of() -> None:
    found = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    found["agents"] = [{"name": name, "model": "script", "instructions": "Work."} for name in ("ana", "ben")]
    found["topology"] = {"kind": "handoff", "workers": ["ana", "ben"]}
    silent = FabricSpec.model_validate(found)
    assert "topology.workers.1" in [one.path for one in publication_warnings(silent)]
    found["agents"][0]["tools"] = ["transfer"]
    assert "topology.workers.1" not in [one.path for one in publication_warnings(FabricSpec.model_validate(found))]
