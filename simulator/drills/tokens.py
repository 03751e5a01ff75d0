"""Retry tokens as a judge counts them (semantics.md 4 "retry budget"): a bucket of the run's, and one of each provider's endpoint. In thousandths."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.core.policy import Retry

TOKEN = 1_000
OF_A_PROVIDER = 10
"""Tokens that fit into the bucket of a provider, whatever a fabric says."""
OWN, OF_THE_FABRIC = "", "*"


@dataclass(slots=True)
class Tokens:
    """The buckets that a run takes from: its own, its fabric's and those of endpoints, of which nobody else takes.

    They are full before the run's first retry, so that it never takes one on credit: that is for a run that has not retried in its stage.
    """

    policy: Retry
    levels: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    """In the stage in which the call fails."""

    def issued(self) -> None:
        """A first attempt is meant to go out: it earns in the run's own bucket."""
        self._earn(OWN)

    def sent(self, endpoint: str) -> None:
        """It went out: it earns where others take from too. ``endpoint`` empty: a tool's."""
        self._earn(OF_THE_FABRIC)
        if endpoint:
            self._earn(endpoint)

    def there(self, endpoint: str) -> bool:
        """Whether each bucket gives one, and the stage has not retried as often as it may."""
        most = self.policy.stage_retries
        if most is not None and self.retries >= most:
            return False
        return all(self._level(bucket) >= TOKEN for bucket in self._asked(endpoint))

    def take(self, endpoint: str) -> None:
        """Takes one of each."""
        self.retries += 1
        for bucket in self._asked(endpoint):
            self.levels[bucket] = self._level(bucket) - TOKEN

    def _asked(self, endpoint: str) -> tuple[str, ...]:
        return (OWN, OF_THE_FABRIC, endpoint) if self.policy.shared else (OWN,)

    def _earn(self, bucket: str) -> None:
        self.levels[bucket] = min(self._size(bucket), self._level(bucket) + round(self.policy.earn * TOKEN))

    def _size(self, bucket: str) -> int:
        return TOKEN * (self.policy.bucket if bucket in (OWN, OF_THE_FABRIC) else OF_A_PROVIDER)

    def _level(self, bucket: str) -> int:
        return self.levels.get(bucket, self._size(bucket))
