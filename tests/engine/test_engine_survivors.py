"""What mutation testing found untested: joins by device and store, reasons, requests, states."""

from dataclasses import replace

from engine.correlate import cause_keys, effect_keys
from engine.entities import Subject
from engine.episodes import Episode
from engine.names import NodeNames
from engine.pipeline import attribute
from tests.engine.cases import book, case, meaning, seen, workload

NAMES = NodeNames(workload())


def episode(**subject) -> Episode:
    return Episode("x", meaning("x", "storage", "root", 2), Subject(1, **subject))


def test_a_device_known_only_by_its_index_is_also_looked_for_on_its_node():
    firm = episode(node="node-001", gpu="node-001|0000:10:00")
    loose = episode(node="node-001", gpu="node-001|#1")
    assert ("n?", "node-001") not in cause_keys(firm, "same_gpu")
    assert ("n?", "node-001") in cause_keys(loose, "same_gpu")
    assert ("n", "node-001") not in effect_keys(firm, "same_gpu", NAMES)
    assert ("n", "node-001") in effect_keys(loose, "same_gpu", NAMES)
    assert ("n?", "node-001") in cause_keys(episode(node="node-001"), "same_gpu")


def test_stores_and_switches_are_joined_by_their_own_names():
    disk, switch = episode(filesystem="/scratch"), episode(switch="leaf-3")
    assert ("d", "/scratch") in effect_keys(disk, "same_filesystem", NAMES)
    assert ("d", "/scratch") not in effect_keys(disk, "same_switch", NAMES)
    assert ("d", "leaf-3") in effect_keys(switch, "same_switch", NAMES)
    assert ("d", "leaf-3") in cause_keys(switch, "same_switch")


def test_reasons_say_whether_the_component_spoke_itself_and_whether_lines_are_mixed():
    error = seen("user_error", 50, node="node-001", rank=1)
    direct = attribute(case(error), book())
    assert "direct_report" in direct.quality.reasons
    assert "inferred" not in direct.quality.reasons
    assert "interleaved_lines" not in direct.quality.reasons
    mixed = attribute(case(replace(error, flags=("interleaved",))), book())
    assert "interleaved_lines" in mixed.quality.reasons
    two = [seen("user_error", None, node="node-001", rank=1),
           seen("other_error", None, node="node-002", rank=2)]  # fmt: skip
    assert "several_causes_fit" in attribute(case(*two), book()).quality.reasons


def test_an_open_case_asks_for_what_was_not_seen_and_no_more():
    verdict = attribute(case(), book())
    assert {"applog", "scheduler", "syslog", "metrics"} <= {
        item.source for item in verdict.quality.would_change
    }
    printed = attribute(case(seen("peer_closed", 50, node="node-001", rank=0)), book())
    assert printed.domain == "unknown"


def test_a_job_that_runs_is_hung_only_where_a_hang_shows():
    running = replace(case(state="RUNNING", exit_code=None, end=None), still_running=True)
    assert attribute(running, book()).terminal_state == "running"
    assert attribute(replace(running, detection_signal="hang"), book()).terminal_state == "hung"
    assert attribute(replace(running, detection_signal="crash"), book()).terminal_state == "running"


def test_of_a_vast_job_victims_are_counted_not_built():
    verdict = attribute(case(world_size=100_000, nodes=[]), book())
    victims = [item for item in verdict.affected_ranks if item.role == "victim"]
    assert len(victims) == 32
    assert verdict.victims_omitted == 100_000 - 32


def test_a_definitive_verdict_and_a_located_one_say_so():
    located = attribute(
        case(
            seen("watchdog_timeout", 50, node="node-001", rank=0, fields={"seq": "9", "op": "X"}),
            seen("watchdog_timeout", 50, node="node-001", rank=1, fields={"seq": "9", "op": "X"}),
            seen("watchdog_timeout", 50, node="node-002", rank=2, fields={"seq": "9", "op": "X"}),
            seen("watchdog_timeout", 50, node="node-002", rank=3, fields={"last_enqueued": "8"}),
        ),
        book(),
    )
    assert located.quality.reasons[0] == "located_not_explained"
    assert [item.rank for item in located.affected_ranks if item.role == "suspect"] == [3]
