"""A shop by rules: scored on the rows that are left and on what the customer was told."""

from __future__ import annotations

import asyncio
import re
from datetime import date
from itertools import islice

import pytest

from agentrl.errors import UsageError
from agentrl.message import AssistantTurn, ToolCall
from agentrl.registry import make, resolve
from agentrl_environments._calls import called
from agentrl_environments._shop_cases import LEVELS, TOOLS, make_case
from agentrl_environments._shop_customer import Customer
from agentrl_environments._shop_store import Store, state_after
from agentrl_environments.shop import ASK

NOTHING = {"state": 0.0, "said": 0.0, "correct": 0.0}
EVERYTHING = {"state": 0.25, "said": 0.25, "correct": 0.5}


def play(env, task, *turns):
    """Reward parts of an episode, and how it stopped."""
    env.reset(seed=0, options={"task": task})
    for turn in turns:
        *_, info = env.step(turn)
    return info["reward_parts"], info["stop"]


def of(level, count, split="train", wanted=lambda case: True):
    """Some tasks of a level, each with its case."""
    source = make("shop", difficulty=level).task_source(split)
    pairs = ((t, make_case(t.meta["case"], level)) for t in map(source.__getitem__, range(2000)))
    found = list(islice((pair for pair in pairs if wanted(pair[1])), count))
    assert len(found) == count
    return found


def changing(words):
    """Places of the turns that change the database."""
    return [
        i for i, text in enumerate(words) if re.search(r"refund|exchange\"|change_|cancel_", text)
    ]


@pytest.fixture
def env():
    env = make("shop")
    yield env
    env.close()


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_reference_of_a_test_task_earns_one_and_silence_earns_nothing(count):
    env = make("shop")
    source = env.task_source("test")

    async def main():
        for i, task in enumerate(source[i] for i in range(count)):
            for turns, due in ((task.reference, EVERYTHING), ([""] * 12, NOTHING))[: 1 + (i < 100)]:
                await env.areset(options={"task": task})
                for turn in turns:
                    if env.end is None:
                        await env.astep(turn)
                assert (dict(env.end.parts), str(env.end.stop)) == (due, "answer"), task
                assert len(env.turns) == len(turns) or not due["said"]
        await env.arelease()

    asyncio.run(main())


def judged(case, wish):
    """The rule that forbids a wish, from the rows of the database and the rules as written."""
    rows = Store(case).rows()
    mine = next(row for row in rows["customers"] if row[2] == case.accounts[0].email)
    (order,) = (row for row in rows["orders"] if row[0] == wish.order)
    (item,) = (r for r in rows["items"] if r[0] == wish.order and r[1] == wish.item)
    if mine[3] != case.postcode:
        return 1
    if order[1] != mine[0]:
        return 2
    days = (case.today - date.fromisoformat(order[3])).days if order[2] == "delivered" else 999
    left = next((r[2] for r in rows["stock"] if r[:2] == (wish.item, wish.target)), 0)
    forbidden = {
        "address": (3, order[2] != "open"),
        "cancel": (3, order[2] != "open"),
        "refund": (4, days > 30 or item[4]),
        "exchange": (5, days > 60 or left < 1 or wish.target == item[2]),
    }
    rule, broken = forbidden[wish.kind]
    return rule if broken else 0


def test_the_rules_as_written_allow_and_forbid_what_the_cases_say():
    met, days = [], set()
    for level, count in zip(LEVELS, (300, 300, 500), strict=True):
        for _, case in of(level, count):
            assert [judged(case, wish) for wish in case.wishes] == [w.rule for w in case.wishes]
            forbidden = sum(wish.rule > 0 for wish in case.wishes)
            assert (len(case.wishes), forbidden) in {
                "easy": [(1, 0)], "medium": [(2, 0)], "hard": [(1, 1), (2, 1)],
            }[level]  # fmt: skip
            own = [o for o in case.orders if o.customer == case.accounts[0].id]
            things = [item.name for order in own for item in order.items]
            assert len(set(things)) == len(things)
            met += [(wish.kind, wish.rule) for wish in case.wishes]
            days |= {
                (w.kind, (case.today - date.fromisoformat(case.order(w.order).delivered)).days)
                for w in case.wishes
                if case.order(w.order).delivered
            }
    assert {kind for kind, _ in met} == set(TOOLS)
    assert {rule for _, rule in met} == set(range(6))
    assert {("refund", 30), ("refund", 31), ("exchange", 60), ("exchange", 61)} <= days


def test_a_state_is_what_the_actions_make_of_it():
    for _, case in of("medium", 60):
        before, after = Store(case).rows(), state_after(case, case.actions())
        changed = {table for table in before if before[table] != after[table]}
        due = {
            "refund": {"items", "payments"}, "exchange": {"items", "stock"},
            "address": {"orders"}, "cancel": {"orders"},
        }  # fmt: skip
        assert changed == set().union(*(due[wish.kind] for wish in case.wishes))


