"""Small logs of our own, for the tests of the readers."""

from __future__ import annotations

import json

import scalerl


def put(tmp_path, content, name="log"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def xy(path, **options):
    curve = scalerl.load(path, **options).curve()
    return curve.compute.tolist(), curve.pass_rate.tolist()


TABLE = "step,eval/accuracy\n10,0.25\n20,0.5\n30,0.75\n40,0.875\n"
EXPECTED = ([10.0, 20.0, 30.0, 40.0], [0.25, 0.5, 0.75, 0.875])


def trainer_state(entries):
    return json.dumps({"best_metric": None, "global_step": 9, "log_history": entries, "max_steps": 9})
