"""`spec.sandbox`: the pod the agent works in."""

from enum import StrEnum
from typing import Literal

from pydantic import ConfigDict, Field

from episode_operator.api.base import ApiModel, ObjectName, PositiveSeconds, cel, validations
from episode_operator.api.network import LabelValue, Network
from episode_operator.api.resources import Resources
from episode_operator.api.sidecar import Sidecars


class UserNamespace(StrEnum):
    """Whose user ids those of the sandbox are."""

    HOST = "Host"
    PRIVATE = "Private"


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",
                "tolerationSeconds is only for effect NoExecute",
                field_path=".tolerationSeconds",
            )
        )
    )

    key: str | None = Field(default=None, description="Taint key; all when not set.")
    operator: Literal["Exists", "Equal"] = Field(default="Equal", description="Comparison.")
    value: str | None = Field(default=None, description="Taint value for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Taint effect; all when not set."
    )
    toleration_seconds: int | None = Field(
        default=None,
        description="Seconds the pod stays on a node with the taint; for ever when not set.",
        ge=0,
        le=604_800,
    )


class Sandbox(ApiModel):
    """Where and within which limits the sandbox runs."""

    resources: Resources = Field(default=Resources(), description="Limits and requests.")
    network: Network = Field(default=Network(), description="Network access.")
    sidecars: Sidecars = Field(
        default=[],
        description="Services the task needs, started one after the other and ready before "
        "anything of the task runs.",
    )
    user_namespace: UserNamespace = Field(
        default=UserNamespace.HOST,
        description="Private maps the pod's user ids, root too, to ids that are nobody's on the "
        "node (hostUsers: false); the node's kernel and runtime must support it.",
    )
    runtime_class_name: ObjectName | None = Field(
        default=None, description="RuntimeClass of the pod, for example gvisor."
    )
    node_selector: dict[str, LabelValue] = Field(
        default={}, description="Labels the node must have."
    )
    tolerations: list[Toleration] = Field(
        default=[],
        description="Taints the pod tolerates. Nodes that are not ready or unreachable are "
        "tolerated for 60 seconds, unless this list names their taints.",
        max_length=32,
    )
    labels: dict[str, LabelValue] = Field(
        default={},
        description="More labels of the pod, for example the queue name of Kueue.",
        json_schema_extra=validations(
            cel(
                "self.all(k, !k.startsWith('episodes.dev/'))",
                "labels under episodes.dev/ belong to the operator",
            )
        ),
    )
    image_pull_secrets: list[ObjectName] = Field(
        default=[], description="Names of Secrets with registry credentials.", max_length=8
    )
    start_deadline_seconds: PositiveSeconds = Field(
        default=600,
        description="Time the pod has from creation until it runs, in seconds.",
    )
