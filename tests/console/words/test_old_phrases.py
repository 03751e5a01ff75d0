"""Phrases that people found unclear do not come back, on pages, in commands or in documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

LIST = Path(__file__).with_name("old_phrases.txt")
PHRASES = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
FOLDERS = ("templates", "console", "static", "fabric", "simulator", "docs")
KINDS = {".html", ".py", ".js", ".yaml", ".toml", ".md"}
UNSEEN = re.compile(r'""".*?"""|\{#.*?#\}|/\*.*?\*/|^\s*(?:#|//).*?$', re.DOTALL | re.MULTILINE)
"""Docstrings and comments. In a document a heading is text, and stays."""
ASKED_OF_MODELS = ("fabric/core/steps/", "fabric/runtime/answer_shapes.py", "fabric/samples/", "fabric/templates/")
"""Texts for models, whose words stand in journals, and the fabrics that quote them."""
ELSEWHERE = {"plain words": ASKED_OF_MODELS}
"""Places where a phrase has another meaning."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The text of each file that people may read, without its comments, on one line."""
    base = Path(settings.BASE_DIR)
    files = [path for folder in FOLDERS for path in (base / folder).rglob("*") if path.suffix in KINDS]
    found = {str(path.relative_to(base)): path.read_text() for path in (*files, base / "README.md")}
    return {
        name: " ".join((text if name.endswith(".md") else UNSEEN.sub(" ", text)).split())
        for name, text in found.items()
    }


def places(texts: dict[str, str], phrase: str) -> list[str]:
    """Return the files that have the phrase."""
    one = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
    known = ELSEWHERE.get(phrase, ())
    return [name for name, text in texts.items() if one.search(text) and not name.startswith(known or "-")]


@pytest.mark.parametrize("phrase", PHRASES)
def test_an_old_phrase_does_not_come_back(texts, phrase):
    assert places(texts, phrase) == []


def test_the_list_has_each_phrase_once_in_order():
    assert sorted(set(PHRASES), key=lambda phrase: (phrase.casefold(), phrase)) == PHRASES
    assert len(PHRASES) > 200


def test_a_phrase_is_found_across_lines_and_not_in_comments(texts):
    assert places(texts, "Fabric Flow")
    made = {"a.html": " ".join(UNSEEN.sub(" ", "{# At rest #}\n<p>Play it</p>").split())}
    assert (places(made, "Play it"), places(made, "At rest")) == (["a.html"], [])
