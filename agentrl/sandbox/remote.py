"""Remote: code runs on somebody else's machine, which is asked over HTTP.

In    the address of a server that speaks SandboxFusion's `run_code`
Out   a Result for each call; whatever goes wrong on the way is a sandbox_failure
Not   a promise of how that machine holds the code, nor how long it waits in its queue
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

import httpx

from agentrl.errors import UsageError
from agentrl.sandbox.output import Output
from agentrl.sandbox.result import Limits, MiB, Result, Status
from agentrl.sandbox.verdict import readable_code, refused

LEVEL = 0
CONNECT = 10.0
"""Seconds to reach the server."""
QUEUE = 30.0
"""Seconds that a call may wait on the server, beyond its own time."""
TRIES = 3
"""Attempts where the server could not be reached, or was too busy to begin."""
_BUSY = frozenset({429, 502, 503})
"""Answers of a server, or what stands before it, that has not run the code: 429 alone of the
4xx is no fault of the request. After 500 and 504 the code may have run."""
_MOST_QUOTED = 200
"""Characters of a server's complaint."""


class RemoteRunner:
    """Calls to one server; any number of threads may use it."""

    def __init__(self, url: str, *, queue: float = QUEUE, pause: float = 0.5) -> None:
        """Describe it; nothing is sent before the first call.

        Args:
            url: up to, and without, `/run_code`.
            queue: seconds that a call may wait on the server beyond its own time.
            pause: seconds before a second attempt; twice as many before a third.

        Raises:
            UsageError: the address is none.
        """
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            raise UsageError(
                f"sandbox: url={url!r} is no address ({error}). Write http://HOST:PORT."
            ) from error
        if address.scheme not in ("http", "https") or not address.host:
            raise UsageError(f"sandbox: url={url!r} must begin with http:// or https://.")
        self._url = f"{str(address).rstrip('/')}/run_code"
        self._queue, self._pause = queue, pause
        # Neither a proxy nor a password out of this user's environment or files.
        self._client = httpx.Client(trust_env=False, follow_redirects=False)

    def run(self, code: object, limits: Limits) -> Result:
        """Run a script there. Limits on output are kept here, others are asked of the server."""
        data, why = readable_code(code)
        if why:
            return refused(why, LEVEL, "remote")
        begun = time.monotonic()
        try:
            answer = self._ask(data.decode(), limits)
        except _Failed as error:
            return _broken(str(error), time.monotonic() - begun)
        return _result(answer, limits, time.monotonic() - begun)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _ask(self, code: str, limits: Limits) -> Mapping[str, Any]:
        question = {
            "code": code,
            "language": "python",
            "compile_timeout": limits.wall,
            "run_timeout": limits.wall,
            "memory_limit_MB": max(1, limits.memory // MiB),
            "stdin": "",
            "files": {},
            "fetch_files": [],
        }
        for attempt in range(1, TRIES + 1):
            try:
                return self._post(question, limits)
            except _NotRun:
                if attempt == TRIES:
                    raise
                time.sleep(self._pause * attempt)
        raise AssertionError("the last attempt returns or raises")

    def _post(self, question: Mapping[str, Any], limits: Limits) -> Mapping[str, Any]:
        deadline = time.monotonic() + 2 * limits.wall + self._queue
        timeout = httpx.Timeout(2 * limits.wall + self._queue, connect=CONNECT)
        # What is printed, as JSON: six characters a byte at worst, twice, and what is around it.
        most = 12 * limits.output_most + MiB
        with ExitStack() as stack:
            try:
                stream = self._client.stream("POST", self._url, json=question, timeout=timeout)
                response = stack.enter_context(stream)
                body = _read(response, most, deadline)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                raise _NotRun(f"{self._url}: {_words(error)}") from error
            except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:
                raise _Failed(f"{self._url}: {_words(error)}") from error
        if response.status_code != httpx.codes.OK:
            kind = _NotRun if response.status_code in _BUSY else _Failed
            said = body.decode("utf-8", "replace")[:_MOST_QUOTED]
            raise kind(f"{self._url}: answered {response.status_code}: {said}")
        return _decoded(body)


class _Failed(Exception):
    """The server gave no answer that could be one."""


class _NotRun(_Failed):
    """It has not run the code: asking once more does nothing twice."""


def _read(response: httpx.Response, most: int, deadline: float) -> bytes:
    """The body, as long as neither its size nor its time is beyond reason."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > most:
            raise _Failed(f"{response.url}: answered with over {most} bytes")
        if time.monotonic() > deadline:
            raise _Failed(f"{response.url}: the answer took too long")
    return bytes(body)


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _Failed(f"the answer is no JSON: {error}") from error
    if not isinstance(answer, dict) or not isinstance(answer.get("run_result"), dict | None):
        raise _Failed(f"the answer has no run_result: {str(answer)[:_MOST_QUOTED]}")
    return cast("Mapping[str, Any]", answer)


def _result(answer: Mapping[str, Any], limits: Limits, waited: float) -> Result:
    """Read an answer. What it says of the end of the code is the server's word."""
    run = answer.get("run_result") or answer.get("compile_result")
    if answer.get("status") not in ("Success", "Failed") or not isinstance(run, dict):
        said = str(answer.get("message") or answer.get("status"))[:_MOST_QUOTED]
        return _broken(f"the server failed: {said}", waited)
    output = Output(limits.output_kept)
    for stream in ("stdout", "stderr"):
        output.feed(str(run.get(stream) or "").encode("utf-8", "surrogatepass"))
    seconds = run.get("execution_time")
    code = run.get("return_code")
    status = _status(run.get("status"), code, output.written > limits.output_most)
    if status == "sandbox_failure":
        return _broken(f"the server failed: {str(run)[:_MOST_QUOTED]}", waited)
    return Result(
        status,
        output.text(),
        float(seconds) if isinstance(seconds, int | float) else waited,
        LEVEL,
        cut=output.cut,
        signal=-code if isinstance(code, int) and code < 0 else None,
        backend="remote",
    )


def _status(ended: object, code: object, much: bool) -> Status:
    if ended == "TimeLimitExceeded":
        return "timeout_wall"
    if ended != "Finished" or not isinstance(code, int):
        return "sandbox_failure"
    if much:
        return "output_limit"
    if code < 0:
        return "killed"
    return "ok" if code == 0 else "error"


def _broken(problem: str, seconds: float) -> Result:
    line = " ".join(problem.split())
    return Result("sandbox_failure", "", seconds, LEVEL, problem=line, backend="remote")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
