"""How the bridge is an environment of an Atropos server."""

from pydantic import BaseModel, ConfigDict, Field

from episode_operator.api.base import Endpoint

IDLE_SECONDS = 5
"""The server closes a connection on which nothing was asked for so long."""


class AtroposServerSettings(BaseModel):
    """A server, and how groups are written for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Endpoint = Field(description="Base URL of the server (`run-api`).")
    logprob_decimals: int | None = Field(
        default=None,
        description="Digits after the point that logprobs are rounded to, for smaller groups; "
        "exact when not set.",
        ge=1,
        le=9,
    )
    distill_top_k: int | None = Field(
        default=None,
        description="Most of the teacher's likeliest tokens that are sent of a position; all when "
        "not set.",
        ge=1,
    )
    gzip_level: int = Field(
        default=0,
        description="Compression of what is posted, 1 to 9; 0 is off, which is faster where the "
        "network carries over 40 MB/s.",
        ge=0,
        le=9,
    )
    warn_batch_bytes: int = Field(
        default=32_000_000,
        description="Warn when the JSON of a batch of such groups would be larger: the server "
        "stands still for 0.1 to 0.2 s for each MB of it when the trainer fetches it.",
        ge=1,
    )


class AtroposSettings(AtroposServerSettings):
    """Names are those of Atropos's own environments where they have the same thing."""

    name: str = Field(
        description="Name of the environment, which nobody else may use: by it the bridge knows "
        "its own registrations again.",
        min_length=1,
        max_length=200,
    )
    weight: float = Field(
        default=1.0,
        description="Weight among the environments (inference_weight).",
        gt=0,
        allow_inf_nan=False,
    )
    group_size: int = Field(
        description="Members of a group; the trainer's batch size must be a multiple of it.", ge=1
    )
    max_token_length: int = Field(
        description="Groups with a row of so many tokens or more are dropped, as Atropos's own "
        "environments do; also those of the trainer's max_token_len or more.",
        ge=2,
    )
    min_batch_allocation: float | None = Field(
        default=None,
        description="Least part of each batch that is ours; without data of ours there is then no "
        "batch at all.",
        gt=0,
        le=1,
    )
    max_batches_offpolicy: int = Field(
        default=3, description="Batches that may wait on the server before it wants no more.", ge=1
    )
    include_messages: bool = Field(
        default=False, description="Send the conversations along; trainers do not need them."
    )
    poll_seconds: float = Field(
        default=2.0,
        description="How often the server is asked how it stands; less than the "
        f"{IDLE_SECONDS} s after which it closes a connection.",
        gt=0,
        lt=IDLE_SECONDS,
    )
    connect_seconds: float = Field(default=10.0, description="To connect at most.", gt=0)
    request_seconds: float = Field(
        default=120.0,
        description="For an answer at most; the server answers nobody while it hands out a batch.",
        gt=0,
    )
    proof_seconds: float = Field(
        default=60.0,
        description="How long a server that is away is asked whether a group has arrived.",
        ge=0,
    )
    send_seconds: float = Field(
        default=600.0,
        description="To post a group at most; what has no answer by then is in the state Unknown.",
        gt=0,
    )
