"""Scenes of how fabrics begin, by an installation of their own: the list empty and full, templates, files, a copy, and an editor without its server."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

FULL = """
from datetime import UTC, datetime
from fabric.models import ChangeRequest
from fabric.services.drafts.beginnings import draft_from_template, draft_import
from fabric.services.drafts.changes import draft_change, draft_of_fabric
from fabric.services.drafts.editors import editor_beat
from fabric.services.installation.facts import installation
from fabric.services.actors import find_actor, owner_actor
from fabric.services.fabrics.yaml.edits import PutEdit
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models.tables import Status
from simulator.drills.services.drills import drill_ask
from tests.people import member

owner, ana, ben = owner_actor(), find_actor(member("ana.k", "editor")), find_actor(member("ben", "editor"))
for actor in (owner, ana, ben):
    draft_of_fabric(actor=actor, name="research-desk")
for n, edit in enumerate((PutEdit(("policy", "tau"), 0.8), PutEdit(("policy", "budget", "run_usd_micros"), 250_000), PutEdit(("title",), "Research desk, stricter"))):
    draft_change(actor=owner, name="research-desk", step=n, edits=[edit], what="a change")
draft_from_template(actor=owner, template="payment-approval", where=installation(), name="invoice-desk", title="Invoice desk")
draft_import(actor=ana, text="name: supplier-scores\\ntitle: Supplier scores\\n", name="supplier-scores")
draft_import(actor=owner, text="name: broken\\nagents: [\\n", name="broken")
for name, verdicts in (("research-desk", "pass"), ("checked-answer", "deviated")):
    asked = drill_ask(actor=owner, fabric=name, cells="all")
    n = 0
    while (one := drill_claim(asked.batch, "h")) is not None:
        drill_end(one, "h", status=Status.COMPLETED, verdict=verdicts if n % 9 == 4 else "pass")
        n += 1
ChangeRequest.objects.create(workspace_id=owner.workspace_id, name="checked-answer", author="ana.k", text="name: checked-answer", digest="d", opened_at=datetime.now(UTC))
editor_beat(actor=ana, fabric="research-desk", part="Budgets and limits")
"""

VERA = "from tests.people import member; from fabric.services.actors import login_link_create; print(login_link_create(member('vera', 'viewer')))"
"""A viewer, and a one-time link for her."""


def taken(page: Page) -> None:
    """A name that is published already."""
    page.locator("#t-extraction").check()
    page.locator("#name").fill("research-desk")
    page.locator("#begin").click()
    page.locator("#e-name").wait_for()


def nameless(page: Page) -> None:
    """A text that says no name."""
    page.locator("#source").fill("title: What is it?\nagents: []\n")
    page.locator("#read").click()
    page.locator("#e-name").wait_for()


def imported(page: Page) -> None:
    """A text with mistakes, which is a draft that says so."""
    page.locator("#source").fill(
        "name: half\ntitle: Half a fabric\nmodels:\n  - {name: script, provider: oracle}\nagents: []\n"
    )
    page.locator("#replace").check()
    page.locator("#read").click()
    page.wait_for_url("**/draft")


def copied(page: Page) -> None:
    """A copy under a name that is taken."""
    page.locator("#duplicate > summary").click()
    page.locator("#to").fill("checked-answer")
    page.get_by_role("button", name="Make the copy").click()
    page.locator("#e-to").wait_for()


def away(page: Page) -> None:
    """Something typed while the server cannot be reached."""
    page.context.set_offline(True)
    page.locator('[name="f.title"]').fill("Research desk out of reach")
    page.locator("#saved[data-tone=danger]").wait_for()
    expect(page.locator("#notice")).to_contain_text("sent again as soon as it can be")


EMPTY = (Scene("begin-none", "/fabrics"),)


def full(home: Installation) -> list[Scene]:
    """Drafts of several people, drills, and a change that waits."""
    home.manage("django", "shell", "--verbosity", "0", "-c", FULL)
    return [
        Scene("begin-list", "/fabrics"),
        Scene("begin-new", "/fabrics/+new"),
        Scene("begin-new-taken", "/fabrics/+new", taken, 409),
        Scene("begin-import", "/fabrics/+import"),
        Scene("begin-import-nameless", "/fabrics/+import", nameless, 422),
        Scene("begin-import-draft", "/fabrics/+import", imported),
        Scene("begin-fabric-drafts", "/fabrics/research-desk"),
        Scene("begin-fabric-copy", "/fabrics/research-desk", copied, 409),
        Scene("begin-editor", "/fabrics/research-desk/draft?part=basics"),
        Scene("begin-editor-away", "/fabrics/research-desk/draft?part=basics", away),
    ]


LOOKING = (
    Scene("begin-looking-list", "/fabrics"),
    Scene("begin-looking-new", "/fabrics/+new"),
    Scene("begin-looking-fabric", "/fabrics/research-desk"),
)
