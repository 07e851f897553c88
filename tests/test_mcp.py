"""MCP: a real server's tools in environments, and environments' tools for other agents."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp_types import AudioContent, CallToolResult

import agentrl
from agentrl.errors import BadArguments, EnvironmentFault, UsageError
from agentrl.mcp import McpTools
from agentrl.mcp.process import MAX_LINE
from agentrl.mcp.schema import checker
from agentrl.mcp.serve import server_of
from agentrl.mcp.words import text_of
from agentrl.message import AssistantTurn, ToolCall
from agentrl.task import Task
from tests.tool_manners import call, calls, check_manners, started, wait_for

TOY = Path(__file__).with_name("toy_mcp_server.py")


def toy(**options):
    return McpTools(command=sys.executable, args=[str(TOY)], **options)


@pytest.fixture(scope="module")
def shared():
    """One session for all tests that leave nothing in it."""
    with started(toy(shared=True)) as box:
        yield box


def gone(pid):
    """Whether a process has ended, or soon has: its end is somebody else's to collect."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_tools_are_offered_under_the_schemas_of_the_server(shared):
    specs = shared.tools()
    assert specs["echo"].description == "Say it again."
    assert specs["echo"].parameters["properties"]["text"]["type"] == "string"
    assert "math_add-points" in specs
    assert [name for name, spec in specs.items() if spec.parallel] == ["echo"]


def test_calls_are_answered_in_text(shared):
    assert call(shared, "echo", text="é漢🙂\u2028").content == "é漢🙂\u2028"
    points = {"a": {"x": 1, "y": 2}, "b": {"x": 3}, "factor": 2}
    assert call(shared, "math_add-points", **points).content == "8 4"
    failed = call(shared, "fail")
    assert (failed.status, failed.content) == ("error", "Error executing tool fail")
    assert call(shared, "show").content == (
        "words\n[image, image/png, 8 bytes, not shown]\n[resource plan at file:///plan.txt]\n"
        "[resource memo://1]\na memo"
    )


def test_a_server_sees_few_variables(shared):
    os.environ["AGENTRL_TEST_SECRET"] = "key"
    try:
        assert "AGENTRL_TEST_SECRET" not in call(shared, "secret").content
    finally:
        del os.environ["AGENTRL_TEST_SECRET"]


def test_calls_from_many_loops_at_once_find_their_own_answers(shared):
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda i: call(shared, "echo", text=str(i)).content, range(32)))
    assert said == [str(i) for i in range(32)]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("echo", {}, "'text' is a required property"),
        ("echo", {"text": 3}, "text: 3 is not of type 'string'"),
        ("echo", {"text": "x", "loud": True}, "loud: there is no such parameter"),
        ("echo", {"text": "\ud800"}, "half a character"),
        ("count", {"x": 1}, "Parameters: none."),
        ("math_add-points", {"a": {"x": 1}, "b": {"x": "1"}}, "b.x: '1' is not of type 'integer'"),
        ("math_add-points", {"a": {"x": 1}, "b": {"x": 1}, "factor": float("nan")}, "not JSON"),
    ],
)
def test_arguments_are_checked_before_the_server_sees_them(shared, name, arguments, words):
    said = call(shared, name, **arguments)
    assert said.status == "bad_arguments"
    assert words in said.content


def test_nonsense_is_answered_with_a_message():
    with started(toy(shared=True, only="echo, count, math/add-points, show, fail")) as box:
        check_manners(box)
        assert call(box, "echo", text="still there").content == "still there"


def test_each_episode_has_a_session_of_its_own_and_leaves_nothing_behind():
    with started(toy()) as one, started(toy()) as other:
        assert [call(one, "count").content for _ in range(2)] == ["1", "2"]
        assert call(other, "count").content == "1"
        pids = call(one, "pid").content.split()
    assert all(map(gone, pids))


def test_one_session_is_shared_where_that_is_asked_for(shared):
    before = int(call(shared, "count").content)
    with started(toy(shared=True)) as other:
        assert int(call(other, "count").content) == before + 1
    assert int(call(shared, "count").content) == before + 2


def test_calls_that_may_change_something_run_in_their_order(shared):
    said = calls(shared, *[ToolCall("count", {})] * 5)
    numbers = [int(outcome.content) for outcome in said]
    assert numbers == sorted(numbers)


