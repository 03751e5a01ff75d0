"""Scenes of the history of decisions and of the audit stream, by an installation of its own: nothing yet, much, older, few, and figures that take too long."""

from __future__ import annotations

from tests.e2e.installation import Installation
from tests.e2e.scenes import FABRIC, FABRICS, Scene

NAME = "history"
DECIDED = """
import random, time
from fabric.composition import engine as wiring
from fabric.core.values.taxonomy import FailureType
from fabric.models import Review
from fabric.runtime.ports.batch_parts import names_text
from fabric.services.runs.start import run_start
from fabric.services.actors import owner_actor
from tests.fabric.services.reviews.decided import US, decided, many
draw, now, actor = random.Random(7), time.time_ns() // 1000, owner_actor()
texts = ("May the supplier's draft be signed as it stands?", "Does the price list of October match the order?")
runs = [run_start(store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric="contract-advice", text=text).run_id for text in texts]
people = ("owner", "dana.whitfield", "ines.de-la-cruz-montenegro", "kai")
rows = []
for n in range(260):
    at, tau = now - (n * 37 % 40) * 17 * 3_600 * US - n * US, 0.7
    score = round(draw.uniform(0.35, 0.699), 2)
    unsure = n % 3 > 0
    verb = draw.choices(("approve", "edit", "reject", "respond"), (70, 9, 14, 7) if score > 0.6 else (30, 20, 40, 10))[0]
    more = {"score": score, "tau": tau, "failure_type": "", "reason": f"the critic's score {score} is below tau {tau}"} if unsure else {
        "item": draw.choice(("failure", "pre_action")), "failure_type": draw.choice(tuple(FailureType)[:4]),
        "reason": "the provider answered 503 five times and no other model is there", "content": b'{"mechanism": "circuit_breaker"}'}
    took = draw.lognormvariate(6, 1.4)
    if n % 11 == 0:
        rows.append(decided(runs[n % 2], "reject", "system", by_system=True, decided_at=at, took_s=28_800, due_at=at, **more))
    else:
        agreed = names_text(["dana.whitfield"]) if n % 17 == 0 else ""
        rows.append(decided(runs[n % 2], verb, people[n % 3 if agreed == "" else 0], decided_at=at, took_s=took, due_at=at + (-60 if n % 19 == 0 else 600) * US, agreed=agreed, **more))
many(*rows)
"""

EMPTY = (Scene(f"{NAME}-empty", "/reviews/history"),)
FULL = (
    Scene(NAME, "/reviews/history"),
    Scene(
        f"{NAME}-older",
        "/reviews/history?within=all",
        lambda page: page.get_by_role("link", name="Older ones").click(),
    ),
    Scene(f"{NAME}-one-person", "/reviews/history?by=kai&within=90d"),
    Scene(f"{NAME}-too-few", "/reviews/history?item=post_stage&verb=respond"),
    Scene(f"{NAME}-none-like-that", "/reviews/history?by=nobody&tier=high_stakes"),
    Scene(f"{NAME}-bad-cursor", "/reviews/history?after=x", status=422),
    Scene(f"{NAME}-wrong-period", "/reviews/history?within=fortnight&by=kai", status=422),
    Scene("audit", "/audit"),
    Scene("audit-narrowed", "/audit?actor=owner&within=7d&outcome=done&about=run"),
    Scene("audit-none", "/audit?actor=nobody"),
    Scene("audit-wrong-period", "/audit?within=fortnight&actor=owner", status=422),
)
BROKEN = (Scene(f"{NAME}-without-figures", "/reviews/history"),)


def filled(home: Installation) -> None:
    """Decisions of six weeks, by three people and by none."""
    title, description, options, budget = FABRICS["contract-advice"]
    home.publish(
        FABRIC.format(name="contract-advice", title=title, description=description, options=options, budget=budget)
    )
    home.manage("django", "shell", "--verbosity", "0", "-c", DECIDED)


def broken(home: Installation) -> None:
    """One of the journals cannot be read any more: figures by mechanism are not to be had, the decisions are."""
    home.stored("UPDATE fabric_review SET content = CAST('{not json' AS BLOB) WHERE score IS NOT NULL")
