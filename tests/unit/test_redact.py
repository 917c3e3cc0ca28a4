"""Secrets leave no excerpt; what is none stays readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.extract.redact import Redactor
from tests.unit.extract_fixtures import extract

REDACT = Redactor().text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
        ("{'hf_token': 'abc123def', 'lr': 1}", "abc123def"),
        ("run --api-key s3cr3tvalue --lr 1", "s3cr3tvalue"),
        ("Authorization: Bearer abcdef.ghijkl.mnopqrstu", "abcdef.ghijkl"),
        ("https://user:pa55word@host/x", "pa55word"),
        ("DB_PASS=hunter22 x", "hunter22"),
        ("Authorization: Token abcdefghijkl", "abcdefghijkl"),
        ("'Authorization': 'abcdefghijkl'", "abcdefghijkl"),
        ("Cookie: session=abcdefgh; Set-Cookie: sid=ijklmnop", "abcdefgh"),
        ("Set-Cookie: sid=ijklmnop", "ijklmnop"),
        ("post https://hooks.slack.com/services/T0/B0/abcdefgh", "abcdefgh"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalr"),
        ("id AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("login hf_abcdefghijklmnopqrstuvwxyz", "hf_abcdef"),
        ("remote ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abc"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def", "eyJzdWIi"),
        ("DB_PASSWORD=hunter2, next", "hunter2"),
        ("GET /login?u=a%26password%3Dhunter22", "hunter22"),
        ('"password": "a b c"', "a b c"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEsecret\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("wandb: login key 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
        ("https://s3/x?X-Amz-Signature=abcdef0123&X=1", "abcdef0123"),
        ("mysql -h db -u root -phunter22 metrics", "hunter22"),
        ("mysqldump --single-transaction -p'hunter 22' metrics", "hunter 22"),
        ("sshpass -p hunter22 ssh n1", "hunter22"),
        ("docker login registry.example -u ada -p hunter22", "hunter22"),
        ("redis-cli -h cache -a hunter22 PING", "hunter22"),
        ("curl -s -u ada:hunter22 https://artifacts.example/x", "hunter22"),
        ("smbclient //nas/data -U ada%hunter22", "hunter22"),
        ("openssl enc -d -pass pass:hunter22 -in x", "hunter22"),
        ("machine git.example login ada password hunter22", "hunter22"),
        ("REGISTRY_AUTH=hunter22", "hunter22"),
        ("export ARTIFACTORY_AUTH='hunter22'", "hunter22"),
        ('declare -x NPM_PASS="hunter22"', "hunter22"),
        ("SENTRY_DSN=https://0123456789abcdef@sentry.example/3", "0123456789abcdef"),
        ("STRIPE_KEY: pk_live_0123456789", "pk_live_0123456789"),
        ('{"auths": {"reg": {"auth": "YWRhOmh1bnRlcjIy"}}}', "YWRhOmh1bnRlcjIy"),
        ("_auth=YWRhOmh1bnRlcjIy", "YWRhOmh1bnRlcjIy"),
        ("#SBATCH --export=ALL,DB_PASSWORD=hunter22,LR=1", "hunter22"),
    ],
)
def test_a_secret_is_masked(text: str, secret: str) -> None:
    assert secret not in REDACT(text)
    assert "[redacted]" in REDACT(text)


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'token'",
        "pad_token: 50256 eos_token_id=2 num_tokens: 756564000",
        "max_tokens=4096",
        "RuntimeError: size mismatch for embed_tokens.weight: copying a param",
        "store key: default_pg/0//cuda//0",
        "hf_token=None",
        "mysql -p metrics",
        "mpirun -p 8 python train.py -pipeline",
        "docker run -p 8080:80 image",
        "PRIMARY_KEY=None",
        "AuthType=auth/munge",
        "curl: (7) Failed to connect to 10.0.0.1:443",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert REDACT(text) == text


WORDS = st.sampled_from(
    ["password", "api_key", "token", "--secret", "=", ": ", " ", "'", '"', "[redacted]", "hunter2",
     "Bearer ", "https://", "u:p@h", "{", "}", ",", "AKIAIOSFODNN7EXAMPLE", "None", "&sig=abcdefg",
     "-----BEGIN PRIVATE KEY-----", "\n", "wandb key ", "mysql -p", "curl -u a:", "REG_AUTH=",
     '"auth": "', "redis-cli -a "]
)  # fmt: skip


@given(st.lists(WORDS, max_size=14).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert REDACT(REDACT(text)) == REDACT(text)


def test_a_sites_own_pattern_masks_its_group() -> None:
    assert Redactor([r"badge=(\d+)"]).text("badge=1234 ok") == "badge=[redacted] ok"


def test_samples_fields_and_summaries_leave_redacted() -> None:
    found = extract("connection refused by password=hunter2hunter2\n")
    (item,) = found.observations
    told = [item.first.text, item.last.text, *item.fields.values(), found.summaries[0].last_text]
    assert all("hunter2" not in text for text in told)


@pytest.mark.parametrize(
    "text", ["forward_pass: failed", "NCCL cookie: none", "authorization failed: bad request"]
)
def test_a_word_that_only_looks_like_a_credential_stays(text):
    assert REDACT(text) == text


def test_lines_keep_their_number_and_a_key_loses_every_line_that_is_there() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    lines = Redactor().lines
    whole = ["before", f"[rank0]: {begin}", f"[rank0]: {body}", f"[rank0]: {end}", "after"]
    assert lines(whole) == ["before", "[redacted]", "[redacted]", "[redacted]", "after"]
    assert lines([body, "abc=", end, "after"]) == ["[redacted]"] * 3 + ["after"]
    assert lines(["before", begin, body]) == ["before", "[redacted]", "[redacted]"]
    assert lines(["before", body, "after"]) == ["before", "[redacted]", "after"]
    assert lines(["password: hunter22", "lr: 0.1"]) == ["password: [redacted]", "lr: 0.1"]


def test_a_site_pattern_over_several_lines_takes_them_whole() -> None:
    redactor = Redactor([r"ticket begin\n[^\n]*\nticket end"])
    given = ["a", "the ticket begin", "hunter2", "ticket end", "b"]
    assert redactor.lines(given) == ["a", "[redacted]", "[redacted]", "[redacted]", "b"]


@pytest.mark.parametrize(
    ("harmless", "secret"),
    [
        ("ya11.abcdefghijklmnopqrstuvwxyz", "ya29.abcdefghijklmnopqrstuvwxyz"),
        (f"dop_v9_{'a' * 64} key", f"dop_v1_{'a' * 64} key"),
        ("https://x.webhook.office.com/webhookb9/abcdefgh",
         "https://x.webhook.office.com/webhookb2/abcdefgh"),
    ],
)  # fmt: skip
def test_what_was_found_clean_clears_no_text_with_other_digits(harmless: str, secret: str) -> None:
    redactor = Redactor()
    assert redactor.text(harmless) == harmless
    assert "[redacted]" in redactor.text(secret)


def test_a_line_with_a_hint_that_repeats_is_the_same_every_time() -> None:
    redactor = Redactor()
    for number in range(3):
        text = f"tokens per second: {number}, key=value{number} token=abc{number}x"
        assert redactor.text(text) == REDACT(text)
