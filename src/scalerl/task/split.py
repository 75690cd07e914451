"""The held-out split, by hash of the normalised prompt: duplicates never straddle it, and row order doesn't
matter."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence

from scalerl.errors import UserError
from scalerl.task.protocol import Example


def normalise_prompt(prompt: str) -> str:
    """One spelling for prompts that differ in case, white space or Unicode form only."""
    return " ".join(unicodedata.normalize("NFKC", prompt).casefold().split())


def prompt_id(prompt: str) -> str:
    """A name for a prompt that is stable across runs, machines and row orders: 16 hexadecimal digits."""
    return hashlib.sha256(normalise_prompt(prompt).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def split_held_out(
    examples: Sequence[Example], held_out_prompts: int, *, seed: int = 0, source: str = "task"
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Split distinct examples into (train, held out): the smallest hashes of (seed, id) are held out.

    Raises UserError where nothing would be left to train on.
    """
    if held_out_prompts >= len(examples):
        raise UserError(
            f"{source}: held_out_prompts={held_out_prompts} of {len(examples)} distinct prompts leaves none "
            f"to train on; set held_out_prompts to less (a tenth: {max(1, len(examples) // 10)})"
        )
    order = sorted(examples, key=lambda example: hashlib.sha256(f"{seed} {example.id}".encode()).digest())
    chosen = {example.id for example in order[:held_out_prompts]}
    return (
        tuple(example for example in examples if example.id not in chosen),
        tuple(example for example in examples if example.id in chosen),
    )
