"""Compare recipes: the ceiling first, then, at a common ceiling, efficiency; and who is best at which
budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scalerl.curve.budget import best_at, crossovers
from scalerl.curve.common_ceiling import efficiency
from scalerl.curve.comparison import Ceiling, Comparison, Recipe, Verdict
from scalerl.curve.fit import Fit, as_series, fit
from scalerl.curve.joint import estimate_and_error
from scalerl.curve.series import Series
from scalerl.curve.spread import Spread, holm, pooled_spread
from scalerl.errors import UserError

MARGIN = 0.02  # the source's error margin of A (A.5)
DEVICE_TIME = {"device_hours", "seconds"}  # axes whose unit depends on the kind of device


def compare(
    runs: Mapping[str, Any],
    margin: float | str = "auto",
    *,
    budgets: Sequence[float] | None = None,
    force: bool = False,
    seed: int = 0,
    set: str | None = None,
    axis: str | None = None,
    **fit_options: Any,
) -> Comparison:
    """Compare two or more recipes, each given as one run or a list of runs (seeds): Run, Series or Fit.

    margin: in A, 'auto' is the source's 0.02. budgets: computes at which the chance of being best is asked
    (default: half, one and four times the last evaluation). force: compare although held-out sets, compute
    axes or, where compute is device time, the kinds of device differ. The rule is spread.py's; UserError for
    fewer than two recipes, or for runs that can't be compared.
    """
    limit = MARGIN if isinstance(margin, str) else float(margin)
    if isinstance(margin, str) and margin != "auto":
        raise UserError(f"margin {margin!r}: give a number or 'auto'")
    if len(runs) < 2:
        raise UserError("compare: give at least two recipes")
    recipes = [_recipe(name, value, set, axis, fit_options) for name, value in runs.items()]
    _comparable([one.series for recipe in recipes for one in recipe.fits], force)
    spread = pooled_spread([[one.A for one in recipe.fits] for recipe in recipes])
    ceilings = _ceilings(recipes, spread, limit)
    efficiencies = tuple(
        efficiency(recipes[c.first], recipes[c.second]) for c in ceilings if c.verdict != "different"
    )
    rng = np.random.default_rng(seed)
    at = tuple(float(b) for b in budgets) if budgets else _default_budgets(recipes)
    draws = [recipe.draws(spread.sd, rng) for recipe in recipes]
    return Comparison(
        recipes=tuple(recipes),
        margin=limit,
        spread=spread,
        ceilings=ceilings,
        efficiencies=efficiencies,
        best=best_at(recipes, draws, at),
        crossovers=crossovers(recipes, draws),
    )


def _recipe(name: str, value: Any, set: str | None, axis: str | None, options: dict[str, Any]) -> Recipe:
    members = list(value) if isinstance(value, list | tuple) else [value]
    if not members:
        raise UserError(f"compare: recipe {name} has no run")
    fits = tuple(
        one if isinstance(one, Fit) else fit(as_series(one, set=set, axis=axis), **options) for one in members
    )
    for one in fits:
        if not one.fitted:
            raise UserError(f"compare: {name}, run {one.series.name}, has no fit: {one.why}")
    return Recipe(name, fits)


def _comparable(series: list[Series], force: bool) -> None:
    """UserError where the runs differ in what makes a pass rate or a unit of compute the same."""
    if force:
        return
    axes = {s.axis for s in series}
    if len(axes) > 1:
        raise UserError(
            f"compare: compute is on different axes ({', '.join(sorted(axes))}); choose one with "
            "--axis, or use --force to compare nevertheless"
        )
    sets = _first_with_each((s.held_out_hash, s.name) for s in series)
    if len(sets) > 1:
        named = ", ".join(f"{name}: {value[:12]}" for value, name in sets.items())
        raise UserError(
            f"compare: the runs were evaluated on different held-out sets ({named}); "
            "use --force to compare nevertheless"
        )
    kinds = _first_with_each((s.device_kind, s.name) for s in series)
    if axes <= DEVICE_TIME and len(kinds) > 1:
        named = ", ".join(f"{kind} ({name})" for kind, name in kinds.items())
        raise UserError(
            f"compare: device time of different kinds isn't one unit: {named}; choose an axis that is one "
            "(--axis flops), or use --force to compare nevertheless"
        )


def _first_with_each(pairs: Iterable[tuple[str | None, str]]) -> dict[str, str]:
    """Of pairs (value, name): the first name with each known value."""
    firsts: dict[str, str] = {}
    for value, name in pairs:
        if value is not None:
            firsts.setdefault(value, name)
    return firsts


def _errors(recipe: Recipe) -> list[float]:
    return [estimate_and_error(one, "A")[1] for one in recipe.fits]


def pair_verdict(difference: float, error: float, spread: Spread, margin: float, p_value: float) -> Verdict:
    """Different: beyond the margin and significant (p, already adjusted). Equivalent: 90% interval inside
    the margin."""
    if abs(difference) > margin and p_value < 0.05:
        return "different"
    return "equivalent" if abs(difference) + spread.quantile(0.95) * error < margin else "undecided"


def _ceilings(recipes: Sequence[Recipe], spread: Spread, margin: float) -> tuple[Ceiling, ...]:
    """Every pair's dA, interval and verdict; Holm's step-down over the pairs for 'different'."""
    pairs = [(i, j) for i in range(len(recipes)) for j in range(i + 1, len(recipes))]
    rows = []
    for i, j in pairs:
        a, b = recipes[i], recipes[j]
        difference = a.mean("A") - b.mean("A")
        error = spread.error_of_difference(_errors(a), _errors(b))
        rows.append((i, j, difference, error, spread.p_value(difference, error)))
    adjusted = holm([row[-1] for row in rows])
    out = []
    for (i, j, difference, error, _), p in zip(rows, adjusted, strict=True):
        half95 = spread.quantile(0.975) * error
        verdict = pair_verdict(difference, error, spread, margin, p)
        out.append(Ceiling(i, j, difference, difference - half95, difference + half95, p, verdict))
    return tuple(out)


def _default_budgets(recipes: Sequence[Recipe]) -> tuple[float, ...]:
    last = max(float(one.series.compute[-1]) for recipe in recipes for one in recipe.fits)
    return (last / 2, last, 4 * last)
