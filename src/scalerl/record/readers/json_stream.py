"""A JSON text read piece by piece: one value of it in memory at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from scalerl.errors import UserError
from scalerl.record.text import Head, iter_chunks

LONGEST_VALUE = 32 << 20
_MANY_CHARACTERS = 1 << 16
_ONE_BY_ONE = 200
_COMMAS_TRIED = 6
_COMMA = re.compile(r"\s*,")
_SPACE = re.compile(r"[\s\ufeff]*")
_DECODER = json.JSONDecoder()


class JsonStream:
    """A cursor over a JSON text that never holds more than one value of it. Malformed text is a UserError."""

    def __init__(self, head: Head) -> None:
        self.path = head.path
        self._chunks = iter_chunks(head.path, head.encoding)
        self._text = ""
        self._at = 0
        self._ended = False
        self._singly = 0  # elements still to be taken one by one

    def _more(self) -> bool:
        chunk = "" if self._ended else next(self._chunks, None)
        if chunk is None or self._ended:
            self._ended = True
            return False
        self._text = self._text[self._at :] + chunk
        self._at = 0
        return True

    def peek(self) -> str:
        """The next character that isn't white space; '' at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, expected: str) -> bool:
        """Step over one character if it is the expected one."""
        if self.peek() != expected:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """The next whole value."""
        self.peek()
        wanted = 1 << 16
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError as error:
                if len(self._text) - self._at > LONGEST_VALUE:
                    raise UserError(f"{self.path}: not valid JSON, or one value above 32 MB") from None
                if not self._grow(wanted):
                    raise self._malformed(str(error).split("(")[0].strip()) from None
            except RecursionError:
                raise UserError(f"{self.path}: JSON nested too deeply to be a log") from None
            else:
                if end < len(self._text) or not self._grow(1):
                    self._at = end
                    return value
            wanted *= 2

    def _grow(self, characters: int) -> bool:
        before = len(self._text) - self._at
        while len(self._text) - self._at < before + characters and self._more():
            pass
        return len(self._text) - self._at > before

    def _malformed(self, why: str) -> UserError:
        return UserError(
            f"{self.path}: the JSON ends early or isn't valid ({why}); was the file cut by a crash?"
        )

    def batches(self) -> Iterator[list[Any]]:
        """The elements of the array that begins here, some at a time."""
        if not self.take("["):
            raise self._malformed("expected '['")
        if self.take("]"):
            return
        while True:
            yield from self._many()
            yield [self.value()]
            if self.take("]"):
                return
            if not self.take(","):
                raise self._malformed("expected ',' or ']'")

    def _many(self) -> Iterator[list[Any]]:
        """Elements that lie whole in what is read already, with the comma behind each, parsed together.

        A text that is a list of JSON values can be nothing else, wherever it was cut. Where none is found,
        the next elements are taken one by one for a while.
        """
        while self._singly == 0:
            if len(self._text) - self._at < _MANY_CHARACTERS:
                self._more()
            for comma in self._commas():
                try:
                    found = orjson.loads(f"[{self._text[self._at : comma]}]")
                except orjson.JSONDecodeError:
                    continue
                self._at = comma + 1
                yield found
                break
            else:
                self._singly = _ONE_BY_ONE
        self._singly -= 1

    def _commas(self) -> Iterator[int]:
        """Where elements may end, the farthest places first: after objects, or between numbers."""
        first = self.peek()
        stop = self._at + _MANY_CHARACTERS
        if first == "{":
            for _ in range(_COMMAS_TRIED):
                stop = self._text.rfind("}", self._at, stop)
                if stop < 0:
                    return
                if match := _COMMA.match(self._text, stop + 1):
                    yield match.end() - 1
        else:
            bracket = self._text.find("]", self._at, stop)
            comma = self._text.rfind(",", self._at, stop if bracket < 0 else bracket)
            if comma > self._at:
                yield comma

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller takes each key's value before the next."""
        if not self.take("{"):
            raise self._malformed("expected '{'")
        if self.take("}"):
            return
        while True:
            key = self.value()
            if not isinstance(key, str) or not self.take(":"):
                raise self._malformed("expected a key and ':'")
            yield key
            if self.take("}"):
                return
            if not self.take(","):
                raise self._malformed("expected ',' or '}'")
