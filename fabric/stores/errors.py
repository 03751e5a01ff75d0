"""Errors of a store, besides ``ports.StoreUnavailable``."""

from __future__ import annotations

from fabric.runtime.ports.journal import StoreUnavailable


class StoreBusy(StoreUnavailable):
    """Another process locked a row, or it took too long; nothing was written. A later call, or one for fewer runs,
    may succeed.
    """


class RowRefused(Exception):
    """The database works and refused these rows for their content. A repeated call will be refused again."""


class StartStopped(Exception):
    """New runs of the run's fabric, or of its workspace, are stopped. Nothing was written."""

    def __init__(self, workspace_id: str) -> None:
        super().__init__(f"new runs are stopped in workspace {workspace_id!r}")


class RunMissing(LookupError):
    """There is no run of that id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id!r}")


class IncarnationRetired(ValueError):
    """A worker registered under a retired name, or another process's. Take a new name for each start of the process."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the incarnation {name!r} was retired or is another process's: a worker takes a new name each time it starts"
        )
