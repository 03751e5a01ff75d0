"""`manage.py review decide REVIEW approve|edit|respond|decline|reject`: answers a review, and hosts the run
from there when no engine does.

1. Declining and rejecting need a reason.
2. An approval names the digest of the shown content (``--digest``), or the content is shown here and confirmed at the
   terminal.
3. `decline` and `reject`, which approve nothing, need neither.
4. `manage.py review undo REVIEW` takes back an answer that its run has not taken yet.
5. `manage.py review decide REVIEW continue` lets it count at once.
"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import STOPS
from fabric.core.spec.policies.budgets import RUN, NamedCap, cap_key
from fabric.management.base import DETACHED, OK, FabricCommand, dollars_given
from fabric.management.output.reviews import DIGEST_CHARS, label_lines, payload_lines, review_lines
from fabric.management.output.runs import progress, report, summary
from fabric.management.payloads import Payload, payload_given
from fabric.management.run_follower import Following, silent
from fabric.program.name import program
from fabric.selectors.reviews.answers import is_over, takes_none_now, too_late
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.whole_ids import whole_review_id
from fabric.services.actors import owner_actor
from fabric.services.errors import Refused
from fabric.services.reviews.decisions import DecisionTaken, decide_review, hasten_decision, undo_decision

ASKS = {
    "approve": "Approve exactly this?",
    "edit": "Put your version in its place?",
    "respond": "Answer this with your message?",
}
"""Confirmations of a terminal before an answer is sent; a test shows that they cover the other verbs."""
RUN_MONEY = cap_key(RUN, "usd_micros")


class Command(FabricCommand):
    """Answers an open review."""

    help = "Answer a review that a run waits for. Without a running engine this command drives the run until it ends or waits again. Exit code as for `run start`; 0 when an engine continues it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the review, the answer and the message."""
        parser.add_argument("item", metavar="REVIEW", help="its id, or a part that begins or ends it")
        parser.add_argument(
            "verb",
            metavar="approve|edit|respond|decline|reject|undo|continue",
            help="the answer; or `undo` to take the last one back, `continue` to let it count before the time to take it back is over",
        )
        parser.add_argument(
            "--message",
            default="",
            metavar="TEXT",
            help="why: kept in the journal; a rejection needs it, and a declined call, and in high-stakes every answer",
        )
        parser.add_argument(
            "--digest",
            default="",
            metavar="DIGEST",
            help="digest of the content, or at least its first 8 characters: `run start` and `review show` print it; without it the terminal shows the review and asks for confirmation; declining or rejecting needs none",
        )
        parser.add_argument(
            "--payload",
            metavar="FILE",
            help="with edit: the replacement of the content, as JSON or YAML; - reads standard input",
        )
        parser.add_argument(
            "--cap",
            nargs=3,
            action="append",
            default=[],
            metavar=("SCOPE", "AMOUNT", "UNIT"),
            help="with approve of a cost overrun: a new cap for this run, such as `--cap run 2.50 usd`, `--cap stage:fan_out 20000 tokens`; may be repeated",
        )
        parser.add_argument(
            "--tool",
            default="",
            metavar="NAME",
            help="with edit of a call: another of the agent's tools, called with --payload in its place",
        )
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Record the decision; follow the run where it is hosted here."""
        actor = owner_actor()
        options["item"] = whole_review_id(actor, options["item"])
        if options["verb"] == "undo":
            return undo(self, actor, options["item"], as_json=options["json"])
        elsewhere = wiring.engine_running()
        taken = self._decide(actor, options)
        decided = {"item": taken.review_id, "verb": taken.verb, "recorded": taken.created}
        if taken.second_wanted:
            decided["second_wanted"] = True
            self.tell(
                f"a second person has to agree before anything follows from it: review {taken.review_id} stays open"
            )
        run = run_get(actor, taken.run_id)
        if elsewhere or run.terminal:
            goes_on = (
                f"run {run.id} has ended as {run.state}"
                if run.terminal
                else f"the running engine continues run {run.id}"
            )
            self.tell(f"{taken.verb} is recorded for review {taken.review_id}; {goes_on}")
            if options["json"]:
                self.put(summary(actor, run) | decided)
            return OK
        answered = frozenset({taken.review_id})
        if (
            run.root_run_id is not None
        ):  # Its answer goes up to the run that was asked for, which is followed to its end.
            run = run_get(actor, run.root_run_id)
        following = Following(actor, run.id, say=progress(self) or silent, answered=answered, seq=run.last_seq)
        try:
            run = following.to_rest()
        except KeyboardInterrupt:
            self.tell(
                f"detached: {taken.verb} is recorded, and run {taken.run_id} continues when an engine runs: {program()} up"
            )
            return DETACHED
        return report(self, actor, run, as_json=options["json"], **decided)

    def _decide(self, actor: Actor, options: dict[str, Any]) -> DecisionTaken:
        asked: dict[str, Any] = {"store": wiring.store(), "nudge": wiring.nudge()}
        asked |= {"actor": actor, "review_id": options["item"]}
        if options["verb"] == "continue":
            return hasten_decision(**asked)
        caps = [_cap(*given) for given in options["cap"]]
        money = [one.cap for one in caps if one.key == RUN_MONEY]
        if len(money) > 1:
            raise Refused("the run's money is named twice with --cap: name it once", code="invalid", field="caps")
        payload = _payload(options)
        digest = options["digest"] or self._confirm(actor, options, payload)
        try:
            return self._send_decision(asked | {"digest": digest}, options, payload, money, caps)
        except Refused as refused:
            if payload is None or refused.field != "edited":
                raise
            problems = tuple(payload.place_problem(one) for one in refused.problems)
            raise Refused(refused.message, code=refused.code, field=refused.field, problems=problems) from None

    def _confirm(self, actor: Actor, options: dict[str, Any], payload: Payload | None) -> str:
        """Return the digest of the review shown here, once the person at the terminal has confirmed it. Empty: the
        answer approves nothing. Raises Refused.
        """
        item, verb = get_review(actor, options["item"]), options["verb"]
        if verb in STOPS or verb not in item.verbs or item.follow_up or not item.open:
            return "" if item.open else item.digest  # A closed review shows how it was closed.
        if closed := takes_none_now(item):
            raise Refused(closed, code="conflict", field="review")
        self.tell(*review_lines(item))
        if payload is not None:
            self.tell(*label_lines("your version", payload_lines(payload.value)))
        if not sys.stdin.isatty() or options["payload"] == "-":
            message = (
                f"nothing is decided: to {verb} what is shown above, name it with --digest {item.digest[:DIGEST_CHARS]}"
            )
            raise Refused(message, code="invalid", field="digest")
        self.stderr.write(f"{ASKS[verb]} [y/N] ", ending="", style_func=str)
        self.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused("nothing is decided", code="invalid", field="digest")
        return item.digest

    def _send_decision(
        self,
        asked: dict[str, Any],
        options: dict[str, Any],
        payload: Payload | None,
        money: list[int],
        caps: list[NamedCap],
    ) -> DecisionTaken:
        return decide_review(
            **asked,
            edited=None if payload is None else payload.value,
            verb=options["verb"],
            message=options["message"],
            cap_usd_micros=money[0] if money else None,
            caps=[one for one in caps if one.key != RUN_MONEY],
            tool=options["tool"],
        )


def undo(command: FabricCommand, actor: Actor, review_id: str, *, as_json: bool) -> int:
    """Take back the last answer to a review, and report it. Raises Refused."""
    undone = undo_decision(store=wiring.store(), nudge=wiring.nudge(), actor=actor, review_id=review_id)
    before = "" if undone.recorded else " already"
    item = get_review(actor, undone.review_id)
    stands = too_late(item) if is_over(item) else "the review is open"
    command.tell(f"{undone.verb} is undone{before} for review {undone.review_id}; {stands}")
    if as_json:
        result = {"item": undone.review_id, "undone": undone.verb, "recorded": undone.recorded}
        command.put(summary(actor, run_get(actor, undone.run_id)) | result)
    return OK


def _payload(options: dict[str, Any]) -> Payload | None:
    """Return the content that replaces the review's; None where there is none. Raises Refused."""
    if options["verb"] == "edit" and options["payload"] is None:
        message = "an edit needs its replacement: give it with --payload FILE, or --payload - on standard input"
        raise Refused(message, code="invalid", field="payload")
    if options["verb"] != "edit" and options["payload"] is not None:
        raise Refused(f"--payload goes with edit, not with {options['verb'][:40]}", code="invalid", field="payload")
    return None if options["payload"] is None else payload_given(options["payload"])


def _cap(scope: str, amount: str, unit: str) -> NamedCap:
    """Return a typed cap. Raises Refused."""
    if unit == "usd":
        return NamedCap(scope, "usd_micros", dollars_given(amount))
    if unit == "tokens" and amount.isascii() and amount.isdigit():
        return NamedCap(scope, "tokens", int(amount))
    message = (
        f"--cap {scope[:80]} {amount[:30]} {unit[:30]}: give an amount and its unit, such as `--cap run 2.50 usd` or "
        "`--cap agent:writer 20000 tokens`"
    )
    raise Refused(message, code="invalid", field="caps")
