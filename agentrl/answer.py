"""Whether an engine's answer may be played on, and learned from.

In    a request, the completion that came back, whether its tokens will be trained on
Out   the completion; TurnLost where it can't be what was asked for
Not   a proof of its log-probs: hand-overs are proved by fingerprint, drift is measured
"""

from __future__ import annotations

import math

from agentrl.errors import TurnLost
from agentrl.policy import Completion, Request


def checked(completion: Completion, request: Request, *, learns: bool) -> Completion:
    """The completion as it is.

    Log-probs may be missing where nothing is learned. Where something is, a turn without them
    would count as if engine and learner agreed to the bit, which nobody knows.

    Raises:
        TurnLost: it can't be played on, or not be trained on.
    """
    problem = _shape(completion, request) or _logprobs(completion, learns)
    if problem is not None:
        raise TurnLost(
            f"engine, episode {request.session}, turn {request.turn}: {problem} "
            "This episode is left out, the engine goes on."
        )
    return completion


def _shape(completion: Completion, request: Request) -> str | None:
    if completion.finish_reason not in ("stop", "length"):
        return f"the turn ended with {completion.finish_reason!r}, not by a stop or its length."
    if not completion.ids:
        return "no token was sampled."
    if len(completion.ids) > request.max_tokens:
        return f"{len(completion.ids)} tokens where {request.max_tokens} were allowed."
    return None


def _logprobs(completion: Completion, learns: bool) -> str | None:
    ids, logprobs = completion.ids, completion.logprobs
    if logprobs is None:
        return "it gave no log-probs, and training needs them." if learns else None
    if len(logprobs) != len(ids):
        return f"{len(ids)} sampled ids but {len(logprobs)} log-probs."
    if learns and not all(map(math.isfinite, logprobs)):
        return "some of its log-probs are no finite numbers, and training needs them."
    return None
