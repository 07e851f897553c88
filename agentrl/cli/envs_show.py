"""`agentrl envs show`: the prompt, the tools and their schemas as a policy sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentrl.cli.entry import DONE
from agentrl.cli.options import PREFIX, defaults_of, parser_of, split_options
from agentrl.cli.output import Output, output
from agentrl.visible import visible

if TYPE_CHECKING:
    from agentrl.env import ToolEnv
    from agentrl.render import Renderer

EXAMPLES = ("tool_math", "tool_math --env.difficulty hard --model path/to/model --json")
LIMITS = (
    "max_turns",
    "max_tool_calls",
    "max_parse_errors",
    "max_result_chars",
    "max_argument_chars",
    "parallel_tools",
    "success",
)


def run(words: Sequence[str]) -> int:
    """Show an environment."""
    options, rest = split_options(words)
    parser = parser_of("show", "show an environment as a policy sees it", EXAMPLES)
    parser.add_argument("--model", default="tiny", help="whose chat template is used [tiny]")
    parser.add_argument("--index", type=int, default=0, help="of the task in each split [0]")
    args = parser.read(rest)
    with output(args.json) as out:
        from agentrl import registry
        from agentrl.render import renderer_for
        from agentrl.weights import load_tokenizer

        env = registry.make(args.env, **options)
        renderer = renderer_for(load_tokenizer(args.model))
        summary = registry.summary(args.env)
        out.document = document(args.env, summary, env, renderer, args.index)
        out.document["model"] = args.model
        _say(out, out.document)
    return DONE


def document(
    name: str, summary: str, env: ToolEnv, renderer: Renderer, index: int
) -> dict[str, Any]:
    """Everything that is shown, by name."""
    from agentrl.task import SPLITS

    found = {split: _example(env, split, index, renderer) for split in SPLITS}
    # Read after an episode has begun: tools may vary with the task.
    tools = [{**spec.schema(), "timeout": spec.timeout} for spec in env._offered().values()]
    return {
        "env": name,
        "summary": summary,
        "options": dict(defaults_of(type(env))),
        "limits": {limit: getattr(env, limit) for limit in LIMITS},
        "system_prompt": env.system_prompt,
        "tools": tools,
        "tasks": found,
    }


def _example(env: ToolEnv, split: str, index: int, renderer: Renderer) -> dict[str, Any]:
    """One task of a split as an episode begins it."""
    from agentrl.supply import supply

    source = supply(env, split, type(env).__name__)
    if not len(source):
        return {"size": 0}
    task = source[min(index, len(source) - 1)]
    opening, _ = env.reset(seed=0, options={"task": task, "split": split})
    ids = renderer.render(opening, env.tool_schemas())
    env.close()
    return {
        "size": len(source),
        "id": task.id,
        "messages": opening,
        "text": renderer.calls.template.text(opening, env.tool_schemas()),
        "tokens": len(ids),
        "answer": task.answer,
        "meta": dict(task.meta or {}),
        "reference": list(task.reference or ()),
    }


def _say(out: Output, found: Mapping[str, Any]) -> None:
    out.say(visible(f"{found['env']}: {found['summary']}"))
    for name, default in found["options"].items():
        out.say(visible(f"  {PREFIX}{name} [{default}]"))
    limits = " · ".join(f"{name} {value}" for name, value in found["limits"].items())
    out.say(f"limits: {limits}")
    times = " · ".join(f"{t['function']['name']} {t['timeout']:g} s" for t in found["tools"])
    out.say(visible(f"tools: {times or 'none'}"))
    for split, task in found["tasks"].items():
        out.say(f"\n--- {split}: {task['size']} tasks ---")
        if task["size"]:
            out.say(visible(task["text"]))
            out.say(visible(f"[{task['tokens']} tokens · answer, not shown: {task['answer']}]"))
