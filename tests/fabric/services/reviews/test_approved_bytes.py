"""An attacker changes the database between an approval and its call: nothing is called, and the run says why (H3).

Byte by byte it is tried in ``tests/fabric/runtime/test_approved_bytes.py``; here once through the service, with real rows of a real run.
"""

from __future__ import annotations

import threading

import pytest

from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState
from fabric.models import Event, Inbox, Revision, Run
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import PAYING, ran
from tests.servers.unguarded import unguarded


@pytest.fixture
def approved(actor, paying, store, nudge):
    """A review whose approval is recorded, while no worker drives its run."""
    (item,) = list_open_reviews(actor, ran(actor, paying, documents=()).id)
    assert item.content["payload"] == {"to": "Ana", "usd": 90}
    assert decide_review(
        store=store, nudge=nudge, actor=actor, review_id=item.id, digest=item.digest, verb="approve"
    ).created
    return item


def rewrite(item, kind, column, old, new):
    """Changes those bytes in an event's column, as an attacker with write access to the database could."""
    (row,) = [
        one for one in Event.objects.filter(run_id=item.run_id, kind=kind) if old in (getattr(one, column) or b"")
    ]
    with unguarded():
        Event.objects.filter(run_id=item.run_id, seq=row.seq).update(**{column: getattr(row, column).replace(old, new)})


def another_policy(item):
    """Pins the run's row to a revision of the same fabric that lets more pass."""
    fabric_id = Run.objects.get(id=item.run_id).fabric_id
    published = Revision.objects.filter(fabric_id=fabric_id).order_by("-number")[0]
    assert published.number == 2
    Run.objects.filter(id=item.run_id).update(revision_id=published.id)


def another_address(item):
    """Has the pinned revision itself say that the tool goes elsewhere."""
    pinned = Revision.objects.get(id=Run.objects.get(id=item.run_id).revision_id)
    assert "pay.invalid" in pinned.spec
    Revision.objects.filter(id=pinned.id).update(spec=pinned.spec.replace("pay.invalid", "spy.invalid"))


TAMPERED = {
    "the arguments": (lambda item: rewrite(item, "model_answered", "payload", b"90", b"91"), "the payload of event"),
    "the tool": (
        lambda item: rewrite(item, "model_answered", "header", b'"pay"', b'"buy"'),
        "was changed, or does not follow",
    ),
    "what was shown": (
        lambda item: rewrite(item, "review_opened", "payload", b"90", b"19"),
        "the payload of event",
    ),
    "what it is bound to": (
        lambda item: rewrite(item, "review_opened", "header", item.digest.encode(), b"0" * 32),
        "was changed, or does not follow",
    ),
    "the policy": (another_policy, "it began with revision"),
    "where the tool goes": (another_address, "it began with revision"),
}


def driven(item) -> Run:
    """Another process takes the run up, with the answer that waits for it."""
    for cached in (wiring.compile_published, wiring._revision, revision_spec):
        cached.cache_clear()
    waiting = threading.Event()
    with wiring.local_engine() as engine:
        engine.offer(item.run_id)
        for _ in range(600):
            found = Run.objects.get(id=item.run_id)
            if (
                found.state == RunState.QUARANTINED
                or Event.objects.filter(run_id=item.run_id, kind="mutation_intended").exists()
            ):
                return found
            waiting.wait(0.05)
    raise AssertionError(f"the run did not go on: {found.state}")


@pytest.mark.parametrize("what", TAMPERED)
def test_nothing_is_called_and_the_run_says_what_was_changed(actor, approved, what):
    fabric_publish(actor=actor, source=PAYING.replace("run_usd_micros: 1000000", "run_usd_micros: 9000000"))
    tamper, said = TAMPERED[what]
    tamper(approved)
    run = driven(approved)
    assert (run.state, said in run.reason) == (RunState.QUARANTINED, True), run.reason
    followed = ("mutation_intended", "review_decided", "tool_answered")
    assert not Event.objects.filter(run_id=run.id, kind__in=followed).exists()
    assert {one.item for one in list_open_reviews(actor, run.id)} == {"pre_action", "quarantine"}
    assert get_review(actor, approved.id).open
    assert Inbox.objects.filter(run_id=run.id, consumed_seq=None).count() == 1, "the answer is kept"


def test_untouched_it_goes_on_to_its_call(approved):
    assert driven(approved).state != RunState.QUARANTINED
    assert Event.objects.filter(run_id=approved.run_id, kind="review_decided").count() == 1
