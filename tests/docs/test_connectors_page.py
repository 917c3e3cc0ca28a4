"""The examples on the connectors page are true."""

import os
import re
import subprocess
import sys
from pathlib import Path

from connectors import protocol
from connectors.registry import build_connectors
from connectors.site import read_site

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/connectors.md").read_text()


def test_the_sources_example_is_a_valid_site():
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    site = read_site(text.encode(), shown="sources.yaml")
    assert len(build_connectors(site)) >= 2


def test_every_error_of_the_contract_is_explained():
    errors = {
        name
        for name, value in vars(protocol).items()
        if isinstance(value, type) and issubclass(value, protocol.ConnectorError)
    }
    told = set(re.findall(r"`(\w+Error)s?`", PAGE))
    assert errors - told == {"ConnectorError"}


def test_every_module_it_names_is_there():
    for path in re.findall(r"`((?:connectors|tests)/[\w/]+\.py)`", PAGE):
        assert (Path(__file__).parents[2] / path).is_file(), path


def test_the_guides_connector_passes_the_suite_as_it_stands(tmp_path):
    module, test = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (tmp_path / "bmc.py").write_text(module)
    (tmp_path / "test_bmc_contract.py").write_text(
        # As if the module were where the guide puts it.
        "import sys, bmc\nsys.modules['connectors.telemetry.bmc'] = bmc\n" + test
    )
    paths = (str(tmp_path), str(ROOT), str(ROOT / "tests/contract"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
