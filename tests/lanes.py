"""Processes take files when the tests run side by side: half of them from the front, half from the back.

What takes long stands in front (see conftest) and mostly waits: for leases, clocks, servers, other processes. What stands behind needs
the processor. From one end alone, all would wait at first and then all would want the processor.

Files that share one running Fabric Flow and one browser go to one process: each other process would start both for itself.
"""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests import sets

SHARING = "tests/e2e/"
"""The folder whose files share one installation."""
OWN = frozenset(
    f"{SHARING}{name}.py"
    for name in (
        "drafts/test_beginning",
        "drafts/test_two_authors",
        "drills/test_drills",
        "overview/test_overview",
        "reviews/test_axe",
        "reviews/test_notify",
        "reviews/test_reviews",
        "reviews/test_two_people",
        "test_axe",
        "texts/test_payloads",
    )
)
"""Its files that have an installation of their own."""


class BothEnds(LoadFileScheduling):
    """Every second process takes the last file instead of the first; they meet where neither takes long."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        # All of them, in the nightly set, would take one process too long.
        together = file.startswith(SHARING) and file not in OWN and not sets.is_nightly()
        return SHARING if together else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
