"""Words that a shell offers: verbs, options, values, and names and ids of this installation."""

import pytest

from fabric.models import Review
from tests.fabric.management.console import command
from tests.fabric.services.world import actor, doubtful, ran, small, store

__all__ = ["actor", "doubtful", "small", "store"]


def offered(*words: str) -> list[str]:
    done = command("complete_words", "fabricflow", *words)
    assert (done.code, done.err) == (0, "")
    return done.out.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("run", "re"), ["resume", "retry"]),
        (("review", "cl"), ["claim", "close"]),
        (("run", "list", "--l"), ["--limit"]),
        (("run", "start", "x", "--tier", "b"), ["batch"]),
        (("review", "list", "--tab", "fol"), ["follow_ups"]),
        (("drill", "stop", ""), ["pull", "release", "show"]),
        (("run", "start", "x", "y"), []),
        (("nothing", ""), []),
        (("run", "nothing", ""), []),
        (("member", "remove", ""), []),
    ],
)
def test_words_of_the_parsers_are_offered(actor, words, found):
    assert offered(*words) == found


def test_fabrics_recent_runs_and_open_reviews_are_offered(actor, small, doubtful):
    assert offered("run", "start", "") == sorted([doubtful, small])
    assert offered("fabric", "show", small[:3]) == [small]
    run = ran(actor, small)
    command("run", "start", doubtful, "--input", "Well?")
    assert run.id[-12:] in offered("run", "show", "")
    review = Review.objects.get().id
    for verb in ("show", "decide", "claim"):
        assert offered("review", verb, "") == [review]
    assert offered("review", "decide", review, "") == []
