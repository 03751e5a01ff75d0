"""What a store says when it does not do what it was asked, beside ``ports.StoreUnavailable``."""

from __future__ import annotations

from fabric.runtime.ports import StoreUnavailable


class StoreBusy(StoreUnavailable):
    """Somebody else held a row, or it took too long; nothing was written. The same call, later or for fewer runs, may do."""


class RowRefused(Exception):
    """The database is there and refused these rows for what they contain. The same call will be refused again."""


class RunMissing(LookupError):
    """There is no run of that id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id!r}")


class IncarnationRetired(ValueError):
    """A worker announced itself under a name that was retired, or that another process goes by. Take a new name for each start of the process."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the incarnation {name!r} was retired or is another process's: a worker takes a new name each time it starts"
        )
