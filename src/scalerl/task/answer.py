"""From a completion's text to its final answer: thinking cut off, last boxed expression, else the last
answer.

Every function is linear in the text: a completion may be a megabyte of braces.
"""

from __future__ import annotations

import re

CLOSE_THINKING = "</think>"
OPEN_THINKING = "<think>"

# How tokenizers spell the end of a turn; verifiers see the text with special tokens kept.
_END_MARKS = re.compile(
    r"(?:\s*(?:<\|[\w\s-]{1,40}\|>|<\uff5c[^\uff5c<>]{1,40}\uff5c>|</?s>|<eos>|<bos>|<pad>|\[PAD\]|\[EOS\]|<end_of_turn>))+\s*\Z"
)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_ANSWER_TAG = re.compile(r"<answer>(.{0,5000}?)</answer>", re.DOTALL)
_ANSWER_PHRASE = re.compile(
    r"(?:final\s+answer|answer|solution|result)\s*(?:is|=|:)(?:\s*:)?[ \t*]*(?P<answer>[^\n]{1,400})",
    re.IGNORECASE,
)
_MATH_SPANS = re.compile(r"\$\$?([^$\n]{1,400})\$\$?|\\\(([^\n]{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL)
_NUMBERS = re.compile(r"(?<![\w.])[-−+]?\$?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s*/\s*\d+)?(?:\s*\\?%)?")
_TAIL_CHARACTERS = 20_000  # a final answer without a box is looked for at the end only
_MOST_BOXES = 8


def strip_end_marks(text: str) -> str:
    """Drop the end-of-turn and padding tokens at the text's end."""
    tail = text[-400:]
    found = _END_MARKS.search(tail)
    return text[: len(text) - len(tail) + found.start()] if found else text.rstrip()


def after_thinking(text: str, *, must_close: bool = False) -> str | None:
    """The part after the last `</think>`; None if thinking was opened, or had to be closed, and never was.

    `must_close`: the prompt itself opened the thinking, so that a text without `</think>` is still thinking.
    """
    thinking, closed, answer = text.rpartition(CLOSE_THINKING)
    if closed:
        return answer
    return None if must_close or OPEN_THINKING in thinking + answer else text


def _braced(text: str, start: int) -> str | None:
    """The content of the brace group that opens at `start`; None when it never closes."""
    depth = 0
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start):
        symbol = match.group()
        if symbol == "{":
            depth += 1
        elif symbol == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : match.start()]
    return None


def last_boxed(text: str) -> str | None:
    r"""Content of the last `\boxed{...}` or `\fbox{...}` whose braces balance (of the last few)."""
    for match in list(_BOXED.finditer(text))[: -_MOST_BOXES - 1 : -1]:
        if (content := _braced(text, match.end())) is not None:
            return content.strip()
    return None


def last_answer(text: str) -> str | None:
    """The last answer of a text without a box: after `####`, in <answer> tags, after "answer is", $...$, a
    number.
    """
    tail = text[-_TAIL_CHARACTERS:]
    if "####" in tail:
        return tail.rpartition("####")[2].strip().split("\n")[0].strip() or None
    for pattern in (_ANSWER_TAG, _ANSWER_PHRASE, _MATH_SPANS, _NUMBERS):
        found = list(pattern.finditer(tail))
        if found:
            whole = (
                found[-1].group()
                if pattern is _NUMBERS
                else next(g for g in found[-1].groups() if g is not None)
            )
            return _trim_phrase(whole) if pattern is _ANSWER_PHRASE else whole.strip()
    return None


def _trim_phrase(phrase: str) -> str:
    """What follows "the answer is" often goes on: keep the mathematics in it if it is marked, else the
    phrase.
    """
    spans = _MATH_SPANS.search(phrase)
    if spans:
        return next(group for group in spans.groups() if group is not None).strip()
    return phrase.strip().strip("*").rstrip(".").strip()


def final_answer(completion: str, *, must_close_thinking: bool = False) -> str | None:
    """The final answer of a completion, or None when there is none."""
    answer = after_thinking(strip_end_marks(completion), must_close=must_close_thinking)
    if answer is None:
        return None
    boxed = last_boxed(answer)
    return boxed if boxed is not None else last_answer(answer)
