"""Chunked token log-probs against plain log-softmax, values and gradients, and what is never allocated."""

import numpy as np
import pytest
import torch

from scalerl.policy.token_logprobs import token_logprobs


def inputs(T=23, V=41, D=12, dtype=torch.float64):
    torch.manual_seed(1)
    hidden = torch.randn(T, D, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(V, D, dtype=torch.float64).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(V, (T,))


def test_value_and_entropy_equal_numpy():
    hidden, weight, targets = inputs()
    logprobs, entropy = token_logprobs(hidden, weight, targets, fp32_head=True, chunk_tokens=5)
    logits = hidden.detach().numpy() @ weight.detach().numpy().T
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(logprobs.detach(), np.log(p[np.arange(23), targets]), rtol=1e-12)
    np.testing.assert_allclose(entropy, -(p * np.log(p)).sum(axis=1), rtol=1e-12)
    assert not entropy.requires_grad


@pytest.mark.parametrize("chunk_tokens", [1, 5, 23, 1000, None])
def test_gradients_equal_plain_autograd_to_1e_5_in_float32(chunk_tokens):
    hidden, weight, targets = inputs(dtype=torch.float32)
    scale = torch.randn(23)
    logprobs, _ = token_logprobs(hidden, weight, targets, fp32_head=True, chunk_tokens=chunk_tokens)
    mine = torch.autograd.grad((logprobs * scale).sum(), (hidden, weight))
    h64, w64 = (x.detach().double().requires_grad_() for x in (hidden, weight))
    plain = (h64 @ w64.t()).log_softmax(-1)[torch.arange(23), targets]
    reference = torch.autograd.grad((plain * scale.double()).sum(), (h64, w64))
    torch.testing.assert_close(logprobs.double(), plain, rtol=1e-5, atol=1e-6)
    for got, wanted in zip(mine, reference, strict=True):
        assert (got.double() - wanted).norm() / wanted.norm() < 1e-5


def test_gradcheck():
    hidden, weight, targets = inputs(T=4, V=7, D=3)
    assert torch.autograd.gradcheck(
        lambda h, w: token_logprobs(h, w, targets, fp32_head=True, chunk_tokens=3)[0], (hidden, weight)
    )


def test_a_larger_vocabulary_stays_exact_to_1e_5():
    hidden, weight, targets = inputs(T=200, V=5000, D=48, dtype=torch.float32)
    hidden = hidden.detach().mul(0.3).requires_grad_()  # logits of some units, entropies of some nats
    logprobs, entropy = token_logprobs(hidden, weight, targets, fp32_head=True, chunk_tokens=64)
    mine = torch.autograd.grad(logprobs.sum(), (hidden, weight))
    h64, w64 = (x.detach().double().requires_grad_() for x in (hidden, weight))
    log_p = (h64 @ w64.t()).log_softmax(-1)
    plain = log_p[torch.arange(200), targets]
    assert ((logprobs - plain) / plain).abs().max() < 1e-5
    wanted_entropy = -(log_p.exp() * log_p).sum(-1)
    assert ((entropy - wanted_entropy) / wanted_entropy).abs().max() < 1e-5
    for got, wanted in zip(mine, torch.autograd.grad(plain.sum(), (h64, w64)), strict=True):
        assert (got - wanted).norm() / wanted.norm() < 1e-5


@pytest.mark.parametrize("fp32_head", [True, False])
def test_bf16_dtypes_and_values(fp32_head):
    hidden, weight, targets = inputs(dtype=torch.bfloat16)
    logprobs, entropy = token_logprobs(hidden, weight, targets, fp32_head=fp32_head, chunk_tokens=4)
    assert logprobs.dtype == entropy.dtype == torch.float32
    logprobs.sum().backward()
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16
    exact = (hidden.detach().double() @ weight.detach().double().t()).log_softmax(-1)[
        torch.arange(23), targets
    ]
    error = (logprobs.detach().double() - exact).abs().max()
    assert error < 1e-5 if fp32_head else 1e-3 < error < 0.1
    h64, w64 = (x.detach().double().requires_grad_() for x in (hidden, weight))
    (h64 @ w64.t()).log_softmax(-1)[torch.arange(23), targets].sum().backward()
    for got, wanted in ((hidden.grad, h64.grad), (weight.grad, w64.grad)):
        assert (got.double() - wanted).norm() / wanted.norm() < 0.02


def test_a_tied_weight_gets_both_gradients():
    _, weight, targets = inputs()
    tokens = torch.randint(41, (23,))
    logprobs, _ = token_logprobs(weight[tokens], weight, targets, fp32_head=True, chunk_tokens=6)
    (mine,) = torch.autograd.grad(logprobs.sum(), weight)
    plain = (weight[tokens] @ weight.t()).log_softmax(-1)[torch.arange(23), targets]
    torch.testing.assert_close(mine, torch.autograd.grad(plain.sum(), weight)[0])


def test_only_what_is_needed_gets_a_gradient_and_nothing_of_T_times_V_is_saved():
    hidden, weight, targets = inputs(T=64, V=500)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        logprobs, _ = token_logprobs(hidden, weight.detach(), targets, fp32_head=True, chunk_tokens=8)
    assert max(saved) < 64 * 500
    logprobs.sum().backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_no_tokens_and_no_entropy():
    hidden, weight, targets = inputs()
    logprobs, entropy = token_logprobs(hidden[:0], weight, targets[:0], fp32_head=True)
    assert logprobs.shape == entropy.shape == (0,)
    _, entropy = token_logprobs(hidden, weight, targets, fp32_head=True, with_entropy=False)
    assert entropy.abs().sum() == 0


def test_wrong_shapes_are_named():
    hidden, weight, targets = inputs()
    with pytest.raises(ValueError, match=r"targets \[T\] expected"):
        token_logprobs(hidden, weight, targets[:-1], fp32_head=True)
