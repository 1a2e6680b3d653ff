"""What a fuzzing run says of itself."""

from pathlib import Path

from tests.fuzz.runs import Run

STATUS = "#4096\tpulse  cov: 52 ft: 74 corp: 11/927b exec/s: 0 rss: 101Mb\n"
FINDING = (
    "AssertionError: read as 1\n",
    "artifact_prefix='/r/links-'; Test unit written to /r/links-crash-f21c04\n",
    "stat::number_of_executed_units: 4177\n",
)


def test_a_run_without_a_finding() -> None:
    run, said = Run("links", 60), list[str]()
    run.read(["INFO: Seed: 1\n", STATUS, "Done 5000 runs in 61 second(s)\n"], said.append)
    assert (run.executions, run.coverage, run.corpus, run.finding) == (5000, 52, 11, None)
    assert said == ["4,096 executions, 52 points reached"]


def test_a_finding_is_the_input_and_what_was_printed() -> None:
    run = Run("links", 60)
    run.read([STATUS, *FINDING], lambda _: None)
    assert run.finding == Path("/r/links-crash-f21c04")
    assert run.executions == 4177
    assert "read as 1" in run.output


def test_an_input_that_was_only_slow_is_no_finding() -> None:
    run = Run("links", 60)
    run.read(["Test unit written to /r/links-slow-unit-f21c04\n"], lambda _: None)
    assert run.finding is None
