"""What an Episode of the run looks like: the task's own spec with what the run decides."""

from episode_operator.api.episode import Group
from trainer_bridge.config import EpisodeTemplate
from trainer_bridge.run.names import GroupName
from trainer_bridge.sources import Build, Task
from trainer_bridge.sources.task import with_deadline


def build(task: Task, template: EpisodeTemplate, group: GroupName, member: int) -> Build:
    """The Episode of a member; fields of the sandbox that the template sets replace the task's.

    Raises:
        Unreadable: the task's files cannot be read, or it has no solution for an Oracle.
    """
    made = task.build(template.agent, prefix=str(group), model=template.model)
    sandbox = template.sandbox
    own = {name: getattr(sandbox, name) for name in sandbox.model_fields_set}
    spec = made.spec.model_copy(
        update={
            "distillation": template.distillation,
            "sandbox": made.spec.sandbox.model_copy(update=own),
            "infra_retry_limit": template.infra_retry_limit,
            "group": Group(name=str(group), member=member),
        }
    )
    return Build(with_deadline(task.name, spec), made.parts)
