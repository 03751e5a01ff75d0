"""What the list of runs filters by, in its own order."""

from django.db import migrations
from django.db.models import F, Index, OrderBy, Q

ENDED = ["aborted", "cancelled", "completed", "failed"]
BAD = Q(state__in=["aborted", "cancelled", "failed"])
NEWEST = (F("workspace"), OrderBy(F("created_at"), descending=True), F("id"))
INDEXES = (
    Index(*NEWEST, F("state"), condition=~Q(state__in=ENDED), name="run_live"),
    Index(*NEWEST, F("state"), F("ended_at"), F("recovered"), condition=BAD, name="run_bad"),
    Index(
        F("workspace"), OrderBy(F("ended_at"), descending=True), F("state"), condition=BAD, name="run_bad_ended"
    ),
    Index(*NEWEST, F("state"), condition=Q(recovered=True), name="run_recovered"),
    Index(F("workspace"), F("fabric"), *NEWEST[1:], name="run_fabric"),
    Index(F("workspace"), F("session_key"), *NEWEST[1:], condition=~Q(session_key=""), name="run_session"),
)


class Migration(migrations.Migration):
    dependencies = [("fabric", "0002_login_links")]

    operations = [
        # It had the state before the time, which answers one state but not several in order.
        migrations.RemoveIndex("run", "run_live"),
        *(migrations.AddIndex("run", index) for index in INDEXES),
    ]
