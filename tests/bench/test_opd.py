"""What `opd` counts and how it is judged, without a server."""

import json
from importlib.metadata import distributions
from pathlib import Path

import numpy as np
import pytest

from tests.bench.opd_bench import _differences
from tests.bench.opd_report import OpdReport, PayloadCell, WayCell
from tests.bench.opd_rollout import STEPS
from tests.bench.opd_server import TRITON_BACKEND, Counters, Runner
from tests.bench.opd_ways import BEFORE, LAST_USER, SEED, Reading
from tests.bench.payload_sizes import PayloadSize
from tests.bench.readings import Spread

METRICS = """\
# HELP vllm:prompt_tokens_by_source_total Number of prompt tokens by source.
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="policy",source="local_compute"} 1200.0
vllm:prompt_tokens_by_source_total{engine="1",model_name="policy",source="local_compute"} 34.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="policy",source="local_cache_hit"} 1.6e+02
vllm:prompt_tokens_by_source_total{engine="0",model_name="policy",source="external_kv_transfer"} 9.0
vllm:prompt_tokens_total{engine="0",model_name="policy"} 1394.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="policy"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="policy"} 5.0
vllm:num_requests_running{engine="0",model_name="policy"} 3.0
"""


SIZE = PayloadSize(
    name="distillation",
    unit="(token, k)",
    values=1000,
    raw_bytes=8000,
    encoded_bytes=4000,
    json_bytes=12000,
    gzip_bytes=5000,
    encode_seconds=1e-4,
    decode_seconds=5e-5,
    json_seconds=1e-2,
)


def report(*computed: int) -> OpdReport:
    """One of a trajectory of 1,000 tokens; BeforeTurn computes so many on V2."""
    ways = []
    for runner in Runner:
        ours = computed if runner is Runner.V2 else (5000,) * len(computed)
        for way, tokens in ((SEED, (5000,) * len(computed)), (BEFORE, ours)):
            ways.append(WayCell.of(runner, way, [Counters(one, 64, 8) for one in tokens]))
    payloads = PayloadCell.of([[SIZE] for _ in computed])
    settings = {"repeats": len(computed), "tokens": 1000}
    return OpdReport(settings, {"cores": 2}, ways, payloads, [1e-5] * len(computed))


def test_counters_are_summed_over_engines_and_reasons() -> None:
    assert Counters.parse(METRICS) == Counters(computed=1234, cached=160, requests=12)
    assert Counters.parse("") == Counters(0, 0, 0)
    assert Counters(10, 5, 3) - Counters(4, 5, 1) == Counters(6, 0, 2)


def test_tokens_are_divided_by_those_of_the_trajectory() -> None:
    measured = report(500, 1500, 1000)
    before = measured.ways[-1]
    assert measured.per_token(before) == Spread(1.0, 0.5, 1.5)
    assert measured.to_seed(before) == Spread(0.2, 0.1, 0.3)


@pytest.mark.parametrize(("computed", "holds"), [((1100, 1200, 9000), True), ((1201,), False)])
def test_the_goal_is_judged_by_the_median(computed: tuple[int, ...], holds: bool) -> None:
    v1, v2, same = report(*computed).goals()
    assert (v1.holds, v2.holds, same.holds) == (False, holds, True)


def test_the_runners_are_compared_value_by_value_in_each_repeat() -> None:
    def readings(runner: Runner, *repeats: list[float]) -> dict[tuple[Runner, str], list[Reading]]:
        found = [Reading(Counters(0, 0, 0), np.array([one], np.float32)) for one in repeats]
        return {(runner, way): found for way in (SEED, LAST_USER, BEFORE)}

    seen = readings(Runner.V1, [-1.0, -2.0], [-1.0, -2.0])
    seen |= readings(Runner.V2, [-1.0, -2.5], [-1.25, -2.0])
    assert _differences(seen) == (0.5, 0.25)


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    measured = report(500, 600)
    markdown, data = (file.read_text() for file in measured.write(tmp_path, "bench-opd"))
    assert (
        "| V2 | ours, BeforeTurn | 8 (8..8) | 550 (500..600) | 0.550 (0.500..0.600) |" in markdown
    )
    assert "| distillation | 0.00800 | (token, k) | 4.00 | 12.0 | 5.00 | 80.0" in markdown
    assert "MISSED" in markdown and "holds" in markdown
    found = json.loads(data)
    assert [one["holds"] for one in found["goals"]] == [False, True, True]
    assert found["ways"][-1]["computed"] == [500, 600]
    assert found["payloads"][0]["size"]["encoded_bytes"] == 4000
    assert len(list(measured.tables())) == 2


def test_turns_can_be_told_apart_by_how_they_begin() -> None:
    for step in STEPS:
        assert [other for other in STEPS if other.text.startswith(step.says)] == [step]


def test_triton_and_vllm_find_the_backend() -> None:
    (backend,) = distributions(path=[str(TRITON_BACKEND)])
    named = {(point.group, point.name, point.attr): point for point in backend.entry_points}
    assert set(named) == {
        ("triton.backends", "cpu", None),
        ("vllm.general_plugins", "episode_triton_cpu", "register"),
    }
    for point in named.values():
        module = TRITON_BACKEND.joinpath(*point.module.split("."))
        assert module.is_dir() or module.with_suffix(".py").is_file()
