"""``trn3 profile``: what it shows and writes, and one clear error for all that can go wrong."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trn3.machine import arch
from trn3.profile import Profile

Refused = Callable[..., str]
Run = Callable[..., Any]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"
ATTENTION = f"{FOLDER / 'flash_attention.py'}:forward"
FILES = {"report.html", "trace.perfetto", "timeline.png", "roofline.png", "profile.json"}
HEADER = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
"""
FOOTER = """\
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
#: The line of the file on which the body of a written kernel begins.
FIRST = HEADER.count("\n") + 1
SHAPE = ("--shape", "x=128x512")


@pytest.fixture
def kernel(tmp_path: Path) -> Callable[[str], Path]:
    """Write a kernel with a body of one's own and return its file."""

    def write(body: str, more: str = "") -> Path:
        path = tmp_path / "kernel.py"
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        path.write_text(HEADER + lines + FOOTER + more)
        return path

    return write


def fails(
    refused: Refused, run: Run, path: Path, body_line: int, kind: str, *options: object
) -> str:
    """Check that a kernel fails at a place, leaves nothing, and that a sound one still runs."""
    out = path.parent / "out"
    text = refused("profile", f"{path}:kernel", *SHAPE, "--out", out, *options)
    place = f"{path}:{FIRST + body_line}: {kind}: "
    assert text.startswith(place), text
    assert sorted(entry.name for entry in path.parent.iterdir() if entry.name != "__pycache__") == [
        "kernel.py"
    ]
    path.write_text(HEADER + FOOTER)
    assert run("profile", f"{path}:kernel", *SHAPE, "--timing-only").code == 0
    return text.removeprefix(place)


