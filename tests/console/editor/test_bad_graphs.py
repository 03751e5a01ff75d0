"""A fault in how agents work together is one sentence with its path and its line: the same in the editor, at the command line and in the API."""

from __future__ import annotations

import re
from html import unescape

import pytest

from fabric.services.drafts.changes import draft_begin
from tests.console.api.client import Program
from tests.console.api.conftest import program, token
from tests.fabric.management.console import command
from tests.fabric.services.world import SAMPLE_NAMES, sample

__all__ = ["program", "token"]

LAST = "    - when: {kind: from_speaker, agent: reviewer}\n      then: {kind: terminate, reason: answered}\n"
WORKERS = "router, billing, shipping, technical, front-office, reviewer"
CASES = {
    "a rule that ends it and can never be reached": (
        "support-routing",
        (
            LAST,
            f"{LAST}    - when: {{kind: from_speaker, agent: router}}\n      then: {{kind: terminate, reason: nothing to do}}\n",
        ),
        "topology.transitions.7",
        "can never end the conversation: rule 5 (from_speaker) is tried before it and holds whenever it would; move this one up",
    ),
    "one that stands behind a rule that always holds": (
        "support-routing",
        ("    # The reviewer sends", "    - when: {kind: always}\n      then: {kind: stay}\n    # The reviewer sends"),
        "topology.transitions.7",
        "can never end the conversation: it is for turns of reviewer, to whom nothing leads",
    ),
    "an edge to an agent that takes no part": (
        "support-routing",
        ("then: {kind: agent, agent: shipping}", "then: {kind: agent, agent: hardware}"),
        "topology.transitions.2.then.agent",
        f"no participant is named 'hardware'; there are: {WORKERS}",
    ),
    "an edge from an agent that takes no part": (
        "support-routing",
        ("when: {kind: from_speaker, agent: reviewer}", "when: {kind: from_speaker, agent: critic}"),
        "topology.transitions.6.when.agent",
        f"no participant is named 'critic'; there are: {WORKERS}",
    ),
    "a first speaker who takes no part": (
        "support-routing",
        ("initial_speaker: router", "initial_speaker: switchboard"),
        "topology.initial_speaker",
        f"no participant is named 'switchboard'; there are: {WORKERS}",
    ),
    "two agents of one name, in a graph": (
        "support-routing",
        ("  - name: shipping\n", "  - name: billing\n"),
        "agents.2.name",
        "'billing' is there twice",
    ),
    "two agents of one name, among peers": (
        "incident-triage",
        ("  - name: database\n    model", "  - name: network\n    model"),
        "agents.2.name",
        "'network' is there twice",
    ),
    "a worker who is named twice": (
        "support-routing",
        (f"workers: [{WORKERS}]", f"workers: [{WORKERS}, billing]"),
        "topology.workers.6",
        "'billing' is there twice; name each participant once",
    ),
    "a pass to an agent that takes no part": (
        "incident-triage",
        ("database: [network, application]", "database: [network, storage]"),
        "topology.passes.database.1",
        "'storage' is not one of the workers (on-call, network, database, application)",
    ),
    "an item that reads a later one": (
        "contract-check",
        ("reads: [1]", "reads: [4]"),
        "topology.procedure.2.reads.0",
        "item 4 is not done before item 3; name earlier ones",
    ),
    "a judge who is one of the sides": (
        "vendor-debate",
        ("judge: judge ", "judge: stay "),
        "topology.judge",
        "'stay' is one of the sides; name another agent",
    ),
    "models that stand in for each other in a circle": (
        "support-routing",
        (
            "  - name: script\n    provider: scripted\n",
            (
                "  - {name: spare, provider: scripted, price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}, fallbacks: [script]}\n"
                "  - name: script\n    fallbacks: [spare]\n    provider: scripted\n"
            ),
        ),
        "models.0.fallbacks",
        "spare -> script -> spare",
    ),
}


def wrong(name: str, swap: tuple[str, str]) -> str:
    """A shipped fabric with one passage changed."""
    text = sample(name)
    assert swap[0] in text
    return text.replace(*swap, 1)


def problems_of(page: str) -> list[tuple[str, str, str]]:
    """Path, line and sentence of each error in the editor's list."""
    card = page[page.index('id="problems"') :]
    rows = re.findall(r'<li data-tone="danger">.*?</li>', card[: card.index("</section>")], re.DOTALL)
    found = []
    for row in rows:
        (said,) = re.findall(r"<span>(.*?)</span>", row, re.DOTALL)
        (place,) = re.findall(r"<code>(.*?)</code>", row, re.DOTALL)
        path, _, line = " ".join(unescape(re.sub("<[^>]+>", "", place)).split()).partition(" · line ")
        found.append((path, line, unescape(re.sub("<b>.*?</b>", "", said)).strip()))
    return found


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_same_sentence_in_the_editor_at_the_command_line_and_in_the_api(
    browser, actor, program: Program, tmp_path, case
):
    name, swap, path, sentence = CASES[case]
    assert name in SAMPLE_NAMES
    text = wrong(name, swap)
    found = program.post("/api/v1/fabric-lint", {"source": text}).json()
    assert not found["publishable"]
    (told,) = [one for one in found["problems"] if one["path"] == path]
    assert sentence in told["sentence"]
    assert "\n" not in told["sentence"]
    line = told["line"]
    assert line >= 1

    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    done = command("fabric", "lint", str(file))
    assert done.code == 1
    places = [one for one in done.out.splitlines() if f" {path}: " in one]
    assert places == [f"error: {file.name}, line {line}, column {told['column']}, {path}: {told['sentence']}"]

    draft_begin(actor=actor, name=name, text=text)
    page = browser.get(f"/fabrics/{name}/draft?part=topology").content.decode()
    assert (path, str(line), told["sentence"]) in problems_of(page)
