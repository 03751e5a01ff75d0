"""Tells whether a run and the runs below it go on without a person."""

from __future__ import annotations

from fabric.core.actor import Actor
from fabric.core.flow import TERMINAL, RunState
from fabric.core.living import live
from fabric.models import Inbox, Run
from fabric.selectors.families import descendants_of
from fabric.selectors.reach import seen_by
from fabric.selectors.replay import REFOLDED, refolded
from fabric.selectors.store_time import store_now


def family_at_work(actor: Actor, run_id: str) -> bool:
    """Returns True where anything of a run and the runs below it goes on without a person.

    A run whose clock does not stop for questions stays *running* while its children wait for answers; its journal says whether it does anything beside that.
    """
    ids = [run_id, *descendants_of(actor, run_id)]
    rows = list(Run.objects.filter(seen_by(actor, Run), id__in=ids).values("parent_run_id", "state", *REFOLDED))
    if any(row["state"] == RunState.QUEUED for row in rows):
        return True
    open_yet = [row for row in rows if row["state"] in (RunState.RUNNING, RunState.WAITING)]
    parents = {row["parent_run_id"] for row in rows if row["state"] not in TERMINAL}
    running = [row for row in open_yet if row["state"] == RunState.RUNNING]
    if any(row["id"] not in parents for row in running) or _has_news([row["id"] for row in open_yet]):
        return True
    return any(live(refolded(row).run) for row in running)


def _has_news(ids: list[str]) -> bool:
    """Returns True where one of the runs has an input that it has not taken."""
    return Inbox.objects.filter(run_id__in=ids, consumed_seq__isnull=True, visible_at__lte=store_now()).exists()
