"""An open simulator of AWS Trainium3.

`trn3.numerics` holds the arithmetic, bit for bit: casts, MX block scales, systolic matrix products,
the exponent unit, the XORWOW generator and structured sparsity. The names beside it concern the
whole package: how many threads it uses, which SIMD level it runs at, and reading the checkpoints
that ``trn3 quantize`` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trn3 import _moved, offers

if TYPE_CHECKING:
    from trn3 import collectives, cost, flows, numerics, planner as planner, power, system, traffic
    from trn3.checkpoint import load_mx, quantize_checkpoint
    from trn3.economics.cost import implied_capex, tco
    from trn3.economics.power import perf_per_watt
    from trn3.facts.comparison import compare
    from trn3.machine import NeuronCore
    from trn3.planner import Training, goodput, operators, plan, search, serve
    from trn3.studies.sweep import sweep
    from trn3.system import Chip, Cluster, Instance, UltraServer, catalogue as systems

__all__ = [
    "Chip",
    "Cluster",
    "Instance",
    "NeuronCore",
    "Training",
    "UltraServer",
    "__version__",
    "collectives",
    "compare",
    "cost",
    "flows",
    "get_num_threads",
    "goodput",
    "implied_capex",
    "load_mx",
    "numerics",
    "operators",
    "perf_per_watt",
    "plan",
    "power",
    "quantize_checkpoint",
    "search",
    "serve",
    "set_num_threads",
    "simd_level",
    "sweep",
    "system",
    "systems",
    "tco",
    "traffic",
]

__version__: str

_moved.install()

# What methods of lower rooms do with formats that only higher rooms know.
offers.offer("profiles", "trn3.profile")
offers.offer("report of profiles", "trn3.report:page")
offers.offer("report of Plan", "trn3.report.plan_pages:plan_page")
offers.offer("report of Plans", "trn3.report.plan_pages:plans_page")
offers.offer("report of ServedLoad", "trn3.report.load_pages:load_page")
offers.offer("report of Comparison", "trn3.report.comparison_page:comparison_page")
offers.offer("report of QuantizationReport", "trn3.report.quantization_page:quantization_page")
offers.offer("report of SweepResult", "trn3.report.sweep_page:sweep_page")
offers.offer("report of Compared", "trn3.report.validation_page:validation_page")
offers.offer("report of TrainingPlan", "trn3.report.training_pages:training_page")
offers.offer("report of OperatorTable", "trn3.report.training_pages:operators_page")
offers.offer("tables of a quantization", "trn3.cli.quantize_tables")
offers.offer("plan to Chakra", "trn3.interchange.chakra:write_plan")
offers.offer("plan to resource claims", "trn3.k8s:claims_of_plan")
offers.offer("system to ASTRA-sim", "trn3.interchange:astra_sim")
offers.offer("system by name", "trn3.system.catalogue:load")
offers.offer("document of a command line", "trn3.cli.answers:answer")
offers.offer("NeuronCore", "trn3.machine:NeuronCore")
offers.offer("cores of a kernel", "trn3.nki.launch.chip:width")
offers.offer("backend of torch", "trn3.torch.backend:trn3_backend")
offers.offer("kernels on cores", "trn3.nki.launch.chip:run_on_cores")


def set_num_threads(n: int) -> None:
    """Set how many threads operations use, the calling one included.

    The count holds for the whole process. Results never depend on it.

    Parameters
    ----------
    n : int
        From 1 to 4096.

    Raises
    ------
    ValueError
        If `n` is no whole number in that range, or the system refuses the threads.

    See Also
    --------
    get_num_threads : The count in use, and where it comes from if it was never set.

    Examples
    --------
    >>> import trn3
    >>> before = trn3.get_num_threads()
    >>> trn3.set_num_threads(2)
    >>> trn3.get_num_threads()
    2
    >>> trn3.set_num_threads(before)
    """
    from trn3 import _trn3

    _trn3.set_num_threads(n)


def get_num_threads() -> int:
    """Return how many threads operations use.

    The count is the one last set, else that of the environment variable ``TRN3_NUM_THREADS``, else
    one thread for each core this process may use.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ValueError
        If ``TRN3_NUM_THREADS`` is not a whole number from 1 to 512 (or to the number of cores).

    Examples
    --------
    >>> import trn3
    >>> trn3.get_num_threads() >= 1
    True
    """
    from trn3 import _trn3

    return _trn3.get_num_threads()


def simd_level() -> str:
    """Return the name of the instruction set that operations use.

    The best one that the processor has is chosen once, unless the environment variable
    ``TRN3_SIMD`` names another. Results never depend on it.

    Returns
    -------
    str
        ``"scalar"``, ``"portable"``, ``"avx2"``, ``"avx512"`` or ``"avx512bf16"``.

    Raises
    ------
    ValueError
        If ``TRN3_SIMD`` names no level, or one that this machine cannot run.

    Examples
    --------
    >>> import trn3
    >>> trn3.simd_level() in ("scalar", "portable", "avx2", "avx512", "avx512bf16")
    True
    """
    from trn3 import _trn3

    return _trn3.simd_level()


# Loaded when first used: names of modules, and of what is in them. NumPy comes with most of them;
# the command is there before it, to answer a Ctrl-C.
_LAZY = {
    "Chip": "trn3.system",
    "Cluster": "trn3.system",
    "Instance": "trn3.system",
    "NeuronCore": "trn3.machine",
    "Training": "trn3.planner",
    "UltraServer": "trn3.system",
    "collectives": "trn3.collectives",
    "compare": "trn3.facts.comparison",
    "cost": "trn3.cost",
    "flows": "trn3.flows",
    "goodput": "trn3.planner",
    "implied_capex": "trn3.cost",
    "load_ipython_extension": "trn3.nki.launch.notebook",
    "load_mx": "trn3.checkpoint",
    "numerics": "trn3.numerics",
    "operators": "trn3.planner",
    "perf_per_watt": "trn3.power",
    "plan": "trn3.planner",
    "planner": "trn3.planner",
    "power": "trn3.power",
    "quantize_checkpoint": "trn3.checkpoint",
    "search": "trn3.planner",
    "serve": "trn3.planner",
    "sweep": "trn3.studies.sweep",
    "system": "trn3.system",
    "systems": "trn3.systems",
    "tco": "trn3.cost",
    "traffic": "trn3.traffic",
    "unload_ipython_extension": "trn3.nki.launch.notebook",
    "__version__": "trn3._trn3",
}


def __dir__() -> list[str]:
    # What is offered, loaded or not; what this file imports to work with is nobody's.
    return sorted({*__all__, "planner", *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # to checkers a name that is misspelt shall be an error

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(_LAZY[name])
        return module if _LAZY[name] == f"trn3.{name}" else getattr(module, name)
