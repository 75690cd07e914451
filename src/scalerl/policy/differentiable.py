"""The layer's elementwise parts with their derivatives written out: few passes over memory, few nodes.

Autograd's own derivative of an RMS norm is some twenty kernels; these are five. On a small model on a CPU,
where matrix products are a third of the time, that counts. Each is once differentiable and is held to
numerical derivatives by tests.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor
from torch.autograd.function import once_differentiable


def _written_out(x: Tensor) -> bool:
    """Whether the derivative written out serves: without one, torch's own forward pass is the fastest."""
    return torch.is_grad_enabled() and x.dtype in (torch.float32, torch.float64)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean x^2 + eps) * weight over the last dimension: x [..., D], weight [D] -> [..., D].

    In less than float32 it is torch's, whose sums are float32's.
    """
    if not _written_out(x):
        return (
            _rms_norm_of_rows(x, weight, eps) if _few_kernels(x) else F.rms_norm(x, weight.shape, weight, eps)
        )
    normed: Tensor = _RmsNorm.apply(x, weight, eps)
    return normed


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [T, heads, E]; cos and signed sin [T, 1, E] (`lean.rope_tables`)."""
    if not torch.is_grad_enabled():
        return torch.addcmul(x * cos, torch.roll(x, x.shape[-1] // 2, -1), sin)
    rotated: Tensor = _Rotate.apply(x, cos, sin)
    return rotated


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up, all of one shape; in less than float32 with torch's silu, which rounds once."""
    if not _written_out(gate):
        return F.silu(gate) * up
    product: Tensor = _SwiGlu.apply(gate, up)
    return product


def _few_kernels(x: Tensor) -> bool:
    """Whether calls cost more than arithmetic: on a CPU, whose float32 products aren't rounded to less."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and x.dim() == 2


def _rms_norm_of_rows(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The mean square as a product with a column of 1 / D: three calls instead of torch's six."""
    column = x.new_full((x.shape[1], 1), 1 / x.shape[1])
    mean_square = torch.addmm(x.new_full((1,), eps), x * x, column)
    return (x * mean_square.rsqrt_()).mul_(weight)


class _RmsNorm(torch.autograd.Function):
    """With n = x / rms(x): d n = (d x - n mean(n d x)) / rms(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1])
        inverse = mean_square.add_(eps).rsqrt_()
        normed = x * inverse
        ctx.save_for_backward(normed, inverse, weight)
        return normed * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        normed, inverse, weight = ctx.saved_tensors
        product = grad * normed
        rows = product.view(-1, product.shape[-1])
        grad_weight = rows.sum(0)
        mean = (rows @ weight).div_(-rows.shape[1]).view(inverse.shape)
        grad_x = torch.mul(grad, weight, out=product)
        return grad_x.addcmul_(normed, mean).mul_(inverse), grad_weight, None


class _Rotate(torch.autograd.Function):
    """Both halves of E turned by one angle; the derivative turns back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        half = x.shape[-1] // 2
        turned = x * cos
        turned[..., :half].addcmul_(x[..., half:], sin[..., :half])
        turned[..., half:].addcmul_(x[..., :half], sin[..., half:])
        return turned

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        half = grad.shape[-1] // 2
        turned = grad * cos
        turned[..., :half].addcmul_(grad[..., half:], sin[..., half:])
        turned[..., half:].addcmul_(grad[..., :half], sin[..., :half])
        return turned, None, None


class _SwiGlu(torch.autograd.Function):
    """With s = sigmoid(g): d silu(g) / d g = s + g s (1 - s); the exponential is taken once."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        ctx.save_for_backward(sigmoid, silu, up)
        return silu * up

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        sigmoid, silu, up = ctx.saved_tensors
        slope = torch.addcmul(silu, silu, sigmoid, value=-1).add_(sigmoid)
        return slope.mul_(up).mul_(grad), grad * silu
