"""Two commands on one state folder: the second waits and says so."""

import subprocess
import sys
from pathlib import Path

import pytest

from rootrank.embedded.state import locked

fcntl = pytest.importorskip("fcntl")

SECOND = """
import pathlib, sys
from rootrank.embedded.state import locked
with locked(pathlib.Path(sys.argv[1])):
    print("mine")
"""


def test_who_waits_for_a_state_folder_says_what_it_waits_for(tmp_path: Path) -> None:
    with locked(tmp_path):
        second = subprocess.Popen(
            [sys.executable, "-c", SECOND, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert second.stderr is not None
        told = second.stderr.readline()
        assert f"{tmp_path} is in use by another rootrank" in told
        assert second.poll() is None
    printed, _ = second.communicate()
    assert printed == "mine\n"


def test_a_free_state_folder_is_taken_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(tmp_path):
        pass
    assert capsys.readouterr().err == ""
