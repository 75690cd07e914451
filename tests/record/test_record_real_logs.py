# ruff: noqa: E501, ISC004 - a table of long paths
"""Every real log beside the repository loads with the file's own numbers, or ends with one clear line.

The expected numbers were read from the files by json, csv and regular expressions, not by the readers under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import scalerl
from scalerl.errors import UserError
from scalerl.record.load import load_all

LOGS = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "logs"
TRL, CONSOLE, VERL, FLAT, OTHER = (
    "1-trl/",
    "1-trl-console/",
    "2-verl/",
    "2-verl-csv/HappynessI__verl-for-AgentGym/",
    "2-other/",
)
WORDLE = TRL + "alexchilton__CAS_NLP_MODULE4_GRPO/"
STAGE2 = WORDLE + "expert_guy/post_training_project/threestage/stage2_output/"
SEARCH = VERL + "T-zy__Search-R1_inforcement/logs/"
TEXTCRAFT = FLAT + "results/training/textcraft/"
LAB = OTHER + "pes-llm-research__tinker-rl-lab/experiments/"
HACK = OTHER + "rohunagrawal__reward-hacking-entropy/outputs/rl-leetcode/llama-3.2-1b/"
PODS, RASBT = "4-curves/YixuanEvenXu__pods/results/", "4-curves/rasbt__reasoning-from-scratch/ch07/02_logs/"


class Curve(NamedTuple):
    """What a file holds: points, first and last x on the axis, first and last y as pass rates, the fields."""

    n: int
    x: tuple[float, float]
    y: tuple[float, float]
    field: str
    axis: str = "steps"
    options: Mapping[str, Any] = MappingProxyType({})


def unslothed(field: str, first: float, last: float, scale: str = "unit") -> Curve:
    return Curve(250, (1, 250), (first, last), field, options={"y": field, "scale": scale})


GOOD: list[tuple[str, Curve]] = [
    (TRL + "Deltasthicc__F1_Simulator_OpenENV/grpo_v1/checkpoint-500/trainer_state.json",
     Curve(50, (190836, 9515700), (0.8949687421321869, 0.8993749976158142), "reward", "tokens_trained")),
    (TRL + "HaoranLuo__text2sql-grpo/visualization_1000/trainer_state_1000steps.json",
     Curve(200, (92992, 17006636), (0.3349999964237213, 0.48124998807907104), "reward", "tokens_trained")),
    (TRL + "HaoranLuo__text2sql-grpo/visualization_1000/trainer_state_1000steps.json",
     Curve(200, (5, 1000), (0.3349999964237213, 0.48124998807907104), "reward", "steps", {"x": "step"})),
    (TRL + "HaoranLuo__text2sql-grpo/visualization_1000/trainer_state_1000steps.json",
     Curve(200, (8 * 3e9 * 92992, 8 * 3e9 * 17006636), (0.3349999964237213, 0.48124998807907104), "reward", "flops",
           {"params": 3e9})),
    (TRL + "IMJONEZZ__UnslothGRPO/outputs/checkpoint-250/trainer_state.json",
     unslothed("rewards/int_reward_func", 0.0, 0.3333333432674408)),
    (TRL + "IMJONEZZ__UnslothGRPO/outputs/checkpoint-250/trainer_state.json",
     unslothed("rewards/correctness_reward_func", 0.0, 0.5, "0:2")),
    (TRL + "abdo-ashraf__Gemma-3-RL-Finetuning/outputs/checkpoint-250/trainer_state.json",
     Curve(25, (10, 250), (0.225 / 2, 0.95 / 2), "rewards/correctness_reward_func",
           options={"y": "rewards/correctness_reward_func", "scale": "0:2"})),
    (TRL + "gauri0508__med-record/training/trainer_state.json",
     Curve(150, (3905, 647551), (0.40665000677108765, 0.7599999904632568), "reward", "tokens_trained")),
    (TRL + "ijinyu1113__Learned-Remasking-Policy-for-dLLM/checkpoint-1000/trainer_state.json",
     Curve(500, (1, 999), (0.0, 0.3125), "reward")),
    (TRL + "ijinyu1113__Learned-Remasking-Policy-for-dLLM/pretrained_checkpoints/checkpoint-2000/trainer_state.json",
     Curve(1000, (1, 1999), (0.0, 0.4375), "reward")),
    (CONSOLE + "Panacea-OpenEnv__Panacea-OpenEnv/logs/grpo_run_1.log",
     Curve(300, (6216, 1866000), (0.15, (1 - 0.5333) / 2), "reward", "tokens_trained", {"scale": "pm1"})),
    (CONSOLE + "vukrosic__reasoning-rl/artifacts/train6.log",
     Curve(300, (2346, 789764), (0.5 / 2.5, 0.0), "reward", "tokens_trained", {"scale": "0:2.5"})),
    (CONSOLE + "vukrosic__reasoning-rl/artifacts/train6.log",
     Curve(300, (1, 300), (0.2, 0.0), "reward", "steps", {"scale": "0:2.5", "x": "step"})),
    (CONSOLE + "vukrosic__reasoning-rl/artifacts/train3_metrics.csv",
     Curve(60, (1, 60), (0.0, 0.0), "reward", options={"scale": "unit"})),
    (SEARCH + "search-r1-grpo-qwen2.5-1.5b-verl-tool-agent.log",
     Curve(393, (161504, 64918568), ((1 + 0.0013671868946403265) / 2, (1 + 0.05859375) / 2), "critic/score/mean",
           "tokens_trained", {"scale": "pm1"})),
    (SEARCH + "search-r1-grpo-qwen2.5-1.5b-verl-tool-agent.log",
     Curve(3, (100, 300), (0.14764542892533986, 0.12644044438640167), "val-core/nq/reward/mean@1",
           options={"y": "val-core/nq/reward/mean@1", "x": "training/global_step"})),
    (SEARCH + "wandb_core_metrics.csv",
     Curve(392, (1, 392), ((1 + 0.0013671868946403265) / 2, (1 + 0.12812498211860657) / 2), "critic/score/mean",
           options={"scale": "pm1"})),
    (SEARCH + "wandb_export_1h1p2tkl.csv",
     Curve(392, (1, 392), ((1 + 0.0013671868946403265) / 2, (1 + 0.12812498211860657) / 2), "critic/score/mean",
           options={"scale": "pm1", "x": "training/global_step"})),
    (VERL + "yuzhaouoe__GUI-Cursor-Moving/verl_demo.log",
     Curve(2, (2740470, 2740470 + 2838007), (0.6530305743217468, 0.6419896483421326), "critic/score/mean",
           "tokens_trained", {"scale": "unit"})),
    (VERL + "zhiyuanhubj__logic-rl-formula/wandb/run-20250302_115218-wntzruuo/files/output.log",
     Curve(1, (1, 1), ((0.844 + 3) / 6,) * 2, "critic/score/mean", options={"scale": "-3:3", "x": "step"})),
    (VERL + "soumyarani__verl-gaudi/results/SUCCESS_grpo_3steps_metrics.txt",
     Curve(3, (757081184, 757081184 + 842629815 + 752920816), (0.0, 0.0), "critic/score/mean", "tokens_trained")),
    (TEXTCRAFT + "training_metrics_main-split-gp2.csv",
     Curve(13, (78560907, 578561271), (0.6411356209150327, 0.8533496732026143), "val-core_textcraft_acc_mean@1",
           "tokens_trained")),
    (TEXTCRAFT + "training_metrics_main-split-gp2.csv",
     Curve(2448, (1, 2448), (0.421875, 0.828125), "critic_score_mean", "steps",
           {"y": "critic_score_mean", "x": "step"})),
    (TEXTCRAFT + "training_metrics_main-joint-gp1.csv",
     Curve(5, (156196617, 606147601), (0.8071895424836601, 0.8513071895424836), "val-core_textcraft_acc_mean@1",
           "tokens_trained")),
    (TEXTCRAFT + "sft_grpo_5epoch_metrics.csv",
     Curve(115, (348874, 38680567), (0.9140625, 0.984375), "critic_score_mean", "tokens_trained")),
    (FLAT + "results/training/alfworld/grpo/training_metrics_grpo.csv",
     Curve(49, (465702, 21329441), (0.0, 0.0), "critic_score_mean", "tokens_trained")),
    (FLAT + "results/training/babyai/replay_grpo/training_metrics_replay_grpo.csv",
     Curve(1031, (577801, 556987383), ((0.11197135597467422 + 12) / 24, (0.15539072453975677 + 12) / 24),
           "critic_score_mean", "tokens_trained", {"scale": "-12:12"})),
    (OTHER + "sunbc0120__b200-nemo-rl/results/terminal_output_raysubmit_EZUWDiwevHsLiJwV.txt",
     Curve(5, (10, 50), (0.3047, 0.3359), "validation/accuracy")),
    (OTHER + "sunbc0120__b200-nemo-rl/results/terminal_output_raysubmit_EZUWDiwevHsLiJwV.txt",
     Curve(50, (1, 50), (0.3184, 0.2949), "Avg Reward", options={"y": "Avg Reward"})),
    (LAB + "results/arithmetic_metrics.jsonl",
     Curve(100, (13167, 1319917), (0.695, 1.0), "env/all/correct", "tokens_trained")),
    (LAB + "results/variance_mitigation.tsv#grpo seed=0",
     Curve(100, (0, 99), (0.0045, 0.3814), "heldout_acc", options={"restart": "last"})),
    (LAB + "tinker-runs/logs/grpo_exp_d.log", Curve(30, (1, 30), (0.253, 0.416), "reward")),
    (LAB + "tinker-runs/results/scale_gsm8k_qwen3-8b.json", Curve(30, (1, 30), (0.375, 0.1875), "reward")),
    (HACK + "Easy/metrics.jsonl", Curve(45, (0, 44), (0.22265625, 0.744140625), "reward/mean")),
    (HACK + "Hard/metrics.jsonl", Curve(45, (0, 44), (0.205078125, 0.6630859375), "reward/mean")),
    (OTHER + "s-haider10__finetunned_coding_agent/results/2026_02_13-06_30_15/metrics.jsonl",
     Curve(10, (10, 100), (0.35, 0.3), "eval/pass_at_1")),
    (OTHER + "jorahn__rookworld-rlvr/logs/training_history.jsonl",
     Curve(2, (1, 2), (0.3932536764705883, 0.5000018382352942), "mean_reward")),
    (OTHER + "Prem01-cyber__AxiomForgeAI/logs/grpo/grpo_20260426_032827/metrics.csv",
     Curve(6, (5, 30), (0.793333, 0.793333), "eval_final_ans")),
    (OTHER + "Prem01-cyber__AxiomForgeAI/logs/metrics.jsonl",
     Curve(7, (0, 30), (0.7866666666666666, 0.7933333333333333), "final_answer_accuracy")),
    ("3-wandb/YixuanEvenXu__pods/results/h100s-acc.csv#data/GRPO-s25-p8-n128-m32-ga4",
     Curve(21, (82.27580159299396, 2424.1763404410012), (0.0341796875, 0.826171875),
           "eval/rewards/accuracy_reward/mean", "seconds")),
    ("3-wandb/YixuanEvenXu__pods/results/h100s-acc.csv#data/GRPO-s21-p8-n32-m32-ga16",
     Curve(22, (84.89253760800057 / 450, 2542.649941093994 / 450), (0.02490234375, 0.828125),
           "eval/rewards/accuracy_reward/mean", "device_hours", {"devices": "8:H100"})),
    ("3-tensorboard/MAOJIASONG__TinyZero-TRL/examples/qwen-r1-aha-moment/runs/Feb25_04-10-46_declare-a100-0/"
     "events.out.tfevents.1740427850.declare-a100-0.3275755.0", Curve(39, (1, 39), (0.0, 0.0), "train/reward")),
    (PODS + "Instruct-GSM8K-512-64-16-Run1.json",
     Curve(12, (160, 2122), (0.8010614101592115, 0.8330553449583018), "gsm8k/ans_acc", options={"y": "gsm8k/ans_acc"})),
    (PODS + "Instruct-GSM8K-512-64-16-Run1.json", Curve(12, (160, 2122), (0.155, 0.165), "amc23/ans_acc")),
    (PODS + "Instruct-GSM8K-512-64-16-Run2.json",
     Curve(12, (154, 2116), (0.419758064516129, 0.4814516129032258), "math500/ans_acc",
           options={"y": "math500/ans_acc"})),
    (PODS + "Instruct-GSM8K-512-64-16-Run3.json", Curve(12, (150, 2061), (0.155, 0.215), "amc23/ans_acc")),
    (PODS + "Instruct-Llama-512-64-16-0.04-Run1.json",
     Curve(12, (51, 647), (0.354814253222138, 0.4955269143290371), "gsm8k/ans_acc")),
    ("4-curves/kanishkg__cognitive-behaviors/results/llama_results.csv#backtracking_subgoal",
     Curve(26, (0, 250), (0.17578125, 0.7060546875), "accuracy")),
    ("4-curves/kanishkg__cognitive-behaviors/results/llama_results.csv#base_70b",
     Curve(1, (0, 0), (0.22, 0.22), "accuracy")),
    (RASBT + "7_4_plus_clip_ratio_metrics.csv",
     Curve(11, (1, 500), (0.156, 0.416), "eval_acc", options={"scale": "percent"})),
    (RASBT + "7_6_plus_format_reward_metrics.csv",
     Curve(11, (1, 500), (0.508, 0.35), "eval_acc", options={"scale": "percent"})),
    (RASBT + "ch06_rlvr_grpo_original_no_kl_metrics.csv",
     Curve(11, (1, 500), (0.156, 0.33), "eval_acc", options={"scale": "percent"})),
    (RASBT + "ch06_rlvr_grpo_original_no_kl_metrics.txt", Curve(500, (1, 500), (0.0, 0.125), "reward_avg")),
]  # fmt: skip

REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    (TRL + "IMJONEZZ__UnslothGRPO/outputs/checkpoint-250/trainer_state.json",
     "reward has values -0.142..2.54167: an unbounded reward or a sum of several.*--y.*rewards/int_reward_func", {}),
    (TRL + "abdo-ashraf__Gemma-3-RL-Finetuning/outputs/checkpoint-250/trainer_state.json", "0.426975..1.54375", {}),
    (STAGE2 + "checkpoint-160/trainer_state.json", "eval_reward has values -0.745733..-0.0574667: an unbounded", {}),
    (STAGE2 + "checkpoint-80/trainer_state.json", "eval_reward has values -0.486133..-0.267467: an unbounded", {}),
    (WORDLE + "lara/output_4090/wordle-grpo/checkpoint-400/trainer_state.json", "-1.3875..1.425: an unbounded", {}),
    (TRL + "qhy991__GRPO-Clean-2/enhanced_grpo_8B_runs/v3-LR6e-6-R16-20250612-175657/checkpoint-600/trainer_state.json",
     "0.720906..8.74664: an unbounded", {}),
    (TRL + "qhy991__GRPO-Clean-2/model_parallel_only_outputs/pure-model-parallel-LR2e-5-R64-20250616-081316/"
     "checkpoint-280/trainer_state.json", "-0.531407..11.4091: an unbounded", {}),
    (CONSOLE + "Panacea-OpenEnv__Panacea-OpenEnv/logs/grpo_run_1.log", "-0.7..-0.5: an unbounded reward or a sum", {}),
    (CONSOLE + "vukrosic__reasoning-rl/artifacts/train6.log", "0..2.125: an unbounded", {}),
    (CONSOLE + "vukrosic__reasoning-rl/artifacts/train3_metrics.csv", "reward_std reaches 0.883883.*--scale", {}),
    (SEARCH + "search-r1-grpo-qwen2.5-1.5b-verl-tool-agent.log", r"-0.0380859..0.408008.*--scale pm1", {}),
    (VERL + "KotoHanon__VERL-Maze/verl_demo.log", "no line with a step and a pass rate", {}),
    (VERL + "yuzhaouoe__GUI-Cursor-Moving/verl_demo.log", "critic/score/max reaches .*1.09.*--scale", {}),
    (VERL + "zhiyuanhubj__logic-rl-formula/wandb/run-20250302_115218-wntzruuo/files/output.log",
     "reaches -3..3.*val/test_score/logic_assignment", {}),
    (FLAT + "results/training_metrics_index.csv", "an index of other files", {}),
    (FLAT + "results/training/babyai/replay_grpo/training_metrics_replay_grpo.csv", "-0.170789..0.939847", {}),
    (FLAT + "results/training/babyai/replay_grpo/training_metrics_replay_grpo.csv", "outside 0..1", {"scale": "unit"}),
    (LAB + "results/variance_mitigation.tsv", "holds 45 runs: grpo seed=0", {}),
    (LAB + "results/variance_mitigation.tsv#es seed=4", "heldout_acc has values -0.0", {}),
    (OTHER + "Brennen-Hill__Small-LLM-RLVR-Optimization/stabalization_experiments/wandb/"
     "run-20251211_193526-80o4kk8x/files/wandb-summary.json", "a W&B summary, the last values only", {}),
    ("3-wandb/YixuanEvenXu__pods/results/h100s-acc.csv", "holds 10 runs: data/GRPO-s25-p8-n128-m32-ga4", {}),
    ("3-wandb/YixuanEvenXu__pods/results/h100s-length.csv", "no field that could be a pass rate", {}),
    ("3-tensorboard/alexchilton__CAS_NLP_MODULE4_GRPO/expert_guy/post_training_project/threestage/stage2_output/logs/"
     "events.out.tfevents.1766306229.Mac.13809.0", "eval/reward has values -0.745733..-0.0574666: an unbounded", {}),
    ("4-curves/kanishkg__cognitive-behaviors/results/llama_results.csv", "holds 13 runs", {}),
    (RASBT + "7_4_plus_clip_ratio_metrics.csv", "15.6..45.6: percent.*--scale percent", {}),
    ("INDEX.md", "nothing to fit", {}),
]  # fmt: skip

needs_logs = pytest.mark.skipif(not LOGS.is_dir(), reason="the real logs aren't beside the repository")


@needs_logs
@pytest.mark.parametrize(("name", "expected"), GOOD, ids=[f"{n[-45:]}-{c.field}-{c.axis}" for n, c in GOOD])
def test_a_real_log_gives_its_own_numbers(name, expected):
    run = scalerl.load(str(LOGS / name), **expected.options)
    curve = run.curve()
    assert run.provenance.y == expected.field
    assert (curve.axis, run.provenance.points, len(curve)) == (expected.axis, expected.n, expected.n)
    assert (curve.compute[0], curve.compute[-1]) == pytest.approx(expected.x, rel=1e-12)
    assert (curve.pass_rate[0], curve.pass_rate[-1]) == pytest.approx(expected.y, rel=1e-12, abs=1e-12)


@needs_logs
@pytest.mark.parametrize(("name", "says", "options"), REFUSED, ids=[n[-60:] for n, _, _ in REFUSED])
def test_a_real_log_that_cannot_be_used_says_why_in_one_line(name, says, options):
    with pytest.raises(UserError, match=says) as caught:
        scalerl.load(str(LOGS / name), **options)
    assert "\n" not in str(caught.value)


@needs_logs
def test_every_real_log_is_in_the_tables():
    known = {name.split("#")[0] for name, _ in GOOD} | {name.split("#")[0] for name, _, _ in REFUSED}
    there = {str(p.relative_to(LOGS)) for p in LOGS.rglob("*") if p.is_file()}
    assert there <= known


@needs_logs
def test_files_of_several_runs_give_all_of_them():
    chart = load_all(LOGS / "3-wandb/YixuanEvenXu__pods/results/h100s-acc.csv")
    assert sorted(run.provenance.points for run in chart.values()) == [21] * 7 + [22] * 3
    tidy = load_all(LOGS / "4-curves/kanishkg__cognitive-behaviors/results/llama_results.csv")
    assert sorted(run.provenance.points for run in tidy.values()) == [1] + [26] * 12
    assert tidy["human_cot"].curve().r0 == 0.01171875


@needs_logs
def test_device_hours_come_from_the_seconds_of_each_step():
    run = scalerl.load(LOGS / TEXTCRAFT / "training_metrics_main-split-gp2.csv", devices="6+2:A100")
    assert run.provenance.axis == "device_hours"
    assert run.curve().compute[-1] == pytest.approx(139801.44979786873 * 8 / 3600)
    assert (run.header.devices.kind, run.header.devices.total) == ("A100", 8)


@needs_logs
def test_an_exact_prefix_loads_as_the_prefix():
    base = LOGS / TRL / "ijinyu1113__Learned-Remasking-Policy-for-dLLM"
    short = scalerl.load(base / "checkpoint-1000/trainer_state.json").curve()
    long = scalerl.load(base / "pretrained_checkpoints/checkpoint-2000/trainer_state.json").curve()
    assert short.pass_rate.tolist() == long.pass_rate[:500].tolist()


@needs_logs
def test_console_and_wandb_export_of_one_run_agree():
    options = {"scale": "pm1", "x": "training/global_step"}
    console = scalerl.load(
        LOGS / SEARCH / "search-r1-grpo-qwen2.5-1.5b-verl-tool-agent.log", **options
    ).curve()
    table = scalerl.load(LOGS / SEARCH / "wandb_export_1h1p2tkl.csv", **options).curve()
    assert console.pass_rate[:392].tolist() == pytest.approx(table.pass_rate.tolist())
