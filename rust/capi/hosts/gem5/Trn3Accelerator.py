# ADAPTER, to be built in a gem5 tree.
from m5.objects.ClockedObject import ClockedObject
from m5.params import Addr, Param, ResponsePort, VectorParam


class Trn3Accelerator(ClockedObject):
    """NeuronCores with their HBM, which a port reaches; registers after it run programs."""

    type = "Trn3Accelerator"
    cxx_header = "dev/trn3/trn3_accelerator.hh"
    cxx_class = "gem5::Trn3Accelerator"

    port = ResponsePort("HBM, and the page of registers after it")
    base = Param.Addr(0, "address of the first byte of HBM")
    config = Param.String("", "JSON text of the device; empty: one core of trn3")
    programs = VectorParam.String([], "files of programs, run by their number in this list")
    queue_size = Param.Unsigned(64, "most accesses under way")
    register_latency = Param.Latency("10ns", "time of an access to a register")
