"""Tests of a programming problem, from the forms in which DeepCoder, TACO and LiveCodeBench write them."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOST_DECODED_BYTES = 512 << 20


class BadTests(ValueError):  # noqa: N818 - reads well where it is raised
    """A row's tests can't be read."""


@dataclass(frozen=True, slots=True)
class CodeTest:
    """One test. For programs: text for stdin and the text expected on stdout. For functions: JSON of the
    list of arguments, and JSON of the expected result. `wrapped`: the expected result may be a list around
    the real one.
    """

    input: str
    output: str
    wrapped: bool = False


@dataclass(frozen=True, slots=True)
class CodeTests:
    """All tests of a problem; `function` is what they call, or None when they are whole programs."""

    function: str | None
    tests: tuple[CodeTest, ...]

    @property
    def size_bytes(self) -> int:
        """Characters of all inputs and outputs."""
        return sum(len(test.input) + len(test.output) for test in self.tests)


def parse_tests(raw: Any, metadata: Any = None) -> CodeTests:
    """Read a row's tests: a JSON string or the value itself; raises BadTests.

    List of {type | testtype, input, output, fn_name?} (PrimeIntellect, LiveCodeBench, Codeforces) or one dict
    {inputs, outputs, fn_name?} (TACO, APPS). `metadata` (JSON or a dict) may name the function: `func_name`.
    """
    value = _decoded(raw)
    named = _decoded(metadata) if metadata else {}
    function = named.get("func_name") or named.get("fn_name") if isinstance(named, Mapping) else None
    if isinstance(value, Mapping):
        tests = _columns(value, function)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        tests = _rows(value, function)
    else:
        raise BadTests(f"tests are neither a list nor an object but {type(value).__name__}")
    if not tests.tests:
        raise BadTests("no tests")
    return tests


def _decoded(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadTests(f"not JSON: {error}") from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "\n".join(_text(part) for part in value)
    return json.dumps(value)


def _columns(value: Mapping[str, Any], function: str | None) -> CodeTests:
    """TACO and APPS: {"inputs": [...], "outputs": [...], "fn_name"?}; results may be wrapped in a list."""
    inputs, outputs = value.get("inputs"), value.get("outputs")
    if not isinstance(inputs, Sequence) or not isinstance(outputs, Sequence) or len(inputs) != len(outputs):
        raise BadTests("inputs and outputs must be lists of one length")
    function = value.get("fn_name") or function
    pairs = zip(inputs, outputs, strict=True)
    if function:
        return CodeTests(function, tuple(_call(given, wanted) for given, wanted in pairs))
    return CodeTests(None, tuple(CodeTest(_text(given), _text(wanted)) for given, wanted in pairs))


def _call(arguments: Any, result: Any) -> CodeTest:
    """One call in the form of APPS: arguments as a list (or its JSON), the result plain or in a list of
    one.
    """
    arguments, result = _loose(arguments), _loose(result)
    if not isinstance(arguments, list):
        arguments = [arguments]
    return CodeTest(json.dumps(arguments), json.dumps(result), wrapped=True)


def _loose(value: Any) -> Any:
    """JSON of a string where it is JSON, else the value."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _rows(rows: Sequence[Any], function: str | None) -> CodeTests:
    """Lists of one object a test; all of one kind."""
    tests: list[CodeTest] = []
    kinds: set[bool] = set()
    for row in rows:
        if not isinstance(row, Mapping) or "input" not in row or "output" not in row:
            raise BadTests("each test needs input and output")
        kind = str(row.get("testtype") or row.get("type") or "stdin")
        function = row.get("fn_name") or function
        kinds.add(not kind.startswith("stdin"))
        if kind.startswith("stdin"):
            tests.append(CodeTest(_text(row["input"]), _text(row["output"])))
        elif kind == "functional":  # LiveCodeBench: one JSON value a line, an exact result
            lines = [_loose(line) for line in str(row["input"]).split("\n") if line.strip()]
            tests.append(CodeTest(json.dumps(lines), json.dumps(_loose(row["output"]))))
        else:
            tests.append(_call(row["input"], row["output"]))
    if len(kinds) > 1:
        raise BadTests("stdin tests and function tests in one problem")
    if kinds == {True} and not function:
        raise BadTests("function tests without the function's name (fn_name, or metadata.func_name)")
    return CodeTests(function if kinds == {True} else None, tuple(tests))


class _NothingButStrings(pickle.Unpickler):
    """An unpickler that can build no object by name."""

    def find_class(self, module: str, name: str) -> Any:
        raise BadTests(f"a pickle of tests that asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise BadTests("a pickle of tests with a persistent reference")


def decode_private_tests(raw: str) -> str:
    """LiveCodeBench's private tests as JSON text: as they are, or base64 of zlib of a pickled JSON string.

    The pickle may hold a string and nothing else; raises BadTests.
    """
    if raw.lstrip()[:1] in ("[", "{"):
        return raw
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(raw, validate=True), _MOST_DECODED_BYTES)
        if inflater.unconsumed_tail:
            raise BadTests(f"private tests inflate beyond {_MOST_DECODED_BYTES >> 20} MiB")
        text = _NothingButStrings(io.BytesIO(data)).load()
    except BadTests:
        raise
    except Exception as error:  # a pickle can raise almost anything
        raise BadTests(f"private tests: {type(error).__name__}: {error}") from None
    if not isinstance(text, str):
        raise BadTests(f"private tests hold a {type(text).__name__}, not a string")
    return text


def livecodebench_tests(public: str, private: str, metadata: Any) -> CodeTests:
    """Public and private tests of one LiveCodeBench row together; raises BadTests."""
    rows = [*_decoded(public or "[]"), *(_decoded(decode_private_tests(private)) if private else [])]
    return parse_tests(rows, metadata)
