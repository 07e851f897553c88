"""SQL: what a policy may do to its own database, and what it may never do."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import ToolError, UsageError
from agentrl.message import ToolCall
from agentrl.task import Task
from agentrl_tools.sql import MAX_OUTPUT, Sql
from tests.tool_manners import call, calls, check_manners, started

SCRIPT = """
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, height REAL);
INSERT INTO people VALUES (1, 'Ada', 1.65), (2, 'Bo', NULL), (3, 'Łukasz', 1.8);
"""
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "


def say(box, statement):
    return call(box, "sql", statement=statement)


def test_rows_come_with_the_names_of_their_columns():
    with started(Sql(script=SCRIPT)) as box:
        said = say(box, "SELECT name, height FROM people ORDER BY id")
        assert said.status == "ok"
        assert said.content == "name | height\nAda | 1.65\nBo | NULL\nŁukasz | 1.8"
        assert say(box, "SELECT 1 AS x WHERE 0").content == "x\n[no rows]"
        assert say(box, "UPDATE people SET height = 2").content == "Done. 3 rows changed."
        assert say(box, "DELETE FROM people WHERE id = 1").content == "Done. 1 row changed."
        assert say(box, "CREATE INDEX i ON people (name)").content == "Done."
        assert say(box, "INSERT INTO people (name) VALUES ('C') RETURNING id").content == "id\n4"


def test_every_episode_begins_anew_and_no_two_meet():
    with started(Sql(script=SCRIPT)) as one, started(Sql(script=SCRIPT)) as other:
        say(one, "DELETE FROM people")
        assert other.query("SELECT count(*) FROM people") == [(3,)]
        assert one.query("SELECT count(*) FROM people") == [(0,)]
        one.release()
        one.start(Task("again"))
        assert one.query("SELECT count(*) FROM people") == [(3,)]


def test_the_reward_sees_what_is_left_and_the_policys_limits_are_back_afterwards():
    with started(Sql(script=SCRIPT)) as box:
        say(box, "BEGIN")
        say(box, "INSERT INTO people (name) VALUES ('Di')")
        assert box.query("SELECT name FROM people WHERE id > ?", (3,)) == [("Di",)]
        assert box.query("PRAGMA user_version") == [(0,)]
        assert "not allowed" in say(box, "PRAGMA user_version").content


def test_a_task_and_rows_may_set_up_the_database():
    rows = {"t t": [{"a": 1, "b": b"\x00\x01"}, {"a": None, 'q"': "x"}]}
    box = Sql(rows=rows, setup=lambda task: f"CREATE TABLE goal AS SELECT {task.answer} AS n")
    with started(box, Task("?", 7)):
        assert say(box, "SELECT n FROM goal").content == "n\n7"
        assert (
            say(box, 'SELECT * FROM "t t"').content
            == "a | b | q\"\n1 | x'0001' (2 bytes) | NULL\nNULL | NULL | x"
        )


def test_a_file_is_copied_and_stays_as_it_is(tmp_path):
    path = tmp_path / "a b#?.db"
    source = sqlite3.connect(path)
    source.executescript(f"PRAGMA journal_mode=WAL; {SCRIPT}")
    source.close()
    before = path.read_bytes()
    with started(Sql(database=path)) as box:
        say(box, "DROP TABLE people")
        assert box.query("SELECT count(*) FROM sqlite_master") == [(0,)]
    with started(Sql(database=str(path))) as box:
        assert box.query("SELECT count(*) FROM people") == [(3,)]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ATTACH '{file}' AS other", "ATTACH"),
        ("ATTACH ':memory:' AS other", "ATTACH"),
        ("DETACH main", "DETACH"),
        ("VACUUM INTO '{file}'", "VACUUM"),
        ("VACUUM", "VACUUM"),
        ("PRAGMA journal_mode=WAL", "PRAGMA journal_mode is not allowed, only"),
        ("PRAGMA max_page_count=1000000", "PRAGMA max_page_count"),
        ("PRAGMA writable_schema=1", "PRAGMA writable_schema"),
        ("PRAGMA temp_store_directory='{file}'", "PRAGMA temp_store_directory"),
        ("SELECT * FROM pragma_database_list", "PRAGMA database_list"),
        ("EXPLAIN PRAGMA hard_heap_limit=1", "PRAGMA hard_heap_limit"),
        ("SELECT load_extension('{file}')", "load_extension is not allowed"),
        ("SELECT readfile('/etc/hostname')", "no such function: readfile"),
        ("SELECT writefile('{file}', 'x')", "no such function: writefile"),
        ("SELECT fts3_tokenizer('simple')", "fts3_tokenizer is not allowed"),
        ("CREATE TEMP TABLE people (name)", "CREATE TEMP TABLE is not allowed"),
        ("CREATE TEMP VIEW people AS SELECT 1", "CREATE TEMP VIEW is not allowed"),
        ("SELECT printf('%.*c', 2000000000, 'x')", "printf takes no *"),
        ("SELECT format('%1000d', 1)", "printf takes no * here, and no width of over 999"),
        ("SELECT trim('x', hex(zeroblob(100)))", "trim takes 100 characters at most"),
        ("SELECT 1" + " + abs(1)" * 101, "more than 100 calls of functions"),
        ("SELECT length(zeroblob(200000))", "too big"),
        ("CREATE VIRTUAL TABLE v USING fts5(x)", "CREATE VIRTUAL TABLE is not allowed"),
        ("UPDATE sqlite_master SET sql = ''", "table sqlite_master may not be modified"),
    ],
)
def test_files_and_settings_are_out_of_reach(tmp_path, statement, why):
    with started(Sql(script=SCRIPT)) as box:
        said = say(box, statement.format(file=tmp_path / "out"))
        assert said.status == "error"
        assert why in said.content
        assert list(tmp_path.iterdir()) == []
        assert say(box, "SELECT count(*) FROM people").content.endswith("\n3")


def test_a_table_can_be_described():
    with started(Sql(script=SCRIPT)) as box:
        assert "0 | id | INTEGER" in say(box, "PRAGMA table_info(people)").content
        assert "people" in say(box, "SELECT name FROM sqlite_master").content


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ("SELECT value FROM json_each('[7, 8]')", "7"),
        ("SELECT atom FROM json_tree('7')", "7"),
        ("SELECT name FROM pragma_table_info('people')", "id"),
        ("SELECT count(*) > 0 FROM dbstat", "1"),
        ("SELECT printf('%5.1f|%s', 1.25, 'x')", "  1.3|x"),
        ("SELECT trim('--a-', '-') || ltrim('  b') || rtrim('c.', '.')", "abc"),
    ],
)
def test_what_only_reads_is_allowed(readonly, statement, first):
    with started(Sql(script=SCRIPT, readonly=readonly)) as box:
        said = say(box, statement)
        assert (said.status, said.content.split("\n")[1:2]) == ("ok", [first]), said.content


HIDING = (
    "DROP TABLE people",
    f"CREATE VIEW people AS {ENDLESS} SELECT x AS id, 'forged' AS name FROM c",
)
VIEWS = f"""
{SCRIPT}
CREATE VIEW tall AS SELECT name FROM people WHERE height > 1.7;
CREATE TABLE log (n);
CREATE TRIGGER own AFTER INSERT ON log BEGIN UPDATE people SET height = 9; END;
"""


@pytest.mark.parametrize(
    ("left", "asked", "why"),
    [
        (HIDING, "SELECT name FROM people", "people was made by the policy"),
        (HIDING, "SELECT count(*) FROM PEOPLE", "PEOPLE was made by the policy"),
        (["DROP TABLE people"], "SELECT * FROM people", "no such table: people"),
        (
            ["DROP VIEW tall", "CREATE VIEW tall AS SELECT 'forged' AS name"],
            "SELECT name FROM tall",
            "tall was made by the policy",
        ),
        (
            ["CREATE TRIGGER x AFTER INSERT ON log BEGIN UPDATE log SET n = 'forged'; END"],
            "INSERT INTO log VALUES (0)",
            "x was made by the policy",
        ),
    ],
)
def test_what_the_policy_makes_takes_no_part_in_what_the_environment_asks(left, asked, why):
    with started(Sql(script=VIEWS)) as box:
        for statement in left:
            assert say(box, statement).status == "ok"
        with pytest.raises(ToolError, match=why):
            box.query(asked)
        assert "is not allowed" in say(box, "PRAGMA user_version").content


def test_what_the_environment_made_takes_part_and_what_the_policy_made_may():
    with started(Sql(script=VIEWS)) as box:
        say(box, "CREATE VIEW short AS SELECT name FROM people WHERE height <= 1.7")
        assert box.query("SELECT name FROM tall") == [("Łukasz",)]
        assert box.query("WITH short AS (SELECT 2 AS x) SELECT x FROM short", made=True) == [(2,)]
        assert box.query("SELECT name FROM short", made=True) == [("Ada",)]
        box.query("INSERT INTO log VALUES (1)")
        assert box.query("SELECT DISTINCT height FROM people") == [(9.0,)]


def test_what_the_environment_asks_comes_to_an_end_whatever_the_policy_made():
    with started(Sql(script=SCRIPT, steps=100_000, megabytes=1)) as box:
        for statement in HIDING:
            say(box, statement)
        with pytest.raises(ToolError, match="more than 500000 steps"):
            box.query("SELECT count(*) FROM people", made=True)
        with pytest.raises(ToolError, match="larger than a database may be"):
            box.query("SELECT hex(zeroblob(40000)) FROM people", made=True)
        assert "more than 100000 steps" in say(box, "SELECT count(*) FROM people").content


@pytest.mark.parametrize("statement", ["SELEC 1", "SELECT ?", "SELECT 1; SELECT 2"])
def test_a_mistake_of_the_environment_is_told_from_what_the_policy_left(statement):
    with started(Sql(script=SCRIPT)) as box, pytest.raises(UsageError, match="Check the state"):
        box.query(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO people (name) VALUES ('x')",
        "UPDATE people SET name = 'x'",
        "DELETE FROM people",
        "DROP TABLE people",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "ALTER TABLE people ADD COLUMN x",
        "REPLACE INTO people VALUES (1, 'x', 0)",
        "WITH c AS (SELECT 1) DELETE FROM people",
    ],
)
def test_a_database_for_reading_only_is_read_only(statement):
    with started(Sql(script=SCRIPT, readonly=True)) as box:
        assert "this database can only be read" in say(box, statement).content
        assert box.query("SELECT count(*), max(name) FROM people") == [(3, "Łukasz")]
        assert say(box, "SELECT name FROM people LIMIT 1").status == "ok"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT 1; DROP TABLE people", "one statement at a time"),
        ("SELEC 1", 'near "SELEC": syntax error.'),
        ("SELECT * FROM peple", "no such table: peple. There is people."),
        ("SELECT nme FROM people", "no such column: nme."),
        ("SELECT ?", "number of bindings"),
        (" \n", "the statement is empty"),
        ("SELECT '\0'", "null character"),
        ("SELECT '\ud800'", "surrogates"),
        (f"SELECT '{'x' * 30_000}'", "too large"),
        ("SELECT zeroblob(2000000)", "too big"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "too deep|overflow|too large"),
        ("ROLLBACK", "no transaction"),
    ],
)
def test_what_cannot_be_run_is_answered_in_words(statement, why):
    with started(Sql(script=SCRIPT)) as box:
        said = say(box, statement)
        assert said.status == "error"
        assert any(word in said.content for word in why.split("|")), said.content
        assert box.query("SELECT count(*) FROM people") == [(3,)]


@pytest.mark.parametrize(
    "statement",
    [
        ENDLESS + "SELECT count(*) FROM c",
        ENDLESS + "SELECT max(a.x) FROM c AS a, c AS b",
        "CREATE TABLE t AS " + ENDLESS + "SELECT x FROM c",
        ENDLESS + ", d AS (SELECT * FROM c LIMIT 100000) SELECT count(*) FROM d a, d b, d c",
    ],
)
def test_a_statement_without_an_end_is_stopped_after_the_same_steps(statement):
    with started(Sql(script=SCRIPT, steps=200_000)) as box:
        said = say(box, statement)
        assert said.status == "error"
        assert "more than 200000 steps" in said.content
        assert box.query("SELECT count(*) FROM sqlite_master") == [(1,)]
        assert say(box, "SELECT count(*) FROM people").content.endswith("3")


def test_time_is_limited_where_steps_are_not():
    with started(Sql(seconds=0.05, steps=10**12)) as box:
        assert "more than 0.05 seconds" in say(box, ENDLESS + "SELECT count(*) FROM c").content


def test_an_endless_result_is_shown_in_part():
    with started(Sql(script=SCRIPT, max_rows=3)) as box:
        said = say(box, ENDLESS + "SELECT x FROM c")
        assert said.content.startswith("x\n1\n2\n3\n[only the first 3 rows")
        assert len(say(box, ENDLESS + "SELECT hex(zeroblob(2000)), x FROM c").content) < MAX_OUTPUT


def test_the_database_cannot_outgrow_its_size():
    with started(Sql(megabytes=1)) as box:
        say(box, "CREATE TABLE t (x)")
        said = say(box, f"INSERT INTO t {ENDLESS} SELECT zeroblob(90000) FROM c LIMIT 100")
        assert "full" in said.content
        assert box.query("SELECT count(*) FROM t") == [(0,)]


def test_memory_for_sorting_is_limited_for_the_whole_process():
    with started(Sql()) as box:
        ((limit,),) = box.query("PRAGMA hard_heap_limit")
        assert 0 < limit <= 2 << 30


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("9e999 - 9e999", "NULL"),
        ("9e999", "inf"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9.223372036854776e+18"),
        ("x'00ff'", "x'00ff' (2 bytes)"),
        ("zeroblob(1000)", f"x'{'00' * 16}...' (1000 bytes)"),
        ("'a' || char(10) || 'b\\'", "a\\nb\\\\"),
        ("cast(x'ff' AS TEXT)", "\ufffd"),
        ("printf('%.999c', 'x')", "x" * 300 + "... (999 characters)"),
        ("''", ""),
    ],
)
def test_odd_values_are_shown_sanely(expression, shown):
    with started(Sql()) as box:
        assert say(box, f"SELECT {expression} AS v").content == f"v\n{shown}"


@given(st.text(max_size=200))
def test_any_text_is_answered_and_harms_nothing(statement):
    with started(Sql(script=SCRIPT, readonly=True, steps=10_000)) as box:
        assert say(box, statement).status in ("ok", "error")
        assert box.query("SELECT count(*) FROM people") == [(3,)]


def test_statements_of_a_turn_run_in_their_order():
    with started(Sql(script="CREATE TABLE t (n)")) as box:
        wanted = [ToolCall("sql", {"statement": f"INSERT INTO t VALUES ({i})"}) for i in range(20)]
        calls(box, *wanted)
        assert [n for (n,) in box.query("SELECT n FROM t ORDER BY rowid")] == list(range(20))


def test_threads_wait_for_one_another():
    with started(Sql(script=SCRIPT)) as box, ThreadPoolExecutor(8) as pool:
        insert = "INSERT INTO people (name) VALUES ('x')"
        said = list(pool.map(lambda _: say(box, insert).status, range(40)))
        assert said == ["ok"] * 40
        assert box.query("SELECT count(*) FROM people") == [(43,)]


def test_letting_go_ends_what_still_runs():
    with started(Sql(seconds=10, steps=10**12)) as box, ThreadPoolExecutor(1) as pool:
        busy = threading.Event()

        def run():
            busy.set()
            return say(box, ENDLESS + "SELECT count(*) FROM c").content

        said = pool.submit(run)
        busy.wait()
        time.sleep(0.3)  # until the statement itself has begun
        box.release()
        assert said.result() == "sql: interrupted."
        box.release()


def test_letting_go_waits_for_nobody_and_the_last_one_closes():
    with started(Sql(script=SCRIPT)) as box:
        guard = box._guard
        with guard.held():
            box.release()
            box.start(Task("the next one"))
            assert guard.connection.execute("SELECT 7").fetchone() == (7,)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            guard.connection.execute("SELECT 7")
        assert say(box, "SELECT count(*) FROM people").content.endswith("3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"script": "CREATE TABL"}, "the script fails"),
        ({"database": "nowhere.db"}, "there is no file"),
        ({"rows": {"t": []}}, "the rows of t have no columns"),
        ({"rows": {"t": [{"a": 2**63}]}}, "a row of t cannot be kept"),
        ({"rows": {"t": [{"a": []}]}}, "a row of t cannot be kept"),
        ({"seconds": 0}, "seconds is 0"),
        ({"seconds": 60}, "seconds is 60"),
        ({"setup": "CREATE TABLE t (x)"}, "setup must be a function"),
        ({"max_rows": 0}, "must be above 0"),
    ],
)
def test_what_cannot_be_made_is_refused_when_it_is_asked_for(options, message):
    with pytest.raises(UsageError, match=message):
        Sql(**options)


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "no.db").write_text("this is not a database, it is text" * 50)
    with pytest.raises(UsageError, match=r"no\.db: no database"):
        Sql(database=tmp_path / "no.db")


def test_before_an_episode_there_is_nothing_to_ask():
    with pytest.raises(UsageError, match="no episode has begun"):
        Sql().query("SELECT 1")


def test_nonsense_is_answered_with_a_message():
    with started(Sql(script=SCRIPT)) as box:
        check_manners(box)
