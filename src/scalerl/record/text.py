"""Text files of unknown encoding as a stream of lines: BOM, UTF-8, UTF-16, LF, CRLF, lone CR."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scalerl.errors import UserError

CHUNK_BYTES = 1 << 20
LONGEST_LINE = 64 << 20
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Head:
    """The beginning of a text file: its encoding and first characters; `whole` when that is all of it."""

    path: Path
    encoding: str
    text: str
    whole: bool


def read_head(path: Path, size: int = 1 << 18) -> Head:
    """Read the first `size` bytes; UserError for an empty file and for one that isn't text."""
    with open(path, "rb") as file:
        raw = file.read(size)
        whole = not file.read(1)
    if not raw.strip(b"\x00\t\r\n \xef\xbb\xbf\xfe\xff"):
        raise UserError(f"{path}: the file is empty")
    encoding = _encoding(raw.rstrip(b"\x00") if whole else raw)  # a crash may leave a tail of zeros
    if encoding is None:
        raise UserError(f"{path}: a binary file in no format that scalerl reads; {_kind_of_binary(raw)}")
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(raw)
    return Head(path, encoding, text, whole)


def _encoding(raw: bytes) -> str | None:
    for bom, name in _BOMS:
        if raw.startswith(bom):
            return name
    even, odd = raw[0:4096:2].count(0), raw[1:4096:2].count(0)
    pairs = max(1, min(len(raw), 4096) // 2)
    if odd > 0.7 * pairs and even < 0.1 * pairs:
        return "utf-16-le"
    if even > 0.7 * pairs and odd < 0.1 * pairs:
        return "utf-16-be"
    sample = raw[:65536]
    control = sum(sample.count(code) for code in (*range(0, 7), *range(14, 27)))
    if sample.count(0) > 0 and control > 0.005 * len(sample):
        return None
    if control > 0.1 * len(sample):
        return None
    return "utf-8"


def _kind_of_binary(raw: bytes) -> str:
    known = {
        b"\x1f\x8b": "it's gzip: unpack it first",
        b"PK\x03\x04": "it's a zip archive (a checkpoint?): unpack it, or give the log file",
        b"\x80": "it looks like a pickle, which is never opened: export the log as CSV or JSON",
        b"\x28\xb5\x2f\xfd": "it's zstandard: unpack it first",
        b"SQLite": "it's a SQLite database: export a table as CSV",
    }
    for magic, remedy in known.items():
        if raw.startswith(magic):
            return remedy
    return "give a log, a table, an event file or a run directory"


def iter_chunks(path: Path, encoding: str) -> Iterator[str]:
    """The decoded text in pieces; undecodable bytes become U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    with open(path, "rb") as file:
        while raw := file.read(CHUNK_BYTES):
            yield decoder.decode(raw)
    yield decoder.decode(b"", final=True)


def iter_blocks(path: Path, encoding: str) -> Iterator[str]:
    """The text in blocks of whole lines, about 1 MB each, without the end of a block's last line.

    LF, CRLF and a lone CR (progress bars) all end a line. UserError for a line beyond 64 MB: that's no line
    format.
    """
    rest = ""
    for chunk in iter_chunks(path, encoding):
        text = rest + chunk
        held = ""
        if text.endswith("\r"):  # maybe the first half of CRLF
            text, held = text[:-1], "\r"
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        block, ended, rest = text.rpartition("\n")
        rest += held
        if len(rest) > LONGEST_LINE:
            raise UserError(f"{path}: a line longer than {LONGEST_LINE >> 20} MB; not a line format")
        if ended:
            yield block
    rest = rest.removesuffix("\r")
    if rest:
        yield rest


def iter_lines(path: Path, encoding: str) -> Iterator[str]:
    """Lines without their ends, as `iter_blocks` tells them apart."""
    for block in iter_blocks(path, encoding):
        yield from block.split("\n")


def ends_whole(path: Path) -> bool:
    """Whether the file's last line is ended, i.e. wasn't torn by a crash."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 2))
        tail = file.read()
    return tail.rstrip(b"\x00").endswith((b"\n", b"\r")) or not tail
