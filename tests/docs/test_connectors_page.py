"""The examples on the connectors page are true."""

import re
from pathlib import Path

from connectors import protocol
from connectors.registry import build_connectors
from connectors.site import read_site

PAGE = (Path(__file__).parents[2] / "docs/connectors.md").read_text()


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
