"""Makes the agent an Episode asks for."""

from typing import Any, Protocol

from episode_operator.agent import prompts
from episode_operator.agent.calls import CallRunner
from episode_operator.agent.journal import Journal
from episode_operator.agent.model_agent import ModelAgent
from episode_operator.agent.oracle import OracleAgent
from episode_operator.agent.report import AgentReport
from episode_operator.agent.scripted import ScriptedAgent
from episode_operator.agent.tools import toolbox
from episode_operator.api.agent import AgentKind
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import AgentEnd
from episode_operator.api.result import ModelReference
from episode_operator.controller import inputs
from episode_operator.controller.models import ModelPool
from episode_operator.kube.client import KubernetesClient
from episode_operator.lifecycle.deadlines import deadlines
from episode_operator.model import SamplingConfig
from episode_operator.sandbox.session import Session


class Agent(Protocol):
    """An agent of any kind."""

    async def run(self) -> AgentEnd:
        """Act until the agent ends by itself; cancelled to end it for time."""

    def report(self, end: AgentEnd) -> AgentReport:
        """What it leaves behind."""


class AgentFactory:
    """Makes agents; holds what all of them share."""

    def __init__(self, client: KubernetesClient, models: ModelPool) -> None:
        self._client = client
        self._models = models

    async def make(self, episode: Episode, session: Session, journal: Journal) -> Agent:
        """The Episode's agent.

        Raises:
            InvalidInputError: the instruction's reference leads nowhere.
            ModelError: the model server cannot be used.
        """
        spec = episode.spec
        opening = await self._opening(episode)
        if spec.agent.kind is AgentKind.ORACLE:
            assert spec.task.solution is not None  # CEL admits no oracle without
            return OracleAgent(
                session=session,
                solution=spec.task.solution,
                timeout_seconds=deadlines(spec).agent,
                output_limit_bytes=spec.agent.output_limit_bytes,
                journal=journal,
                opening=opening,
            )
        calls = CallRunner(
            session=session,
            tools=toolbox(
                spec.agent.toolsets if spec.needs_model else ["terminal", "file"],
            ),
            timeout_seconds=deadlines(spec).tool,
            output_limit_bytes=spec.agent.output_limit_bytes,
        )
        if spec.agent.kind is AgentKind.SCRIPTED:
            return ScriptedAgent(
                script=spec.agent.script,
                calls=calls,
                journal=journal,
                opening=opening,
                max_turns=spec.agent.max_turns,
            )
        return await self._model_agent(episode, calls, journal, opening)

    async def _opening(self, episode: Episode) -> list[dict[str, Any]]:
        task = episode.spec.task
        instruction = await inputs.text(
            self._client, episode.namespace, task.instruction, task.instruction_from
        )
        return prompts.opening(episode.spec.agent.system_prompt, instruction)

    async def _model_agent(
        self,
        episode: Episode,
        calls: CallRunner,
        journal: Journal,
        opening: list[dict[str, Any]],
    ) -> ModelAgent:
        model = episode.spec.model
        assert model is not None  # CEL admits no model agent without
        served = await self._models.get(model)
        sampling = model.sampling
        return ModelAgent(
            client=served.client,
            capabilities=served.capabilities,
            specials=served.specials,
            sampling=SamplingConfig(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                min_p=sampling.min_p,
                max_tokens=sampling.max_tokens,
                seed=sampling.seed,
            ),
            reference=ModelReference(
                name=model.name,
                logprobs_mode=served.capabilities.logprobs_mode,
                sampling=sampling,
            ),
            calls=calls,
            journal=journal,
            opening=opening,
            max_turns=episode.spec.agent.max_turns,
        )
