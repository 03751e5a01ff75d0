"""Runs that ended as stopped are ended ones, and not completed: the partial indexes of the list of runs say so."""

from django.db import migrations
from django.db.models import F, Index, OrderBy, Q

ENDED = ["aborted", "cancelled", "completed", "failed", "stopped"]
BAD = Q(state__in=["aborted", "cancelled", "failed", "stopped"])
NEWEST = (F("workspace"), OrderBy(F("created_at"), descending=True), F("id"))
INDEXES = (
    Index(*NEWEST, F("state"), condition=~Q(state__in=ENDED), name="run_live"),
    Index(*NEWEST, F("state"), F("ended_at"), F("recovered"), condition=BAD, name="run_bad"),
    Index(
        F("workspace"), OrderBy(F("ended_at"), descending=True), F("state"), condition=BAD, name="run_bad_ended"
    ),
)


class Migration(migrations.Migration):
    dependencies = [("fabric", "0028_attachment_origin")]

    operations = [
        *(migrations.RemoveIndex("run", index.name) for index in INDEXES),
        *(migrations.AddIndex("run", index) for index in INDEXES),
    ]
