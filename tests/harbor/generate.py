"""task.toml files over the whole schema, from a seed: old and new fields, overrides, odd values."""

import json
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

ENVIRON = {"SET": "from the caller", "EMPTY": "", "TOKEN": "t0k3n"}

_SECONDS = (1, 2, 30.0, 0.5, 600, 899.5, 3600.0, "45", 86_400, 604_800)
_ODD_SECONDS = (0, -1, math.inf, -math.inf, math.nan, 1e9, 604_801, "soon", True)
_HOSTS = (
    "example.com",
    "PyPI.org.",
    "*.example.com",
    "10.0.0.0/8",
    "192.0.2.1",
    "2001:DB8::0:1",
    "2001:db8::/32",
    "a-b.example.com",
)
_ODD_HOSTS = ("http://example.com", "example.com:80", "*", "a.*.b", "*.10.0.0.1", "", "10.0.0.1/8")
_VALUES = ("plain", "${SET}", "${UNSET:-default}", "${EMPTY:-x}", "${SET:-}", "a ${SET} b", "")
_ODD_VALUES = ("${UNSET}", "${UNSET", 7)
_USERS = ("root", "agent", 0, 1000, "1000")
_SIZES = ("2G", "512M", "1.5g", " 4G ", "2048K", "3000K", "0.3G", "1000.9M", "1e3M")
_ODD_SIZES = ("2GB", "G", "two", "-1G", "nanG", "infG", "", 2048)


def task_toml(random: Random) -> str:
    """One file. Most are valid; some have one odd value, some ask for what nobody here can run."""
    maker = _Maker(random)
    table = maker.task()
    return emit(table)


