"""A mistyped label, pattern or group is `unverified` in every source, never a cleaner verdict."""

import pytest
from test_coverage_truth import judged, state_of
from test_faults_everywhere import OfCloudWatch, OfPods, OfPrometheus, OfS3

from connectors.registry import Outside
from connectors.site import read_site
from functions.adapters.rulebook import shipped_rulebook


class Prometheus(OfPrometheus):
    def wrong(self, text):
        return text[:-1] + ", labels: {Hostname: hostnam, instance: instnce, node: nod}}"


class Pods(OfPods):
    def wrong(self, text):
        return text.replace("{a: b}", "{a: '{partition}'}")


class CloudWatch(OfCloudWatch):
    def wrong(self, text):
        return text.replace("{node}/kernel", "{node}/kernal")


class S3(OfS3):
    def wrong(self, text):
        return text.replace("{node}/messages", "{node}/mesages")


CASES = {"prometheus": Prometheus, "pod_logs": Pods, "cloudwatch": CloudWatch, "files": S3}


@pytest.fixture(scope="module")
def book():
    return shipped_rulebook()


def run(case, text, book, name):
    site = read_site(f"version: 1\nclusters:\n  - name: a\n    {text}\n".encode(), shown="s")
    outside = case.outside(case.server.url)
    assert isinstance(outside, Outside)
    verdict, reports = judged(site, book, outside=outside, connectors=(name,))
    return verdict, [each for each in reports if each.connector == name]


ORDER = ("definitive", "probable", "ambiguous", "insufficient")


@pytest.mark.parametrize("name", CASES)
def test_what_is_mistyped_is_unverified_and_never_a_cleaner_verdict(book, name):
    case = CASES[name]()
    try:
        text = case.site(case.server.url)
        right, _ = run(case, text, book, name)
        wrong, reports = run(case, case.wrong(text), book, name)
    finally:
        case.server.stop()
    assert {each.coverage for each in reports} <= {"unverified", None}
    assert "unverified" in {each.coverage for each in reports}
    assert {state for state, _ in state_of(wrong, case.source)} == {"unverified"}
    assert ORDER.index(wrong.quality.level) >= ORDER.index(right.quality.level)
    assert "culprit" not in {each.role for each in wrong.affected_nodes}
    assert wrong.domain != "none"
