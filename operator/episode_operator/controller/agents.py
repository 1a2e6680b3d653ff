"""Makes the agent an Episode asks for."""

from functools import partial
from typing import Any, Protocol

from episode_operator.agent.calls import CallRunner
from episode_operator.agent.journal import Journal
from episode_operator.agent.model_agent import ModelAgent
from episode_operator.agent.oracle import OracleAgent
from episode_operator.agent.report import AgentReport, Progress
from episode_operator.agent.scripted import ScriptedAgent
from episode_operator.agent.staleness import StalenessLimit
from episode_operator.agent.tools import toolbox
from episode_operator.api.agent import AgentKind
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import AgentEnd
from episode_operator.api.result import ModelReference
from episode_operator.api.step import Step
from episode_operator.controller.models import ModelPool
from episode_operator.lifecycle.deadlines import agent_seconds, deadlines
from episode_operator.model import SamplingConfig
from episode_operator.sandbox.session import Session
from episode_operator.tracing import Trace


class Agent(Protocol):
    """An agent of any kind."""

    @property
    def progress(self) -> Progress:
        """Counts and times so far, of all steps."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far."""

    async def run(self, step: Step, instruction: str) -> AgentEnd:
        """Act on a step until the agent ends by itself; cancelled to end it for time."""

    def report(self, end: AgentEnd | None) -> AgentReport:
        """What it leaves behind; None is the end of an agent that was interrupted."""


class AgentFactory:
    """Makes agents; holds what all of them share."""

    def __init__(self, models: ModelPool) -> None:
        self._models = models

    async def make(
        self, episode: Episode, session: Session, journal: Journal, trace: Trace
    ) -> Agent:
        """The Episode's agent.

        Raises:
            ModelError: the model server cannot be used.
        """
        spec = episode.spec
        if spec.agent.kind is AgentKind.ORACLE:
            return OracleAgent(
                session=session,
                user=spec.agent.user,
                timeouts=partial(agent_seconds, spec),
                output_limit_bytes=spec.agent.output_limit_bytes,
                journal=journal,
                system_prompt=spec.agent.system_prompt,
                trace=trace,
            )
        calls = CallRunner(
            session=session,
            tools=toolbox(
                spec.agent.toolsets if spec.needs_model else ["terminal", "file"],
            ),
            user=spec.agent.user,
            timeout_seconds=deadlines(spec).tool,
            output_limit_bytes=spec.agent.output_limit_bytes,
            trace=trace,
        )
        if spec.agent.kind is AgentKind.SCRIPTED:
            return ScriptedAgent(
                calls=calls,
                journal=journal,
                system_prompt=spec.agent.system_prompt,
                max_turns=spec.agent.max_turns,
                trace=trace,
            )
        return await self._model_agent(episode, calls, journal, trace)

    async def _model_agent(
        self, episode: Episode, calls: CallRunner, journal: Journal, trace: Trace
    ) -> ModelAgent:
        model = episode.spec.model
        assert model is not None  # CEL admits no model agent without
        sampling = model.sampling
        config = SamplingConfig(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            max_tokens=sampling.max_tokens,
            seed=sampling.seed,
            top_logprobs=sampling.top_logprobs,
        )
        served = await self._models.get(model, logprobs=config.changes_distribution)
        return ModelAgent(
            client=served.client,
            capabilities=served.capabilities,
            specials=served.specials,
            sampling=config,
            reference=ModelReference(
                name=model.name,
                logprobs_mode=served.capabilities.logprobs_mode,
                sampling=sampling,
            ),
            calls=calls,
            journal=journal,
            system_prompt=episode.spec.agent.system_prompt,
            max_turns=episode.spec.agent.max_turns,
            staleness=StalenessLimit(model.staleness, served.client) if model.staleness else None,
            trace=trace,
        )
