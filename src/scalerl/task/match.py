r"""A quick matcher of final answers: exact after normalisation, or equal as rational numbers.

It decides the bulk (integers, decimals, fractions, percents, identical LaTeX) in microseconds, and says
None for the rest, which goes to math-verify. It never evaluates a power, so no answer can make it compute
for long.
"""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST_ANSWER = 2_000  # characters; no reference answer comes near, and a longer one is not a final answer
_LONGEST_NUMBER = 300

_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|bigl|bigr|Bigl|Bigr|big|Big|quad|qquad|limits)(?![a-zA-Z])"
    r"|\\[!,;: ]|[$~]|\\\(|\\\)|\\\[|\\\]"
)
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textit|operatorname|mbox|textrm|rm)\s*\{([^{}]*)\}")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\degree|°")
_FRACTIONS = re.compile(r"\\[dtc]frac")
_SHORT_FRACTION = re.compile(r"\\frac\s*(?:\{([^{}]+)\}|(\w))\s*(?:\{([^{}]+)\}|(\w))")
_SQRT = re.compile(r"\\sqrt\s*(\w)")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))")
_THOUSANDS_NUMBER = re.compile(r"-?\d{1,3}(?:(?:,|\{,\})\d{3})+(?:\.\d+)?")
_SPACED_THOUSANDS = re.compile(r"-?\d{1,3}(?: \d{3})+")
_EQUALS = re.compile(r"^\s*(?:\\?[a-zA-Z](?:_\{?\w+\}?)?|[a-zA-Z]\([a-zA-Z]\))\s*=\s*(?=[^=])")
_NAMED = re.compile(r"([a-zA-Z])(?:_\w+)?=(?!=)")
_RELATION_OR_CHOICE = re.compile(
    r"[<>≤≥≠]|\\(?:ne|neq|lt|gt|le|leq|ge|geq|lor|vee|pm|mp)(?![a-zA-Z])|(?<![a-zA-Z])(?:or|maybe)(?![a-zA-Z])",
    re.IGNORECASE,
)
_WORDS_EQUAL = re.compile(r"^\s*\\text\s*\{[a-zA-Z ]{1,40}\}\s*=(?!=)")
_UNITS = (
    r"(?:square|cubic|sq|cu)?\.?\s*(?:units?|centimeters?|meters?|kilometers?|millimeters?|inches|inch|feet|foot|ft|miles?|yards?|"
    r"cm|mm|km|m|in|kg|g|grams?|kilograms?|pounds?|lbs?|ounces?|oz|liters?|litres?|ml|gallons?|seconds?|secs?|s|minutes?|mins?|"
    r"hours?|hrs?|days?|weeks?|months?|years?|dollars?|cents?|degrees?|radians?|people|students|ways|mph|"
    r"km/h|m/s|points?|times|percent)"
)
_TRAILING_UNIT = re.compile(rf"(?<=[\d}}\)])\s*{_UNITS}(?:\s*\^\s*\{{?[23]\}}?|[²³])?\s*$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
_SCIENTIFIC = re.compile(
    rf"({_NUMBER.pattern})(?:[eE]([-+]?\d{{1,3}})|(?:\\times|\\cdot|\*|×)10\^(?:\{{([-+]?\d{{1,3}})\}}|(\d)))"
)
_REPEATING = re.compile(r"([-+]?)(\d*)\.(\d*)\\overline\{?(\d+)\}?")
_PLAIN_FRACTION = re.compile(r"([-+]?)(\d+)/(\d+)")
_LATEX_FRACTION = re.compile(rf"([-+]?)\\frac\{{({_NUMBER.pattern})\}}\{{({_NUMBER.pattern})\}}")
_MIXED = re.compile(r"([-+]?)(\d+)\\frac\{(\d+)\}\{(\d+)\}")
_PLAIN_MIXED = re.compile(r"([-+]?)(\d+)\s+(\d+)/(\d+)")


def normalise(answer: str) -> str:
    """One spelling for the variants of LaTeX and of prose that mean the same; not a parser."""
    text = answer.strip().strip("*").strip()
    text = (
        text.replace("−", "-")
        .replace("\\%", "%")
        .replace("\u00a0", " ")
        .replace("\\$", "")
        .replace("\\ ", " ")
    )
    text = _WORDS_EQUAL.sub("", _DEGREES.sub("", _DROPPED.sub("", text)))
    text = _TEXT.sub(r" \1 ", text)
    text = _FRACTIONS.sub(r"\\frac", text)
    text = _SHORT_FRACTION.sub(lambda m: rf"\frac{{{m[1] or m[2]}}}{{{m[3] or m[4]}}}", text)
    text = _SQRT.sub(r"\\sqrt{\1}", text)
    text = _EQUALS.sub("", text.strip().rstrip("."))
    text = _TRAILING_UNIT.sub("", text.strip())
    plain = text.strip()
    if _PLAIN_MIXED.fullmatch(plain):
        return plain
    if _THOUSANDS_NUMBER.fullmatch(plain):
        plain = _THOUSANDS.sub("", plain)
    elif _SPACED_THOUSANDS.fullmatch(plain):
        plain = plain.replace(" ", "")
    return re.sub(r"\s+", "", plain) if not plain.replace(" ", "").isalpha() else " ".join(plain.split())


def as_number(text: str) -> tuple[Fraction, bool] | None:
    """A normalised answer as (value, had a percent sign); None when it isn't a plain rational number."""
    if not text or len(text) > _LONGEST_NUMBER:
        return None
    percent = text.endswith("%") or text.endswith("percent")
    text = text.removesuffix("%").removesuffix("percent").strip()
    try:
        value = _rational(text)
    except ZeroDivisionError:
        return None
    return None if value is None else (value, percent)


def _rational(text: str) -> Fraction | None:
    if _NUMBER.fullmatch(text):
        return Fraction(text)
    if found := _SCIENTIFIC.fullmatch(text):
        return Fraction(found[1]) * Fraction(10) ** int(found[2] or found[3] or found[4])
    if found := _REPEATING.fullmatch(text):
        scale = 10 ** len(found[3])
        value = Fraction(int(f"0{found[2]}{found[3]}")) + Fraction(int(found[4]), 10 ** len(found[4]) - 1)
        value /= scale
    elif found := _PLAIN_FRACTION.fullmatch(text):
        value = Fraction(int(found[2]), int(found[3]))
    elif found := _LATEX_FRACTION.fullmatch(text):
        value = Fraction(found[2]) / Fraction(found[3])
    elif found := (_MIXED.fullmatch(text) or _PLAIN_MIXED.fullmatch(text)):
        value = int(found[2]) + Fraction(int(found[3]), int(found[4]))
    else:
        return None
    return -value if found[1] == "-" else value


def _hedges(answer: str, *, gold_is_number: bool) -> bool:
    """Whether an answer to a question whose answer is one number is a relation or a choice: > 42, 42 or 43.

    A parser that is asked to find a number in it would find the right one.
    """
    return gold_is_number and _RELATION_OR_CHOICE.search(answer) is not None


def _names_differ(gold: str, answer: str) -> bool:
    """Whether both say of different letters what they are: x = 2, y = 2."""
    first, second = _NAMED.match(_dressed(gold)), _NAMED.match(_dressed(answer))
    return first is not None and second is not None and first[1].lower() != second[1].lower()


def _dressed(answer: str) -> str:
    return re.sub(r"[${}\s]|\\[()]", "", answer)


def quick_match(gold: str, answer: str) -> bool | None:
    """Whether `answer` equals `gold`, where that can be told at once; None: ask math-verify.

    A percent sign on one side only is read both as per cent and as a unit (50% = 50 where the question asks
    for a percentage, 50% = 0.5 where it asks for a number).
    """
    if not answer.strip() or len(answer) > LONGEST_ANSWER:
        return False
    if gold.strip() == answer.strip():
        return True
    if _names_differ(gold, answer):
        return False
    left, right = normalise(gold), normalise(answer)
    if left and left == right:
        return True
    first, second = as_number(left), as_number(right)
    if _hedges(answer, gold_is_number=first is not None):
        return False
    if first is None or second is None:
        return None
    (gold_value, gold_percent), (value, percent) = first, second
    if gold_percent == percent:
        return gold_value == value
    return gold_value == value or (gold_value / 100 == value if gold_percent else gold_value == value / 100)
