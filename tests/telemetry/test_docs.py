"""The pages about sites: their example is valid, and no field is left out."""

import re

import pytest

from connectors.site import read_site
from connectors.telemetry import settings

FIELDS = sorted(
    {
        field
        for model in (
            settings.FileSource,
            settings.PrometheusSource,
            settings.LokiSource,
            settings.LokiStream,
            settings.CloudWatchSource,
            settings.CloudWatchGroup,
        )
        for field in model.model_fields
    }
)


def test_the_example_of_a_site_file_is_valid(root):
    (text,) = re.findall(r"```yaml\n(.*?)```", (root / "docs/sites.md").read_text(), re.DOTALL)
    cluster = read_site(text.encode(), shown="sources.yaml").cluster("research-a")
    assert [each.name for each in cluster.files] == ["train", "kernel"]
    assert cluster.loki.streams[1].by_node


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_told(root, field):
    page = (root / "docs/sites.md").read_text()
    assert f"`{field}`" in page or f"[].{field}`" in page or f"{field}:" in page