class _Maker:
    """Makes tables; `odd` is the chance of a value that may be refused."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._odd = random.choice((0.0, 0.0, 0.1))

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _one(self, usual: Sequence[Any], odd: Sequence[Any] = ()) -> Any:
        return self._random.choice(odd if odd and self._maybe(self._odd) else usual)

    def _some(self, chance: float, **makers: Callable[[], Any]) -> dict[str, Any]:
        return {name: make() for name, make in makers.items() if self._maybe(chance)}

    def _seconds(self) -> Any:
        return self._one(_SECONDS, _ODD_SECONDS)

    def _variables(self) -> dict[str, Any]:
        names = self._random.sample(["MODE", "API_KEY", "PATH_EXTRA", "A"], k=3)
        return {name: self._one(_VALUES, _ODD_VALUES) for name in names}

    def _hosts(self) -> list[Any]:
        return [self._one(_HOSTS, _ODD_HOSTS) for _ in range(self._random.randrange(4))]

    def _network(self, chance: float) -> dict[str, Any]:
        if not self._maybe(chance):
            return {}
        mode = self._one(("public", "no-network", "allowlist"), ("none", "Public"))
        hosts = mode == "allowlist" or self._maybe(self._odd)
        return {"network_mode": mode, **({"allowed_hosts": self._hosts()} if hosts else {})}

    def _healthcheck(self) -> dict[str, Any]:
        return {
            "command": "test -e /ready && echo 'it''s up'",
            **self._some(
                0.5,
                interval_sec=lambda: self._one((1, 2.0, 5), (0.5, -1)),
                timeout_sec=lambda: self._one((0.5, 3, 10.0)),
                start_period_sec=lambda: self._one((0, 5, 20.0), (1.5,)),
                start_interval_sec=lambda: self._one((1, 2)),
                retries=lambda: self._one((0, 1, 3, 10), (1.5,)),
            ),
        }

    def _environment(self) -> dict[str, Any]:
        table = self._some(
            0.4,
            docker_image=lambda: "registry.test/image:1",
            build_timeout_sec=self._seconds,
            cpus=lambda: self._one((1, 2, 0.5, 2.0, 1.25, "4", 0.0005), (0, -1, math.inf, "x")),
            memory_mb=lambda: self._one((512, 4096, 2048.0, "1024"), (0, 1.5, -1)),
            storage_mb=lambda: self._one((1024, 10_240), (0,)),
            env=self._variables,
            workdir=lambda: self._one(("/app", "/work space", "", "/app/"), ("app", "./x")),
        )
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if self._maybe(0.25):
                if not self._maybe(self._odd):
                    table.pop(new, None)
                table[old] = self._one(_SIZES, _ODD_SIZES)
        if self._maybe(0.25):
            table["allow_internet"] = self._one((True, False), ("no",))
        table |= self._network(0.4)
        table |= self._some(
            0.04,
            os=lambda: self._one(("linux", "Linux", "windows"), ("macos",)),
            gpus=lambda: self._one((0, 1)),
            skills_dir=lambda: "/skills",
            tpu=lambda: {"type": "v6e", "topology": "2x2"},
            mcp_servers=lambda: [{"name": "m", "url": "https://example.com"}],
        )
        if self._maybe(0.15):
            table["healthcheck"] = self._healthcheck()
        return table

    def _agent(self) -> dict[str, Any]:
        return {
            **self._some(0.5, timeout_sec=self._seconds),
            **self._some(0.1, user=lambda: self._one(_USERS, ("", "Bad User", -1))),
            **self._network(0.1),
        }

    def _verifier(self) -> dict[str, Any]:
        table = self._some(
            0.4,
            timeout_sec=self._seconds,
            env=self._variables,
            user=lambda: self._one(_USERS),
        )
        table |= self._network(0.1)
        if self._maybe(0.2):
            table["environment_mode"] = self._one(("shared", "separate"), ("other",))
        if self._maybe(0.2) and table.get("environment_mode") != "shared":
            table["environment"] = self._environment()
        if self._maybe(0.03):
            table["collect"] = [{"command": "pg_dump > /dump"}]
        return table

    def _artifact(self) -> Any:
        source = self._one(("/out", "/app/report.json", "/logs/agent"))
        if self._maybe(0.5):
            return source
        return {
            "source": source,
            **self._some(0.4, destination=lambda: self._one(("kept/out", ""))),
            **self._some(0.1, exclude=lambda: ["*.pyc"], service=lambda: self._one(("main", "db"))),
        }

    def _artifacts(self) -> list[Any]:
        return [self._artifact() for _ in range(self._random.randrange(1, 3))]

    def _step(self, name: str) -> dict[str, Any]:
        table: dict[str, Any] = {"name": name}
        table |= self._some(
            0.5,
            agent=self._agent,
            verifier=self._verifier,
            min_reward=lambda: self._one((0.5, 1, {"reward": 1.0, "style": 0.2}, {}), ("high",)),
        )
        table |= self._some(0.15, artifacts=self._artifacts, healthcheck=self._healthcheck)
        return table

    def task(self) -> dict[str, Any]:
        table: dict[str, Any] = self._some(0.5, version=lambda: self._one(("1.0", "1.1"), (1.0,)))
        table |= self._some(0.5, schema_version=lambda: self._one(("1.0", "1.4"), ("9.9", "new")))
        table |= self._some(
            0.7, environment=self._environment, agent=self._agent, verifier=self._verifier
        )
        table |= self._some(
            0.2,
            source=lambda: "somewhere",
            solution=lambda: {"env": self._variables()},
            artifacts=self._artifacts,
            metadata=lambda: {"difficulty": "hard", "nested": {"any": [1, 2]}},
            task=lambda: self._one(
                ({"name": "org/task"}, {"name": "org/task", "version": "2"}), ({"name": "task"},)
            ),
        )
        if self._maybe(0.35):
            names = ["build", "test-it", "Ship.2"]
            if self._maybe(self._odd):
                names.append(self._one(("BUILD", "a/b", "")))
            table["steps"] = [self._step(name) for name in names]
            table |= self._some(
                0.6, multi_step_reward_strategy=lambda: self._one(("mean", "final"), ("max",))
            )
        return table


def emit(table: dict[str, Any]) -> str:
    """The table as TOML: nested tables inline, so that any value can stand anywhere."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return json.dumps(value)
