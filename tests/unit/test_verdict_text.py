from engine.model.verdict import seal
from rootrank.text import render_verdict


def verdict(**more):
    return seal(
        {
            "workload": {"scheduler": "slurm", "cluster": "c", "tenant": "t", "job_id": "7"},
            "terminal_state": "failed", "manifestation": "crash", "domain": "gpu",
            "failure_class": "gpu_lost", "quality": {"level": "definitive"},
            "summary": "A GPU fell off the bus.",
            "rules": {"version": "1.0.0", "extraction_digest": "e", "reasoning_digest": "r"},
            **more,
        }
    )  # fmt: skip


GPU = {
    "kind": "gpu", "id": "n1/2", "node": "n1", "index": 2, "pci": "0000:30:00", "role": "culprit",
    "cause_id": "c", "evidence": ["ev-1"],
}  # fmt: skip
EVIDENCE = {
    "evidence_id": "ev-1", "source": "syslog", "connector": "static", "uri": "dmesg", "line": 12,
    "byte_offset": 0, "byte_length": 1, "time_basis": "stamp", "trust": "node", "text": "Xid 79",
}  # fmt: skip


def test_the_first_lines_say_job_state_domain_and_class():
    lines = render_verdict(verdict()).splitlines()
    assert lines[0] == "slurm job 7: failed"
    assert lines[1] == "GPU  gpu_lost"
    assert lines[2] == "A GPU fell off the bus."


def test_a_culprit_is_named_with_its_node_and_its_evidence_with_file_and_line():
    text = render_verdict(verdict(affected_entities=(GPU,), evidence=(EVIDENCE,)))
    assert "Culprit\n  GPU 2 (0000:30:00) of n1" in text
    assert "dmesg:12\n    Xid 79" in text


CAUSE = {
    "cause_id": "rc-1", "primary": True, "symptom": "gpu_lost", "rule": "gpu/x", "domain": "gpu",
    "title": "A GPU fell off the bus", "explanation": "", "entity": {"kind": "job", "id": "7"},
    "quality": "definitive", "evidence": ["ev-1"],
}  # fmt: skip


def test_a_cause_began_at_a_second_or_between_two_moments():
    for onset, told in (
        (("2025-01-01T10:00:00Z", "2025-01-01T10:00:00.999999Z"), " at 2025-01-01T10:00:00Z ["),
        (("2025-01-01T10:00:00Z", "2025-01-01T17:00:00Z"),
         " between 2025-01-01T10:00:00Z and 2025-01-01T17:00:00Z ["),
        ((None, "2025-01-01T17:00:00Z"), " before 2025-01-01T17:00:00Z ["),
        ((None, None), "off the bus ["),
    ):  # fmt: skip
        begun = {"earliest": onset[0], "latest": onset[1]}
        assert told in render_verdict(verdict(root_causes=({**CAUSE, "onset": begun},)))


def test_only_a_time_of_the_line_itself_stands_beside_it():
    at = "2025-01-01T10:00:00Z"
    dated = {**EVIDENCE, "observed_at": at}
    assert f"dmesg:12  {at}\n" in render_verdict(verdict(evidence=(dated,)))
    inferred = {**dated, "time_basis": "neighbour"}
    assert at not in render_verdict(verdict(evidence=(inferred,)))


def test_where_nobody_is_named_it_says_so():
    text = render_verdict(verdict(domain="unknown", quality={"level": "insufficient"}))
    assert "Nobody to blame: no node, GPU or rank is named" in text
    assert "the evidence allows no cause" in text


def test_many_nodes_are_written_as_a_host_list():
    nodes = tuple(
        {"kind": "node", "id": f"n{at}", "node": f"n{at}", "role": "suspect"} for at in (1, 2, 3, 7)
    )
    assert "Suspects\n  node n[1-3,7]" in render_verdict(verdict(affected_entities=nodes))


def test_what_is_missing_is_shown_apart_from_what_was_seen():
    coverage = (
        {"source": "applog", "window": "tail", "state": "complete", "lines": 9},
        {"source": "syslog", "window": "tail", "state": "not_configured"},
        {"source": "metrics", "window": "tail", "state": "failed", "reason": "not found: m.prom"},
    )
    text = render_verdict(verdict(coverage=coverage))
    assert "applog, tail    complete    9 lines" in text
    assert "metrics, tail   failed      no lines (not found: m.prom)" in text
    assert "nothing was given of: syslog" in text


def test_a_log_line_cannot_move_the_cursor_or_colour_the_screen():
    evidence = {**EVIDENCE, "text": "\x1b[2J\x1b[31mXid 79\r\x07"}
    text = render_verdict(verdict(evidence=(evidence,)))
    assert "\x1b" not in text
    assert "\r" not in text


def test_colour_is_only_used_when_asked_for():
    assert "\x1b[" not in render_verdict(verdict())
    assert "\x1b[1;31mGPU\x1b[0m" in render_verdict(verdict(), colour=True)


def test_a_long_block_is_shown_by_its_first_and_last_lines():
    evidence = {**EVIDENCE, "text": "\n".join(["Traceback", *"abcdefgh", "ValueError: x"])}
    text = render_verdict(verdict(evidence=(evidence,)))
    assert "    Traceback\n    ...\n    h\n    ValueError: x" in text


def test_a_job_whose_name_is_its_id_is_named_once():
    workload = {"scheduler": "sagemaker", "cluster": "c", "tenant": "t", "job_id": "j7"}
    text = render_verdict(verdict(workload={**workload, "name": "j7"}))
    assert text.startswith("sagemaker job j7: failed")


def test_rules_that_were_not_applied_are_explained():
    rules = {
        "version": "1.0.0", "extraction_digest": "e", "reasoning_digest": "r",
        "not_evaluated": [{"rule": "gpu/x", "reason": "no syslog"}],
    }  # fmt: skip
    text = render_verdict(verdict(rules=rules))
    assert "1 rule not applied, for lack of sources or after an error" in text


def sureness(*causes, reasons=()):
    text = render_verdict(
        verdict(quality={"level": "ambiguous", "reasons": reasons}, root_causes=causes)
    )
    (line,) = [line for line in text.splitlines() if line.startswith("How sure")]
    return line


def test_one_suspected_cause_is_not_called_two():
    cause = {
        "cause_id": "rc-1", "primary": False, "symptom": "x", "rule": "a/b", "domain": "gpu",
        "title": "X", "explanation": "", "quality": "ambiguous", "evidence": (),
        "entity": {"kind": "rank", "id": "1", "node": "n1"},
    }  # fmt: skip
    assert "two or more causes fit" in sureness(cause, {**cause, "cause_id": "rc-2"})
    assert "fits several domains" in sureness(cause, reasons=("rival_domains_fit",))
    assert "where it got stuck is known" in sureness(cause, reasons=("located_not_explained",))
    assert "two or more" not in sureness(cause)
