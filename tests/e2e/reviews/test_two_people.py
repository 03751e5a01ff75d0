"""Two people who were invited decide together, each in a browser of their own: a call that waits for both is made once; a review is in one hand at a time;
an edit of a failure is what the run goes on with; a follow-up is closed with a run that goes on. Beside them commands, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from console.launch.processes.data_directory import ROOT
from simulator.endpoint import ScriptedEndpoint, answer
from tests.console.launch.started_processes import PATIENCE_S
from tests.e2e.chromium import still
from tests.e2e.conftest import PATIENCE_MS, sign_in
from tests.e2e.installation import installed
from tests.e2e.reviews.review_scenes import HIGH_STAKES, STRICT, UNPLANNED, answered, followed_up, waiting
from tests.e2e.runs.held_scenes import PAYING
from tests.e2e.scenes import FABRIC

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

INVITED = {"ana": ("owner", "reviewer"), "ben": ("reviewer", "safety")}
ASKED = "reviewers: [reviewer]"
PASSWORD = "four-dull-words-in-a-row"
FAILING = FABRIC.format(
    name="failing",
    title="Failing desk",
    description="What its reader asks for is refused.",
    options="{agents: {reader: {fail: {cause: auth, times: 9, status: 401}}}}",
    budget=1_000_000,
) + ("decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: escalate}]}\n")
AGREED = """
from fabric.services.drafts.change_requests import change_approve
from fabric.services.actors import actor_named, workspace_default
change_approve(actor=actor_named(workspace_default(), "ana"), request_id="{id}", digest="{digest}")
"""
AGED = """
import time
from django.contrib.sessions.backends.signed_cookies import SessionStore
found = SessionStore("{value}")
found["signed_in_at"] = time.time_ns() // 1_000 - 3_600_000_000
found.save()
print(found.session_key)
"""


@pytest.fixture(scope="module")
def till():
    """Takes payments, and remembers each."""
    with ScriptedEndpoint([answer("paid")]) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def installation(tmp_path_factory, till):
    """With fabrics that ask, one of them two people; it may call the till."""
    with installed(tmp_path_factory.mktemp("data"), FABRIC_ALLOWED_HOSTS=till.authority) as found:
        for source in (PAYING, FAILING, UNPLANNED):
            found.publish(source.replace("reviewers: [owner]", ASKED))
        yield found


@pytest.fixture(scope="module")
def people(installation, chromium, cookies, till):
    """The owner, and two who were invited: each signed in with name and password, in a browser of their own. To the desk that pays two of them agreed."""
    cookies[installation.base] = state = sign_in(installation, chromium)
    contexts = [still(chromium, base_url=installation.base, storage_state=state)]
    owner = _page(contexts[0])
    found = [owner]
    for name, roles in INVITED.items():
        owner.goto("/people/members")
        for role in roles:
            owner.locator(f"#invite input[value={role}]").check()
        owner.locator("#invite-make").click()
        link = owner.locator("#link").inner_text()
        contexts.append(still(chromium, base_url=installation.base))
        page = _page(contexts[-1])
        page.goto(link)
        for field, value in {"name": name, "password": PASSWORD, "again": PASSWORD}.items():
            page.locator(f"#{field}").fill(value)
        page.get_by_role("button", name="Accept").click()
        page.get_by_role("button", name="Sign out").first.click()
        page.goto("/login?next=/reviews")
        page.locator("#name").fill(name)
        page.locator("#password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/reviews")
        found.append(page)
    eyes = installation.data / "eyes.yaml"
    eyes.write_text(
        STRICT.replace("reviewers: [owner]", ASKED)
        .replace("https://pay.invalid", f"http://{till.authority}")
        .replace("run_usd_micros: 100000}", f"run_usd_micros: 100000}}\n  humans: {{four_eyes: [{HIGH_STAKES}]}}")
    )
    asked = installation.manage("fabric", "publish", str(eyes), "--request", "--json")
    installation.manage("django", "shell", "--verbosity", "0", "-c", AGREED.format_map(json.loads(asked)))
    yield tuple(found)
    for context in contexts:
        context.close()


def _page(context):
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def _age(installation, page):
    """Lets an hour pass since a person signed in."""
    (cookie,) = [one for one in page.context.cookies() if "fabric-session" in one["name"]]
    value = installation.manage("django", "shell", "--verbosity", "0", "-c", AGED.format_map(cookie)).split()[-1]
    page.context.add_cookies([{**cookie, "value": value}])


def command(installation, *words):
    """A command that need not succeed: its exit code, and what it said."""
    line = [sys.executable, str(ROOT / "manage.py"), *words]
    done = subprocess.run(
        line, env=installation.environ, check=False, capture_output=True, text=True, timeout=PATIENCE_S
    )
    return done.returncode, done.stdout + done.stderr


def decided(page, review, verb, message):
    """An answer that counts at once."""
    page.goto(f"/reviews/{review}")
    answered(page, verb, message)
    page.get_by_role("button", name="Continue now").click()


def test_a_call_that_waits_for_two_is_made_once_and_by_neither_alone(people, installation, till):
    owner, ana, ben = people
    review = waiting(owner, installation, "settling", HIGH_STAKES)
    run_id = owner.url.rpartition("/")[2].partition("?")[0]
    decided(ana, review, "approve", "She is owed that.")
    ana.goto(f"/reviews/{review}")
    ana.locator("#decision .banner", has_text="agreed").wait_for()
    ana.locator("label[data-press=verb-approve]").click()
    ana.locator("#message").fill("And again.")
    ana.keyboard.press("Control+Enter")
    ana.locator("#review-said").wait_for()
    assert till.received == [], "one person alone pays nothing"
    decided(ben, review, "approve", "I looked at the invoice.")
    owner.goto(f"/runs/{run_id}")
    owner.locator("#live[data-live=ended]").wait_for()
    assert [one.path for one in till.received] == ["/payments"]
    code, said = command(installation, "decide", review, "approve", "--message", "Me too.")
    assert (code, f"review {review} was answered by " in said) == (2, True), said


def test_what_was_written_outlives_a_new_sign_in(people, installation):
    owner, ana, _ = people
    review = waiting(owner, installation, "settling", HIGH_STAKES)
    _age(installation, ana)
    ana.goto(f"/reviews/{review}")
    ana.locator("label[data-press=verb-edit]").click()
    ana.locator('[id="f.usd"]').fill("40")
    ana.locator("#message").fill("Half of it.")
    ana.locator("#sign-in-again").click()
    ana.locator("#password").fill(PASSWORD)
    ana.get_by_role("button", name="Sign in").click()
    ana.wait_for_url(f"**/reviews/{review}")
    ana.locator("#changes .add", has_text="40").wait_for()
    assert ana.locator("#v-edit").is_checked()
    assert ana.locator("#message").input_value() == "Half of it."
    assert ana.locator("#sign-in-again").count() == 0
    ana.locator("#message").press("Control+Enter")
    ana.get_by_role("heading", name="You edited this").wait_for()
    ana.get_by_role("button", name="Continue now").click()


def test_a_review_is_in_one_hand_at_a_time(people, installation):
    owner, ana, ben = people
    review = waiting(owner, installation, "paying")
    ana.goto(f"/reviews/{review}")
    ana.keyboard.press("c")
    ana.get_by_text("Claimed by you, expires").wait_for()
    ben.goto(f"/reviews/{review}")
    ben.get_by_text("Claimed by ana").wait_for()
    ben.locator("label[data-press=verb-reject]").click()
    ben.locator("#message").fill("No.")
    ben.keyboard.press("Control+Enter")
    ben.locator("#review-said", has_text="ana").wait_for()
    code, said = command(installation, "review", "claim", review)
    assert (code, "ana" in said) == (2, True), said
    # Her network is away, so that her page cannot keep the lease.
    ana.route("**/beat", lambda route: route.abort())
    installation.stored("UPDATE fabric_review_assignment SET lease_until = 1 WHERE review = ?", review)
    ben.goto(f"/reviews/{review}")
    ben.keyboard.press("c")
    ben.get_by_text("taken over from ana").wait_for()
    ana.unroute("**/beat")
    # Who had it is told so by the page, and what they send is refused.
    ana.locator("label[data-press=verb-approve]").click()
    ana.keyboard.press("Control+Enter")
    ana.locator("#review-said").wait_for()
    decided(ben, review, "reject", "Not this month.")
    code, said = command(installation, "decide", review, "approve")
    assert (code, "answered by ben" in said) == (2, True), said


HEARS_MS = 2_000
"""Milliseconds in which an open page hears what another person did."""


def test_an_open_page_hears_what_another_person_does(people, installation):
    owner, ana, ben = people
    review = waiting(owner, installation, "paying")
    for page in (ana, ben):
        page.goto(f"/reviews/{review}")
        page.locator("#live[data-live=live]").wait_for()
    ben.locator("label[data-press=verb-approve]").click()
    ben.locator("#message").fill("As agreed.")
    ana.locator("#hand [data-press=claim]").click()
    ben.locator("#hand", has_text="Claimed by ana").wait_for(timeout=HEARS_MS)
    submit = ben.locator("#decision .act button.primary")
    assert submit.is_enabled()
    ana.locator("#hand").get_by_role("button", name="Release").click()
    ana.locator("#hand", has_text="Unclaimed").wait_for()
    answered(ana, "approve", "")
    ben.locator("#moved", has_text="Ana approved this").wait_for(timeout=HEARS_MS)
    ben.locator("#live", has_text="Out of date").wait_for()
    assert submit.is_disabled()
    assert ben.locator("#v-approve").is_disabled()
    ben.locator("#message").press("Control+Enter")
    assert ben.locator("#message").input_value() == "As agreed.", "nothing is lost, and nothing was sent"
    ana.get_by_role("button", name="Undo").click()
    ben.locator("#hand", has_text="and undid it").wait_for(timeout=HEARS_MS)
    ben.locator("#live[data-live=live]").wait_for()
    assert submit.is_enabled()
    ana.get_by_text("You withdrew your answer.").wait_for()
    answered(ana, "reject", "Not this month.")
    ben.locator("#moved", has_text="Ana rejected this").wait_for(timeout=HEARS_MS)
    # A page without a form is replaced.
    owner.goto(f"/reviews/{review}")
    owner.locator("#waiting").wait_for()
    ana.get_by_role("button", name="Continue now").click()
    ana.locator("#decided-by").wait_for()
    owner.locator("#decided-by").wait_for(timeout=HEARS_MS)
    owner.locator("#live", has_text="Closed").wait_for()
    ben.locator("#moved", has_text="Ana rejected this").wait_for()
    assert submit.is_disabled()


def test_a_run_goes_on_with_what_a_person_wrote(people, installation):
    owner, ana, _ = people
    review = waiting(owner, installation, "failing")
    run_id = owner.url.rpartition("/")[2].partition("?")[0]
    ana.goto(f"/reviews/{review}")
    ana.locator("label[data-press=verb-edit]").click()
    title = ana.locator("#edit").get_by_label("title").first
    title.fill("Read it once more")
    ana.locator("#changes .add", has_text="Read it once more").wait_for()
    ana.keyboard.press("Control+Enter")
    ana.get_by_role("heading", name="You edited this").wait_for()
    ana.locator("body").press("u")
    ana.get_by_text("You withdrew your answer.").wait_for()
    assert title.input_value() == "Read it once more"
    title.press("Control+Enter")
    ana.get_by_role("button", name="Continue now").click()
    ana.locator("#decided-by").wait_for()
    owner.goto(f"/runs/{run_id}")
    owner.locator(f"article.review:not(:has([href*='{review}']))").wait_for()
    asked = "SELECT content FROM fabric_review WHERE run_id = ? AND decided_at IS NULL"
    ((content,),) = installation.stored(asked, run_id)
    assert json.loads(content)["edit_initial"]["title"] == "Read it once more"


def test_a_follow_up_is_closed_with_a_run_that_goes_on(people, installation):
    owner = people[0]
    follow_up = followed_up(owner, installation)
    owner.goto(f"/reviews/{follow_up}")
    code, said = command(installation, "review", "close", follow_up, "--note", " ")
    assert (code, "say what became of it" in said) == (2, True), said
    owner.locator("#message").fill("The planner is asked once more.")
    owner.locator("#follow-up-fork").click()
    owner.locator("main").get_by_text("The planner is asked once more.").wait_for()
    ((fork,),) = installation.stored("SELECT fork_run_id FROM fabric_follow_up_closure WHERE review = ?", follow_up)
    owner.goto(f"/runs/{fork}")
    owner.locator("#live[data-live=ended]").wait_for()
    code, said = command(installation, "review", "close", follow_up, "--note", "Otherwise.")
    assert (code, "was closed by owner" in said) == (2, True), said
