"""Settings of whoever plays: the sections that training, evaluation and rollouts share.

In    plain values from code, TOML or flags
Out   what is played, what decides, what runs it, how episodes are played
Not   what becomes of the episodes: config.py and offline.py
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentrl.schedule import Asked

EngineName = Literal["auto", "transformers", "vllm", "vllm-server"]


class Section(BaseModel):
    """A group of settings; unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class EnvSection(Section):
    """What is played."""

    name: str = Field(
        "tool_math", description="name, module:Class or path/file.py:Class; a mixture is a*2,b*1."
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Keyword arguments of the environment: --env.KEY VALUE."
    )


class ModelSection(Section):
    """What decides."""

    name: str = Field("tiny", description="tiny, smollm2-135m, or a folder of a causal LM.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Weights while training; auto is float32 on a CPU, else bfloat16."
    )
    lora_rank: int = Field(
        0, ge=0, description="Rank of adapters, trained in the model's place; 0: the model itself."
    )
    lora_alpha: float = Field(
        0.0, ge=0, description="Adapters are scaled by this / rank; 0: twice the rank."
    )
    lora_targets: str = Field(
        "all-linear", description="Layers with an adapter: all-linear, or q_proj,v_proj,..."
    )
    base_bits: int = Field(
        0, description="4: the frozen base under the adapters in 4 bits; 0: in its dtype."
    )

    @model_validator(mode="after")
    def adapts(self) -> Self:
        """Settings of an adapter need one, and what all log-probs come from stays as it is."""
        if self.base_bits not in (0, 4):
            raise ValueError(f"base_bits: {self.base_bits} is neither 0 nor 4. Choose one.")
        if not self.lora_rank:
            for name in ("lora_alpha", "lora_targets", "base_bits"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name}: there is no adapter. Add --model.lora_rank 16.")
        named = {part.strip().rpartition(".")[2] for part in self.lora_targets.split(",")}
        for layer in ("lm_head", "embed_tokens"):
            if layer in named:
                raise ValueError(
                    f"lora_targets: {layer} has no adapters: all log-probs are computed from "
                    "it. Leave it out."
                )
        return self


class EngineSection(Section):
    """What runs the policy while it plays."""

    name: EngineName = Field("auto", description="auto takes vllm beside an accelerator.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Weights inside vLLM; auto is the learner's."
    )
    max_live: int = Field(256, ge=1, description="Episodes played at once.")
    memory_share: float = Field(
        0.0,
        ge=0,
        le=0.95,
        description="Share of the GPU's memory that vLLM takes; 0: what the update leaves.",
    )
    sleep: bool = Field(
        False, description="On a GPU vLLM gives its memory back during each update."
    )
    cache_gib: float = Field(1.0, gt=0, description="Key-value cache of vLLM on a CPU, GiB.")
    urls: tuple[str, ...] = Field((), description="Addresses of vLLM servers, each its own --url.")
    weights: Literal["auto", "folder", "lora", "nccl", "ipc"] = Field(
        "auto",
        description="How servers get new weights: files in a folder, adapters by name, or GPU to "
        "GPU; auto: adapters where there are any, else the folder.",
    )
    weights_folder: str = Field(
        "", description="Folder that trainer and servers both see; empty: a temporary one."
    )
    requests: int = Field(
        0, ge=0, description="Requests at one server at once; 0: the rows of its batch."
    )
    retries: int = Field(3, ge=0, description="How often a turn is asked of servers again.")
    request_timeout: float = Field(
        60.0, gt=0, description="Seconds a server may take for an answer, beside its tokens."
    )
    token_timeout: float = Field(
        1.0, gt=0, description="Seconds more that it may take for each token asked for."
    )
    sync_timeout: float = Field(
        600.0, gt=0, description="Seconds a server may take for one step of a hand-over."
    )
    patience: float = Field(
        300.0, ge=0, description="Seconds without any server after which the run ends."
    )

    @model_validator(mode="after")
    def served(self) -> Self:
        """Servers are named where they are used, and only there."""
        if self.name == "vllm-server" and not self.urls:
            raise ValueError(
                "vllm-server: no server is named. Start one with `agentrl serve`, and add "
                "--url http://127.0.0.1:8000."
            )
        if self.urls and self.name != "vllm-server":
            raise ValueError("urls: only servers have addresses. Add --engine vllm-server.")
        return self


class RolloutSection(Section):
    """How episodes are played."""

    temperature: float = Field(
        1.0, ge=0, description="Sampling temperature; 0 is greedy, for evaluations only."
    )
    max_turn_tokens: int = Field(512, ge=1, description="Tokens the policy may say in a turn.")
    max_tokens: int = Field(4096, ge=1, description="Tokens the policy may say in an episode.")
    max_context: int = Field(8192, ge=16, description="Tokens of prompt and completion together.")
    max_observation_tokens: int = Field(
        2048, ge=16, description="Tokens of one tool result; the middle goes, with a notice."
    )
    timeout: float = Field(600.0, gt=0, description="Seconds an episode may take.")
    schedule: Asked = Field(
        "auto",
        description="waves: the turns of all episodes together, repeatable to the bit; stream: "
        "each as soon as its tools return; auto: waves with transformers.",
    )
    requests_at_once: int = Field(
        0, ge=0, description="Turns at the engine at once, all episodes together; 0: no limit."
    )
    resets_at_once: int = Field(
        64, ge=0, description="Environments made or reset at once; 0: no limit."
    )
    calls_at_once: int = Field(
        256, ge=0, description="Calls of tools at once, all episodes together; 0: no limit."
    )
    max_refills: int = Field(
        1, ge=0, description="Times an episode that infrastructure broke is played again."
    )
    oversample: int = Field(
        0,
        ge=0,
        description="Episodes of a group beyond n, of which the last to end are given up; 0: wait "
        "for all. Short episodes end first: see rollout/length_bias.",
    )


class PlayConfig(Section):
    """A policy that plays and learns nothing."""

    env: EnvSection = EnvSection()
    model: ModelSection = ModelSection()
    engine: EngineSection = EngineSection()
    rollout: RolloutSection = RolloutSection()

    @model_validator(mode="after")
    def as_it_is(self) -> Self:
        """What plays has nothing new in it."""
        if self.model.lora_rank:
            raise ValueError(
                "lora_rank: an adapter is for training. Leave it out: a trained one is in the "
                "weights that its run saved."
            )
        return self
