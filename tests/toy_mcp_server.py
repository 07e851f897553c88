"""A server written with the SDK, with every habit that a server may have; run as a program."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from typing import Annotated

from mcp import MCPError
from mcp.server.mcpserver import Image, MCPServer
from mcp_types import (
    CONNECTION_CLOSED,
    EmbeddedResource,
    ResourceLink,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

server = MCPServer("toy", instructions="Play.")
counted = 0


class Point(BaseModel):
    x: int
    y: int = 0


@server.tool()
def count() -> str:
    """Count the calls of this session."""
    global counted
    counted += 1
    return str(counted)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def label(
    name: Annotated[str, Field(pattern="^(a+)+$")],
    marks: Annotated[list[int], Field(json_schema_extra={"uniqueItems": True})],
) -> str:
    """Label something."""
    return f"{name} {marks}"


@server.tool(name="math/add-points")
def add(a: Point, b: Point, factor: float = 1.0) -> str:
    """Add two points."""
    return f"{(a.x + b.x) * factor:g} {(a.y + b.y) * factor:g}"


@server.tool()
def fail() -> str:
    """Raise."""
    raise ValueError("out of paper")


@server.tool()
def refuse() -> str:
    """Answer with the error that also stands for a connection that is closed."""
    raise MCPError(code=CONNECTION_CLOSED, message="no such row")


@server.tool()
def die() -> str:
    """End without an answer."""
    sys.stderr.write("the printer is on fire\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def hang() -> str:
    """Take an hour."""
    time.sleep(3600)
    return "late"


@server.tool()
def much(size: int) -> str:
    """Say much."""
    return "x" * size


@server.tool()
def pid() -> str:
    """The process, and one that it starts and leaves behind."""
    child = subprocess.Popen(["sleep", "3600"])
    return f"{os.getpid()} {child.pid}"


@server.tool()
def secret() -> str:
    """What of the parent's environment is seen."""
    return " ".join(sorted(os.environ))


@server.tool(structured_output=False)
def show() -> list[object]:
    """Show things that are no text."""
    pixel = base64.b64decode("iVBORw0KGgo=")
    page = TextResourceContents(uri="memo://1", text="a memo")
    return [
        "words",
        Image(data=pixel, format="png"),
        ResourceLink(type="resource_link", name="plan", uri="file:///plan.txt"),
        EmbeddedResource(type="resource", resource=page),
    ]


if __name__ == "__main__":
    server.run()
