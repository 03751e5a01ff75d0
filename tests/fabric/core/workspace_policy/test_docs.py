"""Each rule has its row in the document."""

from pathlib import Path

from fabric.core.workspace_policy.rules import RULES

PAGE = Path(__file__).resolve().parents[4] / "docs" / "specification" / "publication.md"


def test_each_rule_has_a_row():
    table = PAGE.read_text(encoding="utf-8").partition("### The workspace's policy")[2].partition("A pattern names")[0]
    rows = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert rows == [rule.field for rule in RULES]
