"""`rootrank rules`: what it prints, and the exit codes that scripts rely on."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rule_texts import CAUSE, SYMPTOM, TIMEOUT

from engine.rulebook.artifact import decode_artifact
from rootrank.commands.rules import rules_command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _write(tmp_path / "rules", SYMPTOM, CAUSE, TIMEOUT)
    return tmp_path / "rules"


def _write(folder: Path, *texts: str) -> None:
    for text in texts:
        path = folder / (text.split("\n", 1)[0].removeprefix("id: ") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "VERSION").write_text("1.0.0\n")


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(rules_command, [str(argument) for argument in arguments])


def test_a_sound_folder_checks_with_zero(folder: Path) -> None:
    result = _run("check", "--rules", folder)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "3 rule files: 0 errors, 0 warnings" in result.stderr


def test_errors_are_a_finding_on_stdout(folder: Path) -> None:
    _write(folder, SYMPTOM.replace("tier: 1", "tier: 9"))
    result = _run("check", "--rules", folder)
    assert result.exit_code == 1
    assert result.stdout.startswith("rules/gpu/bus_loss.yaml:9:7: tier: ")


@pytest.mark.parametrize("chosen", ["net", "net/watchdog", "net/watchdog.yaml"])
def test_only_the_chosen_paths_are_reported(folder: Path, chosen: str) -> None:
    _write(folder, SYMPTOM.replace("tier: 1", "tier: 9"))
    assert _run("check", "--rules", folder, chosen).exit_code == 0


def test_an_empty_folder_is_a_finding(tmp_path: Path) -> None:
    result = _run("check", "--rules", tmp_path)
    assert result.exit_code == 1
    assert "no rules in" in result.stderr


def test_a_missing_folder_is_bad_usage(tmp_path: Path) -> None:
    assert _run("check", "--rules", tmp_path / "none").exit_code == 2


def test_samples_run_through_the_collectors_as_cases(folder: Path) -> None:
    result = _run("test", "--rules", folder)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 cases: 0 passed, 0 failed; 3 samples: 0 wrong" in result.stderr


def test_nothing_to_run_is_a_failure(folder: Path) -> None:
    result = _run("test", "--rules", folder, "pairs")
    assert result.exit_code == 1
    assert "nothing ran" in result.stderr


def test_a_failed_case_shows_the_fields_that_differ(folder: Path) -> None:
    (folder / "gpu/bus_loss.cases.yaml").write_text(
        "cases:\n"
        "  - name: wrongly expected\n"
        "    lines:\n"
        "      syslog: 'kernel: NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.'\n"
        "    expect: {domain: [storage], symptoms: {present: [gpu_lost]}}\n"
    )
    result = _run("test", "--rules", folder, "gpu")
    assert result.exit_code == 1
    assert result.stdout == (
        "rules/gpu/bus_loss.cases.yaml:2: 'wrongly expected' failed\n"
        "    domain: expected 'storage', got 'gpu'\n"
    )


def test_cases_that_cannot_be_read_are_bad_usage(folder: Path) -> None:
    (folder / "gpu/bus_loss.cases.yaml").write_text("cases: []\n")
    result = _run("test", "--rules", folder)
    assert result.exit_code == 2
    assert "no case in this file" in result.stderr


def test_compile_writes_an_artifact_that_reads_back(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "build/compiled.json"
    result = _run("compile", "--rules", folder, "-o", output)
    assert result.exit_code == 0
    assert "2 signatures, 2 symptoms, 1 cause, 0 metrics of version 1.0.0" in result.stderr
    assert decode_artifact(output.read_bytes()).book.version == "1.0.0"


def test_compile_of_faulty_rules_writes_nothing(folder: Path, tmp_path: Path) -> None:
    _write(folder, SYMPTOM.replace("tier: 1", "tier: 9"))
    result = _run("compile", "--rules", folder, "-o", tmp_path / "compiled.json")
    assert result.exit_code == 1
    assert not (tmp_path / "compiled.json").exists()


def test_a_lock_is_written_checked_and_drifts(folder: Path) -> None:
    assert _run("lock", "--rules", folder, "--check").exit_code == 1
    assert _run("lock", "--rules", folder).exit_code == 0
    assert _run("lock", "--rules", folder, "--check").exit_code == 0
    _write(folder, SYMPTOM.replace("tier: 1", "tier: 2"))
    before = (folder / "rules.lock").read_text()
    for arguments in (["--check"], []):
        result = _run("lock", "--rules", folder, *arguments)
        assert result.exit_code == 1
        assert "changed since version 1 was locked; set it to 2" in result.stdout
    assert (folder / "rules.lock").read_text() == before


def test_a_bumped_change_locks(folder: Path) -> None:
    _run("lock", "--rules", folder)
    _write(folder, SYMPTOM.replace("tier: 1", "tier: 2").replace("version: 1", "version: 2"))
    assert _run("lock", "--rules", folder).exit_code == 0
    assert "gpu/bus_loss 2 sha256:" in (folder / "rules.lock").read_text()


def test_a_lock_that_cannot_be_read_is_bad_usage(folder: Path) -> None:
    (folder / "rules.lock").write_text("nonsense\n")
    assert _run("lock", "--rules", folder).exit_code == 2


def test_new_prints_both_files_and_who_matches_already(folder: Path) -> None:
    line = "kernel: NVRM: GPU at PCI:0000:3b:00 has fallen off the bus."
    result = _run("new", "--rules", folder, "--id", "gpu/other", line)
    assert result.exit_code == 0
    assert "id: gpu/other\n" in result.stdout
    assert "\ncases:\n" in result.stdout
    assert "note: gpu/bus_loss#main (gpu_lost) already matches this line" in result.stderr
    assert not (folder / "gpu/other.yaml").exists()


def test_new_writes_and_never_overwrites(folder: Path) -> None:
    arguments = ("new", "--rules", folder, "--write", "--id", "gpu/other", "a new message here")
    assert _run(*arguments).exit_code == 0
    assert (folder / "gpu/other.cases.yaml").is_file()
    assert _run(*arguments).exit_code == 2


def test_new_refuses_an_id_that_no_rule_could_have(folder: Path) -> None:
    assert _run("new", "--rules", folder, "--id", "Gpu", "a line").exit_code == 2


def test_diff_says_what_changed_and_the_version_it_needs(folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    _write(new, SYMPTOM.replace("tier: 1", "tier: 2"), CAUSE, TIMEOUT)
    result = _run("diff", folder, new)
    assert result.exit_code == 1
    assert result.stdout == (
        "changed  gpu/bus_loss (minor): tier\n"
        "version  1.0.0 -> 1.0.0; the change is minor, which needs 1.1.0\n"
    )
    (new / "VERSION").write_text("1.1.0\n")
    assert _run("diff", folder, new).exit_code == 0


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        check=True, capture_output=True,
    )  # fmt: skip


def test_diff_takes_a_git_revision_and_shows_verdicts_that_differ(
    folder: Path, tmp_path: Path
) -> None:
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-qm", "one")
    path = folder / "gpu/bus_loss.yaml"
    path.write_text(path.read_text().replace("domain: gpu", "domain: pcie"), encoding="utf-8")
    (folder / "VERSION").write_text("1.1.0\n", encoding="utf-8")
    bundle = tmp_path / "corpus" / "one"
    bundle.mkdir(parents=True)
    (bundle / "workload.yaml").write_text(
        "workload: {scheduler: none, job_id: a, state: FAILED, nodes: [node-001]}\n"
        "evidence: [{path: k.log, source: syslog, node: node-001}]\n",
        encoding="utf-8",
    )
    line = "Jan 1 00:00:00 node-001 kernel: NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.\n"
    (bundle / "k.log").write_text(line, encoding="utf-8")
    result = _run("diff", "HEAD", "--rules", folder, "--corpus", tmp_path / "corpus")
    assert result.exit_code == 0, result.output
    assert "changed  gpu/bus_loss (minor): domain" in result.output
    assert "domain: gpu -> pcie" in result.output
    assert "corpus   1 of 1 verdicts differ" in result.output


def test_diff_of_an_unknown_revision_is_bad_usage(folder: Path, tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    result = _run("diff", "no-such-revision", "--rules", folder)
    assert result.exit_code == 2
    assert "neither a folder nor a git revision" in result.output
