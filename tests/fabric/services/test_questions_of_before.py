"""Migration 0018: what the journal says of questions that were asked before their rows had columns for it."""

from importlib import import_module

from django.apps import apps

from fabric.models import Escalation, Event
from fabric.selectors.escalations import escalations_open
from tests.fabric.services.world import ran
from tests.unguarded import unguarded

BLANK = {"asked": "", "remind_at": 0, "onward_at": 0}


def test_a_question_of_before_says_who_is_asked_and_one_whose_journal_is_damaged_stops_nothing(actor, doubtful):
    damaged, whole = ran(actor, doubtful), ran(actor, doubtful)
    (question,) = escalations_open(actor, whole.id)
    Escalation.objects.update(**BLANK)
    with unguarded():
        Event.objects.filter(run_id=damaged.id, kind="escalation_opened").update(header=b"torn")
    import_module("fabric.migrations.0018_questions").fill(apps, None)
    row = Escalation.objects.get(id=question.id)
    assert row.asked == f"\n{question.required_role}\n"
    assert row.opened_at < row.remind_at < row.onward_at < row.due_at
    assert Escalation.objects.filter(run_id=damaged.id, **BLANK).exists()
