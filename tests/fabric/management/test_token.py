"""`manage.py token` and the service under it."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import replace
from hashlib import sha256

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from fabric.core.people.scopes import PATTERN, PREFIX, Scope, token_text
from fabric.models import ApiToken
from fabric.selectors.people import tokens_list
from fabric.services.errors import Refused
from fabric.services.people.tokens import DAYS_MAX, USED_EVERY_S, TokenHolder, token_create, token_revoke, token_use
from tests.fabric.management.console import command
from tests.fabric.services.world import actor, stranger
from tests.people import member

__all__ = ["actor", "stranger"]

SECOND = 1_000_000
NOON = 1_800_000_000 * SECOND
DAY = 24 * 3_600 * SECOND


def at(instant):
    return lambda: instant


class TestCommand:
    def test_it_is_printed_once_and_alone(self, actor):
        said = command("token", "create", "ci")
        assert said.code == 0
        secret = said.out.strip()
        assert re.fullmatch(PATTERN, secret)
        assert "ci acts for owner, may read, and expires at " in said.err
        assert secret not in said.err
        assert secret not in command("token", "list").out + command("token", "list", "--json").out

    def test_only_its_hash_is_kept(self, actor):
        secret = command("token", "create", "ci").out.strip()
        row = ApiToken.objects.values().get()
        assert row["token_hash"] == sha256(secret.encode()).hexdigest()
        assert secret not in str(row)

    def test_with_everything(self, actor):
        member("rosa", "operator", service=True)
        said = command(
            "token", "create", "ci", "--user", "rosa", "--expires", "30", "--scope", "start", "read", "--json"
        ).last
        assert (said["user"], said["scopes"], said["name"]) == ("rosa", ["read", "start"], "ci")
        holder = token_use(said["token"])
        assert isinstance(holder, TokenHolder)
        assert (holder.actor.name, holder.scopes) == ("rosa", {Scope.READ, Scope.START})
        (view,) = tokens_list(actor)
        assert view.expires_at == view.created_at + 30 * DAY == said["expires_at"]

    def test_the_list(self, actor):
        assert "no token yet" in command("token", "list").err
        command("token", "create", "one")
        command("token", "create", "two", "--scope", "decide")
        command("token", "revoke", "one")
        lines = command("token", "list").out.splitlines()
        assert [line.split()[:3] for line in lines] == [["two", "active", "decide"], ["one", "revoked", "read"]]
        listed = command("token", "list", "--json").last
        assert [(one["name"], one["state"], one["last_used_at"]) for one in listed] == [
            ("two", "active", None),
            ("one", "revoked", None),
        ]

    def test_revoking(self, actor):
        secret = command("token", "create", "ci").out.strip()
        assert "is revoked" in command("token", "revoke", "ci").out
        assert token_use(secret) == "revoked"
        again = command("token", "revoke", "ci", "--json")
        assert (again.code, again.last["changed"]) == (0, False)

    @pytest.mark.parametrize(
        ("words", "about"),
        [
            (("create", ""), "no name"),
            (("create", "two words"), "no name"),
            (("create", "x" * 64), "no name"),
            (("create", "ci", "--scope", "admin"), "there are: read, start, decide, publish, operate, manage"),
            (("create", "ci", "--user", "nobody"), "no active member"),
            (("create", "ci", "--user", "rosa"), "sign in as rosa"),
            (("create", "ci", "--expires", "0"), "cannot expire in 0 days"),
            (("create", "ci", "--expires", str(DAYS_MAX + 1)), "cannot expire"),
            (("create", "ci", "--expires", "9" * 40), "cannot expire"),
            (("revoke", "ci"), "no token is named 'ci'"),
        ],
    )
    def test_what_cannot_be_done_is_said_in_a_sentence(self, actor, words, about):
        member("rosa")
        said = command("token", *words)
        assert (said.code, said.out) == (2, "")
        assert about in said.err
        assert len(said.err.strip().splitlines()) == 1
        assert ApiToken.objects.count() == 0

    def test_a_name_is_taken_until_it_is_revoked(self, actor):
        assert command("token", "create", "ci").code == 0
        said = command("token", "create", "ci")
        assert (said.code, "already" in said.err) == (2, True)
        command("token", "revoke", "ci")
        assert command("token", "create", "ci").code == 0


class TestUse:
    @pytest.fixture
    def secret(self, actor):
        return token_create(actor=actor, name="ci", expires_days=1, now=at(NOON)).secret

    def test_it_acts_for_its_user_in_its_workspace(self, secret, actor):
        holder = token_use(secret, now=at(NOON))
        assert isinstance(holder, TokenHolder)
        assert (holder.actor, holder.token) == (replace(actor, via="token:ci"), "ci")

    def test_it_expires_to_the_microsecond(self, secret):
        assert isinstance(token_use(secret, now=at(NOON + DAY - 1)), TokenHolder)
        assert token_use(secret, now=at(NOON + DAY)) == "expired"

    @pytest.mark.parametrize(
        "change", [lambda s: s[:-1], lambda s: s + "A", lambda s: s.swapcase(), lambda s: s[1:], lambda s: ""]
    )
    def test_nearly_it_is_nothing(self, secret, change):
        with CaptureQueriesContext(connection) as asked:
            assert token_use(change(secret), now=at(NOON)) == "mistyped"
        assert asked.captured_queries == [], "the checksum says so before a look-up"

    def test_a_whole_one_that_was_not_made_is_unknown(self, secret):
        assert token_use(token_text(random.choice), now=at(NOON)) == "unknown"

    def test_its_hash_lets_no_one_in(self, secret):
        assert token_use(sha256(secret.encode()).hexdigest(), now=at(NOON)) == "mistyped"

    def test_a_foreign_character_is_no_error(self, secret):
        assert token_use(PREFIX + "\ud800", now=at(NOON)) == "mistyped"

    def test_the_last_use_is_written_once_a_minute(self, secret):
        used = []
        for seconds in (0, 1, USED_EVERY_S - 1, USED_EVERY_S, USED_EVERY_S + 1):
            token_use(secret, now=at(NOON + seconds * SECOND))
            used.append((ApiToken.objects.get().last_used_at - NOON) // SECOND)
        assert used == [0, 0, 0, USED_EVERY_S, USED_EVERY_S]

    def test_within_the_minute_nothing_is_written(self, secret):
        token_use(secret, now=at(NOON))
        with CaptureQueriesContext(connection) as asked:
            token_use(secret, now=at(NOON + SECOND))
        assert {query["sql"].split()[0] for query in asked.captured_queries} == {"SELECT"}

    def test_a_store_that_takes_no_writes_still_lets_in(self, secret, caplog):
        def refuse(execute, sql, params, many, context):
            if sql.startswith("UPDATE"):
                raise DatabaseError("read-only")
            return execute(sql, params, many, context)

        with connection.execute_wrapper(refuse):
            assert isinstance(token_use(secret, now=at(NOON)), TokenHolder)
        assert "token ci was not noted" in caplog.text

    def test_one_of_another_workspace_is_not_theirs_to_revoke(self, secret, stranger):
        with pytest.raises(Refused):
            token_revoke(actor=stranger, name="ci")
        assert tokens_list(stranger) == []

    def test_it_is_not_shown_where_it_might_be_logged(self, actor):
        made = token_create(actor=actor, name="shown")
        assert made.secret not in repr(made)

    def test_two_at_once_make_one_of_a_name(self, actor):
        both = threading.Barrier(2)
        made, refused = [], []

        def make():
            both.wait()
            try:
                made.append(token_create(actor=actor, name="race"))
            except Refused as error:
                refused.append(error.code)
            finally:
                connection.close()

        threads = [threading.Thread(target=make) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(made), refused) == (1, ["conflict"])
