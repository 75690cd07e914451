"""The head: what FP32 means, that nothing goes stale, and that TF32 never leaks in."""

import pytest
import torch

from scalerl.policy.head import exact_float32_matmul, head_logits


def test_fp32_head_on_bf16_equals_exact_products_and_plain_head_rounds():
    torch.manual_seed(0)
    hidden, weight = torch.randn(7, 64).bfloat16(), torch.randn(50, 64).bfloat16()
    exact = hidden.double() @ weight.double().t()  # bf16 products are exact in float64
    logits = head_logits(hidden, weight, fp32=True)
    assert logits.dtype == torch.float32
    assert (logits.double() - exact).abs().max() < 1e-5
    plain = head_logits(hidden, weight, fp32=False)
    assert plain.dtype == torch.bfloat16
    assert (plain.double() - exact).abs().max() > 1e-2  # what the FP32 head is for


def test_fp32_head_leaves_float64_alone_and_takes_any_leading_shape():
    hidden, weight = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    logits = head_logits(hidden, weight, fp32=True)
    assert logits.dtype == torch.float64
    torch.testing.assert_close(logits, torch.einsum("abd,vd->abv", hidden, weight))


def test_tied_weight_update_is_seen_at_once_and_gradient_reaches_the_shared_parameter():
    embedding = torch.nn.Embedding(6, 4).bfloat16()
    hidden = embedding(torch.tensor([1, 2]))
    before = head_logits(hidden.detach(), embedding.weight, fp32=True)
    head_logits(hidden, embedding.weight, fp32=True).sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.dtype == torch.bfloat16
    with torch.no_grad():
        embedding.weight.mul_(2)
    torch.testing.assert_close(head_logits(hidden.detach(), embedding.weight, fp32=True), 2 * before)


@pytest.mark.parametrize("chosen", ["high", "medium", "highest"])
def test_float32_precision_is_forced_inside_and_restored_outside(chosen):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(chosen)
        with exact_float32_matmul():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == chosen
        with pytest.raises(RuntimeError, match="on the way"), exact_float32_matmul():
            raise RuntimeError("on the way")
        assert torch.get_float32_matmul_precision() == chosen
    finally:
        torch.set_float32_matmul_precision(before)


def test_autocast_does_not_lower_the_fp32_head():
    hidden, weight = torch.randn(3, 16), torch.randn(9, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head_logits(hidden, weight, fp32=True)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, hidden @ weight.t())
