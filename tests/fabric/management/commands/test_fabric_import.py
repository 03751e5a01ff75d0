"""`manage.py fabric import`: a file becomes the owner's draft, whatever it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.core.people.actor import Actor
from fabric.models import Draft
from fabric.selectors.drafts.lookup import draft_get
from fabric.services.drafts.changes import draft_undo
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.management.console import command
from tests.fabric.services.world import SMALL


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_a_file_is_a_draft(actor: Actor, file: Path) -> None:
    done = command("fabric", "import", str(file))
    assert (done.code, done.out, done.err) == (0, "small is your draft: it could be published\n", "")
    assert draft_get(actor, "small").text == SMALL
    named = command("fabric", "import", str(file), "--name", "other", "--json").last
    assert named["findings"] == []
    assert (named["name"], named["author"], named["base"], named["publishable"]) == ("other", "owner", None, True)


def test_what_is_wrong_is_told_with_its_line_and_kept(actor: Actor, file: Path) -> None:
    file.write_text(SMALL.replace("model: script", "model: big"))
    done = command("fabric", "import", str(file))
    assert (done.code, done.out) == (0, "small is your draft: 2 things to mend before it can be published\n")
    assert "line 12, column 12, agents.0.model: no model is named 'big'" in done.err
    file.write_text("a: [1,")
    assert "1 thing to mend" in command("fabric", "import", str(file), "--name", "broken").out
    assert draft_get(actor, "broken").text == "a: [1,"


def test_a_draft_is_replaced_only_when_asked(actor: Actor, file: Path) -> None:
    fabric_publish(actor=actor, source=SMALL)
    assert command("fabric", "import", str(file)).code == 0
    file.write_text(SMALL.replace("Read.", "Read twice."))
    refused = command("fabric", "import", str(file))
    assert (refused.code, refused.out) == (2, "")
    assert "has a draft of 'small' already" in refused.err
    done = command("fabric", "import", str(file), "--replace")
    assert done.out == "small has this text now, and undo brings back the one before: it could be published\n"
    draft = draft_get(actor, "small")
    assert (draft.base, "Read twice." in draft.text) == (1, True)
    assert draft_undo(actor=actor, name="small", step=draft.step).text == SMALL


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (b"\xff\xfe", [], "small.yaml is no UTF-8 text (byte 0 is not)"),
        (b"x" * 300_000, [], "small.yaml has 300,000 bytes; at most 262,144 are taken as a fabric"),
        (b"x: 1", ["--name", "No Name"], "'No Name' is no name of a fabric"),
    ],
)
def test_only_size_encoding_and_name_are_refused(
    actor: Actor, file: Path, content: bytes, more: list[str], said: str
) -> None:
    file.write_bytes(content)
    done = command("fabric", "import", str(file), *more)
    assert done.code == 2
    assert said in done.err
    assert not Draft.objects.exists()
