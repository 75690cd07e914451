"""The LM head at the model's precision or at FP32, one function for trainer and generator alike.

A bf16 head rounds every logit to 8 bits of mantissa; trainer and generator round differently (other batch
shapes, other kernels), and the ratio pi_train / pi_gen inherits the difference. The FP32 head (method.md,
section 2; design.md, section 4) multiplies the same bf16 hidden states and weights, but accumulates and
returns float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def exact_float32_matmul() -> Iterator[None]:
    """Keep float32 products in float32 (no TF32 on CUDA, no bf16 in oneDNN), whatever the process chose."""
    chosen = torch.get_float32_matmul_precision()
    if chosen == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


def head_dtype(hidden: Tensor, fp32: bool) -> torch.dtype:
    """Return the dtype in which the head computes: the model's, or at least float32 (float64 stays)."""
    return torch.promote_types(hidden.dtype, torch.float32) if fp32 else hidden.dtype


def head_logits(hidden: Tensor, weight: Tensor, fp32: bool) -> Tensor:
    """Return logits [..., V] of hidden states [..., D] under a head weight [V, D] (no bias).

    `fp32=False`: a plain product in the model's dtype. `fp32=True`: accumulated and returned in float32,
    TF32 off. The weight is read at every call and never kept in another precision, so a weight update, or
    an update of the embedding that it is tied to, is seen at once; gradients reach the weight itself, in
    its own dtype.
    """
    device = hidden.device.type
    if not fp32:
        return torch.nn.functional.linear(hidden, weight.to(hidden.dtype))
    with exact_float32_matmul(), torch.autocast(device_type=device, enabled=False):
        if (
            device == "cuda"
            and hidden.dtype == weight.dtype == torch.bfloat16
            and not torch.is_grad_enabled()
        ):
            # bf16 in, float32 accumulated and out: the same sums without a float32 copy of the weight at
            # every token
            flat = torch.mm(hidden.reshape(-1, hidden.shape[-1]), weight.t(), out_dtype=torch.float32)
            return flat.reshape(*hidden.shape[:-1], weight.shape[0])
        dtype = head_dtype(hidden, fp32)
        return torch.nn.functional.linear(hidden.to(dtype), weight.to(dtype))
