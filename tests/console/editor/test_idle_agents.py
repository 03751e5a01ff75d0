"""The editor offers an agent without a role those of its kind of topology alone."""

from __future__ import annotations

import re

from console.forms.drafts.variants import idle
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.parts.test_topology import SOURCES, page, pressed


def test_who_could_judge_a_debate_is_offered_it_and_not_the_plans_that_it_has_not() -> None:
    text = SOURCES["vendor-debate"].replace("  judge: judge ", "  judge: null ")
    assert idle(read_yaml(text).value) == ("judge",)
    offered = re.findall(r'value="(?:set|append) topology\.(\w+)=judge"', page(text))
    assert offered == ["workers", "judge", "aggregator", "critic", "finalizer", "handover"]
    assert pressed(text, "set topology.judge=judge") == read_yaml(SOURCES["vendor-debate"]).value
