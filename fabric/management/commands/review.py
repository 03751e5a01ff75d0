"""`manage.py review VERB`: the review queue at the machine, in the name of its owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import CommandParser

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.words import clock, cut, instant, words
from fabric.management.base import OK, FabricCommand
from fabric.management.commands.decide import undo
from fabric.management.machine_zone import read_instant
from fabric.management.nouns import add_verbs
from fabric.management.output.reviews import card, content_json, in_line, review_lines
from fabric.selectors.database_time import TookTooLong, store_now
from fabric.selectors.reviews.answers import describe_undo, is_over
from fabric.selectors.reviews.assignments import AssignmentView, find_assignment
from fabric.selectors.reviews.comments import CommentView, list_comments
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.queue import QueueFilter, QueueRow, Tab, queue_page, queue_rows
from fabric.selectors.visible_text import visible_line
from fabric.selectors.whole_ids import whole_review_id
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.reviews.assignments import (
    Claimed,
    review_assign_to_role,
    review_claim,
    review_claim_next,
    review_reassign,
    review_release,
)
from fabric.services.reviews.comments import comment_add
from fabric.services.reviews.follow_ups import close_follow_up, fork_follow_up
from fabric.services.reviews.snoozes import review_snooze, snooze_end

NARROWS = ("fabric", "tier", "item", "stage", "failure", "role", "holder", "text")
UNTIL = "2026-11-30T18:00 or 2026-11-30 (UTC)"
"""A snooze's end as it is typed."""


