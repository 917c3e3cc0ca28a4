import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rootrank.cli import main

CORPUS = Path(__file__).parents[1] / "corpus"
CLEAN = str(CORPUS / "060-nccl-tests-clean")
PANIC = str(CORPUS / "050-slurm-time-limit")


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_one_path_gives_one_object():
    result = run("attribute", CLEAN)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["terminal_state"] == "completed"


def test_several_paths_give_an_array_in_the_order_given():
    documents = json.loads(run("attribute", PANIC, CLEAN).stdout)
    assert [each["workload"]["job_id"] for each in documents] == ["410050", "all_reduce_perf"]


def test_a_folder_of_bundles_is_told_to_be_one():
    result = run("attribute", str(CORPUS))
    assert "20 folders in it are bundles of their own" in result.stderr
    assert "bundles of their own" not in run("attribute", CLEAN).stderr


def test_a_bad_path_is_told_in_its_place_and_the_others_are_done():
    result = run("attribute", "/no/such/place", CLEAN)
    first, second = json.loads(result.stdout)
    assert result.exit_code == 2
    assert "no such file or folder" in first["error"]
    assert second["terminal_state"] == "completed"
    assert "no such file or folder" in result.stderr


def test_json_lines_are_one_document_a_line():
    lines = run("attribute", "--format", "jsonl", PANIC, CLEAN).stdout.splitlines()
    assert [json.loads(line)["terminal_state"] for line in lines] == ["timeout", "completed"]


def test_text_leads_with_the_answer_and_is_not_coloured_in_a_pipe():
    result = run("attribute", "--format", "text", PANIC)
    assert result.stdout.splitlines()[0] == "slurm job 410050: timeout"
    assert result.stdout.splitlines()[1].startswith("SCHEDULER")
    assert "\x1b[" not in result.stdout


def test_unusable_rules_are_bad_input(tmp_path):
    result = run("attribute", "--rules", str(tmp_path), CLEAN)
    assert result.exit_code == 2
    assert "rules cannot be used" in result.stderr


def test_no_path_is_bad_usage():
    assert run("attribute").exit_code == 2


def test_a_warning_about_the_bundle_goes_to_stderr(tmp_path):
    (tmp_path / "workload.yaml").write_text(
        "workload: {scheduler: none, job_id: x, stat: FAILED}\n"
        "evidence: [{path: a, source: applog}]\n"
    )
    (tmp_path / "a").write_text("x\n")
    result = run("attribute", str(tmp_path))
    assert "did you mean 'state'?" in result.stderr
    assert json.loads(result.stdout)["workload"]["job_id"] == "x"


def test_the_order_of_evidence_changes_no_byte(tmp_path):
    texts = {"a": "Traceback (most recent call last):\nValueError: x\n", "b": "step 1\n"}
    outputs = set()
    for number, order in enumerate(("ab", "ba")):
        folder = tmp_path / str(number)
        folder.mkdir()
        entries = "".join(f"- {{path: {name}, source: applog}}\n" for name in order)
        (folder / "workload.yaml").write_text(
            "workload: {scheduler: none, job_id: x, state: FAILED}\nevidence:\n" + entries
        )
        for name, text in texts.items():
            (folder / name).write_text(text)
        outputs.add(run("attribute", str(folder)).stdout)
    assert len(outputs) == 1


def test_explain_says_which_line_a_signature_matched():
    result = run("explain", PANIC, "scheduler/sched_timeout")
    assert result.exit_code == 0
    assert "sacct.txt: matched as sched_timeout" in result.stdout


def test_explain_says_when_a_source_is_missing():
    result = run("explain", PANIC, "scheduler/sched_timeout")
    assert "not evaluated: the bundle has no file of these sources" in result.stdout


def test_explain_guesses_a_misspelt_rule():
    result = run("explain", PANIC, "scheduler/shed_timeout")
    assert result.exit_code == 2
    assert "scheduler/sched_timeout" in result.stderr


def test_collect_runs_one_item_and_writes_both_files(tmp_path):
    task = {
        "item": {
            "item_id": "i-1", "connector": "static", "shard": "s",
            "evidence": [{"path": "sacct.txt", "source": "scheduler"}],
        },
        "workload": {"scheduler": "slurm", "job_id": "410050"},
    }  # fmt: skip
    (tmp_path / "item.json").write_text(json.dumps(task))
    result = run(
        "collect", "--item", str(tmp_path / "item.json"), "--root", PANIC, "--output", str(tmp_path)
    )
    assert result.exit_code == 0
    report = json.loads((tmp_path / "i-1.report.json").read_text())
    lines = (tmp_path / "i-1.observations.jsonl").read_text().splitlines()
    assert report["status"] == "ok"
    assert any(json.loads(line).get("symptom") == "sched_timeout" for line in lines)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("{}", "item: Field required"),
        ('{"item": {"item_id": "i", "connector": "loki", "shard": "s"}, "workload": '
         '{"scheduler": "x", "job_id": "1"}}', "'loki' cannot be run here"),
        ('{"item": {"item_id": "i", "connector": "static", "shard": "s", "base_uri": "s3://b/p"}, '
         '"workload": {"scheduler": "x", "job_id": "1"}}', "not on this machine"),
    ],
)  # fmt: skip
def test_an_item_that_cannot_be_run_here_says_why(tmp_path, task, told):
    (tmp_path / "item.json").write_text(task)
    result = run("collect", "--item", str(tmp_path / "item.json"))
    assert result.exit_code == 2
    assert told in result.stderr


def test_an_item_whose_files_are_all_gone_exits_with_three(tmp_path):
    task = {
        "item": {
            "item_id": "i", "connector": "static", "shard": "s",
            "evidence": [{"path": "gone", "source": "applog"}],
        },
        "workload": {"scheduler": "x", "job_id": "1"},
    }  # fmt: skip
    (tmp_path / "item.json").write_text(json.dumps(task))
    result = run("collect", "--item", str(tmp_path / "item.json"), "--output", str(tmp_path))
    assert result.exit_code == 3
