"""What the intervals and verdicts must hold, scenario by scenario, and which scenarios miss it."""

from __future__ import annotations

from collections.abc import Sequence

from scalerl.curve.coverage import Coverage

LEAST = 0.87  # of the 90% intervals of A and R(100k), in every scenario
MOST_WHITE, MOST_ESTIMATED = 0.93, 0.97  # noise model given; correlation estimated
MOST_YES_BUT_WRONG = 0.05
LEAST_YES, INSIDE = 0.95, 8.0  # 'yes' where the window ends at 8 C_mid or later, R0 known, white noise 0.003


def must_say_yes(seen: Coverage) -> bool:
    """Whether C_mid lies well inside the window and the noise is small: then the verdict has to be 'yes'."""
    scenario = seen.scenario
    inside = scenario.window_end >= INSIDE * scenario.law.C_mid
    return inside and scenario.r0_known and scenario.noise == "white 0.003"


def identified(seen: Coverage) -> bool:
    """Whether the ceiling is in the data: more than half of the scenario's curves are called 'yes'."""
    return seen.says_yes > 0.5


def misses(seen: Coverage) -> list[str]:
    """The limits that a scenario misses, each in a few words; empty where it holds them all."""
    most = MOST_WHITE if seen.scenario.noise_given else MOST_ESTIMATED
    out = []
    for name, share in (("A", seen.covers_A), ("R(100k)", seen.covers_R)):
        if share < LEAST:
            out.append(f"{name} {share:.3f} < {LEAST}")
        if share > most and identified(seen):
            out.append(f"{name} {share:.3f} > {most}")
    if seen.yes_but_wrong > MOST_YES_BUT_WRONG:
        out.append(f"'yes' and wrong {seen.yes_but_wrong:.3f} > {MOST_YES_BUT_WRONG}")
    if must_say_yes(seen) and seen.says_yes < LEAST_YES:
        out.append(f"'yes' {seen.says_yes:.3f} < {LEAST_YES}")
    return out


def summary(seen: Sequence[Coverage]) -> list[dict[str, float | int | str]]:
    """One row for each pair of R0 (known or free) and noise: least, mean and most coverage of A and R(100k)
    over its scenarios (most: where the ceiling is identified), most 'yes' and wrong, least 'yes' where due,
    scenarios that miss a limit."""
    groups: dict[tuple[bool, str], list[Coverage]] = {}
    for one in seen:
        groups.setdefault((one.scenario.r0_known, one.scenario.noise), []).append(one)
    return [_row(known, noise, members) for (known, noise), members in groups.items()]


def _row(known: bool, noise: str, members: Sequence[Coverage]) -> dict[str, float | int | str]:
    clear = [one for one in members if identified(one)]
    row: dict[str, float | int | str] = {
        "R0": "known" if known else "free",
        "noise": noise,
        "scenarios": len(members),
    }
    for name in ("A", "R"):
        shares = [getattr(one, f"covers_{name}") for one in members]
        row[f"{name}_least"], row[f"{name}_mean"] = min(shares), sum(shares) / len(shares)
        row[f"{name}_most"] = max((getattr(one, f"covers_{name}") for one in clear), default=float("nan"))
    row["yes_wrong"] = max(one.yes_but_wrong for one in members)
    row["yes_due"] = min((one.says_yes for one in members if must_say_yes(one)), default=float("nan"))
    row["missed"] = sum(bool(misses(one)) for one in members)
    return row
