"""No page has a serious or critical accessibility finding: light and dark, wide and narrow, empty, full and failing.

The pages are the route table's, and the views of a page those of its own table: a new one is looked at without being named here, or says below why
it is no page.
"""

from __future__ import annotations

import pytest
from django.urls import reverse

from console.editor.parts.catalogue import PARTS
from console.site.access.policies import ROUTES, Policy
from fabric.services.fabrics.templates import SAMPLES
from tests.e2e.accessibility import NARROW, WIDE, at_both_sizes, axe, in_both_themes, looked_at
from tests.e2e.addresses import ALSO, KNOWN, NO_PAGE, pages, patterns, views
from tests.e2e.asked import asked
from tests.e2e.chromium import still
from tests.e2e.conftest import NOWHERE, begun
from tests.e2e.drafts import publish_scenes
from tests.e2e.drills.drill_page_scenes import DRIVEN, GUARDED
from tests.e2e.drills.drill_run_scenes import KEPT
from tests.e2e.drills.drill_scenes import DRILLED
from tests.e2e.drills.drill_stop_scenes import LIVE, SCHEDULED
from tests.e2e.people.member_scenes import MEMBERS
from tests.e2e.scenarios.scenario_scenes import PLAYED
from tests.fabric.services.memories.test_changes import WRITING

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

installation = pytest.fixture(begun, scope="module")


def test_every_route_is_a_page_that_is_looked_at_or_says_why_it_is_none():
    assert set(NO_PAGE) <= set(ROUTES)
    needed = {
        name: set(pattern.pattern.converters)
        for pattern in patterns()
        if (name := pattern.name) not in NO_PAGE and ROUTES[str(name)] is not Policy.API
    }
    assert {name: needs - set(KNOWN) for name, needs in needed.items() if needs - set(KNOWN)} == {}
    assert len(pages(KNOWN)) == len(needed)


def test_a_finding_is_found(visit):
    """The instrument works: a page that is made worse is found to be worse, and so are its colours in the dark alone."""
    page = visit(NOWHERE).page
    page.goto("/fabrics")  # The overview would be made anew meanwhile.
    page.evaluate(
        "for (const name of ['aria-label', 'placeholder']) document.querySelector('#top-q').removeAttribute(name)"
    )
    page.evaluate("document.querySelector('h1').style.color = 'light-dark(black, #333)'")
    found = at_both_sizes(page)
    assert any(one.startswith("label (critical)") for one in found)
    assert any(one.startswith("narrow, dark: color-contrast (serious)") for one in found)
    assert not any(one.startswith("color-contrast") for one in found)


def test_an_installation_where_nothing_has_happened(visit):
    assert (
        looked_at(
            visit(NOWHERE).page, pages({"name": "doubtful", "scenario_name": "rate-limit-then-healthy", "number": 1})
        )
        == {}
    )


@pytest.fixture(scope="module")
def run_id(installation) -> str:
    """Runs of each kind: one that has ended, one that waits for a person, whose id this is."""
    asked(installation, "research-desk", "What is the ledger's deadline?")
    installation.publish(WRITING)
    asked(installation, "writing", "What is the budget?")
    return asked(installation, "doubtful", "Which ledger is due?")


@pytest.fixture(scope="module")
def drill_id(installation) -> str:
    """A drill of each cell of a fabric, in every state that there is; the id of one that deviated."""
    installation.manage("django", "shell", "--verbosity", "0", "-c", DRILLED)
    ((found,),) = installation.stored("SELECT id FROM drills_drill WHERE verdict = 'deviated'")
    return str(found)


def test_an_installation_where_much_has_happened(visit, installation, run_id, drill_id):
    ((record_id,),) = installation.stored("SELECT max(id) FROM fabric_audit")
    known = {**KNOWN, "run_id": run_id, "drill_id": drill_id, "record_id": record_id}
    assert looked_at(visit(NOWHERE).page, [*pages(known), *views(run_id), *ALSO]) == {}


