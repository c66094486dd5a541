"""`jatpo experiment beyond`: other rules and the Bayes-optimal agent next to ATPO, and whether they hold up."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from jatpo.cli.evaluate import (
    BY_NAME,
    Json,
    Preset,
    Quiet,
    Seconds,
    Seed,
    Solutions,
    Trials,
    check_rules,
    chosen_sources,
    names_of,
    open_store,
    session,
    solve_options,
    solver_settings,
    tell,
    working,
)
from jatpo.cli.output import print_json, print_table

BOTH = "both"
KEYS = {
    "beyond": ("rules", "domain", "agent"),
    "certificates": ("rules", "domain"),
    "stress": ("rules", "domain", "scenario", "agent"),
    "sizes": ("rules", "domain", "size", "agent"),
}
SHOWN = {
    "beyond": (
        "rules",
        "domain",
        "agent",
        "mean",
        "gap",
        "won",
        "won_low",
        "won_high",
        "discounted",
        "upper",
    ),
    "stress": ("rules", "domain", "scenario", "agent", "mean", "gap", "minus_atpo", "minus_atpo_low"),
    "sizes": ("rules", "domain", "size", "agent", "mean", "gap", "minus_atpo", "minus_atpo_low"),
}
SHOWN["beyond"] = (*SHOWN["beyond"], "median_steps_sure", "decision_us", "solve_s")
SHOWN["stress"] = (*SHOWN["stress"], "minus_atpo_high")
SHOWN["sizes"] = (*SHOWN["sizes"], "minus_atpo_high")
POOL = "gridworld"


def beyond(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Domains, files or libraries; all domains without it."),
    ] = None,
    trials: Trials = 4096,
    rules: Annotated[str, typer.Option(help="as_run, as_written, or both.")] = "as_run",
    agents: Annotated[
        str | None, typer.Option(help=f"{BY_NAME}; informed Perseus, ATPO and all rules without it.")
    ] = None,
    stress: Annotated[
        bool, typer.Option("--stress", help="With a wrong library instead, and with libraries of all sizes.")
    ] = False,
    factors: Annotated[
        str, typer.Option(help="With --stress: the world's noise as multiples of the assumed one.")
    ] = "0,2",
    sizes: Annotated[
        str, typer.Option(help="With --stress: sizes of gridworld's library, as in 2,4,8; 0: none.")
    ] = "2,4,8,16,32",
    seed: Seed = 0,
    preset: Preset = "exact",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Annotated[
        Path, typer.Option(help="Directory for results; the same command goes on with them.")
    ] = Path("results/beyond"),
    markdown: Annotated[
        Path | None, typer.Option(help="Put the tables between their markers in a Markdown page.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Other rules and the Bayes-optimal agent next to ATPO: who wins how much of the price of not knowing back.

    Solves what is missing. All agents meet the same trials, so differences are paired; the certified upper bound is
    that of the joint problem.
    """
    from jatpo.cli.experiment import parse_numbers, parse_sizes

    sets = ("as_run", "as_written") if rules == BOTH else (rules,)
    for each in sets:
        check_rules(each)
    chosen = chosen_sources(names or ["all"])
    multiples, wanted = parse_numbers(factors), [] if sizes == "0" else parse_sizes(sizes)
    run = _Run(names_of(agents), trials, seed, preset, seconds, solutions, out, quiet)
    for each in sets:
        for name in chosen:
            if stress:
                run.stress(name, each, multiples)
            else:
                run.compare(name, each)
        if stress and wanted and POOL in chosen:
            run.sizes(each, wanted)
    if markdown:
        from jatpo.report.beyond_tables import write_tables

        write_tables(markdown, run.tables)
    run.show(("stress", "sizes") if stress else ("beyond",), json)


class _Run:
    """One run of the experiment in its directory."""

    def __init__(
        self,
        agents: Sequence[str] | None,
        trials: int,
        seed: int,
        preset: str,
        seconds: float | None,
        solutions: Path | None,
        out: Path,
        quiet: bool,
    ) -> None:
        from jatpo.evaluate.beyond import AGENTS
        from jatpo.evaluate.prepare import choose_agents

        self.agents = choose_agents(agents or AGENTS, preset)
        settings = {"seed": seed, "preset": preset, **solver_settings(seconds)}
        self.store = open_store(out, "beyond", settings)
        self.tables: dict[str, list[dict[str, Any]]] = {name: self._earlier(name) for name in KEYS}
        self._trials, self._seed, self._quiet = trials, seed, quiet
        self._seconds, self._solutions = seconds, solutions

    def _earlier(self, table: str) -> list[dict[str, Any]]:
        path = self.store.directory / f"{table}.json"
        return json_module.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def compare(self, name: str, rules: str) -> None:
        """The table of one domain, and its certificate where the Bayes-optimal agent is among the agents."""
        from jatpo.evaluate import beyond

        prepared, proof = self._prepare(name, rules)
        with session(f"{rules} {name}", self._seed, self.store, self._quiet) as running:
            rows = beyond.beyond(prepared, self.agents, self._trials, running, proof)
        self._add("beyond", rows)
        if proof is not None:
            self._add("certificates", [beyond.certificate_row(prepared, proof, rows)])

    def stress(self, name: str, rules: str, factors: Sequence[float]) -> None:
        """One domain with a wrong library."""
        from jatpo.evaluate.stress import stress

        prepared, _ = self._prepare(name, rules)
        with session(f"{rules} {name}, wrong libraries", self._seed, self.store, self._quiet) as running:
            self._add("stress", stress(prepared, self.agents, self._trials, running, factors))

    def sizes(self, rules: str, wanted: Sequence[int]) -> None:
        """Libraries of all sizes."""
        from jatpo.evaluate.stress import sizes

        prepared, _ = self._prepare(POOL, rules, pool=True)
        with session(f"{rules} {POOL}, library sizes", self._seed, self.store, self._quiet) as running:
            self._add("sizes", sizes(prepared, self.agents, wanted, self._trials, running))

    def _prepare(self, name: str, rules: str, pool: bool = False) -> tuple[Any, Any]:
        """A library made ready, and the certificate of its joint problem."""
        from jatpo.evaluate.beyond import certificate
        from jatpo.evaluate.prepare import prepare

        with working(f"solving {rules} {name}", self._quiet) as progress:
            options = solve_options(self._seconds, self._solutions, progress)
            prepared = prepare(name, self.agents, rules, options, pool=pool)
            joint = any(agent.name == "bayes" for agent in self.agents)
            proof = certificate(name, rules, options, pool=pool) if joint else None
        tell(prepared.notes)
        return prepared, proof

    def _add(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Put rows into a table, in the place of those that they replace, and write it."""
        from jatpo.evaluate.beyond import merge

        self.tables[table] = merge(self.tables[table], rows, KEYS[table])
        self.store.write_table(table, self.tables[table])

    def show(self, names: Sequence[str], json: bool) -> None:
        """Print the tables."""
        if json:
            print_json(
                self.tables[names[0]] if len(names) == 1 else {name: self.tables[name] for name in names}
            )
            return
        for name in names:
            columns, rows = SHOWN[name], self.tables[name]
            if rows:
                shown = [column.replace("_", " ") for column in columns]
                print_table(shown, [[row.get(column) for column in columns] for row in rows])
                print()
        print(f"results are in {self.store.directory}")
