"""A run's journal has the version of the workspace's policy that holds; whatever explains or shows the run goes by that version."""

import re

import pytest

from fabric.composition import engine as wiring
from fabric.core.events.envelope import from_row
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.management.run_follower import Following
from fabric.models import Event
from fabric.selectors.drafts.history_preview import history_preview
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.subjects import find_review_subject
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.reviews.decisions import decide_review
from fabric.services.workspaces.policies import policy_set
from fabric.worker.nudges.listener import NullNudge
from tests.fabric.management.console import command
from tests.fabric.services.world import PAYING, SMALL, ran

READS = SMALL.replace("name: small", "name: reading").replace(
    "    provider: scripted\n",
    "    provider: scripted\n    options: {agents: {reader: {calls: [[{tool: read_document, args: {name: a}}], [{tool: read_document, args: {name: b}}]]}}}\n",
)
"""Its reader asks its model three times."""
ASKS = READS.replace("  - name: read_document\n", "  - name: read_document\n    approve_when: args.name == 'a'\n")
"""The same, and a person is asked before the first call."""
TWO_TURNS, ONE_TURN = {"limits": {"turns": 2}}, {"limits": {"turns": 1}}


def facts(run, kind):
    rows = Event.objects.filter(run_id=run.id, kind=kind).order_by("seq")
    return [from_row(seq, kind, v, bytes(h)).fact for seq, v, h in rows.values_list("seq", "version", "header")]


def taken_up(run):
    return [one.number for one in facts(run, "policy_taken_up")]


@pytest.fixture
def stopped(actor):
    """A run whose reader was stopped by the limit of a policy that another one has taken the place of since."""
    fabric_publish(actor=actor, source=READS)
    policy_set(actor=actor, policy=TWO_TURNS, expect=0)
    run = ran(actor, "reading")
    policy_set(actor=actor, policy={}, expect=1)
    (found,) = facts(run, "reaction_decided")
    assert (found.cause.cause, found.cause.evidence.limit) == ("turn_limit", 2)
    return run


def test_a_run_journals_the_version_that_holds(actor, small):
    assert taken_up(ran(actor, small)) == [], "there is none"
    policy_set(actor=actor, policy=TWO_TURNS, expect=0)
    assert taken_up(ran(actor, small)) == [1]
    policy_set(actor=actor, policy=ONE_TURN, expect=1)
    assert taken_up(ran(actor, small)) == [2]


def test_the_command_derives_under_the_policy_of_then(stopped):
    done = command("explain", stopped.id, "--json")
    (one,) = done.last["decisions"]
    assert (one["derivation"], one["differences"], one["judged_again"]) == ("equal", [], ["turns"])
    assert (done.code, done.last["derives"]) == (0, True)


def test_the_decisions_page_derives_under_the_policy_of_then(stopped, browser):
    seq = Event.objects.get(run_id=stopped.id, kind="reaction_decided").seq
    page = browser.get(f"/runs/{stopped.id}/events/{seq}").content.decode()
    assert "verified: replay gives the same decision" in page
    assert "not verified" not in page


def test_protections_show_the_limit_of_then(stopped, browser):
    page = browser.get(f"/runs/{stopped.id}?view=protections").content.decode()
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page))
    assert "reader: 3 asked for, 2 allowed" in text
    assert (
        "Model turns of a step turns An agent may call its model at most this often in one step. 2 the workspace's policy"
        in text
    )


def test_a_policy_that_comes_while_a_run_waits_holds_from_its_next_claim_on(actor):
    fabric_publish(actor=actor, source=ASKS)
    run = ran(actor, "reading")
    policy_set(actor=actor, policy=ONE_TURN, expect=0)
    (item,) = list_open_reviews(actor, run.id)
    decide_review(
        store=wiring.store(),
        nudge=NullNudge(),
        actor=actor,
        review_id=item.id,
        digest=item.digest,
        verb="approve",
    )
    run = Following(actor, run.id, answered=frozenset({item.id})).to_rest()
    assert taken_up(run) == [1]
    assert [(one.cause.cause, one.cause.evidence.limit) for one in facts(run, "reaction_decided")][-1] == (
        "turn_limit",
        1,
    )
    assert command("explain", run.id, "--json").last["derives"] is True


def test_a_review_says_what_the_policy_makes_of_the_call(actor):
    fabric_publish(actor=actor, source=PAYING.replace("effect: irreversible", "effect: read_only"))
    policy_set(actor=actor, policy={"irreversible": ["http:pay.invalid/*"]}, expect=0)
    (item,) = list_open_reviews(actor, ran(actor, "paying").id)
    assert find_review_subject(item).effect == "irreversible"


def test_the_start_form_names_the_cap_of_the_policy(actor, small, browser):
    assert "$1.0000 a run" in browser.get("/runs/start").content.decode()
    policy_set(actor=actor, policy={"caps": {"run_usd_micros": 250_000}}, expect=0)
    page = browser.get("/runs/start").content.decode()
    assert "$0.2500 a run" in page
    assert "$1.0000 a run" not in page


def test_a_draft_is_previewed_under_the_policy_that_stands(actor):
    """The run was stopped at the second turn, and so would the draft stop it."""
    fabric_publish(actor=actor, source=READS)
    policy_set(actor=actor, policy=TWO_TURNS, expect=0)
    ran(actor, "reading")
    spec = fabric_read(READS).spec
    assert isinstance(spec, FabricSpec)
    compiles = wiring.draft_compiler(actor.workspace_id)
    assert compiles(spec, Tier.INTERACTIVE).spec.policy.limits.turns == 2
    found = history_preview(actor, "reading", spec, compiles, wiring.compile_under_policy)
    assert (found.failures, found.differ, found.undecided, found.unreadable) == (1, 0, 0, ())
