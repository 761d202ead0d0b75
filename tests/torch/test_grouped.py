"""Groups whose lengths are data: as torch counts and multiplies them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

import trn3.torch
from trn3.graph import GraphError


@pytest.mark.parametrize(
    ("left", "right", "ends"),
    [
        ((12, 16), (3, 16, 8), [4, 4, 12]),
        ((12, 16), (3, 16, 8), [0, 12, 12]),
        ((16, 24), (24, 8), [8, 8, 24]),
        ((3, 16, 8), (8, 24), [8, 16, 24]),
        ((3, 16, 8), (3, 8, 24), None),
    ],
)
def test_each_group_has_its_own_product(
    left: tuple[int, ...], right: tuple[int, ...], ends: list[int] | None
) -> None:
    torch.manual_seed(0)
    pair = [torch.randn(shape).bfloat16() for shape in (left, right)]
    offsets = None if ends is None else torch.tensor(ends, dtype=torch.int32)
    expected = torch._grouped_mm(*pair, offs=offsets)
    made = trn3.torch.compile(torch._grouped_mm)(*pair, offs=offsets)
    assert made.dtype == expected.dtype
    torch.testing.assert_close(made.float(), expected.float(), rtol=2**-7, atol=1e-6)


def test_rows_of_no_group_are_zero() -> None:
    x, w = torch.ones(6, 16).bfloat16(), torch.ones(2, 16, 8).bfloat16()
    made = trn3.torch.compile(torch._grouped_mm)(x, w, offs=torch.tensor([1, 4]).int())
    assert made[:, 0].tolist() == [16.0] * 4 + [0.0] * 2


def test_elements_are_counted_by_part_of_a_range() -> None:
    torch.manual_seed(0)
    x = torch.randn(1000)
    x[:4] = torch.tensor([2.0, -1.0, torch.nan, torch.inf])
    count = trn3.torch.compile(lambda x: torch.histc(x, bins=7, min=-1, max=2))
    assert torch.equal(count(x), torch.histc(x, bins=7, min=-1, max=2))


def test_a_range_that_is_data_is_refused() -> None:
    with pytest.raises(GraphError, match=r"histc: min is 0 and max 0; allowed: ends"):
        trn3.torch.compile(lambda x: torch.histc(x, bins=7))(torch.ones(3))
