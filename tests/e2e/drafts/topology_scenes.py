"""Every way in which workers work together: its fabric's page, its part of the editor with and without problems, and runs of it that ended, are under way, failed and went round."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from playwright.sync_api import Page
from ruamel.yaml import YAML

from console.launch.processes.data_directory import ROOT
from tests.e2e.installation import RUN, Installation
from tests.e2e.scenes import Scene

KINDS: Mapping[str, str] = {
    "sop": "contract-check",
    "handoff": "incident-triage",
    "hierarchical": "research-teams",
    "graph": "support-routing",
    "debate": "vendor-debate",
}
"""A shipped fabric of each kind of topology."""
SECOND: Mapping[str, str] = {
    "sop": "lawyer",
    "handoff": "database",
    "hierarchical": "searcher",
    "graph": "billing",
    "debate": "sceptic",
}
"""An agent that works after others have, and whose model is slow or gives no answer."""
WRONG: Mapping[str, tuple[tuple[str, str], ...]] = {
    "sop": (("reads: [1]", "reads: [1, 4, 9]"), ("- agent: lawyer", "- agent: notary")),
    "handoff": (("database: [network, application]", "database: [network, storage, database]"),),
    "hierarchical": (
        ("workers: [reader, searcher]", "workers: [reader, ghost]"),
        ("- agent: checker", "- agent: auditor"),
    ),
    "graph": (
        ("then: {kind: agent, agent: technical}", "then: {kind: agent, agent: hardware}"),
        (
            "    # A desk that fails",
            "    - when: {kind: always}\n      then: {kind: terminate, reason: at once}\n    # A desk that fails",
        ),
    ),
    "debate": (("judge: judge", "judge: stay"), ("critics: [sceptic]", "critics: [sceptic, ghost]")),
}
"""What is wrong in a draft of each."""
BEGUN = """
import json
from fabric.services.drafts.changes import draft_begin
from fabric.services.actors import owner_actor
for name, text in json.loads({texts!r}).items():
    draft_begin(actor=owner_actor(), name=name, text=text)
"""
NOTES = """\
# Invoice and shipping

The invoice of May has the shipping of 12.50 euros twice. A refund is paid within 14 days. The parcel was late by nine days, which is a penalty of 2 percent.
The price rose by 8 percent; service and support were reliable. The replica lags behind by 40 minutes since the release of noon. The disk is full.
The contract ends on 31 December unless either party gives notice three months before. Demand grew by 12 percent in a year.
"""
ROUND = """\
name: to-and-fro
title: To and fro
description: Two who each think that it is the other's.
example: Whose invoice is this?
models:
  - name: script
    provider: scripted
    price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}
    options:
      agents:
        front: {calls: [[{tool: transfer, args: {to: back, brief: Yours.}}]]}
        back: {calls: [[{tool: transfer, args: {to: front, brief: No. It is yours.}}]]}
agents:
  - {name: front, model: script, instructions: Pass it on., tools: [transfer]}
  - {name: back, model: script, instructions: Pass it on., tools: [transfer]}
  - {name: archive, model: script, instructions: Keep it., tools: [transfer]}
topology: {kind: handoff, workers: [front, back, archive]}
policy: {budget: {run_usd_micros: 100000}}
reviewers: [owner]
"""
"""Handed to and fro, in briefs so short that no rule but the circle's own meets them."""


def changed(kind: str, name: str, *swaps: tuple[str, str]) -> str:
    """The text of a kind's sample under another name, with passages swapped; each of them has to be there."""
    text = (ROOT / "fabric/samples" / f"{KINDS[kind]}.yaml").read_text()
    for was, now in ((f"\nname: {KINDS[kind]}\n", f"\nname: {name}\n"), *swaps):
        assert was in text, (kind, was)
        text = text.replace(was, now, 1)
    return text


def acting(kind: str, name: str, **options: object) -> str:
    """A kind's sample in which the model of who works second has other options."""
    tree = YAML(typ="safe", pure=True).load(changed(kind, name))
    (model,) = tree["models"]
    model["options"].setdefault("agents", {})[SECOND[kind]] = options
    return json.dumps(tree)


def begin(home: Installation) -> None:
    """Drafts of every kind, as they are shipped and with something wrong in them."""
    texts = {f"{kind}-draft": changed(kind, f"{kind}-draft") for kind in KINDS}
    texts |= {f"{kind}-wrong": changed(kind, f"{kind}-wrong", *WRONG[kind]) for kind in KINDS}
    home.manage("django", "shell", "--verbosity", "0", "-c", BEGUN.format(texts=json.dumps(texts)))
    for kind in KINDS:
        home.publish(acting(kind, f"{kind}-slow", delay_s=3_000))
        home.publish(acting(kind, f"{kind}-fails", fail={"cause": "auth", "status": 401}))
    home.publish(ROUND)


def run(home: Installation, page: Page, fabric: str, text: str, until: str) -> str:
    """The address of a run that has come so far."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    page.goto(f"/runs/start?fabric={fabric}")
    page.get_by_label("Your request").fill(text)
    page.get_by_label("Documents to read").set_input_files([str(notes)])
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    address = page.url.partition("?")[0]
    page.locator(until).first.wait_for()
    return address


ENDED = "#live[data-live=ended], article.review"
WORKS = "#panel-timeline tr.worker:has-text('{agent}')"


def pages() -> Iterator[Scene]:
    """Those of fabrics and drafts."""
    for kind, sample in KINDS.items():
        yield Scene(f"kind-{kind}-page", f"/fabrics/{sample}?tab=topology")
        for state in ("draft", "wrong"):
            yield Scene(f"kind-{kind}-{state}", f"/fabrics/{kind}-{state}/draft?part=topology")


def runs(home: Installation, page: Page) -> Iterator[list[Scene]]:
    """Those of runs, a kind's together: one that is under way is so while it is pictured."""
    for kind, sample in KINDS.items():
        example = YAML(typ="safe", pure=True).load(changed(kind, "x"))["example"]
        who = SECOND[kind] if kind != "hierarchical" else "analyst"
        until = {sample: ENDED, f"{kind}-fails": ENDED, f"{kind}-slow": WORKS.format(agent=who)}
        found = [run(home, page, fabric, example, when) for fabric, when in until.items()]
        named = list(zip(("done", "fails", "works"), found, strict=True))
        yield [Scene(f"kind-{kind}-{state}-graph", f"{address}?view=graph") for state, address in reversed(named)]
        yield [Scene(f"kind-{kind}-{state}", address) for state, address in named]
    round_ = run(home, page, "to-and-fro", "Whose invoice is this?", ENDED)
    yield [Scene("kind-handoff-round-graph", f"{round_}?view=graph")]
