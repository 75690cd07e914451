"""Recipe files, overrides, the user's functions, and what a mistake is told."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import UserError
from scalerl.recipe import NAMES, Recipe, apply_overrides, diff, load_recipe, named
from scalerl.recipe.custom import load_function, resolve_user_files


def write(path, text):
    path.write_text(text)
    return path


def test_yaml_from_a_named_recipe_with_short_forms(tmp_path):
    file = write(
        tmp_path / "r.yaml", "from: scalerl\nloss: gspo\nadvantage: none\nsizes: {prompts_per_step: 8}\n"
    )
    recipe = load_recipe(file)
    assert (recipe.loss.kind, recipe.loss.eps_high) == ("gspo", 5e-3)
    assert recipe.advantage.normalisation == "none"
    assert (recipe.sizes.prompts_per_step, recipe.sizes.generations_per_prompt) == (8, 16)
    assert {d.axis for d in diff(named("scalerl"), recipe)} == {"loss", "advantage", "sizes"}


def test_toml_changes_one_parameter_and_keeps_its_siblings(tmp_path):
    file = write(tmp_path / "r.toml", 'from = "base"\n[loss]\neps_high = 0.28\n')
    assert load_recipe(file).loss.model_dump() == {"kind": "clip", "eps_low": 0.2, "eps_high": 0.28}


def test_a_file_without_from_must_give_every_axis(tmp_path):
    with pytest.raises(UserError, match=r"r.yaml: field schedule: missing: .*from: scalerl"):
        load_recipe(write(tmp_path / "r.yaml", "loss: cispo\n"))
    whole = named("magistral").to_dict()
    assert load_recipe(write(tmp_path / "w.json", json.dumps(whole))) == named("magistral")


@pytest.mark.parametrize("name", NAMES)
def test_resolved_recipe_survives_json(name):
    recipe = named(name)
    assert Recipe.model_validate(json.loads(json.dumps(recipe.to_dict()))) == recipe
    infinite = apply_overrides(recipe, ["loss=cispo", "loss.eps_max=.inf", "optimizer.max_grad_norm=.inf"])
    assert Recipe.model_validate(json.loads(json.dumps(infinite.to_dict()))) == infinite


def test_overrides():
    recipe = named("scalerl")
    assert apply_overrides(recipe, ["loss.eps_max=8"]).loss.eps_max == 8
    clip = apply_overrides(recipe, ["loss.eps_high=0.28", "loss=clip"]).loss
    assert clip.model_dump() == {"kind": "clip", "eps_low": 0.2, "eps_high": 0.28}
    assert apply_overrides(recipe, ["optimizer.learning_rate=1e-3"]).optimizer.learning_rate == 1e-3
    assert apply_overrides(recipe, ["advantage.over=all"]).advantage.model_dump() == {
        "kind": "group",
        "normalisation": "batch",
        "over": "all",
        "eps": 1e-6,
    }
    kl = apply_overrides(recipe, ["kl.coefficient=0.1", "kl.kind=reference"]).kl
    assert (kl.coefficient, kl.estimator) == (0.1, "k3")
    assert apply_overrides(recipe, ["sizes={prompts_per_step: 4}"]).sizes.max_answer_tokens == 2048
    assert apply_overrides(recipe, []) == recipe


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("loss.eps_mx=3", ["loss.eps_mx", "3", "did you mean 'eps_max'"]),
        ("loss.eps_low=0.1", ["loss.eps_low", "loss is 'cispo' here", "loss.kind"]),
        ("agregation=token", ["agregation", "did you mean 'aggregation'"]),
        ("loss.kind=cisp", ["loss.kind", "'cisp'", "did you mean 'cispo'"]),
        ("advantage=btch", ["advantage.normalisation", "'btch'", "'prompt', 'batch' or 'none'"]),
        ("sizes.prompts_per_step=0", ["sizes.prompts_per_step", "0", "greater than or equal to 1"]),
        ("sizes.generations_per_prompt=1", ["generations_per_prompt", "greater than or equal to 2"]),
        ("loss.eps_max=.nan", ["loss.eps_max", "greater than 0"]),
        ("length_control.min_thinking_share=1.5", ["min_thinking_share", "1.5"]),
        ("length_control.max_thinking_share=0.5", ["length_control", "min_thinking_share is above"]),
        ("loss=5", ["loss.kind", "5", "cispo"]),
        ("loss.eps_max", ["field=value"]),
        ("head.x=3", ["'head' has no fields below it"]),
        ("loss.eps_max=[", ["YAML"]),
        ("loss=mine.py:1f", ["loss", "mine.py:1f"]),
    ],
)
def test_mistakes_name_field_value_and_remedy(override, words):
    with pytest.raises(UserError) as caught:
        apply_overrides(named("scalerl"), [override])
    message = str(caught.value)
    assert "\n" not in message
    assert "--set" in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from: scalerl\nlos: cispo\n", ["r.yaml", "los", "did you mean 'loss'"]),
        ("from: scaler\n", ["did you mean 'scalerl'"]),
        ("- a\n", ["r.yaml", "list"]),
        ("a: [\n", ["r.yaml", "not readable"]),
    ],
)
def test_mistakes_in_files_name_the_file(tmp_path, text, words):
    with pytest.raises(UserError) as caught:
        load_recipe(write(tmp_path / "r.yaml", text))
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_missing_file():
    with pytest.raises(UserError, match=r"nowhere.yaml: can't be read: No such file"):
        load_recipe("nowhere.yaml")


def test_user_function_is_resolved_hashed_and_only_then_loaded(tmp_path):
    mine = write(
        tmp_path / "mine.py", "raise RuntimeError('run too early')\ndef my_loss(*args): return args[0]\n"
    )
    recipe = load_recipe(write(tmp_path / "r.yaml", "from: scalerl\nloss: mine.py:my_loss\n"))
    assert recipe.loss.path == f"{mine}:my_loss"
    assert len(recipe.loss.sha256) == 64
    with pytest.raises(UserError, match=r"mine.py: fails on import: RuntimeError: run too early"):
        load_function(recipe.loss)
    # read back from a run's record: same contents pass, changed ones don't
    again = Recipe.model_validate(recipe.to_dict())
    assert resolve_user_files(again, tmp_path) == recipe
    write(mine, "def my_loss(*args): return args[0]\n")
    with pytest.raises(UserError, match="has changed since"):
        resolve_user_files(again, tmp_path)
    with pytest.raises(UserError, match="has changed since"):
        load_function(again.loss)
    fresh = load_recipe(tmp_path / "r.yaml")
    assert load_function(fresh.loss)(7) == 7


def test_user_function_missing(tmp_path):
    write(tmp_path / "mine.py", "x = 1\n")
    with pytest.raises(UserError, match=r"other.py: field loss: can't read the file: No such file"):
        load_recipe(write(tmp_path / "r.yaml", "from: base\nloss: other.py:f\n"))
    recipe = load_recipe(write(tmp_path / "r.yaml", "from: base\nloss: mine.py:f\n"))
    with pytest.raises(UserError, match=r"mine.py: has no function 'f'"):
        load_function(recipe.loss)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_diff_is_antisymmetric_and_empty_only_for_equals(a, b):
    forward, backward = diff(named(a), named(b)), diff(named(b), named(a))
    assert [(d.field, d.b, d.a) for d in forward] == [(d.field, d.a, d.b) for d in backward]
    assert (forward == ()) == (a == b)


def test_diff_names_the_parameter_where_the_option_is_the_same():
    (difference,) = diff(named("base"), named("deepseek_grpo"))
    assert (difference.field, difference.a, difference.b) == ("loss.eps_high", 0.26, 0.2)
