"""Plays a scenario: it chooses the requests to answer, refuses some, and answers in the protocol that is spoken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from simulator.endpoint import protocols, steps
from simulator.endpoint.misbehaviour import healthy
from simulator.endpoint.protocols.protocol import Asked, Protocol, Unreadable
from simulator.endpoint.protocols.responses import items_of
from simulator.endpoint.rendering import refused, rendered
from simulator.endpoint.scenario import Refusal, Scenario
from simulator.endpoint.server import Received
from simulator.endpoint.steps import Step
from simulator.endpoint.turns import Turn

NONSENSE = (TypeError, AttributeError, KeyError, ValueError)
"""The errors that a body raises whose types are not its protocol's."""
UNKNOWN_FORM = Refusal(400, "the request's body has a form that this protocol does not know")


class Playing:
    """Counts requests for answers. The arguments go over what the scenario says; None leaves it."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        after: int | None = None,
        times: int | None = None,
        delay_s: float | None = None,
        seed: int = 1,
    ) -> None:
        self._scenario, self._seed, self._count = scenario, seed, 0
        self._spoken: Counter[str] = Counter()
        self._stored: dict[str, list[Any]] = {}
        self.after = scenario.after if after is None else after
        self.times = scenario.times if times is None else times
        self.delay_s = scenario.delay_s if delay_s is None else delay_s
        self.struck = False
        """True: the scenario answered the request before, and not a healthy model."""

    def reply(self, received: Received) -> Step:
        """Returns the answer to the next request."""
        self.struck = False
        if received.method == "GET" and (models := protocols.models(received)) is not None:
            return models
        protocol = protocols.spoken(received.path)
        if protocol is None:
            return steps.refusal(404, f"nothing is served at {protocols.bare(received.path)}; ask {protocols.SERVED}")
        if not isinstance(received.body, dict):
            return refused(Refusal(400, "the body is no JSON object"), protocol)
        asked = Asked(self._count + 1, received.body, received.path, self._stored)
        try:
            read = protocol.read(asked)
        except Unreadable as unreadable:
            return refused(unreadable.refusal, protocol)
        except NONSENSE:
            return refused(UNKNOWN_FORM, protocol)
        self._count += 1
        past = self._count > self.after
        self.struck = past and (self.times is None or self._count <= self.after + self.times)
        turn = Turn(replace(received, body=read, path=protocols.COMPLETIONS), self._seed, protocol.name, self._count)
        if not self.struck or protocol.name not in self._scenario.protocols:
            return rendered(healthy(turn), protocol, asked)
        step = self._struck(turn, protocol, asked)
        return replace(step, delay_s=self.delay_s) if self.delay_s else step

    def _struck(self, turn: Turn, protocol: Protocol, asked: Asked) -> Step:
        scenario, agent = self._scenario, turn.received.agent
        judged = {**asked.body, "input": items_of(asked)} if protocol.name == "responses" else asked.body
        for rule in scenario.rules:
            try:
                found = rule(protocol.name, judged)
            except NONSENSE:
                found = UNKNOWN_FORM
            if found is not None:
                return refused(found, protocol)
        self._spoken[agent] += 1
        if scenario.spoken is not None and self._spoken[agent] > scenario.spoken:
            return rendered(healthy(turn), protocol, asked)
        return rendered(scenario.say(turn), protocol, asked, scenario.form)
