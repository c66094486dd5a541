"""Solvers with their stops, as tests write them: one bundle of options, and a call that solves in memory."""

from dataclasses import fields, replace

from jatpo.events import Event, ignore
from jatpo.solve import Choice, Solution, Stop, solve_models


def chosen(kind, **options) -> Choice:
    """A solver and a stop; limits belong to the stop, all else to the solver."""
    return changed(Choice(kind(), Stop()), **options)


def changed(choice: Choice, **options) -> Choice:
    """`choice` with other options."""
    limits = {each.name for each in fields(Stop)}
    stop = {name: value for name, value in options.items() if name in limits}
    rest = {name: value for name, value in options.items() if name not in limits}
    return Choice(replace(choice.solver, **rest), replace(choice.stop, **stop))


def in_class(choice: Choice, **class_variables) -> Choice:
    """`choice` with a solver whose class has other class variables, as a subclass of one's own would."""
    kind = type(choice.solver)
    return choice._replace(solver=type(kind.__name__, (kind,), class_variables)(**vars(choice.solver)))


def solve(models, choice: Choice, key, reports: list[dict] | None = None, **options) -> list[Solution]:
    """Solve `models`; `reports` collects the figures of all steps, with the label of the model."""

    def collect(event: Event) -> None:
        if reports is not None and not event.note:
            reports.append({"label": event.title, **event.figures})

    options.setdefault("on_event", collect if reports is not None else ignore)
    return solve_models(models, *choice, key=key, **options)


def states_of(problem, choice: Choice, key) -> list:
    """All states that a solve passes through, the first one first, and the last report."""
    solver, stop = choice
    states, status, info = [solver.init(problem, key)], None, None
    while status is None:
        state, info = solver.step(problem, key, states[-1])
        states.append(state)
        status = info.status or stop.reached(info, 0.0)
    return states
