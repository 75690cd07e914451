"""Counter-based randomness: a uniform number is a hash of (seed, group, sample, position), nothing else.

So what is sampled for a completion doesn't depend on what else is in flight, on the order of decoding, or on
restarts. The mixing function is SplitMix64's finaliser (Steele, Lea, Flood 2014), applied once for each key
word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
# 52 bits: then u <= 1 - 2^-52, and u * total stays below total in float64 (see sampling.by_inverse_cdf).
_UNUSED_BITS = np.uint64(12)
_UNIT = 2.0**-52

UInt64 = npt.NDArray[np.uint64]


def mix(words: UInt64) -> UInt64:
    """SplitMix64's finaliser: a bijection of 64-bit words in which every input bit moves every output bit."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def fold(state: UInt64, key: npt.NDArray[np.int64]) -> UInt64:
    """Fold one more key word into hash states, elementwise."""
    return mix(state + _GOLDEN * (key.astype(np.uint64) * np.uint64(2) + np.uint64(1)))


def stream_keys(seed: int, groups: npt.NDArray[np.int64], samples: npt.NDArray[np.int64]) -> UInt64:
    """One hash state a completion; `uniforms` folds the position into it."""
    start = mix(np.full(groups.shape, seed & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64) ^ _GOLDEN)
    return fold(fold(start, groups), samples)


def uniforms(keys: UInt64, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1 - 2^-52], one for each (stream key, position)."""
    bits = fold(keys, positions) >> _UNUSED_BITS
    return bits.astype(np.float64) * _UNIT
