"""`manage.py model`: models as they are listed, test calls, and keys that come from anywhere but the command line."""

from __future__ import annotations

import io
import json
import sys

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fabric.models import ProviderKey
from fabric.providers.stored_keys import stored_keys
from fabric.services.actors import owner_actor
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.installation import facts as here
from fabric.services.models.catalogue import models_list
from simulator.endpoint import ScriptedEndpoint, refusal
from tests.fabric.services.models.scenes import DEAR, KEY, PRICED, able, fabric

pytestmark = pytest.mark.django_db(transaction=True)
PLACE = ("openai", "https://api.openai.com/v1")


@pytest.fixture
def manage(capsys):
    """Runs the command: its exit code, what it printed, and what it complained of."""

    def run(*words):
        code = 0
        try:
            call_command("model", *words)
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def asked(settings):
    """A fabric that asks a scripted endpoint, which answers by ``script``."""

    def there(stack_script):
        endpoint = ScriptedEndpoint(stack_script)
        endpoint.__enter__()
        made.append(endpoint)
        settings.FABRIC_MODEL_URL = endpoint.url
        fabric_publish(actor=owner_actor(), source=fabric("asks", f"model: small, {PRICED}"))
        return endpoint

    made: list[ScriptedEndpoint] = []
    yield there
    for one in made:
        one.__exit__(None, None, None)


def opened():
    return [one.secret for one in stored_keys(here.secret_box()).values()]


def test_nothing_and_something_is_listed(manage, settings, actor):
    assert manage("list") == (0, "No published fabric names a model, and FABRIC_MODEL is not set.\n", "")
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = PLACE[1], "nobodys", "sk-of-the-env"
    fabric_publish(actor=actor, source=fabric("asks", f"model: gpt-4o, {DEAR}"))
    _, said, _ = manage("list")
    assert "https://api.openai.com:443 (openai): key from FABRIC_MODEL_KEY" in said
    assert "gpt-4o  $3 in, $12 out per million tokens (fabric)  used by asks r1  never tested" in said
    assert "nobodys  unpriced  used by no fabric" in said
    _, said, _ = manage("list", "--json")
    told = json.loads(said)
    assert [(one["model"], one["price_source"]) for one in told["models"]] == [
        ("nobodys", "none"),
        ("gpt-4o", "fabric"),
    ]
    assert "sk-of-the-env" not in said


def test_a_key_is_read_from_standard_input(manage, monkeypatch, actor):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
    code, said, complaint = manage("key", "set", *PLACE)
    assert (code, complaint, opened()) == (0, "", [KEY])
    assert said == f"the key that ends in {KEY[-4:]} goes to https://api.openai.com:443 from now on, and nowhere else\n"
    assert "stored key ..." + KEY[-4:] in manage("list")[1]


def test_a_key_is_read_from_a_variable(manage, monkeypatch, actor):
    monkeypatch.setenv("A_NEW_KEY", KEY)
    code, said, _ = manage("key", "set", *PLACE, "--from-env", "A_NEW_KEY", "--json")
    assert (code, opened(), json.loads(said)["last_four"]) == (0, [KEY], KEY[-4:])
    assert KEY not in said
    code, _, complaint = manage("key", "set", *PLACE, "--from-env", "NO_SUCH_KEY")
    assert (code, complaint) == (2, "--from-env: NO_SUCH_KEY is not set\n")


def test_no_key_is_taken_from_the_command_line(manage, actor):
    with pytest.raises(CommandError, match="unrecognized arguments"):
        call_command("model", "key", "set", *PLACE, KEY)
    assert ProviderKey.objects.count() == 0


def test_a_key_is_deleted_once(manage, monkeypatch, actor):
    monkeypatch.setattr(sys, "stdin", io.StringIO(KEY))
    manage("key", "set", *PLACE)
    assert "is deleted: https://api.openai.com:443 is called without it" in manage("key", "delete", *PLACE)[1]
    code, _, complaint = manage("key", "delete", *PLACE)
    assert (code, "no key is stored for" in complaint) == (2, True)


def test_a_model_is_tested_by_its_name_or_id(manage, asked, actor):
    asked(able)
    (model,) = models_list(actor).models
    for name in ("small", model.id):
        code, said, told = manage("test", name)
        assert (code, "schema: yes." in said, "tool: yes." in said) == (0, True, True)
        assert f"at most {model.worst_usd_micros:,} micro-dollars" in told
    code, said, _ = manage("test", "small", "--json")
    assert json.loads(said)["test"]["seen"] == dict.fromkeys(("word", "schema", "tool"), "yes")


def test_one_that_does_not_answer_ends_with_1(manage, asked, actor):
    asked([refusal(401, "bad key", code="invalid_api_key")])
    code, said, _ = manage("test", "small")
    assert (code, "refused the key (HTTP 401)" in said, "cost: 0 micro-dollars" in said) == (1, True, True)


def test_what_names_none_or_several_is_told(manage, settings, actor):
    settings.FABRIC_MODEL_URL = PLACE[1]
    fabric_publish(actor=actor, source=fabric("asks", f"model: gpt-4o, {DEAR}", "model: gpt-4o"))
    assert manage("test", "nothing") == (
        2,
        "",
        "there is no model 'nothing'; `python3 manage.py model list` lists them\n",
    )
    assert "2 models are 'gpt-4o': give the id of one" in manage("test", "gpt-4o")[2]
