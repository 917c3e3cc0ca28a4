"""IAM, as far as our policies use it: what a call needs, and whether statements allow it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

ACCOUNT = "123456789012"
REGION = "us-east-1"
_NAMED = re.compile(r"\$\{([\w:.]+)\}")


@dataclass(frozen=True)
class Need:
    """One thing that a call must be allowed to do."""

    action: str
    resource: str
    context: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.action} on {self.resource}"


def needs(service: str, operation: str, told: Mapping[str, Any]) -> Iterator[Need]:
    """Yield what an API call needs (service authorization reference of each service)."""
    if service == "s3":
        bucket = f"arn:aws:s3:::{told['Bucket']}"
        if operation == "ListObjectsV2":
            yield Need("s3:ListBucket", bucket, (("s3:prefix", told.get("Prefix", "")),))
            return
        action = {"HeadObject": "GetObject"}.get(operation, operation)
        yield Need(f"s3:{action}", f"{bucket}/{told['Key']}")
        if told.get("Tagging"):
            yield Need("s3:PutObjectTagging", f"{bucket}/{told['Key']}")
    elif service == "dynamodb" and operation == "TransactWriteItems":
        actions = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem",
                   "ConditionCheck": "ConditionCheckItem"}  # fmt: skip
        for item in told["TransactItems"]:
            ((kind, one),) = item.items()
            yield Need(f"dynamodb:{actions[kind]}", _table(one["TableName"]))
    elif service == "dynamodb":
        index = f"/index/{told['IndexName']}" if "IndexName" in told else ""
        yield Need(f"dynamodb:{operation}", _table(told["TableName"]) + index)
    elif service == "sns":
        yield Need(f"sns:{operation}", told["TopicArn"])
    elif service == "stepfunctions":
        arn = told.get("executionArn") or told.get("stateMachineArn") or "*"
        yield Need(f"states:{operation}", arn)
    elif service == "events":
        for entry in told["Entries"]:
            bus = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/{entry['EventBusName']}"
            yield Need("events:PutEvents", bus, (("events:source", entry["Source"]),))
    elif service == "sqs":
        name = told["QueueUrl"].rsplit("/", 1)[1]
        yield Need(f"sqs:{operation}", f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
    elif service == "ssm":
        yield Need(f"ssm:{operation}", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{told['Name']}")
    else:
        raise AssertionError(f"{service}.{operation}: say here what it needs")


def _table(name: str) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def is_allowed(need: Need, statements: list[dict[str, Any]]) -> bool:
    """Whether some statement allows it; a Deny that matches wins."""
    matching = [each for each in statements if _matches(need, each)]
    return bool(matching) and all(each["Effect"] == "Allow" for each in matching)


def _matches(need: Need, statement: Mapping[str, Any]) -> bool:
    return (
        any(fnmatchcase(need.action.lower(), each.lower()) for each in _many(statement["Action"]))
        and any(fnmatchcase(need.resource, each) for each in _many(statement["Resource"]))
        and all(
            _holds(test, dict(need.context).get(key), _many(wanted))
            for test, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def _holds(test: str, found: str | None, wanted: list[str]) -> bool:
    compare = {"StringEquals": str.__eq__, "StringLike": fnmatchcase}[test]
    return found is not None and any(compare(found, one) for one in wanted)


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def physical(value: Any, names: Mapping[str, str]) -> Any:
    """Return a policy with the resources' own names; `names` holds `Bucket`, `Bucket.Arn`, ..."""
    if isinstance(value, list):
        return [physical(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        return names[value["Ref"]]
    if set(value) == {"Fn::GetAtt"}:
        return names[".".join(value["Fn::GetAtt"])]
    if set(value) == {"Fn::Sub"}:
        return _NAMED.sub(lambda match: names[match[1]], value["Fn::Sub"])
    return {key: physical(each, names) for key, each in value.items()}
