"""A fabric with breakers, and rows of theirs as calls leave them: through the store itself."""

from fabric.composition import engine as wiring
from fabric.core.breaker.signals import RETRY_AT
from fabric.core.breaker.table import BreakerState, Standing, encode_standing
from fabric.models import Fabric
from fabric.runtime.ports.spending import SignalCount
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import SMALL

BREAKERS = """
  breakers:
    - {preset: endpoint, cooldown_s: 60}
    - {preset: semantic}
    - {scope: tool, signals: [{names: [timeout], mode: rate, threshold: 0.5}], cooldown_s: 30}
"""


def guarded(actor, breakers=BREAKERS):
    """The small fabric with breakers: its id."""
    fabric_publish(actor=actor, source=SMALL.replace("1000000}\n", "1000000}" + breakers, 1))
    return Fabric.objects.get(name="small", workspace_id=actor.workspace_id).id


def change(one, *standings: Standing):
    """Moves a breaker as its calls do."""
    for number, standing in enumerate(standings):
        assert wiring.guards().change(
            one.scope, one.kind, generation=one.generation + number, state=encode_standing(standing)
        )


def tell(one, **counts):
    """Counts signals of a breaker, by their place: ``s0`` the first one's, ``all0`` all calls of its rate."""
    told = []
    for name, n in counts.items():
        signal = one.signals[int(name[-1])].signal
        key = signal.key + (":all" if name.startswith("all") else "")
        windowed = signal.mode in ("window", "rate")
        told.append(
            SignalCount(scope=one.scope, kind=one.kind, generation=one.generation, signal=key, n=n, windowed=windowed)
        )
    wiring.guards().tell(told)


def tell_to_wait(one, seconds):
    """Its endpoint wants to be left alone for so long."""
    named = {"generation": one.generation, "signal": RETRY_AT, "until": True}
    wiring.guards().tell([SignalCount(scope=one.scope, kind=one.kind, n=round(seconds * 1_000_000), **named)])


TRIPPED = Standing(state=BreakerState.OPEN, trips=1, signal="timeout", failures=5, threshold=5.0)
STOPPED = Standing(state=BreakerState.STOPPED, trips=3, signal="timeout", failures=5, threshold=5.0)
HALF_OPEN = Standing(state=BreakerState.HALF_OPEN, trips=1, signal="timeout", failures=5, threshold=5.0)
