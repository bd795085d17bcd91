import io
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.runs.helpers import small_job, start_python
from theseus.notebook.plots import Curve, Losses, Series, decimated, loss_png, sparkline


def falling(count=100, **more):
    steps = list(range(1, count + 1))
    return Losses(train=Series(steps, [10 / step**0.3 for step in steps]), **more)


def image(png):
    assert png.startswith(b"\x89PNG")
    return Image.open(io.BytesIO(png)).convert("RGB")


def near(picture, colour, tolerance=40):
    """Return how many pixels have about this colour."""
    return sum(
        count
        for count, pixel in picture.getcolors(1 << 24)
        if all(abs(a - b) <= tolerance for a, b in zip(pixel, colour, strict=True))
    )


TRAIN, VALIDATION = (31, 111, 181), (200, 80, 30)


def test_the_curve_is_a_small_opaque_picture_with_a_line_for_each_series():
    losses = falling()
    png = loss_png(losses)
    assert len(png) < 30_000
    picture = image(png)
    assert picture.size == (1280, 440)
    assert picture.getpixel((2, 2)) == (255, 255, 255)
    assert near(picture, TRAIN) > 300
    assert near(picture, VALIDATION) == 0
    both = image(loss_png(falling(validation=Series([50, 100], [4.0, 3.0]))))
    assert near(both, VALIDATION) > 300


def test_the_same_records_give_the_same_picture():
    assert loss_png(falling()) == loss_png(falling())


def test_a_picture_of_many_points_stays_small():
    losses = falling(200_000)
    assert len(loss_png(losses)) < 30_000


@pytest.mark.parametrize(
    "losses",
    [
        Losses(train=Series([5], [3.2])),
        Losses(train=Series([1, 2], [3.0, 3.0])),
        Losses(validation=Series([10], [1e9])),
        Losses(train=Series([1, 2, 3], [1.0, math.nan, math.inf])),
        Losses(train=Series([0, 1], [-1e-9, 1e-9])),
        Losses(train=Series([10**9, 10**9 + 1], [1.0, 2.0])),
    ],
)
def test_few_or_odd_values_can_be_drawn(losses):
    assert image(loss_png(losses)).size == (1280, 440)
    assert image(loss_png(losses, until=10**6))
    assert sparkline(losses)


def test_the_settings_of_the_user_are_neither_used_nor_changed():
    import matplotlib as mpl

    plain = loss_png(falling())
    with mpl.rc_context(
        {
            "text.usetex": True,
            "figure.facecolor": "black",
            "axes.prop_cycle": mpl.cycler(color=["red"]),
            "font.family": "no such font",
            "font.size": 30,
            "lines.linewidth": 9,
            "axes.grid": True,
            "xtick.labelbottom": False,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "font.weight": "bold",
            "grid.alpha": 0.3,
            "path.sketch": (1, 100, 2),
        }
    ):
        before = dict(mpl.rcParams)
        assert loss_png(falling()) == plain
        assert dict(mpl.rcParams) == before


def test_pyplot_is_left_alone():
    code = """
import sys
from theseus.notebook.plots import Losses, Series, loss_png
assert "matplotlib" not in sys.modules
loss_png(Losses(train=Series([1, 2], [2.0, 1.0])))
print("matplotlib.pyplot" in sys.modules)
"""
    output, errors = start_python(code).communicate(timeout=60)
    assert output == "False\n", errors


@given(st.lists(st.floats(allow_infinity=True, allow_nan=True), max_size=400), st.integers(4, 100))
def test_decimation_keeps_the_order_the_extremes_and_the_gaps(values, limit):
    steps = list(range(len(values)))
    kept_steps, kept = decimated(steps, values, limit)
    assert len(kept) <= max(limit, 0) or len(values) <= limit
    assert list(kept_steps) == sorted(set(kept_steps))
    finite = [value for value in values if math.isfinite(value)]
    kept_finite = [value for value in kept if math.isfinite(value)]
    if len(finite) == len(values) and finite:
        assert min(kept_finite) == min(finite)
        assert max(kept_finite) == max(finite)
    assert (len(finite) < len(values)) == (len(kept_finite) < len(kept))


def test_decimation_bounds_what_is_drawn():
    steps, values = decimated(range(100_000), [float(i % 7) for i in range(100_000)])
    assert len(steps) == len(values) <= 2000


def test_the_text_form_shows_where_it_came_from_and_is():
    assert sparkline(Losses(train=Series([1, 2, 3], [3.0, 2.0, 1.0]))) == (
        "loss 3.000 █▅▁ 1.000, steps 1 to 3"
    )
    assert "·" in sparkline(Losses(train=Series([1, 2, 3], [3.0, math.nan, 1.0])))
    assert len(sparkline(falling(10_000)).split()[2]) == 40
    assert sparkline(Losses(train=Series([1], [math.nan]))) == "loss not finite"
    assert sparkline(Losses(validation=Series([1], [2.0]))).startswith("val loss")


def test_a_run_shows_its_curve(root):
    run = small_job(root)()
    curve = run.plot()
    assert isinstance(curve, Curve)
    bundle, metadata = curve._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "image/png"}
    assert metadata == {"image/png": {"width": 640, "height": 220}}
    assert sum(map(len, bundle.values())) < 100_000
    assert repr(curve) == "loss 10.00 █▃▁▁ 2.500, steps 1 to 4"
    nothing = small_job(root, "nothing", body=lambda recorder: None)().plot()
    assert set(nothing._repr_mimebundle_()[0]) == {"text/plain"}
    assert "no losses" in repr(nothing)
    assert "theseus.notebook.plots" in sys.modules
