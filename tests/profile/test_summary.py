"""The summary: its very text for one profile, and that it fits and escapes for all."""

from __future__ import annotations

import io

from hypothesis import given
from rich.console import Console

from support.profiles import attention, by_hand, empty, profile_data
from trn3.profile import Profile, ProfileData

EXPECTED = """\
attention on trn3: 44.06 us, 88 instructions
Bound by waiting: even the busiest engine, vector, works only 15 % of the time, and DMA holds 64 %
of the critical path. Load earlier, into more buffers; look first at attention.py:31.

Speed of light: 6.4 us if nothing waited; you are at 15 %.
Advice: nothing was looked for: the run cannot be timed anew.

latency                44.06 us  and 15.00 us to start and end the kernel, not counted below
MFU                       7.7 %  of the tensor engine's peak: 3.413 us of matmuls at best speed
MBU                       8.7 %  of the HBM bandwidth, 612.5 GB/s
HBM traffic              2.4 MB  2.1 MB read, 262.1 kB written
DMA efficiency           78.8 %  of 33 GB/s for each busy DMA engine; 6.1 kB at a time
roofline        113.8 FLOP/byte  memory bound (DMA engines): below 148.9 FLOP/byte
SBUF peak                20 KiB  7.8 % of the 256 KiB of each partition
PSUM peak                 4 KiB  25.0 % of the 16 KiB of each partition

Engines: at work, waiting, or with nothing to do
engine  instructions     busy   share     waiting  nothing to do  waits most for
───────────────────────────────────────────────────────────────────────────────────────────────
tensor            24  5.11 us  11.6 %    36.80 us        2.14 us  DMA transfers, 18.62 us
vector            16  6.40 us  14.5 %    35.15 us        2.51 us  tensor results, 35.15 us
scalar             8  3.42 us   7.8 %    37.12 us        3.52 us  vector results, 37.12 us
gpsimd             8  5.12 us  11.6 %    37.65 us        1.29 us  tensor results, 37.65 us
sync               8  0.24 us   0.5 %     0.00 us       43.82 us  -
dma               24  5.67 us  12.9 %  94.74 us *       38.39 us  own earlier results, 59.58 us
* summed over all DMA queues

Costliest kernel lines: where to look first
line                     critical path   at work   waiting  instructions  waits most for
─────────────────────────────────────────────────────────────────────────────────────────────
kernels/attention.py:31         53.9 %  41.88 us  30.68 us             8  own earlier results
kernels/attention.py:63         17.7 %  14.26 us  72.81 us            24  tensor results
kernels/attention.py:52          7.6 %   3.84 us  23.78 us            16  scalar results

1 finding:
- kernels/attention.py:63: tensor_tensor reads bytes of o_tile that nothing wrote
"""


def text_of(profile: Profile, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(profile.summary())
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"


def test_summary_text() -> None:
    assert text_of(attention(8, findings=True)) == EXPECTED


def test_summary_of_nothing() -> None:
    text = text_of(Profile(empty()))
    assert "The kernel has no instructions." in text
    assert "no matmuls" in text
    assert "no transfers" in text
    assert "neither matmuls nor HBM traffic" in text


def test_summary_names_the_costliest_lines_in_order() -> None:
    text = text_of(by_hand())
    places = [text.index(f"toy.py:{line} ") for line in (5, 3, 9)]
    assert places == sorted(places)


@given(profile_data())
def test_summary_fits_100_columns_and_obeys_no_name(data: ProfileData) -> None:
    text = text_of(Profile(data))
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    wide = text_of(Profile(data), width=300)
    if len(data.instructions):
        assert "Costliest kernel lines" in wide
    if data.kernel != "k":
        assert "[bold]" in wide
    assert wide.count("- k.py:2:") == min(len(data.findings), 3)
