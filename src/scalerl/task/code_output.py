"""Compare what a program gave with what was expected: outside the sandbox, where no program can reach."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

# Python itself would also read 4_2, other scripts' digits, inf and nan.
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,6})?")
_TOLERANCE = 1e-6  # what judges of programming contests grant to non-integer results


def same_output(output: str, expected: str) -> bool:
    """Whether a program's output is right: line by line, blanks at line ends and empty lines at the end
    ignored.

    Where lines differ as text, their words may still agree as numbers: exactly, or, where the expected word
    is not an integer, to one in a million.
    """
    got, wanted = _lines(output), _lines(expected)
    return len(got) == len(wanted) and all(
        a == b or _same_words(a, b) for a, b in zip(got, wanted, strict=True)
    )


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.strip().split("\n")]
    return lines if lines != [""] else []


def _same_words(got: str, wanted: str) -> bool:
    first, second = got.split(), wanted.split()
    return len(first) == len(second) and all(
        a == b or _same_number(a, b) for a, b in zip(first, second, strict=True)
    )


def _same_number(got: str, wanted: str) -> bool:
    if not (_NUMBER.fullmatch(got) and _NUMBER.fullmatch(wanted)) or max(len(got), len(wanted)) > 400:
        return False
    a, b = Decimal(got), Decimal(wanted)
    is_integer = not any(mark in wanted for mark in ".eE")
    return a == b or (
        not is_integer and math.isclose(float(a), float(b), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    )


def same_result(output: str, expected: str, *, wrapped: bool = False) -> bool:
    """Whether a function's result (JSON) is the expected one (JSON); `wrapped`: that may be a list around
    it.
    """
    try:
        got, wanted = json.loads(output), json.loads(expected)
        return _same_value(got, wanted) or (
            wrapped and isinstance(wanted, list) and len(wanted) == 1 and _same_value(got, wanted[0])
        )
    except (ValueError, RecursionError, OverflowError):  # an integer may be too large for a float
        return False


def _same_value(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(got, bool):
        return got is wanted
    if isinstance(wanted, float) and isinstance(got, (int, float)):
        return math.isclose(got, wanted, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    if isinstance(wanted, list) and isinstance(got, list):
        return len(got) == len(wanted) and all(_same_value(a, b) for a, b in zip(got, wanted, strict=True))
    if isinstance(wanted, dict) and isinstance(got, dict):
        return got.keys() == wanted.keys() and all(_same_value(got[key], wanted[key]) for key in wanted)
    return bool(got == wanted)
