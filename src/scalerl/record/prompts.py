"""Per-prompt counts of one evaluation (prompts/step-000100.parquet) and the error bar they give."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scalerl.errors import UserError
from scalerl.record.lines import write_atomic
from scalerl.record.schema import HELD_OUT, Evaluation


@dataclass(frozen=True, eq=False)
class PerPrompt:
    """Counts of P held-out prompts: `passed[i]` of `sampled[i]` completions of `prompt_ids[i]` were right."""

    prompt_ids: tuple[str, ...]
    passed: npt.NDArray[np.int64]
    sampled: npt.NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PerPrompt)
            and self.prompt_ids == other.prompt_ids
            and np.array_equal(self.passed, other.passed)
            and np.array_equal(self.sampled, other.sampled)
        )

    @classmethod
    def of(cls, prompt_ids: Sequence[str], passed: Sequence[int], sampled: Sequence[int]) -> PerPrompt:
        """Check shapes and ranges: three sequences of length P, 0 <= passed <= sampled."""
        right = np.asarray(passed, dtype=np.int64)
        tried = np.asarray(sampled, dtype=np.int64)
        if not len(prompt_ids) == len(right) == len(tried):
            raise ValueError(f"{len(prompt_ids)} prompt ids, {len(right)} passed, {len(tried)} sampled")
        if bool(np.any(right < 0)) or bool(np.any(right > tried)):
            raise ValueError("per-prompt counts need 0 <= passed <= sampled")
        return cls(tuple(str(name) for name in prompt_ids), right, tried)

    def stderr(self) -> float | None:
        """Sampling part of the standard error of the mean of prompts' pass rates, the prompts being fixed.

        sqrt(sum_i v_i / k_i) / n with v_i = p_i (1 - p_i) k_i / (k_i - 1), unbiased for the variance of one
        sample. A prompt sampled once tells nothing of its variance: the pooled p (1 - p), an upper bound on
        average, stands in. None without any sample.
        """
        tried = self.sampled > 0
        if not bool(np.any(tried)):
            return None
        k = self.sampled[tried].astype(np.float64)
        p = self.passed[tried] / k
        pooled = float(np.mean(p)) * (1.0 - float(np.mean(p)))
        variance = np.where(k > 1, p * (1.0 - p) * k / np.maximum(k - 1.0, 1.0), pooled)
        return math.sqrt(float(np.sum(variance / k))) / len(k)


def binomial_stderr(pass_rate: float, samples: int) -> float:
    """Binomial bound sqrt(r (1 - r) / samples): at least the sampling part, whatever the prompts' own rates.

    Nearer to 0 or 1 than 1 / (samples + 2), where it would vanish, the rate is taken there.
    """
    edge = 1.0 / (samples + 2)
    rate = min(max(pass_rate, edge), 1.0 - edge)
    return math.sqrt(rate * (1.0 - rate) / samples)


def prompts_hash(prompt_ids: Iterable[str]) -> str:
    """A name of a set of prompts, whatever their order: curves may be compared where theirs are equal."""
    return hashlib.blake2b("\n".join(sorted(prompt_ids)).encode(), digest_size=8).hexdigest()


def file_word(set_name: str) -> str:
    """An evaluation set's name as its files have it."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", set_name)


def prompts_path(run: Path, evaluation: Evaluation) -> Path:
    """prompts/step-000100.parquet; other sets and repeats add `.set` and `-rN`."""
    stem = f"step-{evaluation.step:06d}"
    if evaluation.repeat:
        stem += f"-r{evaluation.repeat}"
    if evaluation.set != HELD_OUT:
        stem += "." + file_word(evaluation.set)
    return run / "prompts" / f"{stem}.parquet"


def write_prompts(path: Path, counts: PerPrompt) -> None:
    """Write one evaluation's counts whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {"prompt_id": list(counts.prompt_ids), "passed": counts.passed, "sampled": counts.sampled}
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_atomic(path, buffer.getvalue())


def read_prompts(path: Path) -> PerPrompt | None:
    """Counts of one evaluation, or None where the file is absent."""
    if not path.exists():
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["prompt_id", "passed", "sampled"])
        return PerPrompt.of(
            table["prompt_id"].to_pylist(),
            table["passed"].to_numpy(),
            table["sampled"].to_numpy(),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, KeyError, ValueError, OSError) as error:
        raise UserError(f"{path}: not a file of per-prompt counts ({error}); remove it") from None
