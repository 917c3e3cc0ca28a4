"""Programs are run without a shell, in UTC, and never for longer or with more than allowed."""

import sys

import pytest

from connectors.command import CommandFailedError, LocalCommands
from connectors.protocol import (
    ConnectorError,
    SourceNotConfiguredError,
    SourceUnreachableError,
)


def python(code):
    return [sys.executable, "-c", code]


def test_what_a_program_prints_is_returned_and_times_are_in_utc():
    code = "import time; print(time.strftime('%H', time.localtime(0)), time.tzname[0])"
    assert LocalCommands().run(python(code), timeout_s=10) == b"00 UTC\n"


def test_a_program_that_says_no_tells_its_code_and_reason():
    code = "import sys; sys.exit('Invalid job id specified')"
    with pytest.raises(CommandFailedError, match=r"exit code 1 \(Invalid job id specified\)"):
        LocalCommands().run(python(code), timeout_s=10)


def test_a_program_that_does_not_end_is_killed():
    with pytest.raises(SourceUnreachableError, match=r"no end after 0\.2 s"):
        LocalCommands().run(python("import time; time.sleep(60)"), timeout_s=0.2)


def test_a_program_that_prints_without_end_is_killed():
    code = "while True: print('x' * 10000)"
    with pytest.raises(ConnectorError, match="more than 50000 bytes"):
        LocalCommands(max_bytes=50_000).run(python(code), timeout_s=10)


def test_much_on_both_pipes_does_not_block():
    code = "import sys; [print('o' * 999) or print('e' * 999, file=sys.stderr) for _ in range(999)]"
    assert len(LocalCommands().run(python(code), timeout_s=20)) == 999_000


def test_a_program_that_is_not_there_is_not_configured():
    with pytest.raises(SourceNotConfiguredError, match="name its path"):
        LocalCommands().run(["/nowhere/sacct"], timeout_s=1)


def test_arguments_are_not_interpreted():
    out = LocalCommands().run([*python("import sys; print(sys.argv[1])"), "$(id)"], timeout_s=10)
    assert out == b"$(id)\n"
