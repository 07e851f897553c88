"""The nearest environments of GEM and verifiers, for env.py to stand beside.

In    the name of an arm; then lines on standard input, each the seconds to play for
Out   a line of JSON when it is ready, or why it can't be; then one for each round
Not   imported by anything: it runs where those packages are

Problems are sums of three numbers, the same for all arms. What the policy says is right.

verifiers would play an episode through a program and servers of its own, in other processes.
Here its tools are called and its rewards asked without these: it can only be slower than this.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Episode = Callable[[], int]
"""Plays one episode; returns its turns."""

NUMBERS = [(i * 37 % 900 + 100, i * 53 % 900 + 100, i * 71 % 900 + 100) for i in range(200)]
PROBLEMS = [
    {
        "problem": f"What is {a} times {b} plus {c}?",
        "answer": str(a * b + c),
        "code": f"{a}*{b}+{c}",
    }
    for a, b, c in NUMBERS
]


def gem_math() -> Episode:
    """A problem and a boxed number, checked in a process as it does by default."""
    env = _math_env()

    def episode() -> int:
        env.reset()
        _won(env.step(rf"\boxed{{{env.answer}}}"))
        return 1

    return episode


def gem_code() -> Episode:
    """The same with its tool for Python: one program, then the number."""
    import gem.tools.python_code_tool as tool
    import gem.tools.tool_env_wrapper as wrapper

    inner = _math_env()
    env = wrapper.ToolEnvWrapper(inner, tools=[tool.PythonCodeTool()])
    codes = {row["problem"]: row["code"] for row in PROBLEMS}

    def episode() -> int:
        question, _ = env.reset()
        problem = next(line for line in question.splitlines() if line in codes)
        said, *_ = env.step(f"<python>print({codes[problem]})</python>")
        number = said.split(":")[1].split()[0]
        _won(env.step(rf"\boxed{{{number}}}"))
        return 2

    return episode


def gem_gsm() -> Episode:
    """reasoning-gym's gsm_symbolic; a reset makes its problem, as it does by default."""
    return _gsm(ready_made=False)


def gem_gsm_ready() -> Episode:
    """The same with problems that were made before, as ours are in env.py."""
    return _gsm(ready_made=True)


def _gsm(*, ready_made: bool) -> Episode:
    import gem

    env = gem.make("rg:gsm_symbolic", seed=1)
    if ready_made:
        env.ds_iter = itertools.cycle([env.ds[i] for i in range(len(PROBLEMS))])

    def episode() -> int:
        env.reset()
        # Not all of its own answers earn the top there.
        env.step(rf"\boxed{{{env.data['answer']}}}")
        return 1

    return episode


def verifiers_math() -> Episode:
    """A task with a tool and a reward: one call, then the number."""
    import verifiers.v1 as vf
    from mcp.server.mcpserver import MCPServer

    class Config(vf.ToolsetConfig):
        """None."""

    class Calculator(vf.Toolset[Config]):
        """One tool."""

        @vf.tool
        async def calculator(self, expression: str) -> str:
            """Evaluate arithmetic."""
            product, plus = expression.split("+")
            first, second = product.split("*")
            return str(int(first) * int(second) + int(plus))

    class Data(vf.TaskData):
        """A problem with its answer."""

        answer: str

    class Problem(vf.Task[Data]):
        """Its reward."""

        @vf.reward
        async def exact(self, trace: Any) -> float:
            """The right number."""
            return float(trace.last_reply == self.data.answer)

    tasks = [Problem(Data(prompt=p["problem"], answer=p["answer"])) for p in PROBLEMS]
    loop, turn = asyncio.new_event_loop(), iter(range(sys.maxsize))

    async def play(number: int) -> None:
        task, toolset, server = tasks[number], Calculator(Config()), MCPServer("calculator")
        toolset.register(server)
        await toolset.setup()
        arguments = {"expression": PROBLEMS[number]["code"]}
        result = await server.call_tool("calculator", arguments)
        said = result.content[0].text
        call = vf.ToolCall(id="c", name="calculator", arguments=json.dumps(arguments))
        trace = _traced(
            task,
            vf.UserMessage(content=task.data.prompt),
            vf.AssistantMessage(content="", tool_calls=[call]),
            vf.ToolMessage(tool_call_id="c", content=said),
            vf.AssistantMessage(content=said),
        )
        await task.score(trace, None)
        if trace.rewards["exact"].value != 1.0:
            raise RuntimeError(f"{said} is not right")

    def episode() -> int:
        loop.run_until_complete(play(next(turn) % len(tasks)))
        return 2

    return episode


def _traced(task: Any, *messages: Any) -> Any:
    """What verifiers keeps of an episode in which these messages passed."""
    import verifiers.v1 as vf

    about = vf.TraceTask(type="Problem", data=task.data, key=task.key, hash=task.hash)
    trace = vf.Trace(task=about, agent=vf.AgentInfo(config=vf.AgentConfig()))
    for i, message in enumerate(messages):
        sampled = message.role == "assistant"
        node = vf.MessageNode(parent=i - 1 if i else None, message=message, sampled=sampled)
        trace.nodes.append(node)
    return trace


ARMS = {arm.__name__: arm for arm in (gem_math, gem_code, gem_gsm, gem_gsm_ready, verifiers_math)}


def _math_env() -> Any:
    from datasets import Dataset
    from gem.envs.math_env import MathEnv

    return MathEnv(dataset=Dataset.from_list(PROBLEMS))


def _won(step: tuple[Any, ...]) -> None:
    if step[1] != 1:
        raise RuntimeError(f"it earned {step[1]}")


def _cpu() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _round(episode: Episode, seconds: float) -> dict[str, float]:
    begun, cpu, episodes, turns = time.perf_counter(), _cpu(), 0, 0
    while time.perf_counter() - begun < seconds:
        turns += episode()
        episodes += 1
    spent = {"seconds": time.perf_counter() - begun, "cpu": _cpu() - cpu}
    return {"episodes": episodes, "turns": turns, **spent}


def main() -> None:
    """Say that it is ready, then play as it is asked to."""
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        episode = ARMS[sys.argv[1]]()
        episode()
    except Exception as error:
        print(json.dumps({"absent": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_round(episode, float(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
