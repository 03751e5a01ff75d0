"""Scenes of publication, by an installation of its own: drafts that can and cannot be published, a second person, what was published meanwhile, versions."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

DRAFTS = """
from fabric.models import ChangeRequest
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.change_requests import change_approve, change_request_open
from fabric.services.drafts.publication import draft_request, draft_schedule
from fabric.services.drafts.scheduled import publications_carry_out
from fabric.worker.process.duties import database_us
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.actors import find_actor, owner_actor
from tests.fabric.services.world import SMALL
from tests.people import member
owner, ana = owner_actor(), find_actor(member("ana.kowalczyk", "owner", "editor", "reviewer", "finance", "safety"))
CELL = "decision_table:\\n  provider_failure:\\n    batch: {rungs: [{reaction: retry, times: 1}, {reaction: abort}]}\\n"
LAX = "    high_stakes: {rungs: [{reaction: surface}], deviation: A pilot with five users who see every answer.}\\n"
EYES = "run_usd_micros: 1000000}\\n  humans: {four_eyes: [high_stakes]}"
def of(name, title, text=SMALL):
    return text.replace("name: small", f"name: {name}").replace("A small fabric", title)
def draft(who, name, text):
    made = drafts.draft_of_fabric(actor=who, name=name)
    return drafts.draft_replace(actor=who, name=name, step=made.step, text=text)
ledger = of("ledger", "Ledger reconcile")
for title in ("Ledger", "Ledger reconciliation", "Ledger reconcile"):
    fabric_publish(actor=owner, source=of("ledger", title))
draft(owner, "ledger", ledger.replace("run_usd_micros: 1000000", "run_usd_micros: 2500000").replace("Read.", "Read both sides, line by line.") + CELL + LAX)
fabric_publish(actor=owner, source=of("claims", "Claims desk"))
draft(owner, "claims", of("claims", "Claims desk").replace("model: script", "model: big").replace("[owner]", "[nobody-here]"))
for who, name in ((owner, "notary"), (owner, "treaty"), (ana, "deeds")):
    eyes = of(name, f"{name.title()} office").replace("run_usd_micros: 1000000}", EYES).replace("[owner]", "[reviewer]")
    asked = change_request_open(actor=ana if who is owner else owner, source=eyes)
    change_approve(actor=owner if who is owner else ana, request_id=asked.id, digest=asked.digest)
    made = draft(who, name, eyes.replace("Plan.", "Plan with care.") + CELL)
    if name != "notary":
        draft_request(actor=who, name=name, step=made.step, message="The planner was too hasty in October: see run 4f21.\\nOne try less in batch.")
twice = of("roster", "Duty roster")
fabric_publish(actor=owner, source=twice)
draft(owner, "roster", twice.replace("Duty roster", "Duty roster, north").replace("Read.", "Read the roster.").replace("Plan.", "Plan for a week."))
fabric_publish(actor=ana, source=twice.replace("Duty roster", "Rosters of all stations").replace("Read.", "Read every roster.").replace("reviewers", "  tau: 0.9\\nreviewers"))
for name in ("shift", "vault"):
    text = of(name, f"{name.title()} desk")
    fabric_publish(actor=owner, source=text)
    made = draft(owner, name, text.replace("Plan.", "Plan twice."))
    draft_schedule(actor=owner, name=name, step=made.step, publish_at=database_us() + 3 * 86_400_000_000, message="After the audit.")
fabric_publish(actor=ana, source=of("vault", "Vaults of all houses"), message="One name for all houses.")
ChangeRequest.objects.filter(name="vault").update(publish_at=database_us() - 60_000_000)
publications_carry_out()
for one in ChangeRequest.objects.all():
    print(one.name, one.state, one.id)
"""


def fill(home: Installation) -> dict[str, str]:
    """Drafts of every kind; ids of the requests that wait, by fabric."""
    said = home.manage("django", "shell", "--verbosity", "0", "-c", DRAFTS)
    return {
        name: one for name, state, one in (line.split() for line in said.splitlines()) if state in ("open", "failed")
    }


def _drilled(page: Page) -> None:
    page.locator("#drill-all").click()
    expect(page.locator("#drills-told")).to_contain_text("of 24 cells", timeout=120_000)


def _both(page: Page) -> None:
    """Another page of the same draft changes the title, and then this one does."""
    now = page.evaluate("new Date().toISOString().slice(11, 19)")
    other = page.context.new_page()
    other.goto(page.url)
    other.locator("[id='f.title']").fill(f"Ledger of another page at {now}")
    with other.expect_response("**/draft?part=basics"):
        other.locator("[id='f.title']").press("Tab")
    other.close()
    page.locator("[id='f.title']").fill(f"Ledger of this page at {now}")
    page.locator("#draft-said").wait_for()


def _reverting(page: Page) -> None:
    page.locator("#revert-r2").click()


def _unfolded(page: Page) -> None:
    page.locator("#yaml-diff summary").click()


def scenes(ids: dict[str, str]) -> list[Scene]:
    """Return what an owner sees."""
    return [
        Scene("publish-clean", "/fabrics/ledger/draft/publish", _unfolded),
        Scene("publish-drilled", "/fabrics/ledger/draft/publish", _drilled),
        Scene("publish-errors", "/fabrics/claims/draft/publish"),
        Scene("publish-second", "/fabrics/notary/draft/publish"),
        Scene("publish-waiting", "/fabrics/treaty/draft/publish"),
        Scene("publish-stale", "/fabrics/roster/draft/publish"),
        Scene("merge", "/fabrics/roster/draft/merge"),
        Scene("request-mine", f"/fabrics/treaty/requests/{ids.get('treaty', '')}"),
        Scene("request", f"/fabrics/deeds/requests/{ids.get('deeds', '')}"),
        Scene("versions-reverting", "/fabrics/ledger?tab=versions", _reverting),
        Scene("versions-compared", "/fabrics/ledger/compare?before=1&after=3"),
        Scene("publish-scheduled", "/fabrics/shift/draft/publish"),
        Scene("publish-failed", "/fabrics/vault/draft/publish"),
        Scene("scheduled-fabric", "/fabrics/shift"),
        Scene("scheduled-failed", "/fabrics/vault"),
        Scene("scheduled-request", f"/fabrics/shift/requests/{ids.get('shift', '')}"),
        Scene("scheduled-failed-request", f"/fabrics/vault/requests/{ids.get('vault', '')}"),
        Scene("scheduled-versions", "/fabrics/vault?tab=versions"),
        Scene("versions-messages", "/fabrics/vault/compare"),
        Scene("tools-elsewhere", "/fabrics/ledger?tab=agents"),
        Scene("draft-history", "/fabrics/ledger/draft/history"),
        Scene("draft-moved", "/fabrics/roster/draft"),
        Scene("draft-conflict", "/fabrics/ledger/draft?part=basics", _both, 409),
    ]
