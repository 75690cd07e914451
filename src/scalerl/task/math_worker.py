"""What runs in a pool worker: math-verify on one pair of answers. Its own timeouts are off; the pool holds
the watch.
"""

from __future__ import annotations

import logging

from math_verify import ExprExtractionConfig, LatexExtractionConfig, StringExtractionConfig, parse, verify

logging.getLogger("math_verify").setLevel(logging.CRITICAL)
logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)

_EXTRACTION = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
_CHOICES = (StringExtractionConfig(lowercase=False),)


def _parsed(answer: str) -> list[object]:
    boxed = answer if "\\boxed" in answer else "\\boxed{" + answer.strip().strip("$") + "}"
    return parse(boxed, extraction_config=list(_EXTRACTION), parsing_timeout=None, raise_on_error=False)


def equivalent(gold: str, answer: str) -> bool:
    """Whether math-verify takes `answer` for the same mathematical object as `gold`.

    Raises ValueError when the reference answer itself doesn't parse: then nothing can be judged.
    """
    wanted = _parsed(gold)
    if not wanted:
        raise ValueError(f"reference answer doesn't parse: {gold[:80]!r}")
    return bool(verify(wanted, _parsed(answer), timeout_seconds=None, raise_on_error=False))