def test_fabrics_whose_workers_take_turns(visit, installation):
    routed = asked(installation, "support-routing", "I was charged twice for one parcel.")
    installation.manage("fabric", "import", str(SAMPLES / "support-routing.yaml"))
    installation.manage("fabric", "import", str(SAMPLES / "contract-check.yaml"))
    topologies = ("support-routing", "incident-triage", "research-teams", "vendor-debate")
    addresses = [
        f"/runs/{routed}?view=graph",
        *(f"/fabrics/{name}?tab=topology" for name in topologies),
        *(f"/fabrics/{name}/draft?part=topology" for name in ("support-routing", "contract-check")),
    ]
    assert looked_at(visit(NOWHERE).page, addresses) == {}


@pytest.fixture(scope="module")
def drills(installation, drill_id) -> list[str]:
    """Addresses of all that drills are seen by: drills with a story of each end, as they wait, run and were stopped, their runs, scenarios, schedules."""
    installation.publish(GUARDED)
    told = installation.manage("django", "shell", "--verbosity", "0", "-c", DRIVEN)
    ids = dict(line.split() for line in told.splitlines())
    for done in (KEPT, PLAYED, SCHEDULED):
        installation.manage("django", "shell", "--verbosity", "0", "-c", done)
    ((run_id,),) = installation.stored("SELECT max(run_id) FROM drills_drill WHERE run_id <> ''")
    ((schedule,),) = installation.stored("SELECT min(id) FROM drills_schedule")
    return [
        *(f"/drills/{one}" for one in ids.values()),
        f"/drills/{ids['breaker']}?at=20",
        f"/drills/{ids['deviates']}/pytest",
        "/runs/drills?fabric=small-model",
        f"/runs/{run_id}",
        f"/runs/{run_id}/events/5",
        "/drills/coverage?fabric=small-model&mode=live",
        "/drills/coverage?fabric=small-model&mode=live&ask=all",
        "/scenarios?fabric=small-model",
        "/scenarios/endpoint-down?fabric=small-model",
        "/scenarios/written-by-another-version?fabric=small-model",
        "/scenarios/endpoint-down-of-ours/edit",
        "/drills/schedules",
        f"/drills/schedules/{schedule}",
    ]


def test_drills_with_all_that_is_seen_of_them(visit, drills):
    page = visit(NOWHERE).page
    assert looked_at(page, drills) == {}


def test_what_is_refused_of_drills_and_what_is_tried(visit, drills):
    page = visit().page
    page.add_init_script(axe())
    page.goto("/scenarios/endpoint-down?fabric=small-model")
    page.get_by_role("button", name="Dry run").click()
    page.locator("#dry").wait_for()
    assert at_both_sizes(page) == []
    page.goto("/drills/schedules")
    page.locator("#cron").fill("every night")
    page.locator("#schedule-create").click()
    page.locator("#e-cron").wait_for()
    assert at_both_sizes(page) == []
    page.goto("/drills/stop")
    page.locator("#drill-stop-pull").click()
    page.locator("#e-reason").wait_for()
    assert at_both_sizes(page) == []


def test_drills_that_run_live_and_the_drill_stop_pulled(visit, installation, drills):
    installation.manage("django", "shell", "--verbosity", "0", "-c", LIVE)
    page = visit(NOWHERE).page
    seen = ("/", "/drills/coverage?fabric=small-model", "/drills/stop", "/drills/schedules")
    assert looked_at(page, seen) == {}
    installation.manage("drill", "stop", "pull", "--reason", "The provider asked for quiet until noon.")
    assert looked_at(page, seen) == {}
    installation.manage("drill", "stop", "release", "--reason", "It is noon.")