def test_profile_shows_and_writes_everything(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    out = tmp_path / "run"
    outcome = run("profile", ATTENTION, "--shape", "tokens=256", "--arch", "trn3", "--out", out)
    assert (outcome.code, outcome.stderr) == (0, "")
    for part in [
        "forward on trn3: ",
        "latency",
        "MFU",
        "tensor",
        "flash_attention.py:",
        "from the golden",
    ]:
        assert part in outcome.stdout
    assert {path.name for path in out.iterdir()} == FILES
    for name in FILES:
        assert f"wrote {out / name}" in outcome.stdout.replace("\n", "")
    profile = Profile.from_json(out / "profile.json")
    assert f"forward on trn3: {profile.latency_us:.2f} us" in outcome.stdout


def test_profile_as_json(run: Run) -> None:
    outcome = run("profile", ATTENTION, "--shape", "tokens=256", "--json")
    document = json.loads(outcome.stdout)
    assert outcome.code == 0
    assert document["golden_error"] < 2.0**-7
    assert document["latency_us"] > 0
    timed = json.loads(
        run("profile", ATTENTION, "--shape", "tokens=256", "--json", "--timing-only").stdout
    )
    assert timed["golden_error"] is None
    assert timed["latency_us"] == document["latency_us"]


SPLIT = """\
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(nl.program_id(0), 8, nl.num_programs(0)):
        rows = nl.ds(16 * i, 16)
        nl.store(out[rows], nl.load(x[rows]))
    return out
"""


@pytest.mark.parametrize(("brackets", "cores"), [("[1]", 1), ("[2]", 2), ("[2, 1]", 1)])
def test_profile_of_a_kernel_on_cores(run: Run, tmp_path: Path, brackets: str, cores: int) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(SPLIT)
    out = tmp_path / "out"
    run("profile", f"{path}:kernel{brackets}", *SHAPE, "--out", out)
    assert len(Profile.from_json(out / "profile.json").cores) == cores


@pytest.mark.parametrize("brackets", ["[", "[0]", "[x]", "[2", "[2,]"])
def test_profile_of_wrong_brackets(refused: Refused, tmp_path: Path, brackets: str) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(SPLIT)
    text = refused("profile", f"{path}:kernel{brackets}", *SHAPE)
    assert "kernel[2] for two cores" in " ".join(text.split())


def test_profile_writes_into_an_existing_folder_again(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        assert run("profile", ATTENTION, "--shape", "tokens=128", "--out", tmp_path).code == 0
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"notes.txt"}


def test_profile_on_another_machine_takes_another_time(run: Run) -> None:
    words = (
        "profile",
        f"{FOLDER / 'rope.py'}:rope",
        "--shape",
        "tokens=128",
        "--json",
        "--timing-only",
    )
    times = {
        arch: json.loads(run(*words, "--arch", arch).stdout)["latency_us"]
        for arch in ("trn2", "trn3")
    }
    assert times["trn2"] != times["trn3"]


def test_profile_makes_arrays_by_shape(run: Run, kernel: Callable[..., Path]) -> None:
    path = kernel("")
    assert run("profile", path, "--shape", "x=128x64:bf16").code == 0
    assert run("profile", f"{path}:kernel", "--shape", "x=128x64:int32", "--seed", "3").code == 0


def test_profile_rounds_stochastically(run: Run, kernel: Callable[..., Path]) -> None:
    file = kernel(
        "half = nl.ndarray(x.shape, nl.bfloat16)\n"
        "nisa.tensor_copy(half, tile)\n"
        "nisa.tensor_copy(tile, half)\n",
        "\n\ndef golden(x):\n"
        "    import ml_dtypes\n\n"
        "    return x.astype(ml_dtypes.bfloat16).astype(np.float32)\n",
    )
    command = ("profile", f"{file}:kernel", *SHAPE, "--json")
    plain = json.loads(run(*command).stdout)
    rounded = json.loads(run(*command, "--stochastic-rounding", "--seed", "3").stdout)
    assert plain["golden_error"] == 0.0
    assert 0 < rounded["golden_error"] < 2.0**-7
    assert plain["latency_us"] == rounded["latency_us"]


def test_profile_of_a_kernel_beside_its_own_module(
    run: Run, kernel: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "helper_of_kernel.py").write_text("WIDTH = 3\n")
    path = kernel("import helper_of_kernel\nassert helper_of_kernel.WIDTH == 3")
    # Modules beside the file are found while it is imported.
    path.write_text(
        "import helper_of_kernel\n" + path.read_text().replace("    import helper_of_kernel\n", "")
    )
    assert run("profile", f"{path}:kernel", *SHAPE).code == 0


@pytest.mark.parametrize(
    ("memory", "shape", "hint"),
    [("SBUF", (128, 65536), "split it into tiles"), ("PSUM", (128, 8192), "split it into tiles")],
)
def test_profile_of_a_kernel_that_overflows(
    run: Run, kernel: Callable[..., Path], memory: str, shape: tuple[int, int], hint: str
) -> None:
    path = kernel(f"big = nl.ndarray({shape}, nl.float32, buffer=nl.{memory.lower()})")
    outcome = run("profile", f"{path}:kernel", *SHAPE)
    assert (outcome.code, outcome.stdout) == (2, "")
    first, *table = outcome.stderr.splitlines()
    name = memory.capitalize()
    needed = shape[1] * 4
    assert first.startswith(
        f"trn3: error: {path}:{FIRST}: {name}CapacityError: {memory} cannot hold tensor "
        f"`big` [128, {shape[1]}] float32: it needs {needed} bytes per partition"
    )
    assert table[-1] == f"hint: it is larger than the whole memory; {hint}"
    if memory == "SBUF":
        assert table[:-1] == [
            "live tensors, largest first (bytes per partition, tensor, line that made it):",
            f"{2048:>12}  `tile` [128, 512] float32  {path}:{FIRST - 2}",
        ]


def test_profile_of_a_kernel_that_reads_what_nothing_wrote(
    refused: Refused, run: Run, kernel: Callable[..., Path]
) -> None:
    body = "empty = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\nnisa.tensor_copy(tile, empty)"
    outcome = run("profile", f"{kernel(body)}:kernel", *SHAPE)
    assert outcome.code == 0
    assert "uninitialised" in outcome.stdout
    assert f"kernel.py:{FIRST + 1}" in outcome.stdout
    text = fails(refused, run, kernel(body), 1, "UninitializedReadError", "--strict")
    assert "uninitialised" in text
    assert f"kernel.py:{FIRST}" in text


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("nisa.tensor_copy(tile[16:80], tile[0:64])", "NkiValidationError", ["partition", "16"]),
        (
            "nisa.tensor_tensor(tile, tile, tile, op=nl.bitwise_and)",
            "NkiValidationError",
            ["float32"],
        ),
        ("nisa.tensor_copy(tile[0:64], tile)", "NkiValidationError", ["tensor_copy"]),
        ("nisa.tensor_copy(tile, 3.0)", "TypeError", ["src"]),
        ("tile[0:200]", "IndexError", ["199"]),
        ("assert x.shape[0] == 64, 'rows must be 64'", "AssertionError", ["rows must be 64"]),
        ("raise RuntimeError('first line\\nsecond')", "RuntimeError", ["first line"]),
        ("1 / 0", "ZeroDivisionError", ["division by zero"]),
        ("raise SystemExit(3)", "RuntimeError", ["raised SystemExit(3)"]),
    ],
    ids=["partition", "dtype", "sizes", "type", "bounds", "assertion", "raise", "defect", "exit"],
)
def test_profile_of_a_kernel_that_breaks_a_rule(
    run: Run, kernel: Callable[..., Path], tmp_path: Path, body: str, kind: str, words: list[str]
) -> None:
    path, out = kernel(body), tmp_path / "out"
    outcome = run("profile", f"{path}:kernel", *SHAPE, "--out", out)
    assert (outcome.code, outcome.stdout) == (2, "")
    first = outcome.stderr.splitlines()[0]
    assert first.startswith(f"trn3: error: {path}:{FIRST}: {kind}: ")
    for word in words:
        assert word in first
    assert not out.exists()
    path.write_text(HEADER + FOOTER)
    assert run("profile", f"{path}:kernel", *SHAPE, "--timing-only").code == 0


