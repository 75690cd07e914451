"""The source's fitted laws (Table 1; C in GPU-hours): what simulations start from."""

from __future__ import annotations

from scalerl.curve.sigmoid import Law

R0 = 0.3  # not in the table: the value the simulations use

TABLE_1: dict[str, Law] = {
    "ScaleRL": Law(0.610, 1.92, 2542.0, R0),
    "length 32k": Law(0.645, 1.89, 11272.0, R0),
    "8 generations": Law(0.585, 2.44, 2542.0, R0),
    "24 generations": Law(0.590, 2.22, 3054.0, R0),
    "32 generations": Law(0.595, 2.07, 2936.0, R0),
    "Scout MoE": Law(0.710, 1.65, 4242.0, R0),
    "batch 512": Law(0.605, 1.77, 2818.0, R0),
    "batch 2048": Law(0.645, 1.70, 10909.0, R0),
    "math": Law(0.595, 2.05, 2896.0, R0),
    "code": Law(0.615, 1.09, 1675.0, R0),
}