def test_members_of_every_kind_and_what_is_refused_of_them(visit, installation):
    installation.manage("django", "shell", "--verbosity", "0", "-c", MEMBERS)
    page = visit(NOWHERE).page
    ids = [str(one) for (one,) in installation.stored("SELECT id FROM fabric_member WHERE name IN ('farah.n', 'ci')")]
    assert looked_at(page, ["/people/members", *(f"/people/members/{one}" for one in ids)]) == {}
    page.goto("/people/members")
    page.locator("#invite-email").fill("nobody@example")
    page.locator("#invite-make").click()
    page.locator("#invite-e-email").wait_for()
    assert at_both_sizes(page) == []


def test_an_event_of_each_kind(visit, installation, run_id):
    events = installation.stored("SELECT min(run_id), seq FROM fabric_event GROUP BY kind")
    assert len(events) > 5
    addresses = [reverse("run-event", args=[str(run), seq]) for run, seq in events]
    assert looked_at(visit(NOWHERE).page, addresses) == {}


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_dialogs_and_mistakes(visit, run_id, size):
    page = visit(viewport=size).page
    page.keyboard.press("Control+k")
    page.keyboard.type("ledger")
    page.locator("#palette-found a[id^=palette-run]").first.wait_for()
    assert in_both_themes(page) == []
    page.keyboard.type("zzzz")
    page.get_by_text("No results").wait_for()
    assert in_both_themes(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert in_both_themes(page) == []
    page.goto("/runs/start")
    page.get_by_role("button", name="Start the run").click()
    page.locator("#e-text").wait_for()
    assert in_both_themes(page) == []


def test_strangers(installation, chromium):
    page = still(chromium, base_url=installation.base).new_page()
    token = installation.manage("member", "invite", "reviewer", "legal").strip().rpartition("#")[2]
    assert looked_at(page, ["/login", "/login/link#used", "/login/recover", "/nothing", "/people/invitations"]) == {}
    page.goto(f"/people/invitations#{token}")
    page.locator("#name").wait_for()
    assert at_both_sizes(page) == []
    page.locator("#name").fill("owner")
    page.locator("#password").fill("x")
    page.locator("#again").fill("y")
    page.get_by_role("button", name="Accept").click()
    page.locator("#e-again").wait_for()
    assert at_both_sizes(page) == []
    page.goto("/login/link#used")
    page.get_by_role("button", name="Sign in").click()
    page.locator("#h-error").wait_for()
    assert at_both_sizes(page) == []
    page.context.close()


def test_a_member_who_may_not(installation, chromium):
    page = still(chromium, base_url=installation.base).new_page()
    page.goto(installation.login_link_of("ben"))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{installation.base}/")
    assert page.goto("/styleguide").status == 403
    assert at_both_sizes(page) == []
    page.context.close()


@pytest.fixture(scope="module")
def edited(installation) -> list[str]:
    """Addresses of all that fabrics are edited and published by: each part of a draft, drafts with errors, what waits for a second person, what moved."""
    requests = publish_scenes.fill(installation)
    return [
        *(f"/fabrics/ledger/draft?part={part}" for part in PARTS),
        "/fabrics/ledger/draft?part=table&cell=provider_failure.batch&simulate=provider_failure.batch",
        "/fabrics/claims/draft?part=models",
        "/fabrics/ledger/draft/publish",
        "/fabrics/claims/draft/publish",
        "/fabrics/roster/draft/merge",
        "/fabrics/ledger?tab=versions",
        f"/fabrics/treaty/requests/{requests['treaty']}",
        "/fabrics/+new",
        "/fabrics/+import",
        "/fabrics",
    ]


def test_fabrics_that_are_edited_and_published(visit, edited):
    assert looked_at(visit(NOWHERE).page, edited) == {}


def test_an_installation_that_fails(visit, installation, run_id):
    """The last one: the database is gone afterwards."""
    page = visit().page
    installation.damage(run_id)
    assert page.goto("/runs").status == 500
    assert at_both_sizes(page) == []
    installation.take_database_away()
    assert page.goto("/runs").status == 503
    assert at_both_sizes(page) == []
