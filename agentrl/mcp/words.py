"""What an MCP tool answers, as text that a policy reads.

In    a CallToolResult
Out   its text; pictures, sounds and files are named by kind and size
Not   the pictures themselves
"""

from __future__ import annotations

import json

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

MAX_TEXT = 200_000
"""Characters that are handed on; an environment clips further."""


def text_of(result: CallToolResult) -> str:
    """All blocks, one after the other; what is structured only where there are none."""
    parts = [_block(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(parts)[:MAX_TEXT] or "[nothing]"


def _block(block: ContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return f"[{block.type}, {block.mime_type}, {_size(block.data)} bytes, not shown]"
    if isinstance(block, ResourceLink):
        about = f": {block.description}" if block.description else ""
        return f"[resource {block.name} at {block.uri}{about}]"
    if isinstance(block, EmbeddedResource):
        return _resource(block)
    return f"[{type(block).__name__}, not shown]"


def _resource(block: EmbeddedResource) -> str:
    resource = block.resource
    if isinstance(resource, TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "of no stated type"
    return f"[resource {resource.uri}, {kind}, {_size(resource.blob)} bytes, not shown]"


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
