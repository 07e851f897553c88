"""One server over HTTP: a question, its answer, or what went wrong.

In    an address; paths with JSON
Out   JSON; ServerTrouble where another try may help, Refused where it can't
Not   retries: pool.py decides
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from agentrl.errors import EngineError

SAID = 300
"""Characters of a server's own words that are passed on."""

_DEV = "/pause /resume /collective_rpc /reset_prefix_cache /update_weight_version /server_info"
CURES = {
    (403, "/inference/v1/generate"): "Start it with --enable-scale-out, as `agentrl serve` does.",
    (404, "/v1/models"): "There is no vLLM server. Start one with `agentrl serve`, or put the "
    "address right.",
    **{
        (404, path): "Its developer mode is off, and without it no weights can be handed over. "
        "Start it with VLLM_SERVER_DEV_MODE=1, as `agentrl serve` does."
        for path in _DEV.split()
    },
    (404, "/v1/load_lora_adapter"): "It takes no adapters. Start it with --enable-lora and "
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, as `agentrl serve --model.lora_rank 16` does; or use "
    "--engine.weights folder.",
}
"""What to do about an answer, by status and path."""
UNREADABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""What reading an answer of another shape raises."""
KEYS = "Set VLLM_API_KEY to the key that the server was started with."


class ServerTrouble(EngineError):
    """No whole answer came. Asked again, or elsewhere, there may be one."""

    def __init__(self, said: str, *, lost: bool = False) -> None:
        """Say what happened.

        Args:
            said: Without the server's name.
            lost: Whether nothing more should be asked of it before it proved its weights.
        """
        super().__init__(said)
        self.lost = lost


class Refused(EngineError):
    """The server understood and said no: the same question gets the same answer."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class Client:
    """Asks one server; for one event loop."""

    def __init__(self, url: str, key: str | None = None) -> None:
        """Nothing is asked yet.

        Args:
            url: As addresses() gives it.
            key: Sent as a bearer token; it appears in no message.
        """
        self.url = url
        # How many requests run at once is decided by the pool, and no proxy is asked.
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            timeout=None,
            trust_env=False,
            # Reading the machine's certificates takes a while, and only https needs them.
            verify=url.startswith("https:"),
        )

    async def get(self, path: str, seconds: float, query: Mapping[str, str] | None = None) -> Any:
        """Look something up; raises as `post` does."""
        return await self._ask("GET", path, None, query or {}, seconds)

    async def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float | None,
        query: Mapping[str, str] | None = None,
        silent: bool = False,
    ) -> Any:
        """Ask for something.

        Args:
            path: From the root.
            body: Sent as JSON.
            seconds: Until it is given up; None leaves that to the caller.
            query: Behind the path.
            silent: Success has nothing to say; some of vLLM's answers are a sentence, not JSON.

        Raises:
            ServerTrouble: no connection, no answer in time, or an error inside the server.
            Refused: the server says no.
        """
        return await self._ask("POST", path, body, query or {}, seconds, silent)

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
        seconds: float | None,
        silent: bool = False,
    ) -> Any:
        try:
            async with asyncio.timeout(seconds):
                answer = await self._http.request(method, path, json=body, params=query)
        except TimeoutError:
            raise ServerTrouble(f"{path}: no answer within {seconds:g} s", lost=True) from None
        except httpx.HTTPError as error:
            said = str(error) or "the connection broke"
            raise ServerTrouble(f"{path}: {type(error).__name__}: {said[:SAID]}") from error
        return read(path, answer, silent)


def read(path: str, answer: httpx.Response, silent: bool = False) -> Any:
    """The JSON of an answer; None where it is empty, or where success has nothing to say.

    Raises:
        ServerTrouble: an error inside the server, or no JSON.
        Refused: any other answer that is no success.
    """
    if answer.status_code >= 500:
        raise ServerTrouble(f"{path}: it answered {answer.status_code}: {_words(answer)}")
    if not answer.is_success:
        cure = CURES.get((answer.status_code, path)) or (KEYS if answer.status_code == 401 else "")
        said = f"{path}: it answered {answer.status_code}: {_words(answer)}. {cure}".strip()
        raise Refused(said, answer.status_code)
    if silent or not answer.content:
        return None
    try:
        return answer.json()
    except ValueError as error:
        raise ServerTrouble(f"{path}: its answer is no JSON") from error


def _words(answer: httpx.Response) -> str:
    """What the server says itself, shortened."""
    try:
        found = json.loads(answer.text)
        inside = found.get("error", found.get("detail", found))
        text = str(inside.get("message", inside) if isinstance(inside, dict) else inside)
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(text.split())[:SAID].rstrip(".") or "without a word"
