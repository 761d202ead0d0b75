"""Claims that follow from published figures alone."""

from __future__ import annotations

from trn3 import facts
from trn3.facts.spec import spec_of
from trn3.validation.claims._registry import Figures, claim


def computed(system: str, key: str) -> float:
    """Return a figure from a system's parts, in base units."""
    return spec_of(system)[key].si


def published(system: str, key: str) -> float:
    """Return a figure as a spec file has it, in base units."""
    return facts.load(system)[key].si


def said(system: str, key: str, by: str) -> float:
    """Return the figure that one source gives, in base units.

    Raises
    ------
    ValueError
        If no source has `by` in its name.
    """
    quantity = facts.load(system)[key]
    for source in quantity.sources:
        if by in source.source and isinstance(source.value, (int, float)):
            return source.value * facts.factor(source.unit or quantity.unit)
    message = f"{system}.{key} has no source {by!r}"
    raise ValueError(message)


@claim("chip-mxfp8")
def _chip_mxfp8() -> Figures:
    return {"eight arrays and their clock": computed("trainium3", "tflops_mxfp8")}


@claim("core-peaks")
def _core_peaks() -> Figures:
    core = spec_of("neuroncore_v4")
    return {name: core[f"tflops_{name.lower()}"].si for name in ("MXFP8", "BF16", "FP32")}


@claim("chip-bf16-fp32")
def _chip_bf16_fp32() -> Figures:
    chip = spec_of("trainium3")
    core = chip.parts["core"]
    # A multiply and an add of each element, as the published figures of Vector and Scalar count.
    gpsimd = 2 * core["gpsimd_elems"].si * core["clock_gpsimd"].si
    others = core["tflops_vector_fp32"].si + core["tflops_scalar_fp32"].si + gpsimd
    cores = chip["cores"].si
    # At 16 bits those engines take twice the elements.
    width = core["vector_elems_16bit"].si / core["vector_elems_32bit"].si
    return {
        "BF16, all engines": cores * (core["tflops_bf16"].si + width * others),
        "FP32, all engines": cores * (core["tflops_fp32"].si + others),
        "BF16, arrays alone": chip["tflops_bf16"].si,
        "FP32, arrays alone": chip["tflops_fp32"].si,
    }


@claim("ultraserver-mxfp8")
def _ultraserver_mxfp8() -> Figures:
    return {name: computed(name.lower(), "pflops_mxfp8") for name in ("Gen1", "Gen2")}


@claim("ultraserver-bf16-fp32")
def _ultraserver_bf16_fp32() -> Figures:
    chips = computed("gen2", "chips")
    return {
        "BF16": chips * published("trainium3", "tflops_bf16"),
        "FP32": chips * published("trainium3", "tflops_fp32"),
    }


@claim("ultraserver-hbm")
def _ultraserver_hbm() -> Figures:
    chips = computed("gen2", "chips")
    return {
        "at 144 GB a chip": chips * said("trainium3", "hbm_capacity", "awesomeagents"),
        "at 144 GiB a chip": computed("gen2", "hbm_capacity"),
    }


@claim("ultraserver-hbm-bandwidth")
def _ultraserver_hbm_bandwidth() -> Figures:
    bandwidth = spec_of("trainium3")["hbm_bandwidth"]
    assert bandwidth.computed is not None
    return {
        "UltraServer": computed("gen2", "hbm_bandwidth"),
        "chip, from stacks and pins": bandwidth.computed * facts.factor(bandwidth.unit),
    }


@claim("gen2-over-trn2-compute")
def _gen2_over_trn2_compute() -> Figures:
    ours, theirs = published("gen2", "pflops_mxfp8"), published("trn2_ultraserver", "pflops_fp8")
    return {"MXFP8 over FP8": ours / theirs}


@claim("gen2-over-trn2-memory")
def _gen2_over_trn2_memory() -> Figures:
    ratio = computed("gen2", "hbm_capacity") / computed("trn2_ultraserver", "hbm_capacity")
    return {"HBM capacity": ratio}


@claim("gen2-over-trn2-bandwidth")
def _gen2_over_trn2_bandwidth() -> Figures:
    ratio = computed("gen2", "hbm_bandwidth") / computed("trn2_ultraserver", "hbm_bandwidth")
    return {"HBM bandwidth": ratio}


@claim("chip-over-trainium2")
def _chip_over_trainium2() -> Figures:
    def ratio(ours: str, theirs: str) -> float:
        return published("trainium3", ours) / published("trainium2", theirs)

    return {
        "FP8": ratio("tflops_mxfp8", "tflops_fp8"),
        "HBM bandwidth": ratio("hbm_bandwidth", "hbm_bandwidth"),
        "HBM capacity": ratio("hbm_capacity", "hbm_capacity"),
        "NeuronLink": ratio("neuronlink_bandwidth", "neuronlink_bandwidth"),
    }


@claim("aggregate-neuronlink")
def _aggregate_neuronlink() -> Figures:
    chips = computed("gen2", "chips")
    return {
        "at 2 TB/s a chip": chips * said("trainium3", "neuronlink_bandwidth", "awesomeagents"),
        "at the chip page's rate": computed("gen2", "neuronlink_aggregate"),
    }


@claim("parity-with-gb300")
def _parity_with_gb300() -> Figures:
    gpus = published("gb300", "gpus")
    return {
        "FP8, Gen2": computed("gen2", "pflops_mxfp8"),
        "FP8, GB300 NVL72": computed("gb300", "pflops_fp8"),
        "HBM bandwidth, Gen2": computed("gen2", "hbm_bandwidth"),
        "HBM bandwidth, GB300 NVL72": computed("gb300", "hbm_bandwidth"),
        "FP8, 72 HGX B300": gpus * said("b300", "tflops_fp8", "public web page"),
    }


@claim("sparse-press")
def _sparse_press() -> Figures:
    # 4:16 on the MX peak, which no vendor's table has.
    chip = computed("trainium3", "tflops_mxfp8") * 16 / 4
    return {
        "chip": chip,
        "UltraServer": computed("gen2", "chips") * chip,
        "chip, documented": computed("trainium3", "tflops_sparse"),
    }


@claim("sparse-bf16")
def _sparse_bf16() -> Figures:
    return {"4:16 on eight arrays": computed("trainium3", "tflops_bf16") * 16 / 4}


@claim("fp4-gap")
def _fp4_gap() -> Figures:
    return {"FP4": computed("gb300", "pflops_fp4") / computed("gen2", "pflops_mxfp4")}


@claim("million-chips")
def _million_chips() -> Figures:
    chips = published("ultracluster3", "max_chips")
    return {
        "MXFP8": chips * computed("trainium3", "tflops_mxfp8"),
        "EFA a chip": computed("trainium3", "efa_per_chip"),
    }


@claim("efa")
def _efa() -> Figures:
    return {name: computed(name.lower(), "efa") for name in ("Gen1", "Gen2")}


@claim("trainium4")
def _trainium4() -> Figures:
    chip = spec_of("trainium4")
    return {
        "FP4": chip["tflops_fp4"].si,
        "FP8": chip["tflops_fp8"].si,
        "HBM bandwidth": chip["hbm_bandwidth"].si,
    }


@claim("tpu-v7-pod")
def _tpu_v7_pod() -> Figures:
    pod = spec_of("tpu_v7")
    return {"FP8": pod["pod_eflops_fp8"].si, "HBM": pod["pod_hbm"].si}
