"""Where settings come from, and what is said about those that do not fit."""

from __future__ import annotations

import datetime
import tomllib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl import tomlfile
from agentrl.config import EvalConfig, SelectSection, TrainConfig
from agentrl.errors import UsageError
from agentrl.sections import EnvSection
from agentrl.settings import (
    EVAL_FLAGS,
    TRAIN_FLAGS,
    config_folders,
    config_path,
    dump_toml,
    from_file,
    from_flags,
    resolve,
    settings,
)


def of_flags(*flags, model=TrainConfig, short=TRAIN_FLAGS):
    return resolve(model, from_flags(model, flags, short))


def of_toml(tmp_path, *texts, flags=()):
    given_ones = []
    for number, text in enumerate(texts, 1):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        given_ones += from_file(TrainConfig, tomlfile.read(path, f"{number}.toml"))
    return resolve(TrainConfig, given_ones + from_flags(TrainConfig, flags, TRAIN_FLAGS))


def complaint(call, *args, **kwargs):
    with pytest.raises(UsageError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_anything_given_every_setting_is_its_default():
    resolved = of_flags()
    assert resolved.config == TrainConfig()
    assert set(resolved.origin.values()) == {"default"}
    assert "select.m" in resolved.origin


def test_a_later_file_wins_over_an_earlier_one_and_a_flag_over_both(tmp_path):
    first = "[select]\nn = 16\nm = 4\nrule = 'first'\n"
    second = "# mine\n\n[select]\nm = 5\nn = 20\n"
    resolved = of_toml(tmp_path, first, second, flags=[("--m", "6")])
    select = resolved.config.select
    assert (select.n, select.m, select.rule) == (20, 6, "first")
    assert resolved.origin["select.rule"] == "1.toml:4"
    assert resolved.origin["select.n"] == "2.toml:5"
    assert resolved.origin["select.m"] == "--m"
    assert resolved.origin["train.steps"] == "default"


def test_the_later_of_two_spellings_of_a_setting_wins():
    assert of_flags(("--m", "4"), ("--select.m", "5")).config.select.m == 5
    assert of_flags(("--select.m", "5"), ("--m", "4")).origin["select.m"] == "--m"


@pytest.mark.parametrize(("model", "short"), [(TrainConfig, TRAIN_FLAGS), (EvalConfig, EVAL_FLAGS)])
def test_every_short_flag_names_a_setting(model, short):
    assert set(short.values()) <= {setting.name for setting in settings(model)}


@pytest.mark.parametrize("model", [TrainConfig, EvalConfig])
def test_every_setting_says_what_it_is_for(model):
    assert all(setting.description for setting in settings(model))


@pytest.mark.parametrize("model", [TrainConfig, EvalConfig])
def test_every_setting_can_be_given_by_its_dotted_flag(model):
    texts = {s.name: "" if s.default == () else str(s.default) for s in settings(model)}
    flags = [(f"--{name}", text) for name, text in texts.items()]
    assert of_flags(*flags, model=model, short={}).config == model()


def test_a_flag_of_a_list_gives_one_value_each_time_in_the_place_of_a_file_s(tmp_path):
    text = "[engine]\nname = 'vllm-server'\nurls = ['http://a', 'http://b']\n"
    assert of_toml(tmp_path, text).config.engine.urls == ("http://a", "http://b")
    flags = [("--url", "http://c"), ("--n", "4"), ("--m", "2"), ("--url", "http://d")]
    config = of_toml(tmp_path, text, flags=flags).config
    assert (config.engine.urls, config.select.n) == (("http://c", "http://d"), 4)


def test_servers_and_the_engine_that_asks_them_go_together():
    with pytest.raises(UsageError, match=r"no server is named\. Start one with `agentrl serve`"):
        of_flags(("--engine", "vllm-server"), short=TRAIN_FLAGS)
    with pytest.raises(UsageError, match=r"only servers have addresses\. Add --engine vllm-server"):
        of_flags(("--url", "http://a"), short=TRAIN_FLAGS)


def test_dashes_and_underscores_are_the_same_in_flags():
    assert of_flags(("--train.tasks-per-step", "7")).config.train.tasks_per_step == 7


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("hard", "hard"), ('"3"', "3"), ("[1]", "[1]")],
)
def test_an_option_of_the_environment_is_a_json_scalar_or_else_text(text, value):
    options = of_flags(("--env.level", text)).config.env.options
    assert options == {"level": value}
    assert type(options["level"]) is type(value)


def test_options_of_the_environment_may_stand_beside_its_name_or_below(tmp_path):
    beside = of_toml(tmp_path, "[env]\nname = 'x'\ndigits = 3\n")
    below = of_toml(tmp_path, "[env]\nname = 'x'\n[env.options]\ndigits = 3\n")
    assert beside.config == below.config
    assert beside.config.env == EnvSection(name="x", options={"digits": 3})
    assert below.origin["env.options.digits"] == "1.toml:4"


