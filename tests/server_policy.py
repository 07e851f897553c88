"""A server double that samples from the embedded policy itself: runs can be trained at it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from agentrl.weights import load_policy
from tests.server_double import GENERATE, ServerDouble


class PolicyDouble(ServerDouble):
    """What it samples depends on seed, prompt and weights alone."""

    def __init__(self, *, port: int = 0) -> None:
        self.model = load_policy("tiny").model.eval()
        self.computing = threading.Lock()
        super().__init__(port=port)
        self.context, self.lora = 2048, False

    def reload(self, body: dict[str, Any]) -> None:
        folder = Path(body["kwargs"]["weights_path"])
        tensors = {}
        for file in folder.glob("*.safetensors"):
            tensors |= load_file(file)
        with self.computing:
            self.model.load_state_dict(tensors)

    def likelihoods(self, path: str, name: str, prompt: list[int]) -> dict[str, Any]:
        with self.computing, torch.no_grad():
            values = self.model(torch.tensor([prompt])).logits[0].log_softmax(-1)
        found = [None]
        for at, token in enumerate(prompt[1:]):
            found.append({str(token): {"logprob": float(values[at, token])}})
        whole = {"prompt_logprobs": found}
        return whole if path == GENERATE else {"choices": [whole]}

    def choice(self, path: str, name: str, prompt: list[int], params: Any) -> dict[str, Any]:
        with self.computing, torch.no_grad():
            ids, values = self.draw(prompt, params)
            label = self.label
        reason = "stop" if ids[-1] in params["stop_token_ids"] else "length"
        pairs = zip(ids, values, strict=True)
        found = {
            "token_ids": ids,
            "finish_reason": reason,
            "logprobs": {"content": [{"token_id": i, "logprob": v} for i, v in pairs]},
            "weight_versions": [{"version": label, "start": 0, "end": len(ids)}],
        }
        return {"model": name, "choices": [found], "usage": {"prompt_tokens": len(prompt)}}

    def draw(self, prompt: list[int], params: Any) -> tuple[list[int], list[float]]:
        dice = torch.Generator().manual_seed(params["seed"])
        ids: list[int] = []
        values: list[float] = []
        fed, cache = torch.tensor([prompt]), None
        while len(ids) < params["max_tokens"] and not (ids and ids[-1] in params["stop_token_ids"]):
            out = self.model(fed, past_key_values=cache, use_cache=True)
            logits, cache = out.logits[0, -1].log_softmax(-1), out.past_key_values
            token = int(torch.multinomial(logits.exp(), 1, generator=dice))
            ids.append(token)
            values.append(float(logits[token]))
            fed = torch.tensor([[token]])
        return ids, values
