"""Who takes which file when the tests run side by side: half of the processes from the front, half from the back.

What takes long stands in front (see conftest) and mostly waits: for leases, clocks, servers, other processes. What stands behind needs
the processor. From one end alone, all would wait at first and then all would want the processor.
"""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class BothEnds(LoadFileScheduling):
    """Every second process takes the last file instead of the first; they meet where neither takes long."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
