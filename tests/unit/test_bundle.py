import gzip
import os

import pytest

from connectors.bundle import BundleError, load_bundle

WORKLOAD = "workload:\n  scheduler: slurm\n  job_id: 0012\n  state: no\n  exit_code: 1:0\n"


def folder(tmp_path, workload, **files):
    tmp_path.mkdir(exist_ok=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if workload is not None:
        (tmp_path / "workload.yaml").write_text(workload)
    return tmp_path


def error_of(path):
    with pytest.raises(BundleError) as caught:
        load_bundle(path)
    return str(caught.value)


def test_scalars_mean_what_they_say(tmp_path):
    bundle = load_bundle(folder(tmp_path, WORKLOAD + "evidence: []\n"))
    assert bundle.workload.job_id == "0012"
    assert bundle.workload.state == "no"
    assert bundle.workload.exit_code == "1:0"


def test_a_duplicate_key_is_refused_with_its_place(tmp_path):
    message = error_of(folder(tmp_path, WORKLOAD + "  state: FAILED\n"))
    assert "workload.yaml:6:3: duplicate key 'state', first on line 4" in message


def test_an_unknown_key_is_a_warning_with_a_guess(tmp_path):
    text = WORKLOAD + "evidence:\n- path: a.log\n  source: applog\n  nodes: [n1]\n"
    bundle = load_bundle(folder(tmp_path, text, **{"a.log": "x\n"}))
    (warning,) = bundle.warnings
    assert "workload.yaml:9:3: unknown key 'nodes' is ignored; did you mean 'node'?" in warning


def test_a_wrong_value_is_told_with_its_place_and_what_was_given(tmp_path):
    text = WORKLOAD + "evidence:\n- path: a.log\n  source: app\n"
    message = error_of(folder(tmp_path, text))
    assert "workload.yaml:8:3: evidence.0.source" in message
    assert "'app'" in message


def test_all_errors_are_told_at_once(tmp_path):
    text = "workload:\n  scheduler: slurm\n  start: yesterday\nevidence:\n- source: applog\n"
    message = error_of(folder(tmp_path, text))
    assert len(message.splitlines()) == 2
    assert "evidence.0.path is missing; add it" in message


def test_broken_yaml_and_aliases_and_tags_are_refused_with_their_place(tmp_path):
    assert "workload.yaml:2:6: " in error_of(folder(tmp_path, "workload:\n  a: }\n"))
    assert "aliases" in error_of(folder(tmp_path, "workload: &a\n  job_id: x\nother: *a\n"))
    assert "tags" in error_of(folder(tmp_path, "workload: !!python/object:os.system {}\n"))


def test_a_path_that_leaves_the_folder_is_refused(tmp_path):
    for path in ("../secret", "/etc/passwd", "a/../../b"):
        text = WORKLOAD + f"evidence:\n- path: {path}\n  source: applog\n"
        assert "leaves the bundle's folder" in error_of(folder(tmp_path, text))


def test_a_link_out_of_the_folder_is_refused_and_a_glob_does_not_follow_it(tmp_path):
    inside = tmp_path / "bundle"
    inside.mkdir()
    (tmp_path / "secret.log").write_text("x\n")
    (inside / "link.log").symlink_to(tmp_path / "secret.log")
    (inside / "a.log").write_text("x\n")
    text = WORKLOAD + "evidence:\n- path: link.log\n  source: applog\n"
    assert "link out of the bundle" in error_of(folder(inside, text))
    text = WORKLOAD + "evidence:\n- path: '*.log'\n  source: applog\n"
    assert [each.path for each in load_bundle(folder(inside, text)).evidence] == ["a.log"]


def test_templates_fill_the_labels(tmp_path):
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "dmesg.gz").write_bytes(gzip.compress(b"x\n"))
    text = (
        WORKLOAD
        + "evidence:\n- path: rank-{rank}.log\n  source: applog\n"
        + "- path: '{node}/dmesg.gz'\n  source: syslog\n"
    )
    files = {"rank-0.log": "x\n", "rank-12.log": "x\n", "rank-x.log": "x\n"}
    bundle = load_bundle(folder(tmp_path, text, **files))
    assert [(each.path, each.node, each.rank) for each in bundle.evidence] == [
        ("n1/dmesg.gz", ("n1",), ()),
        ("rank-0.log", (), (0,)),
        ("rank-12.log", (), (12,)),
    ]


def test_a_file_that_is_not_there_is_missing_and_the_rest_is_read(tmp_path):
    text = (
        WORKLOAD + "evidence:\n- {path: a.log, source: applog}\n- {path: b.log, source: syslog}\n"
    )
    bundle = load_bundle(folder(tmp_path, text, **{"a.log": "x\n"}))
    assert bundle.missing == ("b.log",)
    assert [each.path for each in bundle.evidence] == ["a.log"]
    assert any("b.log matches no file" in each for each in bundle.warnings)


def test_an_empty_folder_and_a_missing_one_are_invalid(tmp_path):
    assert "holds no readable file" in error_of(tmp_path)
    assert "no such file or folder" in error_of(tmp_path / "nope")


def test_a_folder_of_binaries_is_invalid(tmp_path):
    (tmp_path / "core").write_bytes(bytes(range(256)) * 40)
    assert "no file that can be read" in error_of(tmp_path)


