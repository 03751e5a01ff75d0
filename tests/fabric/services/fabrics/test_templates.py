"""Each template is a fabric that any author can publish as it stands, with any model that is here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fabric.core.people.actor import Actor
from fabric.management.base import providers
from fabric.services.actors import find_people, owner_actor, owner_ensure
from fabric.services.fabrics.checks import check_text
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.templates import FOLDER, TEMPLATES, template_begun, template_get, templates
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.installation import facts as here
from fabric.services.installation.facts import InstallationFacts
from tests.people import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def actor() -> Actor:
    owner_ensure()
    return owner_actor()


def where(actor: Actor) -> InstallationFacts:
    return here.installation(providers(), people=find_people(actor.workspace_id))


def test_every_file_of_the_folder_is_offered() -> None:
    assert sorted(TEMPLATES) == sorted(path.stem for path in FOLDER.glob("*.yaml"))
    assert len({one.spec.title for one in templates()}) == len(TEMPLATES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_explains_itself(name: str) -> None:
    one = template_get(name)
    assert one.spec.name == name
    assert one.spec.example
    assert one.text.startswith("# ")
    assert re.search(r"run_usd_micros: \d+ #", one.text)
    comments = re.findall(r"^\s*#|\S #", one.text, flags=re.MULTILINE)
    assert len(comments) >= (12 if name != "blank" else 6)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_published_on_a_fresh_installation(actor: Actor, name: str) -> None:
    """Its one warning: a single member approves payments alone."""
    text = template_begun(template_get(name), where(actor), name="my-own", title="My: own").text
    found = [one.path for one in check_text(text, where(actor), name="my-own").findings]
    assert found == (["policy.humans.four_eyes"] if name == "payment-approval" else [])
    published = fabric_publish(actor=actor, source=text, providers=providers())
    assert (published.name, len(published.warnings), published.deviations) == ("my-own", len(found), ())
    assert fabric_read(text).spec.title == "My: own"


@pytest.mark.parametrize("name", TEMPLATES)
def test_only_name_and_title_are_others_where_nothing_else_has_to_be(actor: Actor, name: str) -> None:
    one = template_get(name)
    text = template_begun(one, replace(where(actor), people=None, held=None), name="my-own").text
    assert text == one.text.replace(f"\nname: {name}\n", "\nname: my-own\n")


def test_four_eyes_wait_for_a_second_person(actor: Actor) -> None:
    one = template_get("payment-approval")
    alone = template_begun(one, where(actor), name="pay-desk")
    assert fabric_read(alone.text).spec.policy.humans.four_eyes == ()
    assert "# four_eyes: [high_stakes]" in alone.text
    assert "invite a second person" in alone.notes[0]
    member("ana", "owner", "safety", "finance")
    both = template_begun(one, where(actor), name="pay-desk")
    assert fabric_read(both.text).spec.policy.humans.four_eyes == ("high_stakes",)
    assert both.notes == ()


@pytest.mark.parametrize(
    ("url", "model", "price", "said"),
    [
        ("http://127.0.0.1:8431/v1", "smollm2", 0, "on this machine"),
        ("http://localhost:11434/v1", "qwen", 0, "on this machine"),
        ("https://api.openai.com/v1", "gpt-4o-mini", None, "gpt-4o-mini (FABRIC_MODEL)"),
        ("https://models.example.com/v1", "house", None, "no price of it is known"),
    ],
)
def test_the_model_of_the_installation_is_used_and_said(
    actor: Actor, url: str, model: str, price: int | None, said: str
) -> None:
    own = replace(where(actor), default_url=url, default_model=model)
    begun = template_begun(template_get("extraction"), own, name="invoices")
    (found,) = fabric_read(begun.text).spec.models
    assert (found.provider, found.options) == ("openai", {})
    assert (found.price.price().input_usd_micros_per_mtok if found.price else None) == price
    assert said in begun.notes[0]
    problems = [one.path for one in check_text(begun.text, own).findings]
    assert problems == (["models.0.price"] if "no price" in said else [])
