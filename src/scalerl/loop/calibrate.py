"""A profile of this machine, measured: peaks by plain kernels, shares by the real engine and trainer passes.

The best of several passes counts: what else runs on the machine only ever makes a pass slower. A profile
measured anew differs, so a run keeps the one that it was given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from scalerl.generate.prefill import prefill
from scalerl.generate.protocol import Budget, GroupRequest
from scalerl.generate.torch_engine import TorchEngine
from scalerl.loop.profile import Profile
from scalerl.policy.forward import completion_logprobs
from scalerl.policy.inference import inference_weights, rope_turns
from scalerl.policy.lean import architecture_of
from scalerl.policy.load import Policy

_NO_TOKEN = -1
"""Ends no completion: lengths are then known."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the engine and the trainer are measured on."""

    slots: int = 64
    prompt_tokens: int = 32
    completion_tokens: int = 64
    passes: int = 3


def calibrate(policy: Policy, load: Load, name: str = "here") -> Profile:
    """Measure this machine with a model; its generator and its trainer are one device each."""
    ideal = _ideal(policy, load, name)
    read = load.slots * load.prompt_tokens
    context = load.slots * (load.prompt_tokens + (load.completion_tokens - 1) / 2)
    weights = ideal.parameters * ideal.bytes_per_parameter
    moved = load.completion_tokens * (weights + ideal.kv_bytes_per_token * context)
    trained = read + load.slots * load.completion_tokens
    per_token = ideal.parameters / ideal.flops_per_second
    shares = {
        "decode_bandwidth_share": _share(moved / ideal.bytes_per_second, _decode_pass(policy, load)),
        "prefill_flops_share": _share(2 * per_token * read, _prefill_pass(policy, load)),
        "training_flops_share": _share(6 * per_token * trained, _training_pass(policy, load)),
    }
    return ideal.model_copy(update=shares)


def _ideal(policy: Policy, load: Load, name: str) -> Profile:
    """The machine's peaks and the model's sizes, with nothing lost."""
    architecture = architecture_of(policy.model)
    item_bytes = policy.dtype.itemsize
    kv_values = 2 * architecture.layers * architecture.kv_heads * architecture.head_dim
    bandwidth = bytes_per_second(policy.device)
    return Profile(
        name=name,
        description=f"measured on {policy.device.type}, {torch.get_num_threads()} threads, {policy.dtype}",
        generators=1,
        trainers=1,
        slots_per_generator=load.slots,
        flops_per_second=flops_per_second(policy.device, policy.dtype),
        bytes_per_second=bandwidth,
        parameters=policy.parameters_without_embeddings(),
        bytes_per_parameter=item_bytes,
        kv_bytes_per_token=kv_values * item_bytes,
        decode_bandwidth_share=1.0,
        prefill_flops_share=1.0,
        training_flops_share=1.0,
        transfer_bytes_per_second=bandwidth / 2,  # a copy reads and writes
        transfer_seconds=0.0,
        verification_seconds=0.0,
    )


def flops_per_second(device: torch.device, dtype: torch.dtype, size: int = 1024, passes: int = 8) -> float:
    """Multiply-adds of a square matrix product, two FLOPs each."""
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3 / best_seconds(lambda: left @ right, device, passes)


def bytes_per_second(device: torch.device, size: int = 1 << 26, passes: int = 5) -> float:
    """Bytes read and written by a copy."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / best_seconds(lambda: target.copy_(source), device, passes)


def best_seconds(work: Callable[[], object], device: torch.device, passes: int) -> float:
    """The quickest of several passes, by the wall clock, after one that doesn't count."""
    times = []
    for _ in range(passes + 1):
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times[1:])


def _share(ideal_seconds: float, seconds: float) -> float:
    return min(1.0, ideal_seconds / seconds)


def _prompts(load: Load, vocabulary: int) -> list[tuple[int, ...]]:
    return [tuple((7 * i + t) % vocabulary for t in range(load.prompt_tokens)) for i in range(load.slots)]


@torch.no_grad()
def _prefill_pass(policy: Policy, load: Load) -> float:
    architecture = architecture_of(policy.model)
    weights = inference_weights(architecture, policy.weights(), largest_table=load.slots)
    prompts = _prompts(load, policy.model.config.vocab_size)
    turns = rope_turns(architecture, load.prompt_tokens, weights.embedding)
    return best_seconds(lambda: prefill(architecture, weights, prompts, turns), policy.device, load.passes)


def _decode_pass(policy: Policy, load: Load) -> float:
    """Seconds of `completion_tokens` decode steps of all slots, the prefill before them left out."""
    budget = Budget(load.completion_tokens + 1, 0)
    best = None
    for _ in range(load.passes):
        engine = TorchEngine(policy, slots=load.slots, seed=0, end_token=_NO_TOKEN)
        prompts = _prompts(load, policy.model.config.vocab_size)
        engine.submit([GroupRequest(i, str(i), prompt, (budget,)) for i, prompt in enumerate(prompts)])
        engine.step()  # reads the prompts and draws each first token
        started = time.perf_counter()
        while engine.active:
            engine.step()
        seconds = time.perf_counter() - started
        best = seconds if best is None else min(best, seconds)
    assert best is not None
    return best


def _training_pass(policy: Policy, load: Load) -> float:
    vocabulary = policy.model.config.vocab_size
    tokens = torch.arange(load.completion_tokens).remainder(vocabulary).numpy()
    groups = [(prompt, [tokens]) for prompt in _prompts(load, vocabulary)]

    def forward_and_backward() -> None:
        logp, _ = completion_logprobs(policy, groups, fp32_head=True)
        torch.autograd.grad(logp.sum(), list(policy.parameters().values()), allow_unused=True)

    return best_seconds(forward_and_backward, policy.device, load.passes)
