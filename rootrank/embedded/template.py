"""The SAM template as CloudFormation, translated in process, cut down to what moto can stand up."""

import json
from pathlib import Path
from typing import Any, Final

from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

ROOT: Final = Path(__file__).parents[2]
REGION: Final = "us-east-1"

STORAGE_TYPES: Final = frozenset({"AWS::S3::Bucket", "AWS::DynamoDB::Table"})
"""What `show` and `list` need."""
STACK_TYPES: Final = STORAGE_TYPES | {
    "AWS::Events::Rule",
    "AWS::IAM::Role",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::SNS::Topic",
    "AWS::SQS::Queue",
    "AWS::StepFunctions::StateMachine",
}
_UNSUPPORTED: Final = {
    # Zipping and unzipping code that runs in this process anyway would only cost time.
    "AWS::Lambda::Function": ("Layers", "LoggingConfig", "EphemeralStorage", "Tags"),
    "AWS::StepFunctions::StateMachine": ("LoggingConfiguration", "Tags"),
}


class _Region:
    """All that the translator wants of a boto3 session."""

    region_name = REGION


def read_template(root: Path = ROOT) -> dict[str, Any]:
    """Return the SAM template with the state machine's definition in it."""
    template = yaml_parse((root / "template.yaml").read_text(encoding="utf-8"))
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::StateMachine":
            definition = root / properties.pop("DefinitionUri")
            properties["Definition"] = json.loads(definition.read_text(encoding="utf-8"))
        if resource["Type"] in ("AWS::Serverless::Function", "AWS::Serverless::LayerVersion"):
            place = "CodeUri" if resource["Type"].endswith("Function") else "ContentUri"
            properties[place] = "s3://code/artifact.zip"
    template["Globals"]["Function"].pop("CodeUri", None)
    return dict(template)


def translate(template: dict[str, Any], parameters: dict[str, str]) -> dict[str, Any]:
    """Return CloudFormation, as SAM makes it of `template`."""
    translator = Translator({}, Parser(), boto_session=_Region())
    return dict(translator.translate(sam_template=template, parameter_values=parameters))


def cut_down(template: dict[str, Any], types: frozenset[str]) -> dict[str, Any]:
    """Return the template with resources of `types` only, less what moto does not know."""
    kept = {
        name: dict(resource)
        for name, resource in template["Resources"].items()
        if resource["Type"] in types
    }
    for resource in kept.values():
        unsupported = _UNSUPPORTED.get(resource["Type"], ())
        properties = resource.get("Properties", {})
        resource["Properties"] = {
            key: value for key, value in properties.items() if key not in unsupported
        }
        if resource["Type"] == "AWS::IAM::Role":
            resource["Properties"].pop("Policies", None)
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Code"] = {"ZipFile": "runs in process"}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": template.get("Parameters", {}),
        "Conditions": template.get("Conditions", {}),
        "Resources": _unversioned(kept, template["Resources"]),
        "Outputs": {
            name: {"Value": {"Ref": name}} for name in sorted(kept) if "Condition" not in kept[name]
        },
    }


def _unversioned(value: Any, resources: dict[str, Any]) -> Any:
    """Return `value` with functions and workflows where it names their versions and aliases.

    There is one version of the code here, and moto knows no aliases.
    """
    if isinstance(value, list):
        return [_unversioned(each, resources) for each in value]
    if not isinstance(value, dict):
        return value
    named = resources.get(value["Ref"], {}) if set(value) == {"Ref"} else {}
    if named.get("Type") in ("AWS::Lambda::Version", "AWS::Lambda::Alias"):
        return {"Fn::GetAtt": [named["Properties"]["FunctionName"]["Ref"], "Arn"]}
    if named.get("Type") == "AWS::StepFunctions::StateMachineAlias":
        version = named["Properties"]["DeploymentPreference"]["StateMachineVersionArn"]["Ref"]
        return resources[version]["Properties"]["StateMachineArn"]
    return {key: _unversioned(each, resources) for key, each in value.items()}
