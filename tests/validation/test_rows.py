"""The table of measurements: what it may hold, and how rows are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trn3 import validation
from trn3.validation.rows import parse
from trn3.validation.run import RowResult, rank_correlation, summarise

ROW = """
[tolerances]
fit = 0.05
hold = 0.25
[sources]
paper = "a paper"
[[row]]
id = "one"
hardware = "trn2"
what = "something"
published = 2.0
unit = "us"
class = "hold"
source = "paper"
experiment = "activation"
quantity = "duration"
"""


def test_parse_takes_tolerance_and_source_from_their_tables() -> None:
    [row] = parse(ROW).rows
    assert (row.tolerance, row.source, row.miss) == (0.25, "a paper", None)


@pytest.mark.parametrize(
    ("line", "instead", "complaint"),
    [
        ('class = "hold"', 'class = "held"', "row one: class is held; allowed: fit, hold"),
        ('unit = "us"', 'unit = "s"', "row one: unit is s; allowed: ns, us"),
        ('what = "something"', "", "row one: what is None, must be a text"),
        ('what = "something"', "what = 3", "row one: what is 3, must be a text"),
        ("published = 2.0", "published = 0", "row one: published is 0, must be a positive"),
        ("published = 2.0", 'published = "2"', "row one: published is '2', must be a positive"),
        ('source = "paper"', 'source = "book"', "row one: source is book; allowed: paper"),
        ('what = "something"', 'what = "x"\nwhy = "y"', "row one has why; allowed: class,"),
        ('id = "one"', "", "row without an id: id is None"),
    ],
)
def test_parse_refuses(line: str, instead: str, complaint: str) -> None:
    with pytest.raises(validation.RowError) as error:
        parse(ROW.replace(line, instead))
    assert str(error.value).startswith(complaint)


AS_WRITTEN = """
[[row]]
id = "one-as-written"
of = "one"
experiment = "published_scan"
"""


def test_rows_of_another_level_take_the_measurement_from_their_base() -> None:
    levels = '[levels]\nactivation = "rebuilt"\n'
    one, other = parse(levels + ROW + AS_WRITTEN).rows
    assert (one.level, one.of, one.measurement) == ("rebuilt", None, "one")
    assert (other.level, other.of, other.measurement) == ("as-written", "one", "one")
    assert (other.published, other.unit, other.what) == (one.published, one.unit, one.what)
    assert (other.class_, other.source, other.quantity) == (one.class_, one.source, one.quantity)
    assert other.experiment == "published_scan"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('of = "one"', 'of = "none"', "row one-as-written: of is none, must be a row without of"),
        ('of = "one"', 'of = "one-as-written"', "must be a row without of"),
        (
            'of = "one"',
            'of = "one"\nlevel = "guessed"',
            "level is guessed; allowed: as-written, reb",
        ),
    ],
)
def test_parse_refuses_levels_of_nothing(old: str, new: str, complaint: str) -> None:
    with pytest.raises(validation.RowError) as error:
        parse(ROW + AS_WRITTEN.replace(old, new))
    assert complaint in str(error.value)


def test_levels_are_summarised_apart_and_fit_rows_left_out() -> None:
    [row] = parse(ROW).rows
    others = [
        replace(row, id="two", published=4.0),
        replace(row, id="three", published=8.0, level="rebuilt"),
        replace(row, id="four", published=1.0, class_="fit"),
        replace(row, id="five", published=0.5, unit="ratio"),
    ]
    results = [RowResult(each, 3.0) for each in (row, *others)]
    headline, rebuilt = validation.summarise_levels(results)
    assert (headline.level, headline.rows, headline.worst_row) == ("as-written", 3, "five")
    assert headline.median == 0.5
    # Both times are predicted alike: there is no order to agree with.
    assert headline.rank_correlation != headline.rank_correlation
    assert (rebuilt.level, rebuilt.rows, rebuilt.worst) == ("rebuilt", 1, 0.625)


def test_bounds_are_judged_once_for_each_measurement_by_its_nearest_row() -> None:
    [row] = parse(ROW).rows
    held = replace(row, class_="hold")
    twin = replace(held, id="twin", level="rebuilt", of=held.id)
    off = replace(held, id="off", published=8.0)
    results = [
        RowResult(held, 9.0, (8.0, 10.0)),
        RowResult(twin, 2.0, (1.0, 3.0)),
        RowResult(off, 2.0, (1.0, 3.0)),
        RowResult(replace(row, id="fit", class_="fit"), 2.0, (5.0, 6.0)),
        RowResult(replace(held, id="none"), 2.0),
    ]
    band = validation.summarise_band(results)
    assert band is not None
    assert (band.rows, band.within, band.outside, band.share) == (2, 1, ("off",), 0.5)
    assert validation.summarise_band(results[-1:]) is None


@pytest.mark.parametrize(
    ("pairs", "coefficient"),
    [
        ([(1, 1), (2, 2), (3, 9)], 1.0),
        ([(1, 9), (2, 2), (3, 1)], -1.0),
        # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
        ([(1, 1), (2, 2), (2, 3), (3, 4)], 0.948683298051),
    ],
)
def test_rank_correlation_is_spearmans(
    pairs: list[tuple[float, float]], coefficient: float
) -> None:
    assert rank_correlation(pairs) == coefficient


def test_parse_refuses_a_row_twice() -> None:
    with pytest.raises(validation.RowError, match="row one comes twice"):
        parse(ROW + ROW[ROW.index("[[row]]") :])


def test_parse_refuses_an_absent_measurement_without_reason() -> None:
    text = ROW + '[[absent]]\nwhat = "x"\nhardware = "trn1"\npublished = "1 us"\nsource = "paper"\n'
    with pytest.raises(validation.RowError, match="lacks reason"):
        parse(text)


def test_select_by_name_and_beginning_keeps_the_order_of_the_table() -> None:
    rows = validation.select(["exp-128-trn2", "dma-curve-*", "vector-add-trn1"])
    names = [row.id for row in rows]
    assert names[:2] == ["vector-add-trn1", "exp-128-trn2"]
    assert len(names) == 12
    assert all(name.startswith("dma-curve-") for name in names[2:])


def test_select_refuses_what_is_no_row() -> None:
    with pytest.raises(validation.RowError, match="no row is called matmul; rows: vector-add"):
        validation.select(["matmul"])


def test_run_refuses_unknown_experiments_and_figures() -> None:
    [row] = validation.select(["exp-128-trn2"])
    with pytest.raises(validation.RowError, match="experiment is guess; allowed: activation"):
        list(validation.run([replace(row, experiment="guess")]))
    with pytest.raises(validation.RowError, match="activation has no cost; allowed: duration"):
        list(validation.run([replace(row, quantity="cost")]))


def test_units_scale_what_experiments_measure() -> None:
    [row] = validation.select(["exp-4096-trn2"])
    [[in_ns], [in_us]] = (
        list(validation.run([r])) for r in (row, replace(row, unit="us", published=3.71))
    )
    assert in_us.predicted == pytest.approx(in_ns.predicted / 1000)
    assert in_us.ratio == pytest.approx(in_ns.ratio)


def test_summarise_separates_classes_and_explained_misses() -> None:
    [row] = parse(ROW).rows
    results = [
        RowResult(row, 2.2),
        RowResult(row, 1.9),
        RowResult(replace(row, id="two", miss="reason"), 4.0),
        RowResult(replace(row, id="three", class_="fit", tolerance=0.05), 2.2),
    ]
    fit, hold = summarise(results)
    assert (fit.class_, fit.rows, fit.explained) == ("fit", 1, 0)
    assert (hold.class_, hold.rows, hold.explained) == ("hold", 3, 1)
    assert hold.median == pytest.approx(0.10)
    assert hold.worst == pytest.approx(1.0)
    assert hold.worst_row == "two"
    assert hold.worst_unexplained == pytest.approx(0.10)
    verdicts = [result.verdict for result in results]
    assert verdicts == ["within", "within", "explained miss", "miss"]
