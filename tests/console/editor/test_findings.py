"""Sentences of a draft's problems, in the words of the fields where they are mended."""

from __future__ import annotations

import pytest

from console.editor.parts.catalogue import remarks
from tests.console.editor.drafted import seen
from tests.console.editor.rich import RICH

CRM = "tools:\n  - {name: crm, kind: http, target: 'https://crm.example', description: Asks., HERE}\n"


@pytest.mark.parametrize(
    ("text", "subject", "said"),
    [
        (
            RICH.replace("run_usd_micros: 1000000", "run_usd_micros: '0,40'"),
            "Money of a run",
            "'0,40' is no amount of dollars; write it with a point, such as 12.50",
        ),
        (RICH.replace("tau: 0.8", "tau: high"), "Needed score", "'high' is no number; give one such as 12.5"),
        (
            RICH.replace("max_outcome_chars: 9000", "max_outcome_chars: many"),
            "Longest answer",
            "'many' is no whole number; give one such as 12",
        ),
        (
            RICH.replace("tools:\n", CRM.replace("HERE", "headers_from: 'Authorization: CRM_TOKEN'")),
            "crm · Headers from variables",
            '\'Authorization: CRM_TOKEN\' is no JSON of names and values; give one such as {"Authorization": "CRM_TOKEN"}',
        ),
        (
            RICH.replace("tools:\n", CRM.replace("HERE", "headers_from: {Authorization: CRM-TOKEN}")),
            "crm · Headers from variables",
            "'CRM-TOKEN' is no name of an environment variable; use letters, digits and _, such as CRM_TOKEN",
        ),
        (
            RICH.replace("tools:\n", CRM.replace("HERE", "headers_from: {'My header': CRM}")),
            "crm · Headers from variables",
            "'My header' is no name of a header; use letters, digits and -, such as Authorization",
        ),
        (
            RICH.replace("tools:\n", CRM.replace("HERE", "headers_from: {Authorization: ''}")),
            "crm · Headers from variables",
            "is empty; give it a value",
        ),
        (
            RICH.replace("tools:\n", CRM.replace("HERE", "places: {id: url}")),
            "crm · Where arguments travel",
            "'url' is none of path, query, header, body",
        ),
    ],
)
def test_a_value_that_fits_no_field_has_one_plain_sentence_with_an_example(text: str, subject: str, said: str) -> None:
    found = [(one.subject, one.finding.sentence) for one in remarks(seen(text).checked)]
    assert (subject, said) in found
