"""Every page: links lead somewhere, commands exist and run, what is shown as printed is printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rootrank.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"(?:^|[`\s/])rootrank ([a-z]+(?: [a-z]+)?)", re.MULTILINE)
TARGET = re.compile(r"`make ([a-z-]+)`|^make ([a-z-]+)", re.MULTILINE)
MASK = re.compile(r"sha256:[0-9a-f]+|rules \d+\.\d+\.\d+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    targets = [t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    assert [t for t in targets if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_names_exist(page: Path) -> None:
    context = click.Context(main)
    missing = []
    for name in COMMAND.findall(_code(page)):
        words = name.split()
        command = main.get_command(context, words[0])
        if command is None:
            missing.append(words[0])
        elif isinstance(command, click.Group) and len(words) > 1:
            missing += [] if words[1] in command.list_commands(context) else [name]
    assert missing == []


def _code(page: Path) -> str:
    """The text of a page's code spans and blocks."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL)
    return "\n".join(blocks + re.findall(r"`([^`\n]+)`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {one or two for one, two in TARGET.findall(_code(page))}
    assert named - targets == set()


def test_the_readme_shows_the_verdict_that_the_demo_prints() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    from readme_verdict import demo_verdict, with_verdict

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    fresh = with_verdict(readme, demo_verdict())
    assert MASK.sub("", readme) == MASK.sub("", fresh), "run scripts/readme_verdict.py"


def test_the_readme_command_for_ones_own_logs_runs(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("Traceback (most recent call last):\nKeyError: 'lr'\n")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    line = next(line for line in readme.splitlines() if line.startswith(".venv/bin/rootrank"))
    words = shlex.split(line.replace("PATH", str(tmp_path)))
    command = [sys.executable, "-m", "rootrank", *words[1:]]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"domain":"application"' in done.stdout.replace(" ", "")
