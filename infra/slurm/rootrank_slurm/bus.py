"""EventBridge's PutEvents with a signature of version 4; nothing has to be installed for it.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
"""

import configparser
import datetime
import hashlib
import hmac
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, Optional

_TARGET = "AWSEvents.PutEvents"
_TYPE = "application/x-amz-json-1.1"
_TIMEOUT_S = 10
_METADATA = "http://169.254.169.254/latest"
MAX_DETAIL_BYTES = 200 * 1024
"""EventBridge takes 256 KiB an entry, envelope included."""


class BusDownError(Exception):
    """The bus cannot be reached or is busy: keep the event."""


class BusRefusedError(Exception):
    """The bus will never take this event."""


class Bus:
    """One event bus; `credentials` are looked for at every call, since they expire."""

    def __init__(self, settings: Dict[str, str]):
        self.name = settings["bus"]
        self.region = settings["region"] or os.environ.get("AWS_REGION", "us-east-1")
        self.endpoint = settings["endpoint"] or "https://events.%s.amazonaws.com/" % self.region
        self.credentials_file = settings["credentials_file"]

    def put(self, source: str, detail_type: str, detail: Dict[str, Any]) -> None:
        """Put one event; raises `BusDownError` or `BusRefusedError`."""
        text = json.dumps(detail, sort_keys=True)
        if len(text.encode("utf-8", "replace")) > MAX_DETAIL_BYTES:
            raise BusRefusedError("the event is larger than %d bytes" % MAX_DETAIL_BYTES)
        entry = {
            "Source": source, "DetailType": detail_type, "Detail": text,
            "EventBusName": self.name,
        }  # fmt: skip
        answer = self._post(json.dumps({"Entries": [entry]}).encode())
        for each in answer.get("Entries") or [{}]:
            code = each.get("ErrorCode")
            if code in ("InternalFailure", "InternalException", "ThrottlingException"):
                raise BusDownError("%s: %s" % (code, each.get("ErrorMessage")))
            if code:
                raise BusRefusedError("%s: %s" % (code, each.get("ErrorMessage")))
            if not each.get("EventId"):
                raise BusDownError("the bus gave no event id: %r" % (answer,))

    def _post(self, body: bytes) -> Dict[str, Any]:
        headers = {"Content-Type": _TYPE, "X-Amz-Target": _TARGET}
        now = datetime.datetime.utcnow()
        try:
            keys = find_credentials(self.credentials_file)
            headers.update(sign(self.endpoint, headers, body, keys, self.region, now))
            request = urllib.request.Request(self.endpoint, data=body, headers=headers)
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                value = json.loads(answer.read(1 << 20).decode())
        except urllib.error.HTTPError as error:
            told = error.read(1000).decode("utf-8", "replace")
            # Wrong credentials are mended by people, not by throwing events away.
            if error.code == 413 or "ValidationException" in told:
                raise BusRefusedError("HTTP %d %s" % (error.code, told)) from error
            raise BusDownError("HTTP %d %s" % (error.code, told)) from error
        except (OSError, ValueError) as error:
            raise BusDownError(str(error)) from error
        return value if isinstance(value, dict) else {}


def find_credentials(path: str) -> Dict[str, str]:
    """Return key id, secret and perhaps a token: from the environment, a file, or the instance."""
    environment = os.environ
    if environment.get("AWS_ACCESS_KEY_ID"):
        return {
            "id": environment["AWS_ACCESS_KEY_ID"],
            "secret": environment.get("AWS_SECRET_ACCESS_KEY", ""),
            "token": environment.get("AWS_SESSION_TOKEN", ""),
        }
    if path:
        parser = configparser.ConfigParser()
        if not parser.read(path) or not parser.has_section("default"):
            raise BusDownError("%s: no [default] credentials can be read" % path)
        section = parser["default"]
        return {
            "id": section.get("aws_access_key_id", ""),
            "secret": section.get("aws_secret_access_key", ""),
            "token": section.get("aws_session_token", ""),
        }
    return _instance_credentials()


def _instance_credentials() -> Dict[str, str]:
    """Ask the instance's metadata service, version 2."""
    life = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    token = {"X-aws-ec2-metadata-token": _ask(_METADATA + "/api/token", life, method="PUT")}
    place = _METADATA + "/meta-data/iam/security-credentials/"
    role = _ask(place, token).splitlines()[0]
    value = json.loads(_ask(place + role, token))
    return {"id": value["AccessKeyId"], "secret": value["SecretAccessKey"], "token": value["Token"]}


def _ask(url: str, headers: Dict[str, str], method: str = "GET") -> str:
    request = urllib.request.Request(url, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=2) as answer:
        return str(answer.read(1 << 16).decode())


def sign(
    url: str,
    headers: Dict[str, str],
    body: bytes,
    keys: Dict[str, str],
    region: str,
    now: datetime.datetime,
    service: Optional[str] = "events",
) -> Dict[str, str]:
    """Return the headers that sign a POST of `body` to `url`."""
    parts = urllib.parse.urlsplit(url)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): value for name, value in headers.items()}
    signed.update({"host": parts.netloc, "x-amz-date": stamp})
    if keys.get("token"):
        signed["x-amz-security-token"] = keys["token"]
    names = ";".join(sorted(signed))
    lines = "".join("%s:%s\n" % (name, signed[name].strip()) for name in sorted(signed))
    digest = hashlib.sha256(body).hexdigest()
    canonical = "\n".join(["POST", parts.path or "/", parts.query, lines, names, digest])
    scope = "%s/%s/%s/aws4_request" % (stamp[:8], region, service)
    to_sign = "\n".join(
        ["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = ("AWS4" + keys["secret"]).encode()
    for part in (stamp[:8], region, service, "aws4_request"):
        key = hmac.new(key, str(part).encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    credential = "%s/%s" % (keys["id"], scope)
    made = {
        "X-Amz-Date": stamp,
        "Authorization": "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%s"
        % (credential, names, signature),
    }
    if keys.get("token"):
        made["X-Amz-Security-Token"] = keys["token"]
    return made
