"""Answers of the runner as values and as typed errors."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.sandbox import errors
from episode_operator.sandbox.results import ExecResult, Output

EXEC = {
    "exitCode": 137,
    "signal": 9,
    "timedOut": True,
    "durationSeconds": 1.5,
    "cpuSeconds": 0.25,
    "maxMemoryBytes": 4096,
    "stdout": {"totalBytes": 9, "keptBytes": 5, "headBytes": 3, "omittedBytes": 4},
    "stderr": {"totalBytes": 2, "keptBytes": 2, "headBytes": 2, "omittedBytes": 0},
}


def test_an_exec_answer() -> None:
    result = ExecResult.parse(EXEC, b"heatler", pod_uid="u-1")
    assert result.stdout == Output(b"hea", b"tl", 4) and result.stdout.total_bytes == 9
    assert result.stderr.data == b"er" and result.signal == 9 and result.timed_out
    assert not result.oom_killed and result.cwd == ""


@pytest.mark.parametrize("payload", [b"", b"heatle", b"heatlerr"])
def test_an_exec_answer_that_is_not_what_its_head_says(payload: bytes) -> None:
    with pytest.raises(errors.RunnerFault, match=f"{len(payload)} bytes .* 7 .*u-1"):
        ExecResult.parse(EXEC, payload, pod_uid="u-1")


@given(st.text(max_size=60), st.integers(0, 60))
def test_a_gap_never_cuts_a_character(text: str, limit: int) -> None:
    data = text.encode()
    head, tail = data[: limit - limit // 2], data[max(len(data) - limit // 2, 0) :]
    if len(data) <= limit or not limit // 2:
        return
    output = Output(head, tail, len(data) - len(head) - len(tail))
    shown = output.text(omitted="<{bytes}>")
    before, _, rest = shown.partition("<")
    gap, _, after = rest.partition(">")
    if "<" not in text and ">" not in text:
        assert text.startswith(before) and text.endswith(after)
        assert len(before.encode()) + int(gap) + len(after.encode()) == len(data)


def test_invalid_bytes_are_shown_as_such() -> None:
    assert Output(b"a\xff", b"b").text() == "a\ufffdb"
    assert Output(b"\xc3", b"\xa9").text() == "é"
    assert (
        Output(b"\x80\x80\x80\x80\x80", b"\x80" * 5, 7).text(omitted="|").endswith("\ufffd\ufffd")
    )


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"reason": "FileError", "errno": "ENOENT", "path": "/x"}, errors.FileNotFound),
        ({"reason": "FileError", "errno": "EROFS", "path": "/x"}, errors.FilePermissionDenied),
        ({"reason": "FileError", "errno": "EISDIR", "path": "/x"}, errors.FileIsDirectory),
        ({"reason": "FileError", "errno": "ELOOP", "path": "/x"}, errors.FileIsLink),
        ({"reason": "FileError", "errno": "ENOSPC", "path": "/x"}, errors.NoSpace),
        ({"reason": "FileError", "errno": "EIO", "path": "/x"}, errors.FileError),
        ({"reason": "CommandNotStarted", "errno": "ENOENT"}, errors.CommandNotStarted),
        ({"reason": "ResultStoreFull"}, errors.ResultStoreFull),
        ({"reason": "OfAnotherRelease"}, errors.RequestError),
    ],
)
def test_errors_are_typed(fields: dict[str, str], kind: type[errors.RequestError]) -> None:
    error = errors.from_runner(orjson.dumps(fields | {"message": "why"}), pod_uid="u-1")
    assert type(error) is kind
    assert "why" in str(error) and "u-1" in str(error) and fields.get("path", "") in str(error)
    assert error.errno == fields.get("errno", "") and error.pod_uid == "u-1"


def test_every_reason_is_camel_case() -> None:
    kinds = [errors.SandboxError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        assert kind.reason.isalpha() and kind.reason[0].isupper()
