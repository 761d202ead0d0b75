"""Selectors of devices: expressions in the Common Expression Language.

The language is that of the package ``cel-python``; this module adds what Kubernetes adds to it
(`device`, quantities, semantic versions, lower and upper case of strings, `cel.bind`) and turns its
complaints into one line with a position. Optional field selection (``?``) is not in the package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from trn3.k8s import names
from trn3.k8s.errors import K8sError, guess
from trn3.k8s.inventory import Device
from trn3.k8s.values import ResourceQuantity, Semver, Value


class SelectorError(K8sError):
    """An expression cannot be read, or fails on a device."""


def compile_selector(expression: str) -> Callable[[Device], bool]:
    """Return an expression as a predicate of devices.

    Raises
    ------
    SelectorError
        If the expression is not one; the text has line and column. The predicate raises it when an
        expression fails on a device, as Kubernetes refuses the claim then.

    Examples
    --------
    >>> compile_selector("device.driver = 'x'")
    Traceback (most recent call last):
        ...
    trn3.k8s.cel.SelectorError: line 1, column 15: cannot be read: device.driver = 'x'
    """
    if len(expression.encode()) > names.MAX_EXPRESSION:
        message = (
            f"an expression of {len(expression.encode())} bytes; at most {names.MAX_EXPRESSION} "
            "are allowed"
        )
        raise SelectorError(message)
    celpy = _celpy()
    try:
        tree = _environment().compile(expression)
    except celpy.CELParseError as error:
        raise SelectorError(_position(expression, error.line, error.column)) from error
    program = _environment().program(_with_bindings(tree), functions=_functions())

    def matches(device: Device) -> bool:
        try:
            result = program.evaluate({"device": _as_cel(device)})
        except celpy.CELEvalError as error:
            raise SelectorError(_explain(error, device)) from error
        if not isinstance(result, celpy.celtypes.BoolType):
            message = (
                f"gives {type(result).__name__.removesuffix('Type').lower()}, not a truth value, "
                f"for {device}"
            )
            raise SelectorError(message)
        return bool(result)

    return matches


@cache
def _celpy() -> Any:
    try:
        import celpy
    except ImportError as error:
        message = "selectors need the package cel-python: pip install 'trn3[k8s]'"
        raise K8sError(message) from error
    return celpy


@cache
def _environment() -> Any:
    return _celpy().Environment()


def _position(expression: str, line: int | None, column: int | None) -> str:
    # The parser gives no place when the text ends too early.
    if line is None or line < 1 or column is None or column < 1:
        lines = expression.splitlines() or [""]
        line, column = len(lines), len(lines[-1]) + 1
    text = " ".join(expression.split())
    hint = ""
    source = expression.splitlines()[line - 1] if expression.splitlines() else ""
    if source[column - 1 : column] == "?" or ".?" in text or "[?" in text:
        hint = "; optional selection with ? is not supported, has(...) is"
    return f"line {line}, column {column}: cannot be read: {text}{hint}"


def _explain(error: Any, device: Device) -> str:
    text = str(error.args[0]) if error.args else str(error)
    missing = re.search(r"no such member in mapping: '([^']*)'", text)
    if missing:
        key = missing[1]
        known = sorted({identifier for _, identifier in [*device.attributes, *device.capacity]})
        domains = sorted({domain for domain, _ in [*device.attributes, *device.capacity]})
        if key in known:
            of_key = sorted(
                domain for domain, name in [*device.attributes, *device.capacity] if name == key
            )
            return (
                f"{device} has {key} in the domain {' and '.join(of_key)} alone; write "
                f"device.attributes['{of_key[0]}'].{key}"
            )
        hint = guess(key, known)
        return (
            f"{device} has no attribute {key}{hint} (it has {', '.join(known)}; domains "
            f"{', '.join(domains)}); "
            f"has(...) asks whether one is there"
        )
    undeclared = re.search(r"undeclared reference to '([^']*)'", text)
    if undeclared:
        known = [
            "device",
            *_functions(),
            "size",
            "contains",
            "startsWith",
            "endsWith",
            "matches",
            "has",
        ]
        return f"{undeclared[1]} is neither a variable nor a function{guess(undeclared[1], known)}"
    if "no matching overload" in text or "no such overload" in text:
        types = re.findall(r"celpy\.celtypes\.(\w+?)Type|k8s\.values\.(\w+)", text)
        found = " and ".join(dict.fromkeys((cel or own).lower() for cel, own in types))
        return (
            f"operands of types that do not go together{f' ({found})' if found else ''}, for "
            f"{device}"
        )
    cause = error.args[2][0] if len(error.args) > 2 and error.args[2] else text
    return f"fails for {device}: {' '.join(str(cause).split())[:200]}"


@cache
def _map_type() -> Any:
    """Return the type of attributes by domain, in which a domain that is not there is empty."""
    celtypes = _celpy().celtypes

    class Domains(celtypes.MapType):  # type: ignore[misc, name-defined]
        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(key) if key in self else celtypes.MapType({})

    return Domains


def _cel_value(value: Value | ResourceQuantity) -> Any:
    celtypes = _celpy().celtypes
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    if isinstance(value, int):
        return celtypes.IntType(value)
    if isinstance(value, str):
        return celtypes.StringType(value)
    return value


@cache
def _as_cel(device: Device) -> Any:
    celtypes = _celpy().celtypes
    text = celtypes.StringType

    def by_domain(
        values: Mapping[tuple[str, str], Value] | Mapping[tuple[str, str], ResourceQuantity],
    ) -> Any:
        domains: dict[str, dict[Any, Any]] = {}
        for (domain, identifier), value in values.items():
            domains.setdefault(domain, {})[text(identifier)] = _cel_value(value)
        return _map_type()(
            {text(domain): celtypes.MapType(each) for domain, each in domains.items()}
        )

    return celtypes.MapType(
        {
            text("driver"): text(device.driver),
            text("attributes"): by_domain(device.attributes),
            text("capacity"): by_domain(device.capacity),
            text("allowMultipleAllocations"): celtypes.BoolType(False),
        }
    )


def _compare(left: Any, right: Any) -> int:
    if type(left) is not type(right) or not isinstance(left, ResourceQuantity | Semver):
        message = f"no such overload: <class '{type(left)}'> and {type(right)}"
        raise TypeError(message)
    result: int = left.compare(right)
    return result


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    celtypes = _celpy().celtypes
    boolean, integer, text = celtypes.BoolType, celtypes.IntType, celtypes.StringType

    def parses(kind: type[ResourceQuantity | Semver]) -> Callable[[Any], Any]:
        def check(value: Any) -> Any:
            try:
                kind.parse(str(value))
            except K8sError:
                return boolean(False)
            return boolean(True)

        return check

    def parse(kind: type[ResourceQuantity | Semver]) -> Callable[[Any], Any]:
        def read(value: Any) -> Any:
            try:
                return kind.parse(str(value))
            except K8sError as error:
                # What the package turns into an error of evaluation.
                raise ValueError(str(error)) from error

        return read

    return {
        "quantity": parse(ResourceQuantity),
        "isQuantity": parses(ResourceQuantity),
        "semver": parse(Semver),
        "isSemver": parses(Semver),
        "compareTo": lambda left, right: integer(_compare(left, right)),
        "isGreaterThan": lambda left, right: boolean(_compare(left, right) > 0),
        "isLessThan": lambda left, right: boolean(_compare(left, right) < 0),
        "isInteger": lambda value: boolean(value.number.denominator == 1),
        "asInteger": lambda value: integer(int(value.number)),
        "asApproximateFloat": lambda value: celtypes.DoubleType(float(value.number)),
        "major": lambda value: integer(value.major),
        "minor": lambda value: integer(value.minor),
        "patch": lambda value: integer(value.patch),
        "lowerAscii": lambda value: text(value.lower()),
        "upperAscii": lambda value: text(value.upper()),
    }


def _with_bindings(tree: Any) -> Any:
    """Rewrite ``cel.bind(name, value, body)`` as ``[value].map(name, body)[0]``.

    The package has the second and not the first; both mean the same.
    """
    from lark import Token, Transformer, Tree

    def literal(child: Any) -> Any:
        for rule in ("primary", "member", "unary", "multiplication", "addition", "relation"):
            child = Tree(rule, [child], meta)
        for rule in ("conditionaland", "conditionalor", "expr"):
            child = Tree(rule, [child], meta)
        return child

    meta = tree.meta

    class Bindings(Transformer[Any, Any]):
        def member_dot_arg(self, children: list[Any]) -> Any:
            call = Tree("member_dot_arg", children, meta)
            if len(children) != 3 or str(children[1]) != "bind":
                return call
            owner = children[0]
            while isinstance(owner, Tree) and len(owner.children) == 1:
                owner = owner.children[0]
            arguments = children[2].children
            if str(owner) != "cel" or len(arguments) != 3:
                return call
            name, value, body = arguments
            listed = Tree("list_lit", [Tree("exprlist", [value], meta)], meta)
            source = Tree("member", [Tree("primary", [listed], meta)], meta)
            mapped = Tree(
                "member_dot_arg",
                [source, Token("IDENT", "map"), Tree("exprlist", [name, body], meta)],
                meta,
            )
            zero = literal(Tree("literal", [Token("INT_LIT", "0")], meta))
            return Tree("member_index", [Tree("member", [mapped], meta), zero], meta)

    return Bindings().transform(tree)