def test_granting_a_wish_that_a_rule_forbids_earns_nothing(env):
    for task, case in of("hard", 60, wanted=lambda case: len(case.wishes) == 1):
        (wish,) = case.wishes
        arguments = {
            "refund": ("refund", {"item": wish.item}),
            "exchange": ("exchange", {"item": wish.item, "colour": wish.target}),
            "address": ("change_address", {"address": wish.target}),
            "cancel": ("cancel_order", {}),
        }
        name, more = arguments[wish.kind]
        *before, first, second = task.reference
        yielding = [*before, first, called(name, order=wish.order, **more), second]
        assert play(env, task, *yielding) == (NOTHING, "answer")
        assert play(env, task, *task.reference) == (EVERYTHING, "answer")


def test_a_change_that_was_not_asked_for_earns_nothing(env):
    for task, case in of("easy", 40):
        *words, last = task.reference
        other = next(o for o in case.orders if o.id != case.wishes[0].order)
        for extra in (
            called("change_address", order=other.id, address="1 Elm Way, Bath"),
            called("cancel_order", order=other.id),
            called("refund", order=other.id, item=other.items[-1].name),
        ):
            assert play(env, task, *words, extra, last) == (NOTHING, "answer")


def test_the_right_change_at_the_wrong_place_earns_nothing(env):
    for task, case in of("easy", 40):
        (at,) = changing(task.reference)
        wrong = task.reference[at].replace(str(case.wishes[0].order), "10000")
        assert play(env, task, *task.reference[:at], wrong, task.reference[-1])[0] == NOTHING
        assert play(env, task, *task.reference[:at], task.reference[-1])[0] == NOTHING


def test_a_change_before_the_account_was_checked_earns_nothing(env):
    for task, _ in of("easy", 20):
        (at,) = changing(task.reference)
        ask, find, *_ = task.reference
        change, told = task.reference[at], task.reference[-1]
        assert play(env, task, change, ask, find, told) == (NOTHING, "answer")
        assert play(env, task, ask, change, find, told) == (NOTHING, "answer")
        assert play(env, task, ask, find, change, told) == (EVERYTHING, "answer")


def test_telling_a_stranger_what_the_records_say_earns_nothing(env):
    (pair,) = of("hard", 1, wanted=lambda case: case.wishes[0].rule == 1)
    task, case = pair
    order = case.order(case.wishes[0].order)
    for secret in (order.address, case.accounts[0].postcode):
        *words, last = task.reference
        assert play(env, task, *words, f"{last} I see {secret}.") == (NOTHING, "answer")
    (pair,) = of("hard", 1, wanted=lambda case: case.wishes[-1].rule == 2)
    task, case = pair
    *words, last = task.reference
    leak = f"{last} It went to {case.order(case.wishes[-1].order).address}."
    assert play(env, task, *words, leak) == (NOTHING, "answer")


def test_what_is_due_must_be_told(env):
    for task, _ in of("easy", 30, wanted=lambda case: case.wishes[0].kind == "refund"):
        *words, _ = task.reference
        number, paid = task.answer["say"]
        part = {"state": 0.25, "said": 0.0, "correct": 0.0}
        assert play(env, task, *words, f"Order {number}.")[0] == part
        assert play(env, task, *words, f"Paid {paid}.")[0] == part
        assert play(env, task, *words, f"Order {number}1, paid {paid}1.")[0] == part
        assert play(env, task, *words, f"Order {number}: {paid}. Rule 4 holds.")[0] == part
        good = f"Order {number}: {paid.removesuffix('0')} is on its way."
        assert play(env, task, *words, good)[0] == EVERYTHING


def test_refusing_needs_the_rule_and_naming_all_of_them_is_no_refusal(env):
    for task, case in of("hard", 30, wanted=lambda case: len(case.wishes) == 1):
        *words, _, _ = task.reference
        number, rule = case.wishes[0].order, case.wishes[0].rule
        for text in ("No.", f"Not for {number}.", f"{number}: Rule {rule % 5 + 1}.",
                     f"{number}: Rule 1, Rule 2, Rule 3, Rule 4, Rule 5."):  # fmt: skip
            assert play(env, task, *words, text, text) == (NOTHING, "answer"), text


def test_an_episode_that_never_ends_its_talk_has_said_nothing(env):
    ((task, _),) = of("easy", 1)
    *words, last = task.reference
    look = called("get_order", order=task.answer["do"][0][1]["order"])
    filled = [*words, *[f"{last}\n{look}"] * (env.max_turns - len(words))]
    assert play(env, task, *filled) == ({"state": 0.25, "said": 0.0, "correct": 0.0}, "max_turns")


def heard(case, number, *texts):
    customer = Customer(case, number)
    return [customer.hear(text) for text in texts]


def test_a_customer_gives_what_is_asked_for_and_what_is_due():
    ((task, case),) = of("easy", 1, wanted=lambda case: not case.wishes[0].named)
    own, number = case.accounts[0], task.meta["case"]
    email, postcode = f"My e-mail is {own.email}.", f"My postcode is {own.postcode}."
    order = f"The order is {case.wishes[0].order}."
    assert heard(case, number, ASK) == [f"{email} {postcode}"]
    assert heard(case, number, "Give me the zip.", "Hm.", "Fine.") == [postcode, email, None]
    assert heard(case, number, "Hello", "Which order?") == [email, order]
    assert heard(case, number, ASK, "Which order?", "Which order?") == [
        f"{email} {postcode}", order, None,
    ]  # fmt: skip
    assert heard(case, number, ASK, "Order 12345 is cancelled.")[-1] is None


