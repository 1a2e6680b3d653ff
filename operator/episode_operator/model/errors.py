"""What can go wrong between the operator and the model server, one type per cause.

Every message says what to do. None of these is ever a score: an Episode that ends on one is
NoVerdict. `permanent` tells whether a fresh attempt against the same server could help.
`ContextLimit` is not among them: it is a natural end of an episode, which is then graded.
"""

from typing import ClassVar


class ModelError(Exception):
    """Base of all failures of the model server; `reason` is a CamelCase reason for a condition."""

    reason: ClassVar[str] = "ModelError"
    permanent: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False
    """Whether the very same request may be sent again after a pause."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the server asked to wait, when it did."""


class ModelUnavailable(ModelError):
    """No connection, a connection that broke, or a 5xx answer."""

    reason = "ModelUnavailable"
    repeatable = True


class ModelOverloaded(ModelError):
    """The server asks for fewer requests (429 or 503)."""

    reason = "ModelOverloaded"
    repeatable = True


class ModelTimeout(ModelError):
    """No answer within the time limit of one request."""

    reason = "ModelTimeout"


class ModelBadResponse(ModelError):
    """An answer that is not what was asked for: lengths, ids or numbers do not fit."""

    reason = "ModelBadResponse"


class ModelChanged(ModelError):
    """The server was started anew with other options: this conversation cannot go on there."""

    reason = "ModelChanged"


class ModelBadRequest(ModelError):
    """The server refused the request (400, 422), or does not implement it (501)."""

    reason = "ModelBadRequest"
    permanent = True


class ModelUnauthorized(ModelError):
    """The server, or a gateway before it, wants another credential (401, 403)."""

    reason = "ModelUnauthorized"
    permanent = True


class ModelNotFound(ModelError):
    """The server does not serve a model under this name."""

    reason = "ModelNotFound"
    permanent = True


class ScaleOutDisabled(ModelError):
    """The server runs without the token-in, token-out endpoints."""

    reason = "ScaleOutDisabled"
    permanent = True


class RawLogprobs(ModelError):
    """The server reports logprobs of another distribution than the one it samples from."""

    reason = "RawLogprobs"
    permanent = True


class WeightsUnlabeled(ModelError):
    """The server does not tell the version of its weights, and a limit counts versions."""

    reason = "WeightsUnlabeled"
    permanent = True


class Stale(ModelError):
    """The weights that sampled the first token are older than the Episode allows."""

    reason = "Stale"


class RenderMismatch(ModelError):
    """The chat template does not allow to tell what is new in a prompt."""

    reason = "RenderMismatch"
    permanent = True


class TeacherMismatch(ModelError):
    """The teacher has another vocabulary than the policy, or its server lacks what is asked for."""

    reason = "TeacherMismatch"
    permanent = True


class ContextLengthExceeded(ModelError):
    """A single request does not fit into the model's context; the server computed nothing."""

    reason = "ContextLengthExceeded"
    permanent = True


class ContextLimit(Exception):
    """The conversation is full: the next prompt would leave no room for a token.

    A natural end, not a failure. The buffer still ends at the last sampled turn.
    """

    reason: ClassVar[str] = "ContextLimit"

    def __init__(self, *, used: int, needed: int | None, limit: int) -> None:
        more = "more than fits" if needed is None else f"{needed} more"
        super().__init__(
            f"the next prompt does not fit: {used} tokens used, {more} needed, "
            f"{limit} allowed (the model's context less one token to sample)"
        )
        self.used = used
        """Tokens in the buffer."""
        self.needed = needed
        """Tokens that were to be added; None where the server refused to count them."""
        self.limit = limit
        """Most tokens a prompt may have."""
