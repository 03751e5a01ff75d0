"""`bootstrap`: everything the first start needs, once; a new login link each time."""

from django.contrib.auth.models import User

from fabric.models import Workspace
from fabric.services.actors import login_link_consume
from tests.fabric.management.console import command
from tests.fabric.services.world import SAMPLE_NAMES

PUBLISHED = [name for name in SAMPLE_NAMES if name != "trip-desk"]
"""That one calls a service, which has to be allowed first."""


def test_the_first_time_makes_everything_and_the_second_only_a_link(transactional_db, settings):
    first = command("bootstrap", "--json")
    assert (first.code, first.last["published"], first.last["owner"]) == (0, PUBLISHED, "owner")
    assert list(first.last["left_out"]) == ["trip-desk"]
    second = command("bootstrap", "--json")
    assert second.last["published"] == []
    assert second.last["workspace"] == first.last["workspace"] == Workspace.objects.get().id
    for done in (first, second):
        path = done.last["login"]
        assert path.startswith("/login/")
        assert done.last["url"] == f"{settings.FABRIC_PUBLIC_URL}{path}"
        assert login_link_consume(path.removeprefix("/login/link#")) == User.objects.get()


def test_for_people_it_is_the_samples_and_the_link(transactional_db, settings):
    lines = command("bootstrap").out.splitlines()
    assert lines[0] == f"Sample fabrics: {', '.join(PUBLISHED)}."
    assert lines[1].startswith("The sample trip-desk is left out: http://127.0.0.1:8421 is plain http; ")
    assert lines[2].startswith(f"Log in once, within an hour: {settings.FABRIC_PUBLIC_URL}/login/")
    assert len(command("bootstrap").out.splitlines()) == 2
