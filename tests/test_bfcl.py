"""The leaderboard's multi-turn tasks: its solutions earn 1, and its checker agrees about others."""

from __future__ import annotations

import copy
import importlib.util
import json
import random
from collections import Counter

import pytest

from agentrl.errors import BadArguments, UsageError
from agentrl.message import AssistantTurn, ToolCall
from agentrl.registry import make
from agentrl_environments import _bfcl_data as data
from agentrl_environments._bfcl_calls import GoldCall, read_call
from agentrl_environments._bfcl_made import entry_of, made
from agentrl_environments._bfcl_world import FAILED, World, refuse_endless
from agentrl_environments.bfcl import ADDED, DONE, MAX_STEPS

CATEGORIES = ["base", "long_context", "miss_func", "miss_param"]
installed = pytest.mark.skipif(
    importlib.util.find_spec("bfcl_eval") is None, reason="bfcl-eval is not installed: make bfcl"
)


@pytest.fixture
def played():
    """Plays a task's words and gives the environment, whose episode has ended."""
    envs = []

    def play(name, *spoken):
        env = make("bfcl", category=data.entry(name).category)
        envs.append(env)
        env.reset(seed=0, options={"task": task_of(name)})
        for turn in spoken:
            env.step(turn)
        return env

    yield play
    for env in envs:
        env.close()


def task_of(name):
    entry = data.entry(name)
    return make("bfcl", category=entry.category).task_source("test")[entry.number]


def say(*calls):
    return AssistantTurn("", tuple(ToolCall(name, arguments) for name, arguments in calls))


def gold_calls(entry):
    """The gold solution: for each turn of the user its calls by name."""
    world = World(entry)
    return [[(c.name, c.arguments(world.order(c.name))) for c in turn] for turn in entry.gold]


# What is read.


def test_a_gold_call_is_read_and_never_run():
    call = read_call("f('a', [1, -2.5], b={'c': None, 'd': True})")
    assert call == GoldCall("f", ("a", [1, -2.5]), {"b": {"c": None, "d": True}})
    assert call.arguments(["x", "y", "b"]) == {"x": "a", "y": [1, -2.5], "b": call.named["b"]}
    for text in ("f(g())", "f(a)", "o.f()", "f(**{})", "f(*[])", "1", "f(1+x)", "f(", "f();g()"):
        with pytest.raises((ValueError, SyntaxError)):
            read_call(text)


def test_types_become_those_of_json_schema_and_a_parameter_called_type_stays():
    described = {
        "type": "dict",
        "properties": {
            "type": {"type": "float", "description": "tuple"},
            "many": {"type": "array", "items": {"type": "dict"}},
        },
    }
    assert data.as_schema(described) == {
        "type": "object",
        "properties": {
            "type": {"type": "number", "description": "tuple"},
            "many": {"type": "array", "items": {"type": "object"}},
        },
    }


def test_endless_arithmetic_is_refused():
    for name, arguments in [
        ("power", {"base": 10, "exponent": 10**9}),
        ("power", {"base": 10**4000, "exponent": 10**4000}),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}),
        ("logarithm", {"value": 2, "base": 3, "precision": "1e9"}),
        ("logarithm", {"value": "1e999999999", "base": 3, "precision": 5}),
        ("square_root", {"number": 2, "precision": 10**400}),
        ("square_root", {"number": 2, "precision": float("nan")}),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}),
    ]:
        with pytest.raises(BadArguments, match=name):
            refuse_endless(name, arguments)
    refuse_endless("power", {"base": 2.5, "exponent": 10**9})
    refuse_endless("power", {"base": 2, "exponent": 1000})
    refuse_endless("logarithm", {"value": "2.5", "base": 3, "precision": [1]})


def test_options_that_mean_nothing_are_refused():
    with pytest.raises(UsageError, match="Did you mean miss_func"):
        make("bfcl", category="missfunc")


def test_without_the_package_it_is_said_how_to_get_it():
    with pytest.raises(UsageError, match="make bfcl"):
        data.package("a_package_that_nobody_has")


# What is played.


@installed
@pytest.mark.parametrize("category", CATEGORIES)
def test_every_official_solution_earns_one(category):
    env = make("bfcl", category=category)
    source = env.task_source("test")
    assert len(source) == 200
    for task in (source[i] for i in range(200)):
        env.reset(seed=0, options={"task": task})
        for turn in task.reference:
            *_, info = env.step(turn)
        assert (info["stop"], info["correct"]) == ("answer", True), task.id
        assert {o.status for turn in env.turns for o in turn.outcomes} <= {"ok", "error"}
    env.close()


