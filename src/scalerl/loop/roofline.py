"""Times of a profile's devices: decode, prefill, trainer step, weight transfer. Pure functions, in seconds.

A rule of thumb per kind of work, each stated where it's computed; attention's own FLOPs are left out
throughout (for 8k contexts of an 8B model about a tenth), as they are in `flops` of the run record.
"""

from __future__ import annotations

import math

from scalerl.loop.profile import Profile


def decode_seconds(profile: Profile, active: int, context_tokens: float, steps: int = 1) -> float:
    """Time of `steps` decode steps of `active` completions, none of which starts or ends between them.

    One step reads all weights and the KV cache of every active completion, or computes 2 N FLOPs a
    completion, whichever takes longer:

        max((N b + kv T) / (share x bandwidth), 2 N n / (share x peak))

    with T the tokens in context over all n completions: `context_tokens` at the first step, n more at each
    later one. The sum over the steps is exact.
    """
    if active == 0 or steps == 0:
        return 0.0
    bandwidth = profile.decode_bandwidth_share * profile.bytes_per_second
    weights = profile.parameters * profile.bytes_per_parameter
    first = (weights + profile.kv_bytes_per_token * context_tokens) / bandwidth
    growth = profile.kv_bytes_per_token * active / bandwidth
    compute = 2.0 * profile.parameters * active / (profile.prefill_flops_share * profile.flops_per_second)
    bound = 0 if first >= compute else min(steps, math.ceil((compute - first) / growth))
    free = steps - bound
    return bound * compute + free * first + growth * (free * bound + 0.5 * free * (free - 1))


def boundaries_before(
    profile: Profile, active: int, context_tokens: float, seconds: float, most: int, stride: int
) -> int:
    """Return the least j <= `most` such that j strides of `stride` decode steps take at least `seconds`."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if decode_seconds(profile, active, context_tokens, middle * stride) >= seconds:
            high = middle
        else:
            low = middle + 1
    return low


def prefill_seconds(profile: Profile, tokens: float) -> float:
    """Time for one device to read `tokens` tokens into its KV cache: 2 N FLOPs a token."""
    return 2.0 * profile.parameters * tokens / (profile.prefill_flops_share * profile.flops_per_second)


def training_seconds(profile: Profile, tokens: float) -> float:
    """Time of one step of all trainers together over these prompt and completion tokens: 6 N FLOPs each."""
    rate = profile.trainers * profile.training_flops_share * profile.flops_per_second
    return 6.0 * profile.parameters * tokens / rate


def transfer_seconds(profile: Profile) -> float:
    """From the end of a trainer step to the arrival of its weights at every generator."""
    size = profile.parameters * profile.bytes_per_parameter
    return profile.transfer_seconds + size / profile.transfer_bytes_per_second
