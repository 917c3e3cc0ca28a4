"""One embedded stack for the service's tests of one file."""

from collections.abc import Iterator

import pytest
from service_api import Api, open_api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The service with two tenants and a viewer."""
    with open_api(tmp_path_factory.mktemp("service")) as opened:
        yield opened
