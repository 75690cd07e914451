"""What the chunked token log-probs cost against the plain way, in memory and time.

`python -m scalerl.policy.head_benchmark '{"tokens": 4096, ...}'` runs one method once, in a process of its
own, and prints how far memory rose above the inputs: a process's peak can't be reset, so each method needs
a fresh one.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from scalerl.errors import UserError
from scalerl.policy.token_logprobs import token_logprobs

Method = Literal["plain", "chunked"]


@dataclass(frozen=True, slots=True)
class Shape:
    """T tokens, V logits each, D hidden dimensions; float32 on CPU."""

    tokens: int
    vocabulary: int
    hidden: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both methods' cost of one forward and backward pass."""

    shape: Shape
    plain_peak_bytes: int
    chunked_peak_bytes: int
    plain_seconds: float
    chunked_seconds: float


def inputs(shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Return hidden states [T, D], head weight [V, D] and targets [T]."""
    torch.manual_seed(0)
    hidden = torch.randn(shape.tokens, shape.hidden).requires_grad_()
    weight = torch.randn(shape.vocabulary, shape.hidden).mul_(shape.hidden**-0.5).requires_grad_()
    return hidden, weight, torch.randint(shape.vocabulary, (shape.tokens,))


def plain_logprobs(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return token log-probs by log-softmax over the full [T, V]; no entropy, so as to cost the least."""
    return (hidden @ weight.t()).log_softmax(dim=-1).gather(1, targets[:, None]).squeeze(1)


def chunked_logprobs(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return token log-probs in chunks, entropies computed on the way (and dropped)."""
    return token_logprobs(hidden, weight, targets, fp32_head=True)[0]


METHODS: dict[Method, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "plain": plain_logprobs,
    "chunked": chunked_logprobs,
}


def measure_peak(method: Method, shape: Shape) -> int:
    """Return how many bytes this process rose above its inputs in one forward and backward pass."""
    hidden, weight, targets = inputs(shape)
    before = _resident_bytes()
    METHODS[method](hidden, weight, targets).sum().backward()
    return _peak_bytes() - before


def peak_in_own_process(method: Method, shape: Shape) -> int:
    """Return `measure_peak` of a fresh process. Raises UserError when it dies (out of memory)."""
    request = json.dumps({"method": method, **asdict(shape)})
    command = [sys.executable, "-m", "scalerl.policy.head_benchmark", request]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
        raise UserError(f"bench head: {method} died at {asdict(shape)} ({reason}): choose a smaller shape")
    return int(result.stdout)


def measure_seconds(shape: Shape, rounds: int) -> dict[Method, float]:
    """Return each method's CPU seconds, the least of `rounds` alternating passes."""
    hidden, weight, targets = inputs(shape)
    seconds: dict[Method, list[float]] = {"plain": [], "chunked": []}
    for _ in range(rounds):
        for method, logprobs in METHODS.items():
            hidden.grad = weight.grad = None
            started = time.process_time()
            logprobs(hidden, weight, targets).sum().backward()
            seconds[method].append(time.process_time() - started)
    return {method: min(rounds_seconds) for method, rounds_seconds in seconds.items()}


def compare(shape: Shape, rounds: int) -> Comparison:
    """Measure both methods, memory in processes of their own."""
    seconds = measure_seconds(shape, rounds) if rounds else dict.fromkeys(METHODS, math.nan)
    return Comparison(
        shape=shape,
        plain_peak_bytes=peak_in_own_process("plain", shape),
        chunked_peak_bytes=peak_in_own_process("chunked", shape),
        plain_seconds=seconds["plain"],
        chunked_seconds=seconds["chunked"],
    )


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _resident_bytes() -> int:
    """Return the resident size now; where there is no /proc, the peak so far."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else _peak_bytes()


if __name__ == "__main__":
    _request = json.loads(sys.argv[1])
    _method = _request.pop("method")
    print(measure_peak(_method, Shape(**_request)))
