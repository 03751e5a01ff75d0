"""Names that would be taken for another one, or for the system itself, are refused with a sentence."""

import pytest

from fabric.core.people.names import RESERVED, alike, name_problem
from fabric.core.people.roles import Role


@pytest.mark.parametrize("name", ["ana", "rosa.lindqvist", "böse", "Мария", "ευα", "田中さん", "עדן", "ci-2"])
def test_what_people_are_called(name):
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("system", "means something else"),
        ("Command_Line", "means something else"),
        ("command-line", "means something else"),
        ("0wner", "means something else"),
        ("alone", "means something else"),
        ("оwner", "mixes Cyrillic and Latin"),
        ("αna", "mixes Greek and Latin"),
        ("ｏｗｎｅｒ", "plain letters"),
        ("ana٣", "digits of a name are 0 to 9"),
    ],
)
def test_what_would_be_taken_for_another_is_refused(name, said):
    assert said in name_problem(name)


def test_every_role_and_every_word_of_the_journals_is_reserved():
    assert set(Role) | {"system", "command_line", "decides", "alone"} <= RESERVED
    assert all(name_problem(word) for word in RESERVED)


@pytest.mark.parametrize(("one", "other"), [("Ana", "ana"), ("сос", "coc"), ("bob0", "bobo"), ("роса", "РОСА")])
def test_names_that_look_alike_are_one(one, other):
    assert alike(one) == alike(other)
    assert alike(one) != alike("eva")
