"""`manage.py run explain RUN`: explains each decision of a run and its open reviews. A decision has its reason, the
choices of the other tiers, and the check against the journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from fabric.composition import engine as wiring
from fabric.core.values.words import instant, words
from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.management.output.reviews import review_lines, reviews_json
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.events.explanations import (
    VERDICTS,
    Explained,
    as_json,
    class_words,
    reaction_words,
    run_explain,
)
from fabric.selectors.whole_ids import whole_run_id
from fabric.services.actors import actor_inside_drills, owner_actor

STATES = {"taken": "<- taken", "spent": "spent", "skipped": "skipped", "ahead": ""}


class Command(FabricCommand):
    """Explains one run."""

    help = (
        "Explain each decision of a run: when it was taken, which mechanism tripped on which numbers, and which cell and rung followed. "
        "Say what the other tiers would have done, and whether the decision follows from the journal once more. Exit code 1 when one does not."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the run."""
        parser.add_argument("run", metavar="RUN", help="its id, or a part that begins or ends it")
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Explain it."""
        actor = owner_actor()
        options["run"] = whole_run_id(actor, options["run"])
        reader = actor_inside_drills(actor, options["run"]) or actor
        found = run_explain(reader, options["run"], wiring.compile_under_policy)
        run = found.run
        open_items = list_open_reviews(reader, run.id, family=True)
        if options["json"]:
            decisions = [as_json(one) for one in found.decisions]
            asked = reviews_json(open_items)
            doubted = [{"seq": one.seq, "at": one.at, "says": one.says} for one in found.usage_problems]
            told_of_run = {"run_id": run.id, "erased": run.erased, "derives": found.derives}
            self.put({**told_of_run, "decisions": decisions, "usage_problems": doubted, "reviews": asked})
        else:
            for line in self._lines(found.decisions):
                self.stdout.write(line)
            for one in found.usage_problems:
                self.stdout.write(f"Charge, event {one.seq}: {one.says}")
            for item in open_items:
                self.stdout.write("\n".join(review_lines(item)))
        if run.erased:
            self.tell(f"Retention erased the content of run {run.id}; its decisions are facts and stay.")
        if not found.decisions and not options["json"]:
            self.stdout.write(f"Run {run.id} needed no decision: nothing failed and nothing tripped in it.")
        return OK if found.derives else OTHER_END

    def _lines(self, decisions: tuple[Explained, ...]) -> Iterator[str]:
        for number, one in enumerate(decisions, 1):
            yield from _decision_lines(number, one)
            yield ""


def _decision_lines(number: int, one: Explained) -> Iterator[str]:
    fact, derived = one.derived.fact, one.derived
    row = words(fact.failure_type) if fact.failure_type else "no row, a direct reaction"
    use = f", use {fact.spent + 1} of {fact.bound}" if fact.bound else ""
    yield f"{number}. event {derived.seq}, {instant(derived.at)}: {words(fact.reaction)}"
    yield f"   tripped      {words(fact.cause.mechanism)}: {fact.cause.message}"
    yield f"   evidence     {one.evidence or 'none beside what it says'}"
    yield f"   cell         {row} x {words(fact.tier)}, rung {fact.rung + 1}{use}, counted per {fact.scope}"
    if fact.layer:
        yield f"   layer        {words(fact.layer)}"
    yield f"   class        {class_words(one)}"
    for n, rung in enumerate(one.rungs, 1):
        why = f": {rung.why}" + ("" if rung.derived else " (as recorded)") if rung.why else ""
        layer = f" ({words(rung.layer)})" if rung.layer else ""
        yield f"   rung {n}       {reaction_words(rung.reaction, rung.times)}{layer}  {STATES[rung.state]}{why}".rstrip()
    for trip in fact.causes:
        yield f"   with it      {words(trip.mechanism)}: {trip.message}"
    for name in fact.accompanies:
        yield f"   accompanied  {words(name)}"
    for other in one.others:
        yield f"   {words(other.tier)} would have: {words(other.reaction)} (rung {other.rung + 1})"
    for follow in one.followed:
        yield f"   followed     event {follow.seq}: {follow.says}"
    if derived.judged:
        yield f"   judged again {', '.join(derived.judged)}"
    yield f"   {VERDICTS[derived.verdict]}"
    for one_field in derived.differences:
        yield f"     {one_field.field}: recorded {one_field.recorded}, derived {one_field.derived}"