class Command(FabricCommand):
    """Lists, claims, assigns and snoozes reviews, comments on them, and closes follow-ups."""

    help = (
        "List the review queue, and show a whole review. Claim one so that no other person answers it meanwhile, release it, or "
        "assign it. Comment on it, or snooze it. Decide it, and undo a decision. Close a follow-up. REVIEW is an id, or a part that begins or ends one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        what = parser.add_subparsers(dest="what", required=True)
        listing = what.add_parser("list", help="a part of the queue, the most urgent first")
        listing.add_argument("--tab", choices=[tab.value for tab in Tab], default=Tab.OPEN.value, help="which part")
        listing.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many")
        listing.add_argument("--after", default="", metavar="CURSOR", help="continue after the previous page")
        following = what.add_parser("next", help="claim the most urgent unclaimed one")
        for one in (listing, following):
            for name in NARROWS:
                one.add_argument(f"--{name}", default="", metavar="TEXT", help=_HELP[name])
        show = what.add_parser("show", help="a whole review, the consequence of each answer, and its digest")
        claim = what.add_parser("claim", help="claim one for five minutes")
        release = what.add_parser("release", help="let it go")
        hand = what.add_parser("assign", help="assign it to a person, who has half an hour to open it, or to a role")
        comments = what.add_parser("comments", help="the comments on it, the oldest first")
        comment = what.add_parser("comment", help="comment on it; @name notifies a member")
        snooze = what.add_parser("snooze", help="hide it from your own list until a time before it is due")
        close = what.add_parser("close", help="close a follow-up: its run has ended and does not change")
        back = what.add_parser("undo", help="take the last decision back, while its run has not used it")
        for one in (show, claim, release, hand, comments, comment, snooze, close, back):
            one.add_argument("id", metavar="REVIEW", help="its id, or a part that begins or ends it")
        receiver = hand.add_mutually_exclusive_group(required=True)
        receiver.add_argument("--to", metavar="USER", help="a member who may decide it")
        receiver.add_argument("--role", metavar="ROLE", help="a role of a member who may decide it")
        comment.add_argument("text", metavar="TEXT", help="plain text; it stays")
        ends = snooze.add_mutually_exclusive_group(required=True)
        ends.add_argument("--until", metavar="TIME", help=UNTIL)
        ends.add_argument("--end", action="store_true", help="show it again now")
        close.add_argument("--note", required=True, metavar="TEXT", help="description of the work done")
        close.add_argument(
            "--fork", type=int, metavar="SEQ", help="also start a run that continues from that event of its run"
        )
        for one in (listing, show, following, claim, release, hand, comments, comment, snooze, close, back):
            one.add_argument("--json", action="store_true", help="end with one line of JSON")
        listing.add_argument("-q", "--quiet", action="store_true", help="nothing but whole ids")
        add_verbs(
            what, {"decide": ("decide", "answer one"), "history": ("review_history", "export decisions of people")}
        )

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        if "id" in options:
            options["id"] = whole_review_id(actor, options["id"])
        try:
            done: int = getattr(self, f"_{options['what']}")(actor, options)
        except TookTooLong as error:
            raise Refused(f"{error}: narrow it down", code="unavailable") from None
        return done

    def _list(self, actor: Actor, options: dict[str, Any]) -> int:
        tab = Tab(options["tab"])
        page = queue_page(actor, tab, _read_filter(options), limit=options["limit"], after=options["after"])
        now = store_now()
        if options["json"]:
            self.put({"items": [review_json(row, now) for row in page.rows], "next": page.next or None})
            return OK
        if options["quiet"]:
            for row in page.rows:
                self.stdout.write(row.review.id)
            return OK
        for line in _list_lines(page.rows, now):
            self.stdout.write(line)
        if not page.rows:
            self.stdout.write("There is nothing here.")
        if page.next:
            self.tell(f"There are more: --after {page.next}")
        return OK

    def _show(self, actor: Actor, options: dict[str, Any]) -> int:
        item, now = get_review(actor, options["id"]), store_now()
        (row,) = queue_rows(actor, [item])
        if options["json"]:
            self.put(review_json(row, now))
            return OK
        for line in review_lines(item) if item.open else [_line(row, now), *card(item)]:
            self.stdout.write(line)
        return OK

    def _next(self, actor: Actor, options: dict[str, Any]) -> int:
        taken = review_claim_next(actor=actor, wanted=_read_filter(options))
        if taken is not None:
            return self._write_assignment(actor, taken, options)
        if options["json"]:
            self.put({"item": None})
        else:
            self.stdout.write("No unclaimed review is open.")
        return OK

    def _claim(self, actor: Actor, options: dict[str, Any]) -> int:
        return self._write_assignment(actor, review_claim(actor=actor, review_id=options["id"]), options)

    def _assign(self, actor: Actor, options: dict[str, Any]) -> int:
        asked: dict[str, Any] = {"actor": actor, "review_id": options["id"]}
        if options["to"] is not None:
            return self._write_assignment(actor, review_reassign(**asked, to=options["to"]), options)
        review_assign_to_role(**asked, role=options["role"])
        item = get_review(actor, options["id"])
        if options["json"]:
            self.put(review_json(queue_rows(actor, [item])[0], store_now()) | {"fresh": True})
        else:
            self.stdout.write(f"Review {item.id} is assigned to the role {options['role'].strip()}.")
        return OK

    def _comments(self, actor: Actor, options: dict[str, Any]) -> int:
        item = get_review(actor, options["id"])
        found = list_comments(item)
        if options["json"]:
            self.put({"item": item.id, "comments": [_comment_json(one) for one in found]})
            return OK
        for one in found:
            self.stdout.write(f"{instant(one.at)}  {one.author}: {visible_line(one.text)}")
        if not found:
            self.stdout.write("There are no comments.")
        return OK

    def _comment(self, actor: Actor, options: dict[str, Any]) -> int:
        added = comment_add(actor=actor, review_id=options["id"], text=options["text"])
        if options["json"]:
            self.put({"item": options["id"], **_comment_json(added)})
            return OK
        notified = f" It mentions {', '.join(added.mentions)}." if added.mentions else ""
        self.stdout.write(f"Your comment is on review {options['id']}.{notified}")
        return OK

    def _snooze(self, actor: Actor, options: dict[str, Any]) -> int:
        asked: dict[str, Any] = {"actor": actor, "review_id": options["id"]}
        if options["end"]:
            ended, until = snooze_end(**asked), None
            said = f"Review {options['id']} shows again." if ended else f"Review {options['id']} was not snoozed."
        else:
            until = read_instant(options["until"], "until", UNTIL)
            review_snooze(**asked, until=until)
            said = f"Review {options['id']} is hidden from your list until {instant(until)}."
        if options["json"]:
            self.put({"item": options["id"], "until": until})
        else:
            self.stdout.write(said)
        return OK

    def _release(self, actor: Actor, options: dict[str, Any]) -> int:
        item = get_review(actor, options["id"])
        assignment = find_assignment(actor, item.id)
        held = assignment is not None and assignment.holder == actor.name
        released = held and review_release(actor=actor, review_id=item.id, lease=assignment.lease if assignment else 0)
        if options["json"]:
            self.put({"item": item.id, "released": released})
        else:
            self.stdout.write(
                f"Review {item.id} is released." if released else f"Review {item.id} was not claimed by you."
            )
        return OK

    def _undo(self, actor: Actor, options: dict[str, Any]) -> int:
        return undo(self, actor, options["id"], as_json=options["json"])

    def _close(self, actor: Actor, options: dict[str, Any]) -> int:
        asked = {"actor": actor, "review_id": options["id"], "note": options["note"]}
        if options["fork"] is None:
            closed = close_follow_up(**asked)
        else:
            closed = fork_follow_up(store=wiring.store(), nudge=wiring.nudge(), seq=options["fork"], **asked)
        one = closed.closure
        if options["json"]:
            fork = one.fork_run_id or None
            self.put({"item": one.review_id, "closed_by": one.closed_by, "fork": fork, "recorded": closed.created})
            return OK
        fork = f"; run {one.fork_run_id} continues from it" if one.fork_run_id else ""
        self.stdout.write(f"Review {one.review_id} is closed{'' if closed.created else ' already'}{fork}.")
        return OK

    def _write_assignment(self, actor: Actor, taken: Claimed, options: dict[str, Any]) -> int:
        item = get_review(actor, taken.assignment.review_id)
        if options["json"]:
            self.put(review_json(queue_rows(actor, [item])[0], store_now()) | {"fresh": taken.fresh})
            return OK
        since = f", taken over from {taken.assignment.taken_from}" if taken.assignment.taken_from else ""
        until = f"until {clock(taken.assignment.lease_until)} UTC"
        self.stdout.write(f"Review {item.id} is claimed by {taken.assignment.holder} {until}{since}.")
        self.tell(*review_lines(item))
        return OK


_HELP = {
    "fabric": "only of that fabric",
    "tier": "only of runs in that tier",
    "item": "only of that kind: failure, post_stage, pre_action ...",
    "stage": "only in that stage",
    "failure": "only of that row of the decision table",
    "role": "only what asks for that role or user",
    "holder": "only reviews that this person claimed or decided",
    "text": "only with that in the reason or the run's title",
}


def _comment_json(one: CommentView) -> dict[str, Any]:
    return {"id": one.id, "author": one.author, "at": one.at, "text": one.text, "mentions": list(one.mentions)}


def _read_filter(options: dict[str, Any]) -> QueueFilter:
    return QueueFilter(**{name: options[name] for name in NARROWS})


def _list_lines(rows: Sequence[QueueRow], now: int) -> Iterator[str]:
    """Yield a line a review. Its id, state and fabric stand in columns."""
    states = [_describe_state(row, now) for row in rows]
    widths = [max(map(len, column), default=0) for column in (states, [row.review.fabric_name for row in rows])]
    for row, state in zip(rows, states, strict=True):
        one = row.review
        yield f"{one.id}  {state:<{widths[0]}}  {one.fabric_name:<{widths[1]}}  {_describe_review(row)}"


def _line(row: QueueRow, now: int) -> str:
    one = row.review
    return f"{one.id} {_describe_state(row, now)}, {one.fabric_name} {_describe_review(row)}"


def _describe_state(row: QueueRow, now: int) -> str:
    one = row.review
    if row.closure is not None:
        return f"closed by {row.closure.closed_by} {instant(row.closure.closed_at)}"
    if one.follow_up:
        return f"a follow-up since {instant(one.opened_at)}"
    if one.decided_at is not None:
        return f"{one.verb} by {one.decided_by} {instant(one.decided_at)}"
    if row.answer is not None:
        given = row.answer
        return f"{given.verb} by {given.decided_by} {instant(given.decided_at)} ({describe_undo(given, now)})"
    return f"{'was due' if is_over(one, now) else 'due'} {instant(one.due_at)}"


def _describe_review(row: QueueRow) -> str:
    one = row.review
    about = " ".join(filter(None, [words(one.item), words(one.stage)]))
    held = (
        f" [{row.holder} until {clock(row.assignment.lease_until)} UTC]"
        if row.assignment is not None and row.holder
        else f" [for {row.assignment.role}]"
        if row.assignment is not None and row.assignment.role
        else ""
    )
    second = f"[{', '.join(one.agreed)} agreed, a second person must]" if one.second_wanted else ""
    call = f": {said}" if (said := in_line(one)) else ""
    return f"{about}: {cut(visible_line(one.reason))}{call}{held}{second}"


def review_json(row: QueueRow, now: int) -> dict[str, Any]:
    """Return a review as a program reads it. ``now``: microseconds since the epoch, UTC, by the database's clock."""
    one = row.review
    return {
        **content_json(one, row.answer, now),
        "failure_type": one.failure_type,
        "open": one.open,
        "opened_at": one.opened_at,
        "fabric": one.fabric_name,
        "tier": one.tier,
        "approvals": one.approvals,
        "agreed": list(one.agreed),
        "may_answer": row.may,
        "assignment": _assignment_fields(row.assignment),
    }


def _assignment_fields(assignment: AssignmentView | None) -> dict[str, Any] | None:
    if assignment is None or not (assignment.live or assignment.role):
        return None
    names = ("holder", "role", "lease", "claimed_at", "lease_until", "taken_from")
    return {name: getattr(assignment, name) for name in names}