def test_profile_of_an_instruction_that_the_machine_lacks(
    refused: Refused, run: Run, kernel: Callable[..., Path]
) -> None:
    text = fails(
        refused,
        run,
        kernel("nisa.exponential(tile, tile)"),
        0,
        "NkiValidationError",
        "--arch",
        "trn2",
    )
    assert "exponential" in text
    assert "gen4" in text


@pytest.mark.parametrize("options", [(), ("--timing-only",)])
def test_profile_of_a_loop_without_end(
    refused: Refused, run: Run, kernel: Callable[..., Path], options: tuple[str, ...]
) -> None:
    body = "while True:\n    nisa.memset(tile, 0.0)"
    text = fails(
        refused, run, kernel(body), 1, "InstructionLimitError", "--max-instructions", 1000, *options
    )
    assert "1000" in text


def test_profile_of_a_file_that_is_no_python(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text("import nki\ndef broken(:\n")
    assert refused("profile", f"{path}:kernel") == f"{path}:2: SyntaxError: invalid syntax"
    path.write_text("import nki\nimport no_such_module_anywhere\n")
    line = refused("profile", f"{path}:kernel")
    assert line == f"{path}:2: ModuleNotFoundError: No module named 'no_such_module_anywhere'"


def test_profile_of_a_missing_file(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "absent.py"
    assert (
        refused("profile", f"{path}:kernel")
        == f"{path}: there is no such file; write FILE.py:KERNEL"
    )


def test_profile_of_a_missing_kernel(refused: Refused, kernel: Callable[..., Path]) -> None:
    path = kernel("")
    assert (
        refused("profile", f"{path}:other") == f"{path}: no kernel 'other'; kernels there: kernel"
    )


def test_profile_of_a_file_of_several_kernels(refused: Refused) -> None:
    line = refused("profile", FOLDER / "flash_attention.py")
    assert line.endswith("several kernels; name one; kernels there: forward, backward")


def test_profile_of_a_kernel_without_its_argument(
    refused: Refused, kernel: Callable[..., Path]
) -> None:
    line = refused("profile", f"{kernel('')}:kernel")
    assert line.endswith("kernel needs x; give --shape x=128x512:bfloat16")


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("x", "write NAME=SIZE or NAME=128x512:bfloat16"),
        ("y=3", "there is no y; allowed: x"),
        ("x=12xx4", "12xx4 is no shape; write 128x512"),
        ("x=128x64:complex64", "complex64 is no element type of nki.language"),
        ("x=128x64:ndarray", "ndarray is no element type of nki.language"),
        ("x=0x64", "every length must be at least 1"),
        ("x=-1x64", "every length must be at least 1"),
        ("x=many", "many is no number"),
    ],
)
def test_profile_of_a_wrong_shape(
    refused: Refused, kernel: Callable[..., Path], word: str, problem: str
) -> None:
    assert (
        refused("profile", f"{kernel('')}:kernel", "--shape", word) == f"--shape {word}: {problem}"
    )


def test_profile_of_sizes_that_the_kernel_cannot_take(refused: Refused) -> None:
    line = refused("profile", ATTENTION, "--shape", "tokens=100")
    assert line.startswith(f"{FOLDER / 'flash_attention.py'}:")


def test_profile_of_a_golden_that_does_not_fit(
    refused: Refused, kernel: Callable[..., Path]
) -> None:
    path = kernel("", "\n\ndef golden(x):\n    return x[0]\n")
    line = refused("profile", f"{path}:kernel", *SHAPE)
    assert line == "the kernel returns shape (128, 512), the golden (512,)"


