"""From a completion to the program that a test runs."""

from __future__ import annotations

from scalerl.task.answer import after_thinking, strip_end_marks

_LANGUAGES = {"", "python", "python3", "py"}

# What LeetCode-style signatures take for granted.
_PRELUDE = """\
import bisect, collections, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict, defaultdict, deque
from functools import cache, cmp_to_key, lru_cache, reduce
from heapq import heapify, heappop, heappush, nlargest, nsmallest
from itertools import accumulate, chain, combinations, count, groupby, permutations, product
from math import ceil, comb, factorial, floor, gcd, inf, isqrt, lcm, log, log2, prod, sqrt
from typing import *
"""

# The result goes to a descriptor of its own: what the solution prints is no result.
_CALL = """\
import json, os, sys
_result = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
_request = json.load(sys.stdin)
sys.setrecursionlimit(100_000)
_names = {"__name__": "solution"}
exec(_request["prelude"], _names)
exec(compile(_request["code"], "solution.py", "exec"), _names)
_function = _names.get(_request["function"])
if _function is None:
    _function = getattr(_names["Solution"](), _request["function"])
_result.write(json.dumps(_function(*_request["arguments"])))
_result.flush()
os._exit(0)
"""


def extract_program(completion: str, *, must_close_thinking: bool = False) -> str | None:
    """The last closed Python code block after the thinking; None when there is none. Linear in the text."""
    answer = after_thinking(strip_end_marks(completion), must_close=must_close_thinking)
    if answer is None:
        return None
    last: str | None = None
    block: list[str] | None = None
    language = ""
    for line in answer.split("\n"):
        if not line.lstrip().startswith("```"):
            if block is not None:
                block.append(line)
        elif block is None:
            block, language = [], line.strip().strip("`").strip().lower()
        else:
            if language in _LANGUAGES:
                last = "\n".join(block)
            block = None
    return last


def call_program(solution: str, function: str, arguments: list[object]) -> tuple[str, dict[str, object]]:
    """The program that calls `function` of a solution, and the request that it reads from stdin (as JSON)."""
    return _CALL, {"prelude": _PRELUDE, "code": solution, "function": function, "arguments": arguments}
