"""pytest's exit code and report: a score only where both say the same, as we read them here."""

import re
from io import BytesIO
from xml import sax
from xml.sax.handler import ContentHandler, feature_namespaces
from xml.sax.xmlreader import AttributesNSImpl

import orjson

from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.verifier.pytest import judge

_COUNT = re.compile(r"[0-9]{1,9}")
_NAMES = ("tests", "failures", "errors", "skipped")


class _Suites(ContentHandler):
    """Adds up what the suites of a report count; None once one of them does not."""

    def __init__(self) -> None:
        self.counts: dict[str, int] | None = dict.fromkeys(_NAMES, 0)

    def startElementNS(
        self, name: tuple[str | None, str], qname: str | None, attrs: AttributesNSImpl
    ) -> None:
        if name != (None, "testsuite"):
            return
        for count in _NAMES:
            text = attrs.get((None, count), "0")
            if _COUNT.fullmatch(text) is None:
                self.counts = None
            if self.counts is not None:
                self.counts[count] += int(text)


def counts(report: bytes) -> dict[str, float] | None:
    """Passed, failed and skipped tests; None where the report does not say."""
    suites, parser = _Suites(), sax.make_parser()
    parser.setFeature(feature_namespaces, True)
    parser.setContentHandler(suites)
    try:
        parser.parse(BytesIO(report))
    except (sax.SAXException, ValueError, LookupError):
        return None
    if suites.counts is None:
        return None
    total, failures, errors, skipped = (suites.counts[name] for name in _NAMES)
    failed = failures + errors
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def check(exit_code: int, report: bytes | None) -> Scored | Failure:
    """Any end of pytest and any report; gives what was judged."""
    end = judge(exit_code, report)
    orjson.dumps(end.message)
    if isinstance(end, Failure):
        assert end.reason in NoVerdictReason
        return end
    assert exit_code in (0, 1) and report is not None, f"{exit_code} and {report!r} gave {end}"
    said = counts(report)
    assert said == end.components, f"{report!r} says {said} and gave {end}"
    assert min(said.values()) >= 0 and said["passed"] + said["failed"] > 0
    assert (said["failed"] == 0) == (exit_code == 0)
    assert (end.verdict, end.reward) == (
        (Verdict.FAILED, 0.0) if said["failed"] else (Verdict.PASSED, 1.0)
    )
    return end


def fuzz(data: bytes) -> None:
    """The first byte is the exit code, the rest the report."""
    check(data[0] if data else 0, data[1:] or None)