def test_a_customer_in_a_hurry_asks_back_once_and_then_tells():
    ((task, case),) = of("medium", 1, wanted=lambda case: case.hurried)
    first, second, third, fourth, fifth = heard(case, task.meta["case"], ASK, ASK, "a", "b", "c")
    assert "hurry" in first
    assert case.postcode in second
    assert case.wishes[1].item in third
    assert fourth is None
    assert fifth is None


def test_a_customer_tries_once_to_talk_the_policy_out_of_a_rule():
    ((task, case),) = of("hard", 1, wanted=lambda c: c.wishes[0].rule == 3 and not c.hurried)
    _, plea, then, *_ = heard(case, task.meta["case"], ASK, "No.", "No.", "No.")
    assert plea
    assert then != plea
    ((_, allowed),) = of("easy", 1)
    assert heard(allowed, 1, ASK, "No.")[1] is None


def test_odd_calls_are_answered_in_words_and_change_nothing(env):
    ((task, case),) = of("easy", 1)
    env.reset(options={"task": task})
    order = case.orders[0]
    name = order.items[0].name
    before = env._open().rows()
    calls = [
        called("find_customer", email="\u202e' OR 1=1 --"),
        *(called("get_order", order=n) for n in (0, -1, 10**30, -(2**63) - 1)),
        called("cancel_order", order=1),
        called("change_address", order=order.id, address=" \n "),
        called("change_address", order=order.id, address="x" * 101),
        called("refund", order=order.id, item="\x00"),
        called("refund", order=order.id, item="x" * 5000),
        called("exchange", order=order.id, item=name, colour="🐎"),
        called("exchange", order=order.id, item=name, colour=order.items[0].colour),
    ]
    surrogate = AssistantTurn("", (ToolCall("find_customer", {"email": "\ud800@post.example"}),))
    for call in (*calls, surrogate):
        env.step(call)
        (outcome,) = env.turns[-1].outcomes
        assert outcome.status == "error", call
        assert outcome.content.startswith(outcome.name), call
        assert len(outcome.content) < 200
    assert env._open().rows() == before


def test_what_was_done_is_not_done_twice(env):
    ((task, case),) = of("easy", 1, wanted=lambda case: case.wishes[0].kind == "refund")
    wish = case.wishes[0]
    pay = called("refund", order=wish.order, item=f" {wish.item.upper()} ")
    cancel = called("cancel_order", order=wish.order)
    env.reset(options={"task": task})
    for call in (pay, pay, cancel, cancel, called("refund", order=wish.order, item=wish.item)):
        env.step(call)
    assert [turn.outcomes[0].status for turn in env.turns] == [
        "ok",
        "error",
        "ok",
        "error",
        "error",
    ]
    assert len(env._open().rows()["payments"]) == 1


def test_episodes_side_by_side_have_databases_of_their_own():
    envs = [make("shop") for _ in range(3)]
    tasks = [task for task, _ in of("medium", 3)]
    for env, task in zip(envs, tasks, strict=True):
        env.reset(options={"task": task})
    for turn in range(20):
        for env, task in zip(envs, tasks, strict=True):
            if env.end is None:
                env.step(task.reference[turn])
    for env in envs:
        assert env.end.reward == 1.0
        env.close()
        assert env._store is None


def test_calls_of_one_turn_run_in_their_order(env):
    ((task, _),) = of("easy", 1, wanted=lambda case: case.wishes[0].kind == "address")
    ask, *calls, told = task.reference
    assert play(env, task, ask, "\n".join(calls), told) == (EVERYTHING, "answer")


def test_splits_share_nothing_and_positions_are_stable():
    train, test = (resolve("shop").tasks(split) for split in ("train", "test"))
    assert (len(train), len(test)) == (50_000, 1_000)
    ours, theirs = ({source[i].hash for i in range(150)} for source in (train, test))
    assert not ours & theirs
    assert len(ours) == 150
    assert train[7] == make("shop").task_source("train")[7]
    assert {train[i].meta["difficulty"] for i in range(60)} == set(LEVELS)


def test_the_embedded_numbers_of_a_case_are_each_there_once():
    for _, case in of("hard", 100):
        numbers = [o.id for o in case.orders] + [a.id for a in case.accounts]
        numbers += [int(a.postcode) for a in case.accounts]
        assert len(set(numbers)) == len(numbers)
        assert len({account.email for account in case.accounts}) == len(case.accounts)


def test_unknown_difficulties_are_refused():
    with pytest.raises(UsageError, match="Did you mean hard"):
        make("shop", difficulty="hrad")


def test_references_take_few_turns(env):
    turns = [len(task.reference) for level in LEVELS for task, _ in of(level, 200)]
    assert min(turns) == 4
    assert max(turns) <= 9 < env.max_turns
