"""Checkpoints and state files: whole, exact, or not there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scalerl.loop.accounting import Accountant
from scalerl.loop.checkpoint import latest_checkpoint, write_checkpoint
from scalerl.loop.state_file import load_state, save_state

PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=12,
)


@given(tree=st.dictionaries(st.text(min_size=1), PLAIN, max_size=4))
def test_plain_state_comes_back_equal(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("state")
    save_state(folder, tree)
    assert load_state(folder) == tree


def test_tensors_and_arrays_come_back_bit_for_bit(tmp_path):
    state = {
        "bf16": torch.tensor([1.1, -2.7], dtype=torch.bfloat16),
        "step": torch.tensor(3.0),
        "empty": torch.zeros(0, 4),
        "rows": [np.array([True, False]), np.arange(3), np.array([0.1], dtype=np.float32)],
        "pair": (1, "x"),
    }
    save_state(tmp_path, state)
    back = load_state(tmp_path)
    assert back["bf16"].dtype == torch.bfloat16
    assert torch.equal(back["bf16"], state["bf16"])
    assert back["step"].shape == ()
    assert back["empty"].shape == (0, 4)
    for wrote, read in zip(state["rows"], back["rows"], strict=True):
        assert read.dtype == wrote.dtype
        assert np.array_equal(read, wrote)
    assert back["pair"] == [1, "x"]


def test_what_cannot_be_restored_is_refused(tmp_path):
    with pytest.raises(TypeError, match="'/a/0'"):
        save_state(tmp_path, {"a": [object()]})


def write(folder, step, **keep):
    keep = {"keep_last": 2, "keep_every": None, **keep}
    return write_checkpoint(folder, step, {"x": torch.full((2,), float(step))}, lambda path: None, **keep)


def test_the_last_ones_and_each_nth_are_kept(tmp_path):
    for step in (10, 20, 30, 40, 50):
        write(tmp_path, step, keep_every=20)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{n:06d}" for n in (20, 40, 50)]


def test_a_corrupt_checkpoint_is_skipped_with_a_warning(tmp_path):
    write(tmp_path, 10)
    write(tmp_path, 20)
    file = tmp_path / "step-000020" / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.warns(UserWarning, match=r"step-000020 skipped: state\.safetensors isn't what was written"):
        found = latest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 10
    assert found.state()["x"].tolist() == [10.0, 10.0]


def test_an_unfinished_checkpoint_is_not_seen(tmp_path):
    write(tmp_path, 10)
    (tmp_path / ".writing-step-000020").mkdir()
    (tmp_path / "step-000030").mkdir()
    with pytest.warns(UserWarning, match="no manifest"):
        found = latest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 10
    assert latest_checkpoint(tmp_path / "nowhere") is None


def test_flops_by_hand():
    accountant = Accountant(parameters=10)
    accountant.prefilled(7)
    accountant.generated(5)
    accountant.trained(forwarded=12, sampled=4)
    assert accountant.flops == 6 * 10 * 12 + 2 * 10 * (7 + 5)
    compute = accountant.compute()
    assert (compute.tokens_generated, compute.tokens_trained, compute.device_hours) == (5, 4, None)
    other = Accountant(parameters=10)
    other.load_state_dict(accountant.state_dict())
    assert other == accountant


def test_lists_of_plain_values_and_of_others_come_back(tmp_path):
    state = {"plain": [1, 2.5, True, None, "a"], "mixed": [0.5, [1, (2, 3)], torch.ones(2)]}
    save_state(tmp_path, state)
    back = load_state(tmp_path)
    assert back["plain"] == [1, 2.5, True, None, "a"]
    assert back["mixed"][:2] == [0.5, [1, [2, 3]]]
    assert back["mixed"][2].tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="/odd"):
        save_state(tmp_path, {"odd": [1, {2}]})
