"""The list of benchmarks: the options of each, and the module that measures it.

    BENCHMARKS["core"].measure(CoreOptions(states=1000))

A benchmark's options are a frozen dataclass, of which `jatpo bench NAME` makes its command line. Its module has
`measure(options, on_event)`, which returns figures in JSON's types, and `tables(figures, options)`, which shows
them; `pictures(figures)` is optional. This module imports nothing heavy, so that listing benchmarks is quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

from jatpo.errors import JatpoError, unknown
from jatpo.events import OnEvent, ignore
from jatpo.tables import Table

FORMS = ("batch", "columns")


class Help(NamedTuple):
    """How the command line shows an option."""

    text: str
    minimum: int | None = None
    is_argument: bool = False


def option(default: Any, text: str, minimum: int | None = None) -> Any:
    """A field of a benchmark's options."""
    return field(default=default, metadata={"help": Help(text, minimum)})


def argument(text: str) -> Any:
    """A field with the names that a command line ends with; default: none."""
    return field(default=(), metadata={"help": Help(text, is_argument=True)})


class Measuring(Protocol):
    """What a benchmark's module has."""

    def measure(self, options: Any, on_event: OnEvent) -> Any: ...
    def tables(self, figures: Any, options: Any) -> Sequence[Table]: ...


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: the dataclass of its options and the module that measures it."""

    name: str
    options: type[Any]
    module: str

    @property
    def summary(self) -> str:
        """The first line of the options' docstring."""
        return (self.options.__doc__ or "").strip().split("\n")[0]

    def measure(self, options: Any = None, on_event: OnEvent = ignore) -> Any:
        """The figures, in JSON's types."""
        return self._code().measure(options or self.options(), on_event)

    def tables(self, figures: Any, options: Any = None) -> Sequence[Table]:
        """The figures as tables."""
        return self._code().tables(figures, options or self.options())

    def pictures(self, figures: Any) -> Mapping[str, bytes]:
        """Pictures of the figures by file name; most benchmarks have none."""
        draw = getattr(self._code(), "pictures", None)
        return draw(figures) if draw else {}

    def _code(self) -> Measuring:
        return cast(Measuring, import_module(self.module))


@dataclass(frozen=True)
class CoreOptions:
    """Build, check and filter a large random model in blocked storage."""

    states: int = option(100_000, "States of the random model.", 10)
    actions: int = option(5, "Actions of the random model.", 1)
    successors: int = option(5, "Successors of each state and action.", 1)
    beliefs: int = option(1000, "Number of beliefs to update.", 1)
    chunk: int = option(64, "Beliefs updated at once.", 1)
    form: str = option("columns", "Kernel: columns or batch (rows).")
    seed: int = option(0, "Seed of the model and the beliefs.")

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise unknown("form", self.form, FORMS)
        if self.successors > self.states:
            raise JatpoError(
                f"a state cannot have {self.successors} successors among {self.states} states: ask for fewer"
            )


@dataclass(frozen=True)
class DomainOptions:
    """Build every model of every domain's pool: seconds and bytes."""

    rules: str = option("as_run", "as_run or as_written.")


@dataclass(frozen=True)
class SolverOptions:
    """Time the solvers: Perseus with the paper's settings, the anytime solver, growth with models and states."""

    largest: int = option(50_000, "States of the largest synthetic model.", 500)
    anchors: bool = option(True, "Compare the anytime solver with SARSOP's figures as well.")


@dataclass(frozen=True)
class RolloutOptions:
    """Time rollouts and decisions of agents, next to a plain NumPy reference measured in the same run."""

    names: tuple[str, ...] = argument("Domains; default: all.")
    agents: str = option(
        "value_iteration,perseus,atpo,random_picker,bopa,random", "Agents by name, comma-separated."
    )
    trials: int = option(256, "Trials of each run.", 1)
    vectors: int = option(300, "Alpha vectors of each model (random numbers; nothing is solved).", 1)


@dataclass(frozen=True)
class GradientOptions:
    """Time the log-likelihood of a batch of histories and its gradients, and their memory.

    The ratio is that of the gradient to the filter of the same model; times are processor time.
    """

    names: tuple[str, ...] = argument("Domains; default: gridworld and isr.")
    histories: int = option(256, "Histories in the batch.", 1)
    steps: int = option(75, "Length of each history.", 1)
    repeats: int = option(5, "Runs, of which the fastest counts.", 1)


@dataclass(frozen=True)
class ScaleOptions:
    """Cost against states, models and devices, with a plot on logarithmic axes.

    Processor time of building, of first bounds and of rounds of the sparse solver on random models of 1,000 states to
    the largest, whose beliefs stay local; of ATPO in 1 to 32 models; seconds of ATPO on 1 device to one for each core.
    """

    states: int = option(100_000, "States of the largest model.", 1000)
    trials: int = option(256, "Trials of each rollout.", 1)


@dataclass(frozen=True)
class KernelOptions:
    """Operations and bytes of the dominating kernels, the share of this machine's peak, and the limit on a GPU.

    The limits on GPUs are predictions from their data sheets. Times are processor time.
    """

    size: int = option(32, "Columns and rows of the gridworld whose filter is measured.", 12)
    repeats: int = option(5, "Runs, of which the fastest counts.", 1)


BENCHMARKS: Mapping[str, Benchmark] = {
    each.name: each
    for each in (
        Benchmark("core", CoreOptions, "jatpo.bench.core_updates"),
        Benchmark("domains", DomainOptions, "jatpo.bench.domain_times"),
        Benchmark("solve", SolverOptions, "jatpo.bench.solver_comparison"),
        Benchmark("evaluate", RolloutOptions, "jatpo.bench.rollout_times"),
        Benchmark("scale", ScaleOptions, "jatpo.bench.scale_times"),
        Benchmark("kernels", KernelOptions, "jatpo.bench.kernel_costs"),
        Benchmark("learn", GradientOptions, "jatpo.bench.gradient_times"),
    )
}
