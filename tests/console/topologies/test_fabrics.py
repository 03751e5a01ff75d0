"""The picture of a topology: the same every time, inert, nothing drawn outside it, and the table says the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from console.topologies.drawing import WIDTH
from console.topologies.fabrics import JUDGES_SHOWN, MADE, judges, topology_links, topology_svg
from console.topologies.workers import AREAS
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.kinds import BY_KIND
from fabric.core.values.flow import Stage
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.core.topologies.fabrics import duty, sop
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, sample

GOLDEN = Path(__file__).parent / "golden"


def crowd(workers: int, tools: int):
    """A fabric with that many workers, each with that many tools."""
    names = [f"worker-with-a-name-that-is-rather-long-{n}" for n in range(workers)]
    kit = [f"t{n}" for n in range(tools)]
    price = {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}
    return FabricSpec.model_validate(
        {
            "name": "crowd",
            "title": "Crowd",
            "models": [{"name": "m", "provider": "scripted", "price": price}],
            "tools": [{"name": tool, "target": "read_document"} for tool in kit],
            "agents": [{"name": name, "model": "m", "instructions": "Go.", "tools": kit} for name in names],
            "topology": {
                "workers": names,
                "plan": {"exit_criteria": ["done"], "briefs": [{"agent": names[0], "instructions": "Go."}]},
            },
            "policy": {"budget": {"run_usd_micros": 1}},
            "reviewers": ["owner"],
        }
    )


PROCEDURE = sop(
    duty("clerk", "Read the contract"),
    duty("lawyer", "Judge the risks", reads=[1]),
    duty("clerk", "Ask for what is missing"),
    duty("lawyer", "Judge what came back"),
    duty("writer", "Write the letter", reads=[2, 4]),
    agents={"lawyer": {"output_schema": {"type": "object"}}},
)
SPECS = {name: fabric_read(sample(name)).spec for name in SAMPLE_NAMES} | {"crowd": crowd(6, 5), "procedure": PROCEDURE}


@pytest.mark.parametrize("name", SPECS)
def test_it_is_drawn_as_it_was(name):
    assert topology_svg(SPECS[name]) == (GOLDEN / f"topology-{name}.svg").read_text().rstrip("\n")


@pytest.mark.parametrize(("workers", "tools"), [(1, 0), (1, 9), (2, 1), (3, 2), (4, 3), (5, 0), (9, 4), (64, 2)])
def test_nothing_is_drawn_outside_or_over_another(workers, tools):
    root = ET.fromstring(topology_svg(crowd(workers, tools)))
    height = int(root.attrib["viewBox"].split()[3])
    boxes = []
    for rect in root.iter("rect"):
        x, y, w, h = (int(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + w <= WIDTH
        assert y >= 0
        assert y + h <= height
        if "node" in rect.attrib["class"]:
            boxes.append((x, y, w, h))
    assert len(boxes) == 4 + workers * (1 + min(tools, 3))
    for n, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:n]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def judged(checks: int, finalizer: bool = True) -> FabricSpec:
    """The small fabric with every kind of judge: a plan critic, a grounding critic, and an oracle of so many checks of each way to ask, whose names are long."""
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    tree["agents"] += [{**tree["agents"][0], "name": name} for name in ("second", "auditor", "examiner", "writer")]
    tree["topology"] |= {"plan_critic": "second", "finalizer": "writer" if finalizer else None}
    ways: tuple[dict[str, Any], ...] = (
        {"critic": "examiner"},
        {"tool": "read_document", "arguments": {"name": "a"}},
        {"expression": "true"},
    )
    oracle = [
        {"name": f"a-check-with-a-name-that-is-long-{n}-{m}", "message": "No.", **way}
        for n in range(checks)
        for m, way in enumerate(ways)
    ]
    tree["gates"] |= {"grounding": "quotes", "grounding_critic": "auditor", "oracle": oracle or None}
    return FabricSpec.model_validate(tree)


@pytest.mark.parametrize("finalizer", [True, False])
@pytest.mark.parametrize("checks", [0, 1, 2])
def test_every_judge_is_drawn_beneath_what_it_judges_or_counted_and_told_in_the_table(checks, finalizer):
    spec = judged(checks, finalizer)
    svg = str(topology_svg(spec))
    root = ET.fromstring(svg)
    height = int(root.attrib["viewBox"].split()[3])
    boxes = [
        tuple(int(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        for rect in root.iter("rect")
        if "node" in rect.attrib["class"]
    ]
    for n, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert x + w <= WIDTH
        assert y + h <= height
        for x2, y2, w2, h2 in boxes[:n]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    at_the_end = finalizer + 3 * checks
    drawn = 1 + 1 + min(at_the_end, JUDGES_SHOWN)
    assert svg.count('class="node tool judge"') == drawn
    more = max(0, at_the_end - JUDGES_SHOWN)
    assert (f"{more} more check{'s' if more > 1 else ''}" in svg) == bool(more)
    told = [(link.target, link.what) for link in topology_links(spec) if "to be judged" in link.what]
    assert told[:2] == [
        ("second", "the plan, to be judged: plan critic"),
        ("auditor", "the aggregate, to be judged: grounding critic"),
    ]
    assert len(told) == 2 + at_the_end


def test_the_oracle_s_expressions_come_first_as_they_are_asked_first():
    spec = judged(1)
    assert [what for _, what in judges(spec, Stage.FINALIZE)] == [
        "grounding critic",
        "oracle, by its expression",
        "oracle a-check-with-a-name-that-is-long-0-0",
        "oracle, asked of tool read_document",
    ]
    assert judges(spec, Stage.VALIDATE) == judges(spec, Stage.FAN_OUT) == []


def test_what_is_judged_has_a_word_in_each_stage_that_judges():
    spec = judged(1)
    assert {stage for stage in Stage if judges(spec, stage)} == set(MADE)


def test_it_has_no_style_and_no_script():
    for spec in SPECS.values():
        assert not re.search(r"style=|<style|<script|\bon\w+=|href", topology_svg(spec))


@pytest.mark.parametrize("name", SPECS)
def test_the_table_names_everything_that_is_drawn(name):
    spec = SPECS[name]
    links = topology_links(spec)
    told = {link.source for link in links} | {link.target for link in links}
    used = set(spec.topology.roles().values())
    assert used | set(spec.judge_agents.values()) <= told
    assert {tool for agent in used for tool in spec.agent(agent).tools if agent in spec.topology.workers} <= told


def test_a_model_id_does_not_act():
    spec = fabric_read(SMALL.replace("provider: scripted", 'provider: scripted\n    model: "<a>\\u202e&"')).spec
    svg = topology_svg(spec)
    assert "<a>" not in svg
    assert "\u202e" not in svg
    ET.fromstring(svg)


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_every_kind_of_topology_is_drawn():
    assert set(AREAS) == set(BY_KIND)


def test_a_procedure_is_drawn_in_its_order_and_its_table_says_who_reads_what():
    root = ET.fromstring(topology_svg(PROCEDURE))
    said = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")] or [
        text.text or "" for text in root.iter("text")
    ]
    items = [text for text in said if re.match(r"\d\. ", text)]
    assert [text[0] for text in items] == ["1", "2", "3", "4", "5"]
    assert "lawyer · typed" in said
    links = [(one.source, one.target, one.what) for one in topology_links(PROCEDURE) if one.stage == "fan-out"]
    assert ("clerk", "lawyer", "the artifact of item 1, for item 2") in links
    assert ("lawyer", "writer", "the artifact of item 4, for item 5") in links
    assert not [what for _, _, what in links if what == "the artifact of item 3, for item 5"]
    ends = [(one.source, one.what) for one in topology_links(PROCEDURE) if one.stage == "fan-in"]
    assert ends == [("writer", "the artifact of item 5, the last")]
