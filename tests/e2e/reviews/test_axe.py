"""No page of reviews has a serious or critical accessibility finding: light and dark, wide and narrow, the queue empty, full and narrowed, and a
review of each kind, edited, refused, taken back, decided and conflicting."""

from __future__ import annotations

import pytest

from tests import sets
from tests.e2e.accessibility import WIDE, at_one_size, axe
from tests.e2e.conftest import NOWHERE
from tests.e2e.installation import installed
from tests.e2e.reviews.review_scenes import EMPTY, filled, scenes

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """Nothing else waits there."""
    with installed(tmp_path_factory.mktemp("data")) as found:
        yield found


def found(page, shown):
    """Findings by scene."""
    page.add_init_script(axe())
    grave = {}
    for n, scene in enumerate(sets.sample(shown, sets.PAGES, f"{len(shown)} scenes")):
        page.set_viewport_size(WIDE)
        page.goto(scene.address)
        page.wait_for_load_state("load")
        scene.act(page)
        grave[scene.name] = at_one_size(page, n)
    return {name: what for name, what in grave.items() if what}


def test_the_queue_and_its_reviews(visit, installation):
    page = visit(NOWHERE).page
    assert found(page, EMPTY) == {}
    ids = filled(installation, page)
    assert found(page, scenes(installation, ids)) == {}