@installed
def test_an_episode_of_words_alone_earns_nothing(played):
    for name in ("multi_turn_base_0", "multi_turn_miss_func_1"):
        env = played(name, *[DONE] * len(data.entry(name).questions))
        assert (str(env.end.stop), env.end.correct) == ("answer", False)


@installed
def test_the_tools_are_those_of_the_classes_that_the_task_involves(played):
    def names(env):
        return {schema["function"]["name"] for schema in env.tool_schemas()}

    files, cars = played("multi_turn_base_1"), played("multi_turn_base_51")
    assert "mkdir" in names(files)
    assert "startEngine" in names(cars)
    assert not names(files) & names(cars)
    files.reset(options={"task": task_of("multi_turn_base_51")})
    assert names(files) == names(cars)
    assert make("bfcl").tool_schemas() == []


@installed
def test_functions_that_come_later_are_told_of_by_the_user_and_no_prompt_changes(played):
    name = "multi_turn_miss_func_1"
    entry, task = data.entry(name), task_of(name)
    assert entry.late == {2: ("mv",)}
    env = played(name)
    before = env.tool_schemas()
    assert "mv" not in json.dumps(before)
    texts = [said[-1]["content"] for turn in task.reference for said in [env.step(turn)[0]] if said]
    (told,) = [text for text in texts if text.endswith(ADDED)]
    (schema,) = json.loads(told.removesuffix(ADDED))
    assert (schema["name"], schema["parameters"]["type"]) == ("mv", "object")
    assert env.tool_schemas() == before
    assert env.end.correct


@installed
def test_every_late_function_is_one_that_can_be_told_of():
    for entry in data.entries("miss_func"):
        for turn, names in entry.late.items():
            assert entry.questions[turn] == ""
            told = data.functions
            assert all(any(n in told(owner) for owner in entry.classes) for n in names), entry.id
    silent = [e for c in CATEGORIES if c != "miss_func" for e in data.entries(c) if e.late]
    assert silent == []


@installed
def test_wrong_names_are_refused_in_words_and_the_episode_goes_on(played):
    env = played("multi_turn_base_1")
    cases = [
        (("ls", {"all": True}), "bad_arguments", "no argument all"),
        (("mv", {"source": "log.txt"}), "bad_arguments", "destination is missing"),
        (("mkdir", {"dir_name": {}}), "error", FAILED),
        (("cat", {"file_name": "none"}), "error", "No such file"),
        (("echo", {"content": "x" * 200_000}), "bad_arguments", "too long"),
        (("_load_scenario", {"scenario": {}}), "unknown_tool", "unknown tool"),
        (("__init__", {}), "unknown_tool", "unknown tool"),
        (("startEngine", {"ignitionMode": "START"}), "unknown_tool", "unknown tool"),
    ]
    for call, status, text in cases:
        env.step(say(call))
        (outcome,) = env.turns[-1].outcomes
        assert outcome.status == status, call
        assert text in outcome.content
    assert env.end is None


@installed
def test_the_user_leaves_after_as_many_turns_with_calls_as_the_leaderboard_allows(played):
    env = played("multi_turn_base_1", *[say(("pwd", {}))] * MAX_STEPS)
    assert env.end is None
    env.step(say(("pwd", {}), ("ls", {})))
    assert str(env.end.stop) == "tool_end"
    assert [o.status for o in env.turns[-1].outcomes] == ["error", "error"]
    assert env.end.correct is False


@installed
def test_what_is_done_beyond_the_limit_of_the_last_turn_does_not_count(played):
    name = "multi_turn_base_1"
    turns = gold_calls(data.entry(name))
    first = [turn for calls in turns[:-1] for turn in (say(*calls), DONE)]
    last = [say(call) for call in turns[-1]]
    idle = say(("pwd", {}))
    inside = played(name, *first, *[idle] * (MAX_STEPS - len(last)), *last, idle)
    assert (str(inside.end.stop), inside.end.correct) == ("tool_end", True)
    outside = played(name, *first, *[idle] * MAX_STEPS, *last)
    assert (str(outside.end.stop), outside.end.correct) == ("tool_end", False)


ODD = (
    None, True, -1, 0, 10**30, -(10**9), 2.5, float("nan"), float("inf"), "", "x", "1e999999999",
    "9" * 3000, "x" * 90_000, "\u202e\x00\ud800", [], [1], ["x"] * 1000, {}, {"a": [1]},
)  # fmt: skip


