"""Demonstrations for a warm start: the quickstart's teacher, or a file of the user's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import orjson

from scalerl.errors import UserError
from scalerl.policy.load import Policy, new_policy
from scalerl.policy.sft import Demonstration
from scalerl.task.arithmetic_teacher import Teacher, TeacherSettings
from scalerl.task.protocol import Prompter
from scalerl.task.tokenizer import SymbolTokenizer

MIN_OPERATIONS, MAX_OPERATIONS = 1, 8


def quickstart_policy(tokenizer: SymbolTokenizer, seed: int) -> Policy:
    """Return the quickstart's architecture, weights random: Llama, 2 layers, width 64, 100k parameters."""
    config = {
        "model_type": "llama",
        "vocab_size": len(tokenizer.symbols),
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 168,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "initializer_range": 0.08,
        "rms_norm_eps": 1e-6,
        "eos_token_id": tokenizer.end_token,
        "pad_token_id": tokenizer.pad_token,
    }
    return new_policy(config, seed)


def teacher_demonstrations(tokenizer: SymbolTokenizer, seed: int) -> Iterator[Demonstration]:
    """Yield the noisy teacher's demonstrations of fresh chains, without end."""
    teacher = Teacher(TeacherSettings(), seed)
    drawn = teacher.demonstrations(random.Random(f"demonstrations {seed}"), MIN_OPERATIONS, MAX_OPERATIONS)
    for prompt, injected, completion in drawn:
        yield Demonstration(
            tokenizer.tokens(prompt), tokenizer.tokens(injected), tokenizer.tokens(completion)
        )


def file_demonstrations(path: Path, prompter: Prompter, seed: int) -> Iterator[Demonstration]:
    """Yield demonstrations of a JSONL file, shuffled anew each epoch, without end.

    Each line holds `prompt` and `completion`, the text to be fed and the text to be imitated. Raises
    UserError that names the line for anything else.
    """
    rows = [_row(line, number, path) for number, line in enumerate(_lines(path), start=1)]
    demonstrations = [
        Demonstration(prompter.tokens(prompt), (), (*prompter.tokens(completion), prompter.end_token))
        for prompt, completion in rows
    ]
    rng = random.Random(f"order of demonstrations {seed}")
    while True:
        rng.shuffle(demonstrations)
        yield from demonstrations


def _lines(path: Path) -> list[bytes]:
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; give a JSONL file with `prompt` and `completion` on each line"
        )
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{path}: holds no demonstrations")
    return lines


def _row(line: bytes, number: int, path: Path) -> tuple[str, str]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}, line {number}: not JSON ({error})") from None
    for field in ("prompt", "completion"):
        if not isinstance(row, dict) or not isinstance(row.get(field), str) or not row[field]:
            raise UserError(f"{path}, line {number}: field {field}: a text is wanted")
    return row["prompt"], row["completion"]
