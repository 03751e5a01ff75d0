"""Riddles that users found on pages do not come back."""

from __future__ import annotations

import re

import pytest
from django.conf import settings

OLD = (
    "Above the run's deadline",
    "After that the run is alone",
    "All closed: every call may go out",
    "Another question by now",
    "As of now",
    "At rest",
    "Begin the draft",
    "Below is what no filter finds",
    "Can be had again at will",
    "Detectors of a document",
    "Does tau sit right",
    "Done anew",
    "Drills expect other chains",
    "Due first",
    "Expected against observed",
    "filtered in the database",
    "goes stale the moment",
    "holds the promise of the decision table",
    "In front of",
    "In nobody",
    "In your hand",
    "is judged by today",
    "is struck",
    "it may be laxer",
    "it no longer mattered",
    "It parks nothing",
    "Keep it in the library",
    "lets outputs pass that a gate held back",
    "looks on",
    "None: it is surfaced instead",
    "Not here",
    "Nothing is called or numbered like that",
    "nothing fired",
    "Nothing keeps this fabric from being published",
    "Nothing stands here",
    "Passed on to",
    "Picked questions of one fabric",
    "plain words",
    "Play it",
    "promise of the engine is broken",
    "Query words",
    "Set to by itself",
    "so there is nothing to hold it against",
    "The same again",
    "Their word publishes it",
    "then the next one",
    "Throws your draft away",
    "Tier of a run that asks for none",
    "Tiers that a run may ask for",
    "trusts too little",
    "What an experiment has that cannot be done here",
    "What happens to this question",
    "What it can touch",
    "What it has shown",
    "What people answer stands here",
    "What the last runs' failures would come to",
    "What this cell may be laxer",
    "Where it stands",
    "Write over it",
)
"""The findings' words that pages no longer use."""
FOLDERS = ("templates", "console", "static")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The text of each file without its comments and docstrings."""
    files = [path for folder in FOLDERS for path in (settings.BASE_DIR / folder).rglob("*")]
    read = (path for path in files if path.suffix in {".html", ".py", ".js"})
    return {str(path): re.sub(r'""".*?"""|\{#.*?#\}|/\*.*?\*/', "", path.read_text(), flags=re.DOTALL) for path in read}


@pytest.mark.parametrize("phrase", OLD)
def test_an_old_phrase_does_not_come_back(pages, phrase):
    assert [path for path, text in pages.items() if phrase in text] == []