def test_an_option_of_the_environment_cannot_be_null():
    assert complaint(of_flags, ("--env.x", "null")).startswith("--env.x null: ")


def test_settings_that_contradict_each_other_are_told_by_the_flag_given_last():
    expected = "--m 80: can't keep 80 of n = 32. Lower --m or raise --n."
    assert complaint(of_flags, ("--m", "80")) == expected
    assert complaint(of_flags, ("--m", "9"), ("--n", "8")).startswith("--n 8: can't keep 9")


@pytest.mark.parametrize(
    ("flags", "first"),
    [
        ([("--pilot", "8"), ("--n", "8"), ("--m", "4"), ("--name", "a")], "--n 8: a pilot of 8"),
        ([("--n", "8"), ("--m", "4"), ("--pilot", "8"), ("--out", "a")], "--pilot 8: a pilot of 8"),
        (
            [("--engine.sleep", "true"), ("--max-staleness", "1"), ("--steps", "3")],
            "--max-staleness 1: sleep: with --max-staleness",
        ),
    ],
)
def test_a_flag_that_has_nothing_to_do_with_it_is_not_blamed(flags, first):
    assert complaint(of_flags, *flags).startswith(first)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((("--rule", "random"), ("--within", "ht")), "within: rule random has none. "),
        ((("--rule", "first"), ("--select.floor", "2")), "floor: rule first has none. "),
        (
            (("--engine.sleep", "true"), ("--max-staleness", "1")),
            "sleep: with --max-staleness above 0 the engine plays during updates",
        ),
        (
            (("--select.stats", "group"), ("--select.unbiased", "true"), ("--loss", "dapo")),
            "unbiased: dapo divides by tokens of the kept rows",
        ),
        (
            (("--select.stats", "group"), ("--select.unbiased", "1"), ("--within", "cheapest")),
            "unbiased: within cheapest gives some rows no chance. ",
        ),
    ],
)
def test_what_a_choice_cannot_do_is_refused_before_a_run(flags, expected):
    flag, text = flags[-1]
    assert complaint(of_flags, *flags).startswith(f"{flag} {text}: {expected}")


def test_a_budget_of_micro_batches_follows_their_size():
    def budget(**section):
        return SelectSection(**section).question(1000).token_budget

    assert budget() is None
    assert budget(token_budget="70") == 70
    assert budget(token_budget="auto") == 1000
    assert budget(token_budget="auto", micro_batches=3) == 3000


def test_a_budget_in_training_draws_among_equal_rewards_unless_told_otherwise():
    def within(**section):
        return SelectSection(**section).question(1000).within

    assert (within(), within(token_budget=70)) == ("auto", "ht")
    assert within(token_budget=70, within="cheapest") == "cheapest"
    assert within(token_budget=70, rule="random") == "auto"
    assert within(token_budget=70, stats="group", unbiased=True) == "auto"


def test_settings_that_contradict_each_other_are_told_by_their_line_in_a_file(tmp_path):
    message = complaint(of_toml, tmp_path, "[select]\nm = 80\n")
    assert message == "1.toml:2: select.m = 80: can't keep 80 of n = 32. Lower --m or raise --n."


@pytest.mark.parametrize(
    ("flag", "text", "expected"),
    [
        ("--n", "x", "--n x: must be a whole number. select.n: "),
        ("--n", "1", "--n 1: must be at least 2. "),
        ("--n", "", "--n '': must be a whole number. "),
        ("--lr", "0", "--lr 0: must be more than 0. "),
        ("--update.clip_low", "1", "--update.clip_low 1: must be less than 1. "),
        ("--update.tis_cap", "0.5", "--update.tis_cap 0.5: below 1 it would cut ratios of 1 too. "),
        ("--max-staleness", "-1", "--max-staleness -1: must be at least 0. "),
        ("--record.tokens", "perhaps", "--record.tokens perhaps: must be true or false. "),
        ("--rule", "max_varance", "--rule max_varance: not one. Did you mean max_variance? "),
        ("--token-budget", "lots", "--token-budget lots: neither a number of tokens nor auto. "),
        ("--token-budget", "-5", "--token-budget -5: neither a number of tokens nor auto. "),
        ("--select.cap", "1", "--select.cap 1: a single trajectory has no contrast. "),
        ("--select.floor", "9", "--select.floor 9: floor: 9 rows are more than the 8 "),
        ("--select.unbiased", "true", "--select.unbiased true: unbiased: weights undo a draw "),
        ("--rule", "zzz", "--rule zzz: not one. Choose max_variance, all, random, "),
    ],
)
def test_a_value_that_does_not_fit_is_told_in_the_words_it_was_given_in(flag, text, expected):
    assert complaint(of_flags, (flag, text)).startswith(expected)


