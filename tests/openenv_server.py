"""A server that speaks OpenEnv's protocol: schemas over HTTP, one episode to a WebSocket."""

from __future__ import annotations

import json
import random
import threading
from contextlib import contextmanager

from websockets.http11 import Response
from websockets.sync.server import serve

BREAKS, REFUSED, HANGS_UP = 7001, 7002, 7003
"""Numbers that make it do so."""

GUESS = {
    "title": "GuessAction",
    "description": "Guess the number.",
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "metadata": {"type": "object", "additionalProperties": True},
    },
    "required": ["number"],
    "additionalProperties": False,
}
TOOLS = {"title": "CallToolAction", "type": "object", "properties": {}}
OFFERED = [
    {
        "name": "look",
        "description": "Look somewhere.",
        "input_schema": {
            "type": "object",
            "properties": {"where": {"type": "string"}},
            "required": ["where"],
        },
    }
]


class World:
    """A number to guess; with tools, a place to look for it."""

    def __init__(self):
        self.number = 0

    def answer(self, kind, data):
        """What is said back, as type and data."""
        if kind == "reset":
            self.number = random.Random(data.get("seed")).randint(1, data.get("most", 100))
            return seen({"hint": "Guess.", "metadata": {}})
        if data.get("type") == "list_tools":
            return seen({"tools": OFFERED, "metadata": {}})
        if data.get("type") == "call_tool":
            found = data["arguments"]["where"] == "box"
            return seen({"tool_name": "look", "result": {"found": found}, "error": None}, found)
        return self.guessed(data["number"])

    def guessed(self, number):
        if number == BREAKS:
            return "error", {"code": "EXECUTION_ERROR", "message": "it broke"}
        if number == REFUSED:
            errors = [{"loc": ["number"], "msg": "too small"}]
            return "error", {"code": "VALIDATION_ERROR", "message": "no", "errors": errors}
        said = "higher" if number < self.number else "lower"
        done = number == self.number
        return seen({"hint": "yes" if done else said, "metadata": {}}, done)


def seen(observation, done=False):
    return "observation", {"observation": observation, "reward": float(done), "done": done}


@contextmanager
def serving(action=GUESS):
    """The address of a server, and how many sessions are open."""
    sessions = []

    def session(socket):
        world = World()
        sessions.append(world)
        for text in socket:
            message = json.loads(text)
            if message["data"].get("number") == HANGS_UP:
                break
            kind, data = world.answer(message["type"], message["data"])
            socket.send(json.dumps({"type": kind, "data": data}))
        sessions.remove(world)

    def schema(connection, request):
        if request.path != "/schema":
            return None
        answer: Response = connection.respond(200, json.dumps({"action": action}))
        del answer.headers["Content-Type"]
        answer.headers["Content-Type"] = "application/json"
        return answer

    with serve(session, "127.0.0.1", 0, process_request=schema) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", sessions
        server.shutdown()
        thread.join()
