"""A site's scheduler is asked about the attempts of its cluster, and about no others."""

from connectors.registry import Outside, build_connectors, connector_for
from connectors.schedulers.slurm import SlurmConnector
from connectors.site import read_site
from engine.model.evidence_request import EvidenceRequest
from engine.model.workload import Workload
from functions.scope.scheduler_items import described, scheduler_items

SITE = read_site(
    b"version: 1\nclusters:\n  - name: a\n    slurm: {kind: commands}\n"
    b"    kubernetes: {kind: in_cluster}\n    budget: {seconds: 60}\n",
    shown="sources.yaml",
)


def items(scheduler, cluster="a", requests=()):
    workload = Workload(scheduler=scheduler, job_id="7")
    return scheduler_items(SITE.cluster(cluster), workload, windows=(), requests=requests)


def test_an_attempt_is_asked_about_at_its_own_scheduler():
    assert [item.connector for item in items("slurm")] == ["slurm"]
    assert [item.connector for item in items("kueue")] == ["kubernetes"]
    assert items("slurm")[0].budget.seconds == 60


def test_other_schedulers_and_clusters_are_not_asked():
    assert items("batch") == []
    assert items("slurm", cluster="b") == []


def test_the_second_collection_asks_again_only_where_wanted():
    wants = EvidenceRequest(source="scheduler", why="state")
    others = EvidenceRequest(source="syslog", why="xid")
    assert len(items("slurm", requests=(wants,))) == 1
    assert items("slurm", requests=(others,)) == []


def test_an_item_finds_its_connector_again():
    (item,) = items("slurm")
    assert isinstance(connector_for(SITE, item, Outside()), SlurmConnector)


class Sacct:
    def __init__(self, *answers):
        self.answers = list(answers)

    def run(self, argv, *, timeout_s):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


HEAD = b"JobIDRaw|JobID|State|ExitCode|Start|End|NodeList|User\n"
RUNNING = HEAD + b"7|7|RUNNING|0:0|2026-01-01T00:00:00|Unknown|n[1-2]|ann\n"
FAILED = HEAD + b"7|7|FAILED|1:0|2026-01-01T00:00:00|2026-01-01T01:00:00|n[1-2]|ann\n"


def slurm(*answers):
    pauses = []
    world = Outside(commands=lambda _: Sacct(*answers), clock=lambda: 0.0, pause=pauses.append)
    return build_connectors(SITE, world)[0], pauses


def test_accounting_that_lags_is_asked_again_until_the_attempt_is_over():
    connector, pauses = slurm(RUNNING, RUNNING, FAILED)
    found = connector.describe(Workload(scheduler="slurm", job_id="7"))
    assert found.workload.state == "FAILED"
    assert pauses == [1.0, 2.0]


def test_accounting_that_never_ends_gives_what_it_has():
    connector, pauses = slurm(RUNNING)
    assert connector.describe(Workload(scheduler="slurm", job_id="7")).is_over is False
    assert len(pauses) == 4


def test_what_the_event_says_stays_and_the_rest_is_filled_in():
    connector, _ = slurm(FAILED)
    told = Workload(scheduler="slurm", job_id="7", state="NODE_FAIL", start="2026-01-01T00:00:00Z")
    known = described(told, connector)
    assert known.state == "NODE_FAIL"
    assert known.nodes == ("n1", "n2")
    assert known.user == "ann"


def test_another_attempts_accounting_changes_nothing():
    connector, _ = slurm(FAILED)
    told = Workload(scheduler="slurm", job_id="7", start="2026-01-01T05:00:00Z")
    assert described(told, connector) == told
