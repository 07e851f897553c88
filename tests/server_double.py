"""An HTTP server that answers as vLLM does: tokens are a function of seed and prompt alone.

Its weights are one number, read from a folder; log-probs are a function of it and of the token.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

VOCABULARY = 500
STOP = 1
GENERATE, COMPLETIONS = "/inference/v1/generate", "/v1/completions"


def logprob(weight: float, token: int) -> float:
    return -(weight + token % 7 * 0.1)


class Weights:
    """A WeightSource of one number."""

    def __init__(self, weight: float, told: float | None = None) -> None:
        self.weight, self.told = weight, weight if told is None else told

    def items(self):
        yield "w", torch.tensor([self.weight], dtype=torch.float64)

    def fingerprint(self, ids):
        return [logprob(self.told, i) for i in ids[1:]]

    def save_adapter(self, folder: Path) -> None:
        (folder / "adapter.json").write_text(json.dumps(self.weight))


class ServerDouble:
    """Runs in threads. What goes wrong is a word in `faults`, taken away to heal it."""

    def __init__(self, *, scale_out: bool = True, dev: bool = True, port: int = 0) -> None:
        self.scale_out, self.dev, self.lora, self.context = scale_out, dev, True, 200
        self.mode, self.folder = "processed_logprobs", "elsewhere"
        self.weight, self.label, self.adapters = 99.0, "default", dict[str, float]()
        self.faults: set[str] = set()
        self.name = random.randbytes(4).hex()
        self.log: list[str] = []
        self.came: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.most = self.running = 0
        self.seconds = self.reload_seconds = 0.0
        self.go_on = threading.Event()
        self.go_on.set()
        self.lock = threading.Lock()
        self.healed = threading.Event()
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                double.answer(self, {})

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                double.answer(self, json.loads(self.rfile.read(size) or b"{}"))

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128
            block_on_close = False

            def handle_error(self, request: Any, address: Any) -> None:
                """A client that went away is no error."""

        self.http = Server(("127.0.0.1", port), Handler)
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def heal(self) -> None:
        self.faults.clear()
        self.healed.set()

    def close(self) -> None:
        """Nobody answers any more; what runs is cut off."""
        self.faults.add("cut")
        self.healed.set()
        self.go_on.set()
        self.http.shutdown()
        self.http.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        path, _, query = handler.path.partition("?")
        self.came.append(path)
        if f"hang {path}" in self.faults:
            self.faults.add("hang")
        while "hang" in self.faults and "cut" not in self.faults:
            self.healed.wait(0.02)
        status, told = self.route(path, query, body)
        if "cut" in self.faults:
            handler.close_connection = True
            with suppress(OSError):
                handler.connection.shutdown(socket.SHUT_RDWR)
            return
        words = isinstance(told, str)  # as vLLM answers where there is nothing to say
        data = (told if words else json.dumps(told)).encode()
        handler.send_response(status)
        handler.send_header("content-type", "text/plain" if words else "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def route(self, path: str, query: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path in (GENERATE, COMPLETIONS):
            return self.sampled(path, body)
        shown = {"/pause": query, "/reset_prefix_cache": query}.get(path, "")
        self.log.append(f"{path}{'?' if shown else ''}{shown}")
        if "no vLLM" in self.faults:
            return 404, "<html>Not Found</html>"
        if f"500 {path}" in self.faults:
            return 500, {"error": {"message": "it broke"}}
        public = {
            "/health": lambda: {},
            "/version": lambda: {"version": "0.0"},
            "/v1/models": self.models,
            "/v1/load_lora_adapter": lambda: self.load_adapter(body),
            "/v1/unload_lora_adapter": lambda: self.unload_adapter(body),
        }
        inner = {
            "/server_info": self.info,
            "/pause": self.go_on.clear,
            "/resume": self.go_on.set,
            "/collective_rpc": lambda: self.reload(body),
            "/reset_prefix_cache": lambda: {"success": "keeps cache" not in self.faults},
            "/update_weight_version": lambda: setattr(self, "label", body["new_version"]),
            "/weight_info": lambda: {"weight_version": self.label},
        }
        routes = public | (inner if self.dev else {})
        return (200, routes[path]()) if path in routes else (404, {"detail": "Not Found"})

    def models(self) -> dict[str, Any]:
        names = ["policy", *self.adapters]
        return {"data": [{"id": name, "max_model_len": self.context} for name in names]}

    def info(self) -> dict[str, Any]:
        model = {"dtype": "torch.float32", "logprobs_mode": self.mode, "model": self.folder}
        scheduler = {"max_num_seqs": 8}
        config = {"model_config": model, "scheduler_config": scheduler, "instance_id": self.name}
        return {"vllm_config": config | {"lora_config": {} if self.lora else None}}

    def reload(self, body: dict[str, Any]) -> None:
        assert body["method"] == "reload_weights"
        time.sleep(self.reload_seconds)
        folder = Path(body["kwargs"]["weights_path"])
        assert (folder / "config.json").is_file()
        found = load_file(folder / "model-00001.safetensors")["w"]
        self.weight = float(found) + ("wrong" in self.faults)

    def load_adapter(self, body: dict[str, Any]) -> str:
        text = (Path(body["lora_path"]) / "adapter.json").read_text()
        self.adapters[body["lora_name"]] = json.loads(text)
        return f"Success: LoRA adapter '{body['lora_name']}' added successfully."

    def unload_adapter(self, body: dict[str, Any]) -> str:
        del self.adapters[body["lora_name"]]
        return f"Success: LoRA adapter '{body['lora_name']}' removed successfully."

    def sampled(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == GENERATE and not self.scale_out:
            return 403, {"error": {"message": "Scale-out endpoints are disabled."}}
        if not body:
            return 400, {"error": {"message": "no token_ids"}}
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            return self.turn(path, body)
        finally:
            with self.lock:
                self.running -= 1

    def turn(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        prompt = body["token_ids" if path == GENERATE else "prompt"]
        params = body["sampling_params"] if path == GENERATE else body
        if "prompt_logprobs" in params:
            self.go_on.wait()
            return 200, self.likelihoods(path, body["model"], prompt)
        self.asked.append(body)
        name = body["model"]
        if name not in ("policy", *self.adapters):
            return 404, {"error": {"message": f"The model {name} does not exist."}}
        if "400" in self.faults:
            return 400, {"error": {"message": "no"}}
        if "500" in self.faults:
            return 500, {"error": {"message": "it broke"}}
        time.sleep(self.seconds)
        if "hang turns" in self.faults:
            self.healed.wait()
        self.go_on.wait()
        return 200, self.choice(path, name, prompt, params)

    def likelihoods(self, path: str, name: str, prompt: list[int]) -> dict[str, Any]:
        weight = self.adapters.get(name, self.weight)
        found = [None, *({str(i): {"logprob": logprob(weight, i)}} for i in prompt[1:])]
        whole = {"prompt_logprobs": found}
        return whole if path == GENERATE else {"choices": [whole]}

    def choice(self, path: str, name: str, prompt: list[int], params: Any) -> dict[str, Any]:
        ids = draw(params["seed"], prompt, params["max_tokens"], params["stop_token_ids"])
        weight = self.adapters.get(name, self.weight)
        values = [logprob(weight, i) for i in ids]
        if "too few" in self.faults:
            values.pop()
        reason = "stop" if ids[-1] in params["stop_token_ids"] else "length"
        found: dict[str, Any] = {"token_ids": ids, "finish_reason": reason}
        if "abort" in self.faults:
            found |= {"token_ids": ids[:1], "finish_reason": "abort"}
        found["logprobs"] = {"token_logprobs": values}
        if path == GENERATE:
            pairs = zip(ids, values, strict=False)
            content = [{"token_id": i, "logprob": value} for i, value in pairs]
            found["logprobs"] = {"content": content}
            found["weight_versions"] = [{"version": self.label, "start": 0, "end": len(ids)}]
        if "no log-probs" in self.faults:
            found["logprobs"] = None
        return {"model": name, "choices": [found], "usage": {"prompt_tokens": len(prompt)}}


def draw(seed: int, prompt: list[int], most: int, stops: list[int]) -> list[int]:
    """Tokens that depend on the seed and the prompt alone."""
    random_of = random.Random(f"{seed} {prompt}")
    ids: list[int] = []
    while len(ids) < most and not (ids and ids[-1] in stops):
        ids.append(random_of.randrange(VOCABULARY))
    return ids