def odd_calls(described):
    """A function with arguments that are missing, too many, of another type, or huge."""
    name, parameters = described["name"], described["parameters"]
    known, required = parameters["properties"], parameters["required"]
    kinds = {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    right = {key: kinds[known[key]["type"]] for key in required}
    yield ToolCall(name, right)
    yield ToolCall(name, {**right, "nonsense": 1})
    for key in required:
        yield ToolCall(name, {k: v for k, v in right.items() if k != key})
    for key in known:
        yield from (ToolCall(name, {**right, key: odd}) for odd in ODD)
    yield ToolCall(name, dict.fromkeys(known, 10**30))
    yield ToolCall(name, dict.fromkeys(known, "9" * 3000))


@installed
@pytest.mark.parametrize("owner", data.CLASSES)
def test_every_function_answers_whatever_it_is_called_with(owner, played):
    number = next(e.number for e in data.entries("base") if owner in e.classes)
    for described in data.functions(owner).values():
        env = played(f"multi_turn_base_{number}", AssistantTurn("", tuple(odd_calls(described))))
        assert env.end is None, env.end.problem
        for call, outcome in zip(env.turns[0].calls, env.turns[0].outcomes, strict=True):
            shown = (call.name, str(call.arguments)[:200], outcome.content[:200])
            assert outcome.status in ("ok", "error", "bad_arguments"), shown
            assert outcome.content, shown
            assert len(outcome.content) <= env.max_result_chars, shown
            assert "failed: " not in outcome.content[:80], shown
            outcome.content.encode()


# Nothing is shared.


@installed
def test_worlds_share_nothing_with_each_other_nor_with_the_data():
    entry = data.entry("multi_turn_long_context_190")
    config = copy.deepcopy(entry.config)
    calls = [call for turn in gold_calls(entry) for call in turn]
    alone = World(entry)
    told = [alone.run(*call) for call in calls]
    one, other = World(entry), World(entry)
    assert [(one.run(*call), other.run(*call))[0] for call in calls] == told
    assert World(entry).same(World(entry))
    assert one.same(other)
    assert not one.same(World(entry))
    assert entry.config == config


@installed
def test_a_function_that_keeps_its_arguments_does_not_keep_ours():
    entry = data.entry("multi_turn_base_90")
    calls = gold_calls(entry)
    kept = copy.deepcopy(calls)
    world = World(entry)
    for call in (call for turn in calls for call in turn):
        world.run(*call)
    assert calls == kept


@installed
def test_precisions_of_the_process_are_put_back():
    mpmath = pytest.importorskip("mpmath")
    before = mpmath.mp.dps
    entry = next(e for e in data.entries("base") if "MathAPI" in e.classes)
    said = World(entry).run("logarithm", {"value": 2, "base": 10, "precision": 40})
    assert said.startswith("{'result': mpf(")
    assert mpmath.mp.dps == before


@installed
def test_a_file_system_of_copies_of_copies_is_full_one_day():
    world = World(data.entry("multi_turn_base_1"))
    world.run("mkdir", {"dir_name": "a"})
    doubled = [
        (name, {key: value.format(i) for key, value in arguments.items()})
        for i in range(100)
        for name, arguments in [
            ("cp", {"source": "a", "destination": "b"}),
            ("mkdir", {"dir_name": "c{}"}),
            ("mv", {"source": "a", "destination": "c{}"}),
            ("mv", {"source": "b", "destination": "c{}"}),
            ("mv", {"source": "c{}", "destination": "a"}),
        ]
    ]
    with pytest.raises(BadArguments, match="file system is full"):
        _ = [world.run(*call) for call in doubled]


@installed
def test_a_folder_that_holds_itself_ends_nothing(played):
    calls = [("mkdir", {"dir_name": "a"}), ("cp", {"source": "a", "destination": "a"})]
    env = played("multi_turn_base_1", say(*calls, ("find", {}), ("ls", {})), *[DONE] * 4)
    assert (str(env.end.stop), env.end.correct) == ("answer", False)


# Which tasks there are.


@installed
def test_the_leaderboards_tasks_are_all_there_to_test_and_none_is_trained_on():
    env = make("bfcl", category="all")
    test, train = env.task_source("test"), env.task_source("train")
    assert (len(test), len(train)) == (800, 20_000)
    hashes = {test[i].hash for i in range(800)}
    assert len(hashes) == 800
    ours = [train[i] for i in range(400)]
    assert not hashes & {task.hash for task in ours}
    assert len({task.hash for task in ours}) == 400
    asked = {q for c in CATEGORIES for e in data.entries(c) for q in e.questions if q}
    assert not asked & {q for task in ours for q in entry_of(task.id).questions}
    assert train[3] == make("bfcl", category="all").task_source("train")[3]


@installed
@pytest.mark.parametrize("category", CATEGORIES)
def test_every_made_up_solution_earns_one_and_every_call_of_it_succeeds(category):
    env = make("bfcl", category=category)
    source = env.task_source("train")
    for task in (source[i] for i in range(50)):
        env.reset(seed=0, options={"task": task})
        for turn in task.reference:
            *_, info = env.step(turn)
        assert (info["stop"], info["correct"]) == ("answer", True), task.id
        assert {o.status for turn in env.turns for o in turn.outcomes} == {"ok"}, task.id
    env.close()


def test_made_up_conversations_lack_what_their_category_says():
    for number in range(200):
        whole, late, vague = (made(c, number) for c in ("base", "miss_func", "miss_param"))
        assert all(whole.questions)
        assert all(whole.gold)
        assert not whole.late
        ((turn, names),) = late.late.items()
        assert (late.gold[turn - 1], late.questions[turn]) == ((), "")
        assert {call.name for call in late.gold[turn]} == set(names)
        other = [calls for at, calls in enumerate(late.gold) if at != turn]
        assert not {call.name for calls in other for call in calls} & set(names)
        assert [c for c in late.gold if c] == [c for c in vague.gold if c] == list(whole.gold)
        assert vague.gold.count(()) <= 1
        assert all(vague.questions)


@installed
def test_no_prompt_tells_the_gold_calls():
    for category in CATEGORIES:
        for task in make("bfcl", category=category).task_source("test")._tasks:
            assert "tool_call" not in task.prompt
            assert isinstance(task.prompt, str)


# What the leaderboard says.


def perturbed(entry, rng, kind):
    """Calls of the gold solution with one thing wrong, or with more than is needed."""
    turns = [list(turn) for turn in copy.deepcopy(gold_calls(entry))]
    index = rng.choice([i for i, turn in enumerate(turns) if turn])
    turn = turns[index]
    at = rng.randrange(len(turn))
    name, arguments = turn[at]
    if kind == "dropped":
        del turn[at]
    elif kind == "extra":
        turn.insert(at, extra(entry, rng))
    elif kind == "reordered":
        everything = [call for calls in turns for call in calls]
        i, j = rng.randrange(len(everything)), rng.randrange(len(everything))
        everything[i], everything[j] = everything[j], everything[i]
        turns = [[everything.pop(0) for _ in calls] for calls in turns]
    elif kind == "moved":
        turns[rng.randrange(len(turns))].append(turn.pop(at))
    elif arguments:
        key = rng.choice(sorted(arguments))
        value = wrong(arguments[key]) if kind == "wrong" else retyped(arguments[key], rng)
        turn[at] = (name, {**arguments, key: value})
    else:
        turn[at] = (name, {"none": 1})
    return turns


def extra(entry, rng):
    """One more call: a function without arguments, or one that another solution uses."""
    described = [f for owner in entry.classes for f in data.functions(owner).values()]
    plain = [(f["name"], {}) for f in described if not f["parameters"]["required"]]
    others = [
        c
        for e in data.entries("base")
        if e.classes == entry.classes
        for turn in gold_calls(e)
        for c in turn
    ]
    return rng.choice(plain if rng.random() < 0.5 and plain else others)


def wrong(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else type(value)()


def retyped(value, rng):
    """The same thing in another type."""
    if isinstance(value, bool):
        return rng.choice([int(value), str(value)])
    if isinstance(value, int | float):
        return rng.choice([float(value), str(value), [value]])
    return rng.choice([[value], {"value": value}, None])


def official(entry, turns, label):
    """The verdict of the leaderboard's own checker."""
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    def text(name, arguments):
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"

    steps = [[[text(*call) for call in calls]] if calls else [] for calls in turns]
    row = {"id": entry.id, "initial_config": entry.config, "involved_classes": list(entry.classes)}
    gold = [[text(*call) for call in calls] for calls in gold_calls(entry)]
    return multi_turn_checker(steps, gold, row, entry.category, label)["valid"]


@installed
@pytest.mark.parametrize("category", CATEGORIES)
def test_the_leaderboards_checker_gives_perturbed_episodes_the_same_score(category):
    rng = random.Random(category)
    env = make("bfcl", category=category)
    source = env.task_source("test")
    met = Counter()
    for number, kind in enumerate(["dropped", "extra", "reordered", "moved", "wrong", "type"] * 25):
        entry = data.entry(source[rng.randrange(200)].id)
        turns = perturbed(entry, rng, kind)
        env.reset(seed=0, options={"task": source[entry.number]})
        for calls in turns:
            for turn in ([say(*calls)] if calls else []) + [AssistantTurn(DONE)]:
                env.step(turn)
        theirs = official(entry, turns, f"test{number}")
        assert env.end.correct is theirs, (entry.id, kind, turns)
        met[kind, theirs] += 1
    env.close()
    for kind in ("extra", "reordered", "type", "dropped", "wrong"):
        assert met[kind, False], (kind, met)
    assert sum(n for (_, valid), n in met.items() if valid) >= 25, met
    assert sum(n for (_, valid), n in met.items() if not valid) >= 25, met