def arch_file(path: Path, change: Callable[[str], str]) -> Path:
    """Write trn3's description with a line changed."""
    source = arch("trn3").to_toml()
    path.write_text(change(source))
    return path


def without(key: str) -> Callable[[str], str]:
    return lambda text: "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith(f"{key} ")
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("vector_clock_mhz"), ["vector_clock_mhz"]),
        (
            lambda text: text.replace("partitions = { value = 128", "partitions = { value = -1"),
            ["partitions"],
        ),
        (
            lambda text: text.replace(
                "vector_clock_mhz = { value = 1200", "vector_clock_mhz = { value = 0"
            ),
            ["vector_clock_mhz"],
        ),
        (
            lambda text: text + '\nno_such_entry = { value = 1, unit = "MHz", source = "none" }\n',
            ["no_such_entry"],
        ),
    ],
    ids=["missing", "absurd", "zero", "unknown"],
)
def test_profile_on_a_wrong_description(
    refused: Refused, tmp_path: Path, change: Callable[[str], str], words: list[str]
) -> None:
    path = arch_file(tmp_path / "mine.toml", change)
    line = refused("profile", ATTENTION, "--shape", "tokens=128", "--arch", path)
    assert "ArchError" not in line
    for word in [f"--arch {path}: ", *words]:
        assert word in line


def test_profile_on_a_description_that_is_no_toml(run: Run, tmp_path: Path) -> None:
    path = arch_file(tmp_path / "mine.toml", lambda text: "= [")
    outcome = run("profile", ATTENTION, "--shape", "tokens=128", "--arch", path)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"trn3: error: --arch {path}: arch mine is no TOML: ")


def test_profile_on_a_description_of_ones_own(run: Run, tmp_path: Path) -> None:
    """Half the clock of an engine: the kernel takes longer."""
    old, new = "vector_clock_mhz = { value = 1200", "vector_clock_mhz = { value = 600"
    path = arch_file(tmp_path / "mine.toml", lambda text: text.replace(old, new))
    words = ("profile", ATTENTION, "--shape", "tokens=128", "--json", "--timing-only", "--arch")
    slow, known = (json.loads(run(*words, arch).stdout)["latency_us"] for arch in (path, "trn3"))
    assert slow > known


def test_profile_on_an_unknown_machine(refused: Refused, tmp_path: Path) -> None:
    line = refused("profile", ATTENTION, "--arch", "trn9")
    assert "trn9" in line
    assert "trn3" in line
    path = tmp_path / "absent.toml"
    assert str(path) in refused("profile", ATTENTION, "--arch", path)


def test_profile_into_a_folder_that_cannot_be(refused: Refused, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    taken = tmp_path / "taken"
    taken.write_text("precious")
    assert refused("profile", ATTENTION, "--out", taken) == f"{taken}: exists and is no folder"
    deep = tmp_path / "no" / "run"
    line = refused("profile", ATTENTION, "--out", deep)
    assert line == f"{deep}: there is no folder {deep.parent}"
    assert taken.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_profile_into_a_folder_that_may_not_be_written(refused: Refused, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    tmp_path.chmod(0o500)
    try:
        line = refused("profile", ATTENTION, "--out", tmp_path / "run")
        assert line == f"{tmp_path}: Permission denied"
    finally:
        tmp_path.chmod(0o700)


def test_profile_onto_a_full_disk(
    refused: Refused, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    out = tmp_path / "run"

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        line = refused("profile", ATTENTION, "--shape", "tokens=128", "--out", out)
    assert line.endswith("No space left on device")
    assert list(tmp_path.iterdir()) == []
    assert run("profile", ATTENTION, "--shape", "tokens=128", "--out", out).code == 0


def test_profile_without_matplotlib(
    run: Run, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trn3.pictures.find_spec", lambda name: None)
    out = tmp_path / "run"
    outcome = run("profile", ATTENTION, "--shape", "tokens=128", "--out", out)
    assert outcome.code == 0
    assert outcome.stderr == (
        "timeline.png and roofline.png are left out: plots need matplotlib: "
        "pip install 'trn3[plot]'\n"
    )
    left = FILES - {"timeline.png", "roofline.png"}
    assert {path.name for path in out.iterdir()} == left
    before = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    outcome = run("report", out)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.stdout.replace("\n", "") == f"wrote {out / 'report.html'}"
    assert (out / "report.html").read_bytes() == before
    line = refused("report", tmp_path)
    assert line.startswith(f"{tmp_path}: holds no profile.json; ")
