"""What a compiler makes of a program: places, order, engines; the same bits.

Examples
--------
>>> import numpy as np
>>> from trn3 import compiler, nki
>>> import trn3.nki.language as nl
>>> @nki.jit
... def twice(x):
...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
...     nl.store(out, nl.multiply(nl.load(x), 2.0))
...     return out
>>> x = np.ones((128, 64), np.float32)
>>> program = nki.record(twice, x, open_places=True)
>>> compiled = compiler.compile(program, verify=True, inputs={"x": x})
>>> float(compiled.program.run({"x": x}).outputs["result"].sum())
16384.0
>>> compiled.report["bound_us"] <= compiled.report["compiled_us"]
True
"""

from trn3.compiler.level_names import VerificationError
from trn3.compiler.programs import CompiledProgram, compile, levels, passes  # noqa: A004

__all__ = ["CompiledProgram", "VerificationError", "compile", "levels", "passes"]
