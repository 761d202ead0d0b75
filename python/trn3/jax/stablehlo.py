"""Reads modules of StableHLO with the MLIR bindings that jaxlib has; no other file touches them."""

from __future__ import annotations

import json
import re
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo
from numpy.typing import NDArray

from trn3.graph import GraphError
from trn3.graph.writing import Frame, TensorType
from trn3.jax.hlo import HloBody, HloFunction, HloModule, HloOperation

__all__ = ["HloReader"]

# Element types by their names in MLIR.
_DTYPES = {
    "i1": "bool",
    "i4": "int4",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui4": "uint4",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8E4M3": "float8_e4m3",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
# Those whose constants NumPy reads from the bindings.
_PLAIN = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_PLAIN |= {"float32", "float64"}
_LOCATION = re.compile(r'"((?:[^"\\]|\\.)*)"\("((?:[^"\\]|\\.)*)":(\d+)')
_NAME = re.compile(r'loc\("(.*?)"')
_FIELD = re.compile(r"(\w+) = (\[[^\]]*\]|-?\d+)")
_CONVOLUTION = re.compile(r"<\[(.*)\]x\[(.*)\]->\[(.*)\]>")
_FIRST_OF_TRUTHS = (0, 6, 0)
_RETURNS = ("func.return", "sdy.return", "stablehlo.return")


class HloReader:
    """Reads a module; `own` are the operations of CHLO that stay, all others become StableHLO."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._values: dict[Any, int] = {}
        self._types: dict[Any, TensorType] = {}
        self._frames: dict[Any, tuple[Frame, ...]] = {}
        self._functions: dict[str, HloFunction] = {}
        self._legalised: dict[str, str] = {}
        # Values are known by their addresses: what holds them has to live as long as the reader.
        self._modules: list[ir.Module] = []

    def read(self, module: ir.Module) -> HloModule:
        """Return the module as plain values."""
        self._modules.append(module)
        meshes = []
        with module.context:
            for function in module.body.operations:
                if function.operation.name == "func.func":
                    self._function(function, str(_plain(function.attributes["sym_name"])))
                elif function.operation.name == "sdy.mesh":
                    meshes.append(str(function.attributes["mesh"]))
            name = str(_plain(module.operation.attributes["sym_name"]))
        return HloModule(name.removeprefix("jit_"), self._functions, tuple(meshes))

    def _function(self, function: Any, name: str) -> None:
        block = function.regions[0].blocks[0]
        body = self._body(block)
        input_names = (
            _argument_names(function, block) if name == "main" else [""] * len(body.inputs)
        )
        self._functions[name] = HloFunction(name, body, input_names)

    def _number(self, value: Any) -> int:
        return self._values.setdefault(value, len(self._values))

    def _type(self, kind: Any) -> TensorType:
        if (known := self._types.get(kind)) is None:
            known = self._types[kind] = _read_type(kind)
        return known

    def _body(self, block: Any) -> HloBody:
        arguments = list(block.arguments)
        body = HloBody(
            [self._number(value) for value in arguments],
            [self._type(value.type) for value in arguments],
        )
        for view in block.operations:
            operation = view.operation
            operands = [self._number(value) for value in operation.operands]
            if operation.name in _RETURNS:
                body.outputs = operands
            else:
                body.operations.append(self._operation(operation, operands))
        return body

    def _operation(self, operation: Any, operands: list[int]) -> HloOperation:
        name = operation.name
        types = [self._type(value.type) for value in operation.results]
        attributes: dict[str, Any] = {}
        is_complex = any(kind.dtype.startswith("complex") for kind in types)
        if name.startswith("chlo.") and name not in self._own and not is_complex:
            name, attributes = "func.call", {"callee": self._legalise(operation)}
        # To ask for a complex constant ends the process.
        elif name != "stablehlo.constant" or not is_complex:
            # Orders of axes in memory, of calls, are arrays of a type that is no element's.
            given = _entries(operation.attributes)
            attributes = {
                key: _plain(value) for key, value in given if not key.endswith("_layouts")
            }
        return HloOperation(
            name,
            operands,
            [self._number(value) for value in operation.results],
            types,
            attributes,
            [self._body(region.blocks[0]) for region in operation.regions if len(region.blocks)],
            self._location(operation.location),
        )

    def _location(self, location: Any) -> tuple[Frame, ...]:
        key = location.attr
        if (known := self._frames.get(key)) is None:
            found = _LOCATION.findall(str(location))
            known = tuple(Frame(file, int(line), function) for function, file, line in found)
            self._frames[key] = known
        return known

    def _legalise(self, operation: Any) -> str:
        """Make a function of StableHLO of an operation of CHLO; its name."""
        operands = [value.type for value in operation.operands]
        results = [value.type for value in operation.results]
        key = f"{operation.name} {operation.attributes} {operands} {results}"
        if key in self._legalised:
            return self._legalised[key]
        stablehlo.register_stablehlo_passes()
        name = f"{operation.name} {len(self._legalised)}"
        takes, gives = (", ".join(map(str, kinds)) for kinds in (operands, results))
        with ir.Location.unknown():
            text = f"func.func private @f({takes}) -> ({gives})"
            module = ir.Module.parse(f"module {{ {text} }}")
            function = module.body.operations[0]
            block = function.regions[0].blocks.append(*operands)
            made = ir.Operation.create(
                operation.name,
                results=results,
                operands=list(block.arguments),
                attributes=dict(_entries(operation.attributes)),
                ip=ir.InsertionPoint(block),
            )
            ir.Operation.create(
                "func.return", operands=list(made.results), ip=ir.InsertionPoint(block)
            )
            passes = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
            try:
                passmanager.PassManager.parse(passes).run(module.operation)
            except (ir.MLIRError, ValueError):
                frames = self._location(operation.location)
                line = f"{frames[0].file}:{frames[0].line}: " if frames else ""
                text = f"{line}{operation.name}: has no form in StableHLO"
                raise GraphError(text) from None
        self._legalised[key] = name
        self._modules.append(module)
        self._function(module.body.operations[0], name)
        return name


def _argument_names(function: Any, block: Any) -> list[str]:
    """Return what the arguments are called where the function comes from."""
    if all(hasattr(argument, "location") for argument in block.arguments):
        places = [str(argument.location) for argument in block.arguments]
    else:  # Older bindings say it in their text alone.
        text = function.operation.get_asm(enable_debug_info=True, use_local_scope=True)
        places = re.findall(r"%arg\d+: .*?(loc\(.*?\))", text.partition(") -> ")[0])
    found = [_NAME.match(place) for place in places]
    names = [name[1] if name else "" for name in found]
    return names + [""] * (len(block.arguments) - len(names))


def _read_type(kind: Any) -> TensorType:
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        raise GraphError(f"a value is {kind}; allowed: tensors whose lengths are known")
    return TensorType(
        _DTYPES.get(str(kind.element_type), str(kind.element_type)), tuple(kind.shape)
    )


def _entries(attributes: Any) -> list[tuple[str, Any]]:
    """Names and values of the attributes of an operation, of any version of the bindings."""
    named = [attributes[place] for place in range(len(attributes))]
    return [(entry.name, entry.attr) for entry in named]


def _plain(attribute: Any) -> Any:
    """Return an attribute as numbers, texts, lists, dictionaries of these, or an array."""
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr | ir.StringAttr):
        return attribute.value
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return attribute.value
    if isinstance(attribute, ir.DenseElementsAttr):
        return _array(attribute)
    if isinstance(attribute, ir.DictAttr):
        return {name: _plain(value) for name, value in _entries(attribute)}
    if isinstance(attribute, ir.ArrayAttr | ir.DenseI64ArrayAttr | ir.DenseBoolArrayAttr):
        items = (attribute[place] for place in range(len(attribute)))
        return [_plain(item) if isinstance(item, ir.Attribute) else item for item in items]
    text = str(attribute)
    if text.startswith("#stablehlo.conv<"):
        return _convolution(text)
    if text.startswith(("#stablehlo.dot<", "#stablehlo.gather<", "#stablehlo.scatter<")):
        return {name: json.loads(value) for name, value in _FIELD.findall(text)}
    if text.startswith(("#stablehlo<", "#chlo<")):
        return text.rstrip(">").rpartition(" ")[2]
    return text


def _convolution(text: str) -> dict[str, list[str]]:
    """Axes of the operand, the kernel and the result: letters, and numbers of spatial axes."""
    found = _CONVOLUTION.search(text)
    if found is None:
        raise GraphError(f"convolution: the layout {text} is not understood")
    parts = (part.split(", ") for part in found.groups())
    return dict(zip(("lhs", "rhs", "out"), parts, strict=True))


def _array(attribute: Any) -> NDArray[Any]:
    """Return the elements; of a constant whose elements are all the same, the one, of no axes."""
    kind = _read_type(attribute.type)
    dtype = np.dtype(getattr(ml_dtypes, kind.dtype, kind.dtype))
    if attribute.is_splat:
        return np.array(attribute.get_splat_value().value).astype(dtype)
    # Older bindings end the process instead.
    if kind.dtype == "bool" and jax.__version_info__ < _FIRST_OF_TRUTHS:
        truths = [attribute[place] for place in range(len(attribute))]
        return np.array(truths, bool).reshape(kind.shape)
    if kind.dtype in _PLAIN:
        return np.array(attribute).reshape(kind.shape)
    elements = str(attribute).removeprefix("dense<").rpartition("> :")[0]
    if elements.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(elements[3:-1]), dtype).reshape(kind.shape)
    words = re.findall(r"[^\[\],\s]+", elements)
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    numbers = [
        np.array(int(word, 16), bits).view(dtype)
        if word.startswith("0x")
        else dtype.type(float(word))
        for word in words
    ]
    return np.array(numbers, dtype).reshape(kind.shape)