def test_an_error_in_an_answer_is_no_end_of_the_server_whatever_its_code(shared):
    before = int(call(shared, "count").content)
    for _ in range(3):
        said = call(shared, "refuse")
        assert (said.status, "no such row" in said.content) == ("error", True)
    assert int(call(shared, "count").content) == before + 1


def test_a_server_that_ends_is_started_once_more_and_its_end_voids_no_episode():
    with started(toy()) as box:
        call(box, "count")
        said = call(box, "die")
        assert (said.status, "its server ended" in said.content) == ("error", True)
        assert call(box, "count").content == "1"
        assert said.metrics == {"mcp_server_ended": 1.0}
        for name in ("die", "count", "count"):
            said = call(box, name)
            assert (said.status, "not started again" in said.content) == ("error", True)


def test_a_call_that_hangs_ends_by_its_limit_and_its_server_with_the_episode():
    with started(toy(seconds=1)) as box:
        server, _ = call(box, "pid").content.split()
        said = call(box, "hang")
        assert said.status == "timeout"
        assert call(box, "echo", text="next").content == "next"
    assert gone(server)


@pytest.mark.slow
def test_a_server_that_says_too_much_is_ended():
    with started(toy()) as box:
        assert len(call(box, "much", size=10**6).content) == 8000
        said = call(box, "much", size=10**7)
        assert f"more than {MAX_LINE} bytes" in said.content
        assert call(box, "count").content == "1"


class Clerk(agentrl.ToolEnv):
    def toolboxes(self):
        return [toy(only=["count", "echo"], prefix="toy_")]

    def reward(self, task, trajectory):
        return float(trajectory.turns[-1].text == "2")


def test_an_environment_plays_with_the_tools_of_a_server_without_a_loop_of_its_own():
    env = Clerk()
    try:
        env.reset(options={"task": Task("count")})
        names = [schema["function"]["name"] for schema in env.tool_schemas()]
        assert names == ["toy_count", "toy_echo"]
        for i in ("1", "2"):
            messages, *_ = env.step(AssistantTurn("", (ToolCall("toy_count", {}),)))
            assert messages[0]["content"] == i
            time.sleep(0.05)  # nobody runs the environment's loop meanwhile
        assert env.step("2")[1] == 1.0
    finally:
        env.close()


def test_a_shared_session_ends_with_the_last_that_uses_it(tmp_path):
    options = {"shared": True, "cwd": str(tmp_path)}
    with started(toy(**options)) as box:
        pids = call(box, "pid").content.split()
    with started(toy(**options)) as other:
        assert call(other, "pid").content.split()[0] == pids[0]
    del box, other
    gc.collect()
    assert all(map(gone, pids))


def test_a_server_that_runs_already_is_reached_by_its_url():
    app = MCPServer("far")

    @app.tool()
    def upper(text: str) -> str:
        """Shout."""
        return text.upper()

    with listening(app.streamable_http_app()) as port:
        box = McpTools(url=f"http://127.0.0.1:{port}/mcp")
        with started(box):
            assert call(box, "upper", text="é").content == "É"
    with pytest.raises(EnvironmentFault, match=rf"127\.0\.0\.1:{port}/mcp: it cannot be used: "):
        asyncio.run(wait_for(box.start(Task("?"))))


