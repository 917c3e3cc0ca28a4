"""sources.yaml: what is wrong is told with its place, all of it at once."""

import json

import pytest
from click.testing import CliRunner

from connectors.endpoint import Secret
from connectors.protocol import SourceNotConfiguredError
from connectors.registry import Outside, read_secret
from connectors.site import SiteError, read_site
from rootrank.cli import main

NOWHERE = Outside(environment={})
GOOD = """\
version: 1
clusters:
  - name: research-a
    slurm:
      kind: rest
      url: http://slurm:6820/
      user: rootrank
      token: {file: /run/secrets/slurm}
    budget: {seconds: 60}
"""


def problems(text):
    with pytest.raises(SiteError) as caught:
        read_site(text.encode(), shown="sources.yaml")
    return str(caught.value).splitlines()


def test_a_site_is_read():
    site = read_site(GOOD.encode(), shown="sources.yaml")
    cluster = site.cluster("research-a")
    assert cluster.slurm.url == "http://slurm:6820"
    assert cluster.budget.seconds == 60
    assert site.cluster("other") is None


def test_an_unknown_key_is_told_with_its_place_and_a_guess():
    assert problems(GOOD.replace("    budget", "    bugdet")) == [
        "sources.yaml:9:5: clusters.0.bugdet: unknown key; did you mean 'budget'?"
    ]


def test_all_problems_are_told_at_once():
    text = GOOD.replace("version: 1", "version: 2").replace("http://slurm:6820/", "slurm")
    told = problems(text)
    assert told[0] == "sources.yaml:1:1: version: must be 1; this release reads no other"
    assert "6:7: clusters.0.slurm.url: must start with http://" in told[1]


def test_a_token_has_one_place():
    assert (
        "one of file, env and arn"
        in problems(GOOD.replace("{file: /run", "{env: A, file: /run"))[0]
    )


def test_a_cluster_is_named_once():
    assert "named twice: a" in problems("version: 1\nclusters: [{name: a}, {name: a}]\n")[0]


def test_a_missing_key_is_told():
    assert problems(GOOD.replace("      url: http://slurm:6820/\n", ""))[0].endswith(
        "clusters.0.slurm.url: is missing; add it"
    )


def test_a_token_that_is_not_there_is_not_configured(tmp_path):
    for secret in (Secret(env="NO_SUCH"), Secret(file=str(tmp_path / "none"))):
        with pytest.raises(SourceNotConfiguredError):
            read_secret(secret, NOWHERE)
    (tmp_path / "token").write_text("abc\n")
    assert read_secret(Secret(file=str(tmp_path / "token")), NOWHERE) == "abc"


def test_a_token_that_would_add_a_header_is_refused(tmp_path):
    (tmp_path / "token").write_text("abc\r\nX-Admin: 1")
    with pytest.raises(SourceNotConfiguredError):
        read_secret(Secret(file=str(tmp_path / "token")), NOWHERE)


ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:loki-AbCdEf"


def test_a_secret_of_aws_is_read_when_it_is_needed_and_only_from_there():
    outside = Outside(environment={}, read_arn=lambda arn: f"value of {arn[-6:]}\n")
    assert read_secret(Secret(arn=ARN), outside) == "value of AbCdEf"
    with pytest.raises(SourceNotConfiguredError, match="no way to AWS"):
        read_secret(Secret(arn=ARN), NOWHERE)
    with pytest.raises(ValueError, match="String should match pattern"):
        Secret(arn="arn:aws:s3:::bucket")


STAGES = """\
version: 1
clusters:
  - name: research-a
    files: [{name: train, root: /a, patterns: ['*']}]
    loki: {url: 'https://loki', streams: [{match: {a: b}}]}
"""


def staged(**environment):
    return read_site(STAGES.encode(), shown="s.yaml", environment=environment).clusters[0]


def test_an_environment_sets_fields_of_the_file():
    found = staged(
        ROOTRANK__RESEARCH_A__LOKI__URL="http://127.0.0.1:3100",
        ROOTRANK__RESEARCH_A__FILES__TRAIN__ROOT="/b",
        ROOTRANK__RESEARCH_A__RUNNER="edge",
        HOME="/root",
    )
    assert (found.loki.url, found.files[0].root, found.runner) == (
        "http://127.0.0.1:3100", "/b", "edge",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("ROOTRANK__RESEARCH_B__LOKI__URL", "no cluster of the file is called so"),
        ("ROOTRANK__RESEARCH_A__LOKY__URL", "the file has no loky there"),
        ("ROOTRANK__RESEARCH_A__FILES__X__ROOT", "the file has no x there"),
        ("ROOTRANK__RESEARCH_A__LOKI__STREAMS", "streams is no single value"),
        ("ROOTRANK__RESEARCH_A__LOKI__ULR", "unknown key; did you mean 'url'"),
    ],
)
def test_a_variable_that_names_nothing_is_told(variable, told):
    with pytest.raises(SiteError, match=told):
        staged(**{variable: "x"})


def check(tmp_path, text, *options):
    path = tmp_path / "sources.yaml"
    path.write_text(text)
    return CliRunner().invoke(main, ["connectors", "check", "--sources", str(path), *options])


def test_check_says_what_cannot_be_reached_and_exits_with_3(tmp_path):
    text = "version: 1\nclusters:\n  - {name: a, slurm: {kind: commands, sacct: /nowhere/sacct}}\n"
    result = check(tmp_path, text)
    assert result.exit_code == 3
    probe = json.loads(result.stdout)[0]
    assert probe["status"] == "not_configured"
    assert "/nowhere/sacct: cannot be run" in probe["detail"]


def test_check_refuses_a_wrong_file_with_2(tmp_path):
    result = check(tmp_path, "version: 1\nclusters: [{}]\n")
    assert result.exit_code == 2
    assert "clusters.0.name: is missing" in result.stderr


def test_check_refuses_an_unknown_cluster_with_2(tmp_path):
    result = check(tmp_path, GOOD, "--cluster", "other")
    assert result.exit_code == 2
    assert "known are research-a" in result.stderr
