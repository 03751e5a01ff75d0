"""The tools' part: rules by which a person is asked, and what becomes of two writes of one key, are typed and read back."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict
from django.template.loader import render_to_string

from console.editor.parts.catalogue import PARTS
from console.editor.parts.tools import build
from console.forms.drafts.edits import changes_in
from fabric.services.fabrics.yaml.edits import text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.drafted import seen
from tests.console.editor.rich import RICH

REMEMBERS = RICH.replace("gates:\n", "memories:\n  - {name: notes, scope: fabric}\ngates:\n", 1)


def drawn(text: str) -> str:
    found = seen(text)
    return render_to_string(PARTS["tools"].template, {"editing": found, "draft": found.draft, **build(found)})


def sent(text: str, **fields: str) -> Any:
    """The draft after its form was sent with these fields, read from its text again."""
    tree, data = read_yaml(text).value, QueryDict(mutable=True)
    for path, value in fields.items():
        data[f"f.{path.replace('__', '.')}"] = value
    return read_yaml(text_edited(text, changes_in(tree, data, "").edits)).value


def test_a_rule_is_typed_as_code_and_stands_with_its_tool() -> None:
    assert 'name="f.tools.1.approve_when"' in drawn(RICH)
    after = sent(RICH, tools__1__approve_when="size(args.query) > 100 && run.tier == 'high_stakes'")
    assert after["tools"][1] == {
        "name": "search_documents",
        "approve_when": "size(args.query) > 100 && run.tier == 'high_stakes'",
    }
    assert sent(RICH, tools__1__approve_when="") == read_yaml(RICH).value


def test_a_memory_says_what_becomes_of_two_writes_of_one_key() -> None:
    page = drawn(REMEMBERS)
    assert 'name="f.memories.0.conflicts"' in page
    assert "last_write_wins" in page
    assert sent(REMEMBERS, memories__0__conflicts="last_write_wins")["memories"][0]["conflicts"] == "last_write_wins"
