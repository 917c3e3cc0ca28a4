"""What CloudFormation makes of a template's conditions for given parameters."""

from collections.abc import Mapping
from typing import Any

NOTHING = object()


def resolved(stack: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with its conditions decided and its parameters filled in."""
    values = {
        name: parameters.get(name, each.get("Default"))
        for name, each in stack.get("Parameters", {}).items()
    }
    for name, each in stack.get("Parameters", {}).items():
        if each["Type"] == "CommaDelimitedList" and isinstance(values[name], str):
            values[name] = values[name].split(",") if values[name] else [""]
        if each["Type"] == "Number" and values[name] is not None:
            values[name] = int(values[name])
    decide = _Decider(stack.get("Conditions", {}), values)
    resources = {
        name: decide.fill(each)
        for name, each in stack["Resources"].items()
        if "Condition" not in each or decide.holds(each["Condition"])
    }
    return {**stack, "Resources": resources}


class _Decider:
    def __init__(self, conditions: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self.conditions = conditions
        self.values = values

    def holds(self, name: str) -> bool:
        return bool(self.truth(self.conditions[name]))

    def truth(self, test: Any) -> bool:
        ((kind, value),) = test.items()
        if kind == "Condition":
            return self.holds(value)
        if kind == "Fn::Not":
            return not self.truth(value[0])
        if kind in ("Fn::And", "Fn::Or"):
            return {"Fn::And": all, "Fn::Or": any}[kind](self.truth(each) for each in value)
        assert kind == "Fn::Equals", test
        left, right = (self.fill(each) for each in value)
        return str(left) == str(right)  # as CloudFormation does, which knows texts only

    def fill(self, value: Any) -> Any:
        if isinstance(value, list):
            return [found for each in value if (found := self.fill(each)) is not NOTHING]
        if not isinstance(value, dict):
            return value
        if set(value) == {"Ref"}:
            if value["Ref"] == "AWS::NoValue":
                return NOTHING
            return self.values.get(value["Ref"], value)
        if set(value) == {"Fn::If"}:
            name, then, otherwise = value["Fn::If"]
            return self.fill(then if self.holds(name) else otherwise)
        if set(value) == {"Fn::Join"}:
            glue, parts = value["Fn::Join"]
            filled = self.fill(parts)
            if isinstance(filled, list) and all(isinstance(each, str) for each in filled):
                return glue.join(filled)
        return {
            key: filled for key, each in value.items() if (filled := self.fill(each)) is not NOTHING
        }
