"""`samples_publish` publishes samples that are not there yet, and replaces none that a person changed."""

from fabric.selectors.fabrics.lookup import fabric_get, fabrics_list
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import SamplesPublished, samples_publish
from tests.fabric.services.world import SAMPLE_NAMES, sample

BOOKING = ("127.0.0.1:8421",)


def test_all_samples_are_published_the_first_time_and_none_the_second(actor, settings):
    settings.FABRIC_ALLOWED_HOSTS = BOOKING
    assert samples_publish(actor=actor) == SamplesPublished(SAMPLE_NAMES, {})
    assert samples_publish(actor=actor) == SamplesPublished([], {})
    assert [view.name for view in fabrics_list(actor)] == SAMPLE_NAMES


def test_a_sample_that_needs_an_address_waits_until_the_operator_lists_it(actor, settings):
    first = samples_publish(actor=actor)
    assert first.names == [name for name in SAMPLE_NAMES if name != "trip-desk"]
    assert list(first.left_out) == ["trip-desk"]
    assert "add 127.0.0.1:8421 to FABRIC_ALLOWED_HOSTS" in first.left_out["trip-desk"]
    settings.FABRIC_ALLOWED_HOSTS = BOOKING
    assert samples_publish(actor=actor) == SamplesPublished(["trip-desk"], {})


def test_a_changed_sample_is_left_alone(actor):
    changed = sample("research-desk").replace("title: Research desk", "title: My desk")
    fabric_publish(actor=actor, source=changed)
    assert "research-desk" not in samples_publish(actor=actor).names
    assert fabric_get(actor, "research-desk").title == "My desk"
