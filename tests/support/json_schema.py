"""The few rules of JSON Schema that our schemas use; a rule that is not known here is an error, not a pass."""

import re

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
NO_RULES = frozenset({"$schema", "$defs", "title", "description"})


def problems(value, schema, root, at="$"):
    """Yield what is wrong with *value*, with its place."""
    for name, rule in schema.items():
        if name not in NO_RULES:
            yield from CHECKS[name](value, rule, schema, root, at)


def _type(value, rule, _schema, _root, at):
    kinds = [rule] if isinstance(rule, str) else rule
    if type(value) not in [TYPES[kind] for kind in kinds]:
        yield f"{at}: {value!r} is no {' or '.join(kinds)}"


def _required(value, rule, _schema, _root, at):
    if isinstance(value, dict):
        yield from (f"{at}: there is no {name}" for name in rule if name not in value)


def _properties(value, rule, schema, root, at):
    """Check each key; stricter than JSON Schema, a key that is not described is a problem."""
    for name in value if isinstance(value, dict) else ():
        if name in rule:
            yield from problems(value[name], rule[name], root, f"{at}.{name}")
        elif "additionalProperties" not in schema:
            yield f"{at}: {name} is not described"


def _others(value, rule, schema, root, at):
    for name in value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else ():
        yield from problems(value[name], rule, root, f"{at}.{name}")


def _names(value, rule, _schema, root, at):
    for name in value if isinstance(value, dict) else ():
        yield from problems(name, rule, root, f"{at}.{name}")


def _items(value, rule, _schema, root, at):
    for place, each in enumerate(value if isinstance(value, list) else ()):
        yield from problems(each, rule, root, f"{at}[{place}]")


CHECKS = {
    "$ref": lambda value, rule, _, root, at: problems(value, root["$defs"][rule.removeprefix("#/$defs/")], root, at),
    "additionalProperties": _others,
    "const": lambda value, rule, *rest: [] if value == rule else [f"{rest[-1]}: {value!r} is not {rule!r}"],
    "enum": lambda value, rule, *rest: [] if value in rule else [f"{rest[-1]}: {value!r} is none of {rule}"],
    "items": _items,
    "minimum": lambda value, rule, *rest: [] if value >= rule else [f"{rest[-1]}: {value} is below {rule}"],
    "pattern": lambda value, rule, *rest: (
        [] if value is None or re.search(rule, value) else [f"{rest[-1]}: {value!r} is not like {rule}"]
    ),
    "properties": _properties,
    "propertyNames": _names,
    "required": _required,
    "type": _type,
}
