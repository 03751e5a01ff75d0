"""A large fan-out on real workers, one of a child's and the parent's own killed: by hand with other figures: `manage.py dev chaos fanout`."""

import pytest

from tests.chaos import fanout

BRIEFS = 200
DATABASES = [pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.redis])]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("db", DATABASES)
def test_what_a_fan_out_comes_to_is_the_same_after_any_death(db):
    found = fanout.run(db, BRIEFS)
    print(f"\n{db}: {found}")
    assert found.faults() == []
    assert found.killed == 2
    assert found.children == 8  # 200 briefs are 4 slices, in each of the two runs.
    assert found.states == {"completed": 10}
