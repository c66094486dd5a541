"""What `jatpo serve` plays: libraries that are solved once, episodes to watch, episodes by hand."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from jatpo.errors import JatpoError, unknown
from jatpo.evaluate.agents.catalogue import choose_agents
from jatpo.evaluate.player import Player
from jatpo.evaluate.solved import Solved, SolveOptions, load_solved
from jatpo.report import local_page
from jatpo.report.episode import play
from jatpo.report.hand_play import HandPlay

KEPT = 50  # games at once; the oldest goes


class LocalGames:
    """Episodes of the libraries `names`; others are refused, so that a page cannot name files."""

    def __init__(self, names: Sequence[str], rules: str, options: SolveOptions) -> None:
        self.names, self._rules, self._options = names, rules, options
        self._solved: dict[tuple[str, str], Solved] = {}
        self._games: dict[str, HandPlay] = {}

    def show(self, fields: Mapping[str, str]) -> str:
        """The page of an episode of an agent."""
        (agent,) = choose_agents([fields.get("agent", "atpo")])
        solved = self._prepared(fields.get("library", ""), agent.name)
        return local_page.watch(play(solved, agent, _whole("seed", fields.get("seed", "0"))))

    def new(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Begin an episode by hand."""
        solved = self._prepared(str(fields.get("library")), "atpo")
        (agent,) = choose_agents(["atpo"])
        seed = _whole("seed", fields.get("seed", 0))
        number = secrets.token_hex(8)
        self._games[number] = HandPlay(solved, Player(agent, solved.library, solved, seed=seed), seed)
        for oldest in list(self._games)[:-KEPT]:
            del self._games[oldest]
        return self._shown(number, fields)

    def act(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """One step of an episode by hand; without an action it is shown again."""
        number = str(fields.get("game"))
        if number not in self._games:
            raise JatpoError("this episode is not known any more: begin another one")
        action = fields.get("action")
        if action is not None:
            self._games[number].act(_whole("action", action))
        return self._shown(number, fields)

    def _shown(self, number: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"game": number, **self._games[number].shown(bool(fields.get("reveal")))}

    def _prepared(self, name: str, agent: str) -> Solved:
        if name not in self.names:
            raise unknown("library of this page", name, self.names)
        if (name, agent) not in self._solved:
            agents = choose_agents([agent])
            self._solved[name, agent] = load_solved(name, agents, self._rules, options=self._options)
        return self._solved[name, agent]


def _whole(what: str, value: Any) -> int:
    """A whole number of at least 0, from a form or a script."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise JatpoError(f"{what} must be a whole number of at least 0, got '{text[:40]}'")
    return int(text)