@contextmanager
def listening(app):
    """A web application on a port of this machine."""
    door = socket.create_server(("127.0.0.1", 0))
    web = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    thread = threading.Thread(target=web.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        yield door.getsockname()[1]
    finally:
        web.should_exit = True
        thread.join()
        door.close()


def test_a_broken_program_is_named_with_its_last_words(tmp_path):
    (tmp_path / "bad.py").write_text("raise SystemExit('no license')")
    with pytest.raises(UsageError, match=r"bad\.py: it cannot be used: .*no license"):
        McpTools(command=sys.executable, args=str(tmp_path / "bad.py")).tools()
    with pytest.raises(UsageError, match=r"nowhere: it cannot be used: .*No such file"):
        McpTools(command="nowhere").tools()


def test_a_server_that_never_answers_is_given_up():
    silent = McpTools(command="sleep", args="3600", start_seconds=0.3)
    with pytest.raises(EnvironmentFault, match=r"no answer in 0\.3 seconds"):
        asyncio.run(wait_for(silent.start(Task("?"))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of command and url"),
        ({"command": "a", "url": "http://b"}, "one of command and url"),
        ({"command": "a", "seconds": 0}, "above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        McpTools(**options)


CANCELLED = """
import asyncio, sys
from pathlib import Path
from agentrl.mcp import McpTools
from agentrl.task import Task

async def main():
    box = McpTools(command=sys.executable, args=["-c", sys.argv[1]])
    starting = asyncio.create_task(box.start(Task("?")))
    while not Path(sys.argv[2]).exists():
        await asyncio.sleep(0.01)
    starting.cancel()
    await asyncio.wait({starting}, timeout=0.1)

asyncio.run(main())
"""
DEAF = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path({aside!r}).write_text(str(os.getpid()))
os.rename({aside!r}, {path!r})
time.sleep(3600)
"""


@pytest.mark.slow
def test_a_start_that_is_cancelled_leaves_no_process_behind_even_at_the_end_of_the_program(
    tmp_path,
):
    path = tmp_path / "pid"
    server = DEAF.format(aside=str(tmp_path / "aside"), path=str(path))
    subprocess.run([sys.executable, "-c", CANCELLED, server, str(path)], check=True, timeout=60)
    assert gone(int(path.read_text()))


def test_a_list_of_tools_that_is_not_valid_is_told_in_a_line(tmp_path):
    program = tmp_path / "server.py"
    program.write_text(
        textwrap.dedent("""
            import json, sys

            for line in sys.stdin:
                asked = json.loads(line)
                answer = {"jsonrpc": "2.0", "id": asked.get("id")}
                answer["result"] = {"tools": [{"name": 3}]}
                if asked["method"] == "initialize":
                    answer["result"] = {
                        "protocolVersion": asked["params"]["protocolVersion"],
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "x", "version": "1"},
                    }
                elif asked["method"] != "tools/list":
                    answer = {
                        "jsonrpc": "2.0",
                        "id": asked.get("id"),
                        "error": {"code": -32601, "message": "no"},
                    }
                if "id" in asked:
                    print(json.dumps(answer), flush=True)
        """)
    )
    with pytest.raises(UsageError, match="its list of tools is not valid") as told:
        McpTools(command=sys.executable, args=[str(program)]).tools()
    assert len(str(told.value).splitlines()) == 1
    assert len(str(told.value)) < 1000


def test_a_tool_that_is_not_there_is_refused_by_name():
    with pytest.raises(UsageError, match=r"it has no tool ecko\. Did you mean echo\?"):
        toy(shared=True, only="ecko").tools()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "objekt"}, "its schema is not valid"),
        ({"type": "object", "properties": {"a": {"$ref": "http://a.org/x"}}}, "refers to http://a"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named(schema, message):
    with pytest.raises(UsageError, match=message):
        checker("toy", "t", schema)


def test_other_names_are_let_through_where_a_schema_says_so():
    assert checker("toy", "t", {"additionalProperties": True})({"a": 1}) == {"a": 1}
    assert checker("toy", "t", {"anyOf": [{"required": ["a"]}]})({"a": 1}) == {"a": 1}
    with pytest.raises(BadArguments, match="not of type"):
        checker("toy", "t", {"additionalProperties": {"type": "string"}})({"a": 1})


def test_a_complaint_does_not_repeat_what_it_is_about():
    check = checker("toy", "t", {"properties": {"a": {"type": "integer"}}})
    with pytest.raises(BadArguments) as told:
        check({"a": "x" * 90_000})
    assert len(str(told.value)) < 300
    assert "is not of type 'integer'" in str(told.value)


LONG = "a" * 50_000


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"pattern": "^(a+)+$"}, LONG + "!", False),
        ({"pattern": "^(a+)+$"}, LONG, True),
        ({"pattern": "b"}, "abc", True),
        ({"pattern": "^(?=(a+)+$)"}, LONG + "!", True),
        ({"patternProperties": {"^(a+)+$": False}, "additionalProperties": False}, {LONG: 1}, True),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {LONG + "!": 1}, False),
        ({"uniqueItems": True}, [{"n": i} for i in range(20_000)], True),
        ({"uniqueItems": True}, [{"a": [1], "b": None}, {"b": None, "a": [1.0]}], False),
        ({"uniqueItems": True}, [1, True, "1", None, [1], [True], {}], True),
        ({"uniqueItems": False}, [1, 1], True),
        ({"items": {"type": "string"}}, list(range(20_000)), False),
    ],
)
def test_a_check_takes_no_longer_than_there_is_to_look_at(schema, value, fits):
    check = checker("toy", "t", {"properties": {"a": schema}})
    if fits:
        assert check({"a": value}) == {"a": value}
    else:
        with pytest.raises(BadArguments):
            check({"a": value})


def test_sounds_and_structures_are_told_in_text():
    sound = AudioContent(type="audio", data="AAAA", mime_type="audio/wav")
    assert text_of(CallToolResult(content=[sound])) == "[audio, audio/wav, 3 bytes, not shown]"
    assert text_of(CallToolResult(content=[], structured_content={"a": 1})) == '{"a": 1}'
    assert text_of(CallToolResult(content=[])) == "[nothing]"


# The other way.


class Shop(agentrl.ToolEnv):
    """Sells until it is closed."""

    sold = 0

    @agentrl.tool
    def sell(self, what: str, count: int = 1) -> str:
        """Sell something.

        Args:
            what: Name of a thing.
        """
        self.sold += count
        return f"{self.sold} sold, last {what}"

    @agentrl.tool
    def close_up(self) -> agentrl.ToolResult:
        """End the day."""
        return agentrl.ToolResult("closed", terminate=True)


def test_an_environments_tools_are_served_with_their_schemas_and_answers():
    async def main():
        env = Shop()
        await env.areset(options={"task": Task("Sell.")})
        async with Client(server_of(env, "Sell.")) as client:
            assert client.instructions == "Sell."
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert (
                tools["sell"].input_schema["properties"]["what"]["description"]
                == "Name of a thing."
            )
            asked = [client.call_tool("sell", {"what": "ü"}) for _ in range(3)]
            said = [result.content[0].text for result in await asyncio.gather(*asked)]
            assert sorted(said) == [f"{i} sold, last ü" for i in (1, 2, 3)]
            for name, arguments in (
                ("sell", {}),
                ("sel", {}),
                ("sell", {"what": "x", "count": "y"}),
            ):
                assert (await client.call_tool(name, arguments)).is_error
            ended = await client.call_tool("close_up", {})
            after = await client.call_tool("sell", {"what": "x"})
            assert (ended.is_error, after.is_error) == (False, True)
            assert "the episode is over" in after.content[0].text

    asyncio.run(main())


def served(tmp_path, *words):
    paths = os.pathsep.join(p for p in sys.path if p)
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "agentrl", "mcp", *words],
        env={"PYTHONPATH": paths},
        cwd=tmp_path,
    )


def test_the_command_serves_a_toolbox_of_a_file_to_a_client_of_the_sdk(tmp_path):
    (tmp_path / "box.py").write_text(
        textwrap.dedent('''
        import agentrl

        class Box(agentrl.Toolbox):
            """A box."""

            def __init__(self, *, word="x"):
                self.word = word

            @agentrl.tool
            def twice(self, n: int) -> str:
                """Say it n times."""
                print("not for the client")
                return self.word * n
        ''')
    )

    async def main():
        async with Client(served(tmp_path, "box.py:Box", "--tool.word", "ü")) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["twice"]
            said = await client.call_tool("twice", {"n": 3})
            assert (said.is_error, said.content[0].text) == (False, "üüü")

    asyncio.run(main())


@pytest.mark.slow
def test_our_own_server_can_be_our_own_toolbox(tmp_path):
    paths = os.pathsep.join(p for p in sys.path if p)
    words = ["-m", "agentrl", "mcp", "tool_math", "--split", "test", "--index", "1"]
    box = McpTools(command=sys.executable, args=words, env={"PYTHONPATH": paths}, cwd=str(tmp_path))
    with started(box):
        assert call(box, "calculator", expression="2^10").content == "1024"
        assert call(box, "calculator").status == "bad_arguments"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing_such"], "no such environment"),
        (["tool_math", "--index", "-1"], "tasks. Count from 0"),
        (["tool_math", "--split", "nope"], "--split nope: "),
        (["calculator", "--split", "test"], "--split test: calculator is a toolbox, without tasks"),
        (["calculator", "--index", "5"], "--index 5: calculator is a toolbox, without tasks"),
        (["calculator", "--word", "x"], "no such option"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_line(words, message, capsys):
    from agentrl.cli.entry import main

    assert main(["mcp", *words]) == 2
    assert message in capsys.readouterr().err
