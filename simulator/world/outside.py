"""Sends starts and decisions to runs by the inbox, with their accidents, and lets accidents happen to processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.events.inputs import (
    INBOX,
    CancelRequested,
    DecisionMade,
    ForkRequested,
    InboxInput,
    RunRequested,
    TerminateRequested,
)
from fabric.core.spec.policies.budgets import RUN, NamedCap
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import TERMINAL
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.runtime.ports.batch_parts import ReviewChange
from fabric.runtime.ports.journal import Batch, InputWithdrawn, NewRun
from simulator.cast import people
from simulator.rules.durability import checks as damage_checks
from simulator.rules.grants import checks as grant_checks
from simulator.swarm.setups import RunPlan
from simulator.world.interventions import Interventions, OutsideWorld

ACCIDENTS = ("sudden_death", "deaf", "retired", "soft_stop")
UNDO_S = 10.0
MONEY = (RUN, "usd_micros")
"""Cap of a run's money, as a review names it."""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """A person's answer to a review, and its delay. ``verb``: empty for the setup's default, or approve."""

    after_s: float
    verb: str = ""
    actor: str = "reviewer"
    says: Mapping[str, Any] | None = None
    """All further fields of a recorded answer, which is about the present content; None: they follow from the
    review.
    """


class Outside:
    """Callers, reviewers and accidents of processes."""

    def __init__(self, world: OutsideWorld) -> None:
        self.world = world
        self.hands = Interventions(world, insert=self.insert, start=self.start)
        self.script: Callable[[str, ReviewChange], tuple[PersonAnswer, ...] | None] = lambda run_id, change: None
        """Returns scripted answers to a review; None: they are drawn; an empty tuple: there is never an answer."""
        self._rewritten: dict[str, float] = {}
        """Reviews that a script has edited, and seconds until another person agrees to the edit."""
        self._recorded: set[str] = set()
        """Reviews that a recording answers, to the last of two people."""
        self._answering = False
        self._clicks = 0

    def begin(self) -> None:
        """Schedule the starts and the accidents."""
        world, rng = self.world, self.world.rng
        for number, plan in enumerate(world.setup.runs):
            run_id = world.setup.names.run_id(world.setup.seed, "run", number)
            world.watch.expect(run_id, plan.tier, plan.seed)
            world.later(plan.at_s, self._start, run_id, plan)
            self.hands.begin(run_id)
        for name in ACCIDENTS:
            while rng.random() < world.rates[name]:
                world.later(rng.choice((3.0, 15.0, 120.0, 20_000.0)) * rng.random(), world.accident, name)

    # -- inserting ----------------------------------------------------------------------------------------------------

    def _start(self, run_id: str, plan: RunPlan) -> None:
        world = self.world
        deadline_s = world.setup.fabric.compiled.spec.policy.deadlines_of(plan.tier).run_s
        documents = world.setup.documents if plan.documents else ()
        request = {
            "text": plan.text,
            "documents": [document.name for document in documents],
            "document_bytes": [len(document.text) for document in documents],
        }
        deadline_at = world.clock.now() + int(deadline_s * US)
        given = RunRequested(
            input_id=f"start:{run_id}", request=request, deadline_at=deadline_at, requested_by="caller"
        )
        self.start(run_id, plan.tier, plan.seed, given, deadline_at)

    def start(self, run_id: str, tier: Tier, seed: int, given: RunRequested | ForkRequested, deadline_at: int) -> None:
        """Insert a run with its first input."""
        world = self.world
        new = NewRun(
            run_id=run_id,
            workspace_id=world.setup.names.workspace_id,
            revision_id=world.setup.fabric.revision_id,
            tier=tier,
            queue="default",
            priority="normal",
            session_key=grant_checks.find_session(world),
            start_key=f"key:{run_id}",
            seed=seed,
            trace_id=digest(run_id, "trace"),
            title="",
            deadline_at=deadline_at,
            input_id=given.input_id,
            input_body=INBOX.dump_json(given),
            requested_by="caller",
        )
        world.watch.register_input(run_id, given)
        world.store.create(new)
        if world.strikes("input_doubled"):
            world.store.create(new)
        self._follow_insert(run_id, given, 0.0)

    def insert(self, run_id: str, given: InboxInput, delay_s: float = 0.0) -> None:
        """Insert an input, visible after a while."""
        self.world.watch.register_input(run_id, given)
        body, format = damage_checks.as_sent(self.world, given)
        self.world.store.put_input(
            run_id, given.input_id, body, delay_s=delay_s, wakes=self._wakes(given), format=format
        )
        self._follow_insert(run_id, given, delay_s)

    def _wakes(self, given: InboxInput) -> int:
        """Return the wake level, as the services set it: cancels, and answers to quarantine reviews, reach
        quarantined runs.
        """
        if isinstance(given, DecisionMade):
            return 2 if self.world.store.reviews[given.review_id][1].item == "quarantine" else 1
        return 2 if isinstance(given, CancelRequested | TerminateRequested) else 1

    def _follow_insert(self, run_id: str, given: InboxInput, delay_s: float) -> None:
        """Follow an insert with a nudge, which may be lost, and perhaps with an equal insert."""
        world = self.world
        self.nudge(delay_s)
        if world.strikes("input_doubled"):
            world.later(0.05 * world.rng.random(), self._again, run_id, given)
        if world.strikes("input_doubled_late"):
            world.later(world.rng.choice((5.0, 60.0, 5_000.0)) * world.rng.random(), self._again, run_id, given)

    def nudge(self, delay_s: float) -> None:
        """Announce due work: nudge one process, unless the nudge is lost, and schedule a sweep of all."""
        world = self.world
        if not world.strikes("nudge_lost") and world.processes:
            process = world.rng.choice(world.processes)
            process.later(delay_s + 0.001 + 0.01 * world.rng.random(), process.sweep)
            if world.strikes("nudge_doubled"):  # Only ever by script.
                process.later(delay_s + 0.05, process.sweep)
        for process in world.processes:
            process.sweep_at(world.clock.now() + 1)
            process.sweep_at(world.clock.now() + int(delay_s * US) + 1)

    def _again(self, run_id: str, given: InboxInput) -> None:
        body = INBOX.dump_json(given)
        if self.world.store.put_input(run_id, given.input_id, body, wakes=self._wakes(given)):
            self.world.watch.given_again(run_id, given.input_id)
        for process in self.world.processes:
            process.sweep_at(self.world.clock.now() + 1)

    # -- people -------------------------------------------------------------------------------------------------------

    def show_reviews(self, batch: Batch) -> None:
        """Let people see the reviews that a commit has opened, and answer after a while."""
        self.hands.resume_paused(batch)
        for change in batch.reviews:
            if change.opens and change.decided_at is None:
                self._answer_review(batch.run_id, change)
            elif change.agreed or change.digest:
                self._asked_of_another(batch.run_id, change.review_id)

    def _answer_review(self, run_id: str, change: ReviewChange) -> None:
        world = self.world
        if self._answering:
            world.later(0.5, self._decide, run_id, change, "reviewer")
            return
        scripted = None if world.healed else self.script(run_id, change)
        if scripted is not None:
            for one in scripted:
                if one.says is not None:
                    self._recorded.add(change.review_id)
                    world.later(one.after_s, self._say_again, run_id, change.review_id, one)
                    continue
                verb = one.verb or world.setup.verb or "approve"
                world.later(one.after_s, self._say, run_id, change, verb, "reviewer")
                if verb == "edit":
                    self._rewritten[change.review_id] = one.after_s
            return
        if world.healed or world.strikes("person_silent"):
            return
        due_s = self._left_s(change)
        if world.strikes("last_minute"):
            world.later(max(0.0, due_s - UNDO_S * world.rng.random()), self._at_last, run_id, change)
            return
        share = (
            1.0 + 0.2 * world.rng.random()
            if world.strikes("person_late")
            else world.rng.random() * world.setup.answers_within
        )
        if self._everyday(change):
            share = world.setup.answers_within  # Expected inputs of a run always take equally long.
        world.later(due_s * share, self._decide, run_id, change, "reviewer")
        if world.strikes("two_reviewers"):
            world.later(due_s * share * world.rng.choice((1.0, 1.0, 1.01)), self._decide, run_id, change, "second")

    def _asked_of_another(self, run_id: str, review_id: str) -> None:
        """Let another person see an agreed or edited review, and answer after a while."""
        _, change = self.world.store.reviews[review_id]
        if change.decided_at is not None or review_id in self._recorded:
            return
        if review_id in self._rewritten and not self._answering:
            other = people.other_reviewer(change)
            self.world.later(self._rewritten[review_id], self._say, run_id, change, "approve", other)
            return
        due_s = self._left_s(change)
        share = self.world.rng.random() * self.world.setup.answers_within
        after_s = 0.5 if self._answering else due_s * share
        self.world.later(after_s, self._decide, run_id, change, people.other_reviewer(change))

    def _left_s(self, change: ReviewChange) -> float:
        """Return the seconds until a review is due; 0 if its process paused for too long before it wrote it."""
        return max(0.0, (change.due_at - self.world.clock.now()) / US)

    def _everyday(self, change: ReviewChange) -> bool:
        """Return True in a drill for a review of a tool's rule, which is no failure."""
        return self.world.setup.verb is not None and people.is_by_rule(change)

    def _say(self, run_id: str, change: ReviewChange, verb: str, actor: str) -> None:
        """Insert a scripted answer, in any state of the review."""
        self.insert(run_id, self._decision(change, verb, actor, change.digest))

    def _say_again(self, run_id: str, review_id: str, one: PersonAnswer) -> None:
        """Insert a recorded answer to the present content of a review."""
        _, change = self.world.store.reviews[review_id]
        given = self._decision(change, "approve", one.actor, change.digest)
        self.insert(run_id, replace(given, verb=one.verb, **(one.says or {})))

    def _at_last(self, run_id: str, change: ReviewChange) -> None:
        """Insert an answer whose undo window contains the due time."""
        self.insert(run_id, self._decision(change, "approve", "reviewer", change.digest), delay_s=UNDO_S)

    def _decide(self, run_id: str, change: ReviewChange, actor: str, again: bool = False) -> None:
        """Insert an answer to the present content, in any state of the review.

        ``again``: an earlier answer had no effect, and the review is still open.
        """
        world = self.world
        _, change = world.store.reviews[change.review_id]
        if again and change.decided_at is not None:
            return
        if world.setup.verb == "reject" and people.goes_on_unheard(change):
            return  # Drills go down the whole ladder.
        if not again and world.strikes("self_approval"):
            world.later(1.0, self._decide, run_id, change, actor, True)
            actor = people.REQUESTER
        verb = world.setup.verb or ("approve" if world.rng.random() < 0.6 else change.verbs[-1])
        if self._everyday(change):
            verb = "approve"
        if verb == "approve" and people.fills_in(change):
            verb = "edit"
        wrong = world.strikes("wrong_verb")
        stale = world.strikes("stale_digest")
        if verb != "approve" and world.setup.verb is None and not self._answering:
            verb = world.rng.choice([one for one in change.verbs if one != "approve"])
        given = self._decision(change, "edit" if wrong else verb, actor, digest("stale") if stale else change.digest)
        if world.strikes("decision_undone"):
            self.insert(run_id, given, delay_s=UNDO_S)
            world.later(UNDO_S + 0.03 * world.rng.random() - 0.015, self._undo, run_id, given.input_id, change)
            return
        self.insert(run_id, given)
        if not again and world.strikes("role_lost"):
            world.later(0.03 * world.rng.random() ** 2, self._loses_roles, actor)
            world.later(people.AWAY_S, self._decide, run_id, change, people.other_reviewer(change), True)
        if wrong or stale:
            world.later(1.0, self.insert, run_id, self._decision(change, verb, actor, change.digest))
        if world.strikes("person_double_click"):
            self.insert(run_id, self._decision(change, given.verb, actor, given.digest))

    def _loses_roles(self, actor: str) -> None:
        """Take roles or the membership of a person away, for a while."""
        if not self.world.healed:
            self.world.store.hold(actor, self.world.rng.choice((None, "viewer")))
            self.world.later(people.AWAY_S, self.world.store.hold, actor, people.ALL)

    def _decision(self, change: ReviewChange, verb: str, actor: str, shown: str) -> DecisionMade:
        self._clicks += 1
        edits = verb == "edit" and "edit" in change.verbs
        return DecisionMade(
            input_id=f"decision:{change.review_id}:{self._clicks}",
            review_id=change.review_id,
            verb=verb,  # type: ignore[arg-type]
            actor=actor,
            digest=shown,
            message="done otherwise" if verb in ("respond", "decline") else "",
            edited=people.written_over(change, actor) if edits else None,
            cap_usd_micros=self._new_cap(change, verb),
            caps=self._new_caps(change, verb),
            model=self._model(change, verb),
            tool=people.replacing_tool(change, self._clicks) if edits and self.world.setup.verb is None else "",
        )

    def _model(self, change: ReviewChange, verb: str) -> str:
        """Return the model that an answer sometimes names; an unknown one as well."""
        takes = json.loads(change.content).get("takes_model") if self.world.setup.verb is None else None
        if verb != "approve" or not takes or self._clicks % 3 == 0:
            return ""
        return str(takes["model"]) if self._clicks % 3 == 1 else "nobody"

    def _new_cap(self, change: ReviewChange, verb: str) -> int | None:
        """Return the cap that finance sometimes sets; too low as well."""
        shown, setup = json.loads(change.content), self.world.setup
        if verb != "approve" or not shown.get("takes_cap"):
            return None
        if setup.verb is not None:
            needs = shown.get("needs_cap") or {}
            least = int(shown["cap_usd_micros"]) + 1 if (needs.get("scope"), needs.get("unit")) == MONEY else None
            return int(shown["cap_usd_micros"]) * setup.raises if setup.raises else least
        return None if self._clicks % 2 else int(shown["cap_usd_micros"]) * (1 + self._clicks // 2 % 3)

    def _new_caps(self, change: ReviewChange, verb: str) -> tuple[NamedCap, ...]:
        """Return other caps that finance sometimes raises: one or all of those offered, too low as well."""
        shown = json.loads(change.content)
        needs = shown.get("needs_cap")
        if (
            verb == "approve"
            and self.world.setup.verb is not None
            and needs
            and (needs["scope"], needs["unit"]) != MONEY
        ):
            return (NamedCap(needs["scope"], needs["unit"], int(needs["cap"]) + 1),)
        takes = shown.get("takes_caps", ()) if verb == "approve" and self.world.setup.verb is None else ()
        times = self._clicks % 5
        found = tuple(NamedCap(one["scope"], one["unit"], times * int(one["cap"])) for one in takes)
        return found[: 1 + self._clicks % 2] if times else ()

    def _undo(self, run_id: str, input_id: str, change: ReviewChange) -> None:
        taken_back = self.world.store.withdraw_input(run_id, input_id) is InputWithdrawn.GONE
        self.world.sometimes["undone_in_time" if taken_back else "undone_too_late"] += 1
        if taken_back:
            self.world.watch.withdrawn(run_id, input_id)
            self.world.later(1.0, self._decide, run_id, change, people.other_reviewer(change), True)

    def answer_everything(self) -> None:
        """Answer every review at once from now on."""
        self._answering = True
        self.hands.release()
        for run_id, change in list(self.world.store.reviews.values()):
            if change.decided_at is None and self.world.store.columns(run_id).state not in TERMINAL:
                self._decide(run_id, change, people.other_reviewer(change))