SYSLOG = "Feb 14 05:03:0{} node-002 kernel: NVRM: Xid (PCI:0000:80:00): 79\n"


def test_a_bare_folder_is_read_by_content_never_by_name(tmp_path):
    (tmp_path / "train.log").write_text("".join(SYSLOG.format(at) for at in range(5)))
    (tmp_path / "node.syslog").write_text("step 1\nstep 2\n")
    (tmp_path / "x").write_text("JobID|State|ExitCode\n7|FAILED|1:0\n")
    (tmp_path / "y.gz").write_bytes(gzip.compress(b"NAME   READY   STATUS   RESTARTS\n"))
    bundle = load_bundle(tmp_path)
    assert bundle.is_inferred
    assert {each.path: each.source for each in bundle.evidence} == {
        "train.log": "syslog",
        "node.syslog": "applog",
        "x": "scheduler",
        "y.gz": "kubernetes",
    }
    assert bundle.workload.scheduler == "none"
    assert bundle.workload.job_id == tmp_path.name
    assert bundle.workload.nodes == ("node-002",)
    assert any("unknown" in note for note in bundle.notes)


def test_a_single_file_is_a_bundle_of_its_own_name(tmp_path):
    (tmp_path / "slurm-7.out").write_text("step 1\n")
    bundle = load_bundle(tmp_path / "slurm-7.out")
    assert bundle.workload.job_id == "slurm-7.out"
    assert [each.source for each in bundle.evidence] == ["applog"]


def test_a_job_that_prints_device_tables_and_kernel_lines_is_still_a_job_log(tmp_path):
    text = (
        "NVIDIA-SMI 550.1\n" + SYSLOG.format(1) + "Traceback (most recent call last):\n" + "x\n" * 9
    )
    (tmp_path / "job").write_text(text)
    assert [each.source for each in load_bundle(tmp_path).evidence] == ["applog"]


def test_a_dump_gets_its_rank_from_its_name(tmp_path):
    (tmp_path / "_dump_12").write_bytes(b"\x80\x02}q\x00(X\x09\x00\x00\x00pg_configq\x01}u.")
    (each,) = load_bundle(tmp_path).evidence
    assert (each.source, each.rank) == ("flight_recorder", (12,))


def test_a_workload_without_an_evidence_list_reads_every_file(tmp_path):
    bundle = load_bundle(folder(tmp_path, WORKLOAD, **{"a.log": "x\n"}))
    assert [each.path for each in bundle.evidence] == ["a.log"]
    assert any("no evidence list" in each for each in bundle.warnings)


def test_a_file_name_that_is_no_utf8_is_shown_escaped_and_read(tmp_path):
    (tmp_path / os.fsdecode(b"rank\xff.log")).write_text("RuntimeError: boom\n")
    bundle = load_bundle(tmp_path)
    (entry,) = bundle.evidence
    assert entry.path == r"rank\xff.log"
    assert bundle.source.open_blob(entry.path).read(12) == b"RuntimeError"


def test_a_workload_file_that_links_out_of_the_folder_is_refused(tmp_path):
    outside = tmp_path / "outside.yaml"
    outside.write_text(WORKLOAD)
    inside = folder(tmp_path / "job", None, **{"a.log": "x\n"})
    (inside / "workload.yaml").symlink_to(outside)
    assert "workload.yaml is a link out of the folder" in error_of(inside)


def test_an_enormous_workload_file_is_refused_instead_of_loaded(tmp_path):
    text = WORKLOAD + "#" + "x" * (17 << 20) + "\n"
    assert "larger than 16 MB" in error_of(folder(tmp_path, text))


def test_a_host_list_in_nodes_is_spelled_out(tmp_path):
    text = WORKLOAD + '  nodes: "node-[001-002,7],login-[a]"\nevidence: []\n'
    nodes = load_bundle(folder(tmp_path, text)).workload.nodes
    assert nodes == ("node-001", "node-002", "node-7", "login-[a]")


def test_a_host_list_without_end_is_an_error_with_its_place(tmp_path):
    message = error_of(folder(tmp_path, WORKLOAD + '  nodes: "n-[1-999999999]"\n'))
    assert "workload.yaml:6:3: workload.nodes" in message
    assert "more than 100000 nodes" in message


def test_a_world_larger_than_any_machine_is_an_error(tmp_path):
    message = error_of(folder(tmp_path, WORKLOAD + "  world_size: 1000000000\n"))
    assert "workload.yaml:6:3: workload.world_size" in message


def test_more_evidence_entries_than_a_large_job_has_are_refused_with_their_place(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("connectors.bundle._MAX_EVIDENCE", 2)
    entry = "- {path: a.log, source: applog}\n"
    text = WORKLOAD + "evidence:\n" + entry * 3
    message = error_of(folder(tmp_path / "three", text, **{"a.log": "x\n"}))
    assert (
        "workload.yaml:9:3: more than 2 evidence entries; a pattern such as logs/*.log" in message
    )
    text = WORKLOAD + "evidence:\n" + entry * 2
    assert load_bundle(folder(tmp_path / "two", text, **{"a.log": "x\n"})).evidence