@pytest.mark.parametrize(
    ("flag", "meant"),
    [("--selct.m", "--select.m"), ("--train.stps", "--train.steps"), ("--env.a.b", None)],
)
def test_an_unknown_flag_is_refused_with_the_nearest_known_one(flag, meant):
    message = complaint(of_flags, (flag, "1"))
    assert message.startswith(f"{flag}: not a setting. ")
    assert meant is None or message.endswith(f"Did you mean {meant}?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# one\n\n[model]\n\n\n\n[selct]\nm = 3\n",
            "1.toml:7: [selct] is not a setting. Did you mean [select]?",
        ),
        (
            "[select]\nrul = 'all'\n",
            "1.toml:2: select.rul is not a setting. Did you mean select.rule?",
        ),
        ("zzz = 3\n", "1.toml:1: zzz is not a setting. Known: env, model, "),
        ("select = 3\n", "1.toml:1: select is a section. Write [select], "),
        ("[env]\noptions = 3\n", "1.toml:2: options is a section. Write [env.options], "),
        ("[select]\nn = 4\nm = = 2\n", "1.toml:3: not TOML. Invalid value at column 5."),
        ("[select]\nn = '\n", "1.toml:2: not TOML. "),
        ("[select]\nm = 'x'\n", '1.toml:2: select.m = "x": must be a whole number. '),
        ("[env]\nname = 5\n", "1.toml:2: env.name = 5: must be text. "),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path, text, expected):
    assert complaint(of_toml, tmp_path, text).startswith(expected)


def test_lines_are_right_behind_long_strings_lists_and_comments(tmp_path):
    text = (
        "[env]\n"
        'name = "x" # [select]\n'
        'story = """\n[select]\nm = 3\n"""\n'
        "levels = [\n  1, # one\n  2,\n]\n"
        'env-table = { "a b" = 1 }\n'
        "[select]\n"
        "m = 4\n"
    )
    origin = of_toml(tmp_path, text).origin
    assert origin["env.options.story"] == "1.toml:3"
    assert origin["env.options.levels"] == "1.toml:7"
    assert origin["env.options.env-table"] == "1.toml:11"
    assert origin["select.m"] == "1.toml:13"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "x.toml: cannot be read. "), (b"name = '\xff'", "x.toml: not UTF-8 text (byte 8). ")],
)
def test_a_file_that_cannot_be_read_is_told(tmp_path, content, expected):
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    assert complaint(tomlfile.read, path, "x.toml").startswith(expected)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, datetime.UTC])),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CONFIGS = st.builds(
    TrainConfig,
    env=st.builds(EnvSection, name=TEXTS, options=st.dictionaries(TEXTS, VALUES, max_size=4)),
    select=st.builds(
        SelectSection,
        n=st.integers(8, 99),
        m=st.integers(2, 8),
        token_budget=st.one_of(st.just("auto"), st.integers(0, 10**9)),
    ),
)


@given(CONFIGS)
def test_settings_written_as_toml_read_back_as_the_same(config):
    assert TrainConfig.model_validate(tomllib.loads(dump_toml(config))) == config


@given(CONFIGS)
def test_a_run_s_own_file_gives_its_settings_again(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("run") / "config.toml"
    path.write_text(dump_toml(config), encoding="utf-8", newline="\n")
    given_ones = from_file(TrainConfig, tomlfile.read(path))
    assert resolve(TrainConfig, given_ones).config == config


def test_a_setting_at_the_top_stands_before_all_sections():
    config = EvalConfig(out="there")
    assert tomllib.loads(dump_toml(config))["out"] == "there"


def test_every_setting_is_written_below_its_description():
    lines = dump_toml(TrainConfig()).splitlines()
    for setting in settings(TrainConfig):
        key = setting.name.rpartition(".")[2]
        assert any(
            above == f"# {setting.description}" and below.startswith(f"{key} = ")
            for above, below in pairwise(lines)
        )


@pytest.mark.parametrize("value", [None, {1, 2}, object(), [None]])
def test_what_toml_cannot_hold_is_refused(value):
    config = TrainConfig(env=EnvSection(name="x", options={"k": value}))
    assert "config.toml cannot hold" in complaint(dump_toml, config)


def test_a_configuration_is_found_by_name_or_by_path(tmp_path):
    (tmp_path / "mine.toml").touch()
    assert config_path("mine", [tmp_path]) == tmp_path / "mine.toml"
    assert str(config_path("some/where.toml", [tmp_path])) == "some/where.toml"
    assert "Did you mean mine?" in complaint(config_path, "mne", [tmp_path])


def test_every_shipped_configuration_is_sound():
    files = [path for folder in config_folders() for path in folder.glob("*.toml")]
    assert files
    for path in files:
        resolve(TrainConfig, from_file(TrainConfig, tomlfile.read(path)))
