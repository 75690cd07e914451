"""Numbers as logs write them: quoted, decimal commas, thousands separators, percent signs, durations."""

from __future__ import annotations

import math
import re

_PLAIN_GROUPS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_NUMPY = re.compile(r"(?:np|numpy|torch)\.\w+\((.*)\)|tensor\(([^,()]*).*\)")
_CLOCK = re.compile(r"(?:(\d+) days?,\s*)?(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_UNITS = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|ms|m|s)(?![a-z])")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_MISSING = frozenset({"", "-", "none", "null", "n/a", "na", "nil", "<na>"})


def shows_nothing(text: str) -> bool:
    """Whether a cell says that there is no value: empty, '-', 'none', 'n/a', ..."""
    return text.strip().strip("\"'").strip().lower() in _MISSING


def parse_number(text: str, decimal: str = ".") -> float | None:
    """The number that a cell shows, or None where it shows none (empty, text). 'nan' is NaN.

    `decimal` is the file's decimal mark: with ',' a dot is a thousands mark, with '.' a comma between
    groups of three is; a comma that can be no such mark ('0,5') is a decimal one. '45.3%' is 0.453. Digits
    grouped by spaces, apostrophes or underscores are joined.
    """
    try:
        if decimal == "." and "_" not in text:
            return float(text)
    except ValueError:
        pass
    cell = text.strip().strip("\"'").strip()
    if cell.lower() in _MISSING or len(cell) > 400:
        return None
    factor = 1.0
    if cell.endswith("%"):
        cell, factor = cell[:-1].strip(), 0.01
    if wrapped := _NUMPY.fullmatch(cell):
        cell = (wrapped[1] or wrapped[2] or "").strip()
    cell = re.sub(r"(?<=\d)[\s'’\u00a0\u202f_](?=\d{3}(?!\d))", "", cell)
    if decimal == ",":
        cell = cell.replace(".", "").replace(",", ".") if "," in cell else _dots_to_groups(cell)
    elif has_decimal_comma(cell):
        cell = cell.replace(".", "").replace(",", ".")
    elif _PLAIN_GROUPS.fullmatch(cell):
        cell = cell.replace(",", "")
    if "_" in cell:
        return None
    try:
        return float(cell) * factor if factor != 1.0 else float(cell)
    except ValueError:
        return None


def _dots_to_groups(cell: str) -> str:
    """In a file with decimal commas 1.234 is a thousand and more; 0.5 or 12.5 can only be a decimal point."""
    return cell.replace(".", "") if re.fullmatch(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", cell) else cell


def has_decimal_comma(cell: str) -> bool:
    """Whether a cell can only be read with a decimal comma: '0,53', '1.234,5', '3,14159'; not '1,234'."""
    cell = cell.strip().strip("\"'")
    if not re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})*,\d+|[+-]?\d+,\d+(e[+-]?\d+)?", cell, re.IGNORECASE):
        return False
    return _PLAIN_GROUPS.fullmatch(cell) is None or cell.lstrip("+-").startswith("0")


def parse_duration(text: str) -> float | None:
    """Seconds of '15m 49s', '1:02:03', '3 days, 17:51:32', '40.70s' or a bare number; None for other text."""
    if len(text) > 80:
        return None
    if (number := parse_number(text)) is not None:
        return number
    cell = text.strip()
    if match := _CLOCK.fullmatch(cell):
        days, hours, minutes, seconds = match.groups()
        return int(days or 0) * 86400.0 + int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds)
    parts = _UNITS.findall(cell)
    if parts and not _UNITS.sub("", cell).strip(" ,"):
        return math.fsum(float(value) * _SECONDS[unit] for value, unit in parts)
    return None
