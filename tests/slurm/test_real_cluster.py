"""Jobs end on a real Slurm cluster; what its emitters tell becomes the right scope and verdict.

The epilog, the completion plugin and the poller all tell of each job: an attempt stays one.
"""

import pytest
from cluster import has_memory_cgroup

from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from engine.model.moment import rfc3339, to_us
from engine.model.workload import Workload

pytestmark = pytest.mark.system("slurm")


def only_key(site, job):
    (key,) = site.keys(job)
    return key


def scoped(site, name):
    verdict = site.verdict(only_key(site, site.jobs[name]))
    return verdict, verdict.workload


def test_a_completed_job_is_recorded_and_needs_no_verdict(site):
    key = only_key(site, site.jobs["done"])
    assert key.startswith("research/rrlab/slurm/")
    assert site.claim_state(key) == "COMPLETED"


def test_a_failed_job_has_its_exit_code_node_window_user_and_limit(site):
    verdict, workload = scoped(site, "fail")
    assert (workload.state, workload.exit_code) == ("FAILED", "3:0")
    assert workload.nodes == ("rr1",)
    assert (workload.user, workload.name) == ("root", "fail")
    assert workload.start <= workload.end
    assert verdict.terminal_state == "failed"
    assert [each for each in verdict.affected_nodes if each.role in ("culprit", "suspect")] == []


def test_a_job_that_died_of_a_signal_says_which(site):
    _, workload = scoped(site, "signal")
    assert (workload.state, workload.exit_code) == ("FAILED", "0:11")


def test_a_job_beyond_its_time_limit_is_a_timeout(site):
    verdict, workload = scoped(site, "time")
    assert workload.state == "TIMEOUT"
    assert verdict.terminal_state in ("timeout", "hung")


def test_a_cancelled_job_says_who_cancelled_it(site):
    verdict, workload = scoped(site, "cancel")
    assert workload.state.startswith("CANCELLED")
    assert verdict.terminal_state == "cancelled"


@pytest.mark.skipif(not has_memory_cgroup(), reason="needs control groups of version 1")
def test_a_job_out_of_memory_says_so(site):
    verdict, workload = scoped(site, "memory")
    assert workload.state == "OUT_OF_MEMORY"
    assert verdict.terminal_state == "out_of_memory"


def test_a_job_that_lost_its_node_names_it(site):
    verdict, workload = scoped(site, "node")
    assert workload.state == "NODE_FAIL"
    assert workload.nodes == ("rr3",)
    assert verdict.terminal_state == "node_fail"


def test_a_requeued_job_has_two_attempts_with_windows_of_their_own(site):
    keys = site.keys(site.jobs["again"])
    assert len(keys) == 2
    states = [site.claim_state(key) for key in keys]
    assert states[1] == "FAILED"
    second = site.verdict(keys[1]).workload
    assert second.exit_code == "1:0"


def test_the_tasks_of_an_array_are_attempts_of_their_own(site):
    job = site.jobs["array"]
    states = [site.claim_state(only_key(site, f"{job}_{task}")) for task in range(3)]
    assert states == ["COMPLETED", "FAILED", "FAILED"]
    workload = site.verdict(only_key(site, f"{job}_2")).workload
    assert workload.exit_code == "2:0"


def test_three_emitters_tell_and_nothing_is_told_twice_or_lost(site):
    sent = [each.event for each in site.stack.invocations if "Admit" in each.function]
    assert sum(len(each["Records"]) for each in sent) > len(site.jobs)
    assert site.waiting() == []
    assert site.stack.dead_letters() == []
    for name, job in site.jobs.items():
        if name not in ("array", "again"):
            assert len(site.keys(job)) == 1, name


def commands(site):
    slurm = f"{{kind: commands, conf: {site.cluster.conf}}}"
    text = f"version: 1\nclusters:\n  - {{name: rrlab, slurm: {slurm}}}\n"
    return build_connectors(read_site(text.encode(), shown="sources.yaml"), Outside())[0]


def test_the_connector_reaches_the_cluster_and_describes_the_attempt(site):
    connector = commands(site)
    assert connector.probe().status == "ok"
    found = connector.describe(Workload(scheduler="slurm", job_id=site.jobs["fail"]))
    assert (found.workload.state, found.workload.exit_code) == ("FAILED", "3:0")
    assert found.workload.nodes == ("rr1",)


def test_the_connector_and_the_event_agree_on_the_window(site):
    _, told = scoped(site, "time")
    found = commands(site).describe(Workload(scheduler="slurm", job_id=site.jobs["time"]))
    window = (rfc3339(to_us(found.workload.start)), rfc3339(to_us(found.workload.end)))
    assert window == (told.start, told.end)


def test_the_plan_asks_the_cluster_and_its_answer_is_evidence(site):
    verdict, _ = scoped(site, "node")
    reports = {each.connector: each.status for each in verdict.connector_reports}
    assert reports["slurm"] == "ok"
    assert reports["record"] == "ok"
