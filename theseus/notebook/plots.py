"""Loss curves: records → a PNG, or a line of text; pure functions without shared state.

Drawn with matplotlib's objects alone. `pyplot` is not touched, nor are the user's `rcParams`: what
a user has set for his own plots must not change ours, and ours must not change his.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from theseus.runs import words
from theseus.runs.metrics import role

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from theseus.runs import Run

MAX_POINTS = 2000

# Read on a white ground, and on the dark one that `dark_style` turns the white into.
_GROUND, _INK, _GRID = "#ffffff", "#4a4a4a", "#e4e4e4"
_TRAIN, _VALIDATION = "#1f6fb5", "#c8501e"
_FONT = "DejaVu Sans"  # comes with matplotlib

_WIDTH, _HEIGHT, _SCALE = 640, 220, 2  # pixels of the page, and image pixels for each
SIZE = {"width": _WIDTH, "height": _HEIGHT}  # what a notebook shows the picture at
_SPARKS = "▁▂▃▄▅▆▇█"


@dataclass
class Series:
    """One line of a plot: the steps and the values at them."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, step: int, value: float) -> None:
        """Add the newest point."""
        self.steps.append(step)
        self.values.append(float(value))

    def forget_after(self, step: int) -> None:
        """Drop the points beyond a step: a resumed run has undone them."""
        kept = [(s, v) for s, v in zip(self.steps, self.values, strict=True) if s <= step]
        self.steps = [s for s, _ in kept]
        self.values = [v for _, v in kept]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass
class Losses:
    """The two series of a loss curve."""

    train: Series = field(default_factory=Series)
    validation: Series = field(default_factory=Series)

    def add(self, step: int, values: Mapping[str, Any]) -> bool:
        """Add what one record holds; return whether it held a loss."""
        found = False
        for name, value in values.items():
            meaning = role(name)
            if meaning in {"loss", "validation"} and isinstance(value, int | float):
                (self.train if meaning == "loss" else self.validation).add(step, value)
                found = True
        return found

    def forget_after(self, step: int) -> None:
        """Drop the points beyond a step: a resumed run has undone them."""
        self.train.forget_after(step)
        self.validation.forget_after(step)

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Losses:
        """Return the losses in the metrics of a run."""
        losses = cls()
        for record in records:
            losses.add(record["step"], record)
        return losses

    def __bool__(self) -> bool:
        return any(map(math.isfinite, self.train.values + self.validation.values))


@dataclass(frozen=True)
class Curve:
    """A loss curve that shows itself: a picture in a notebook, a text in a terminal."""

    losses: Losses

    @classmethod
    def of(cls, run: Run) -> Curve:
        """Return the curve of a run as its records are now."""
        return cls(Losses.of(run.metrics()))

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if not self.losses:
            return {"text/plain": repr(self)}, {}
        png = loss_png(self.losses)
        bundle = {
            "text/plain": repr(self),
            "text/html": dark_style() + image_html(png, repr(self)),
            "image/png": base64.b64encode(png).decode("ascii"),
        }
        return bundle, {"image/png": SIZE}

    def __repr__(self) -> str:
        if not self.losses:
            return "no losses have been reported yet"
        return sparkline(self.losses)


def loss_png(losses: Losses, *, until: int | None = None) -> bytes:
    """Return the loss curve as a PNG.

    Parameters
    ----------
    losses
        What is drawn; a value that is not finite leaves a gap, and the first one is marked.
    until
        The last step of the run, so that the curve grows into a fixed frame; None fits the frame
        to the data.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    dpi = 100
    figure = Figure((_WIDTH / dpi, _HEIGHT / dpi), dpi=dpi * _SCALE, facecolor=_GROUND)
    figure.set_layout_engine("none")
    canvas = FigureCanvasAgg(figure)
    _draw(figure, losses, until)
    for axes in figure.axes:  # makes the labels of the ticks, which would come while drawing
        axes.get_xticklabels(), axes.get_yticklabels()
    for artist in figure.findobj():
        artist.set_sketch_params()
        if isinstance(artist, Text):
            artist.set_usetex(False)
            artist.set_fontweight("normal")
    canvas.draw()  # type: ignore[no-untyped-call]
    return _packed(canvas.buffer_rgba())  # type: ignore[no-untyped-call]


def _draw(figure: Figure, losses: Losses, until: int | None) -> None:
    axes = figure.add_axes((0.085, 0.19, 0.9, 0.76), facecolor=_GROUND)
    drawn = []
    for series, label, colour in (
        (losses.train, "train", _TRAIN),
        (losses.validation, "validation", _VALIDATION),
    ):
        if series:
            steps, values = decimated(series.steps, series.values)
            few = len(steps) <= 30
            (line,) = axes.plot(
                steps,
                values,
                color=colour,
                linewidth=1.1,
                linestyle="-",
                solid_capstyle="projecting",
                solid_joinstyle="round",
                marker="o" if few else "",
                markersize=3,
                markeredgewidth=0,
                label=label,
                antialiased=True,
                zorder=3,
            )
            drawn.append(line)
    _frame(axes, losses, until)
    if len(drawn) > 1:
        legend = axes.legend(
            handles=drawn,
            loc="upper right",
            frameon=False,
            prop={"family": _FONT, "size": 8},
            labelcolor=_INK,
            handlelength=1.4,
            borderaxespad=0.2,
        )
        legend.set_zorder(4)


def _frame(axes: Axes, losses: Losses, until: int | None) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set(color=_GRID, linewidth=0.8)
    axes.grid(visible=False, which="both", axis="both")
    axes.grid(
        visible=True, which="major", axis="y", color=_GRID, linewidth=0.6, linestyle="-", alpha=1
    )
    axes.set_axisbelow(True)
    axes.tick_params(
        axis="both",
        which="both",
        bottom=True,
        left=True,
        labelbottom=True,
        labelleft=True,
        length=0,
        pad=4,
        labelsize=8,
        labelcolor=_INK,
        labelfontfamily=_FONT,
    )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    text: Any = {"fontfamily": _FONT, "fontsize": 8, "color": _INK, "usetex": False}
    axes.set_xlabel("step", labelpad=3, **text)
    axes.set_ylabel("loss (nats per token)", labelpad=5, **text)
    _limits(axes, losses, until)
    for series in (losses.train, losses.validation):
        points = zip(series.steps, series.values, strict=True)
        broken = next((step for step, value in points if not math.isfinite(value)), None)
        if broken is not None:
            late = broken > sum(axes.get_xlim()) / 2
            axes.axvline(broken, color=_VALIDATION, linewidth=0.8, linestyle=":", zorder=2)
            axes.annotate(
                f"not finite at step {broken:,}",
                (broken, 0.7),
                xycoords=("data", "axes fraction"),
                xytext=(-4 if late else 4, 0),
                textcoords="offset points",
                ha="right" if late else "left",
                **text,
            )
            break


def _limits(axes: Axes, losses: Losses, until: int | None) -> None:
    steps = losses.train.steps + losses.validation.steps
    values = [v for v in losses.train.values + losses.validation.values if math.isfinite(v)]
    first, last = min(steps), max(*steps, until or 0)
    margin = max((last - first) * 0.012, 0.5)
    left = 0 if first <= last * 0.1 else first - margin  # a curve from the start begins at zero
    axes.set_xlim(left, last + margin)
    low, high = min(values), max(values)
    span = high - low or max(abs(high) * 0.1, 1e-3)
    axes.set_ylim(low - span * 0.07, high + span * 0.07)


def _packed(pixels: Any) -> bytes:
    """Return a PNG with a palette: a third of the size of one with full colours."""
    import numpy as np
    from PIL import Image, ImageColor

    image = Image.fromarray(np.asarray(pixels)).convert("RGB")
    image = image.quantize(colors=64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    # A palette averages: the ground, which is what is left in every corner, must stay itself.
    ground: Any = image.getpixel((0, 0))
    palette = image.getpalette() or []
    palette[3 * ground : 3 * ground + 3] = ImageColor.getrgb(_GROUND)
    image.putpalette(palette)
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def decimated(
    steps: Sequence[int], values: Sequence[float], limit: int = MAX_POINTS
) -> tuple[Sequence[int], Sequence[float]]:
    """Return at most `limit` of the points, with every peak and every gap still to be seen.

    Each of `limit / 2` stretches gives its lowest and its highest point; one in which a value is
    not finite gives that.
    """
    if len(steps) <= limit:
        return steps, values
    kept: list[int] = []
    buckets = limit // 2
    for bucket in range(buckets):
        start = bucket * len(steps) // buckets
        inside = range(start, (bucket + 1) * len(steps) // buckets)
        broken = [i for i in inside if not math.isfinite(values[i])]
        low = broken[0] if broken else min(inside, key=values.__getitem__)
        high = broken[-1] if broken else max(inside, key=values.__getitem__)
        kept.extend(sorted({low, high}))
    return [steps[i] for i in kept], [values[i] for i in kept]


def sparkline(losses: Losses, width: int = 40) -> str:
    """Return the curve as one line of text: `loss 10.81 █▆▃▂▁▁ 3.41, steps 1 to 32`."""
    name, series = ("loss", losses.train) if losses.train else ("val loss", losses.validation)
    finite = [v for v in series.values if math.isfinite(v)]
    if not finite:
        return f"{name} not finite"
    low, high = min(finite), max(finite)
    columns = min(width, len(series))
    picked = [series.values[i * len(series) // columns] for i in range(columns)]
    picked[-1] = series.values[-1]
    span = high - low or 1.0
    marks = [
        _SPARKS[min(int((v - low) / span * len(_SPARKS)), len(_SPARKS) - 1)]
        if math.isfinite(v)
        else "·"
        for v in picked
    ]
    ends = f"{words.number(series.values[0])} {''.join(marks)} {words.number(series.values[-1])}"
    return f"{name} {ends}, steps {series.steps[0]:,} to {series.steps[-1]:,}"


def image_html(png: bytes, description: str) -> str:
    """Return a PNG as an element of a page: no file, no request; dark where the page is dark."""
    from html import escape

    data = base64.b64encode(png).decode("ascii")
    return (
        f'<img class="theseus-curve" alt="{escape(description)}" width="{_WIDTH}" '
        # Decoded together with the text around it, so that an update never shows an empty frame.
        f'height="{_HEIGHT}" decoding="sync" '
        'style="max-width:100%;height:auto;display:block;margin:4px 0;border-radius:3px" '
        f'src="data:image/png;base64,{data}">'
    )


def dark_style() -> str:
    """Return the style sheet that turns the white ground of a curve into JupyterLab's dark one.

    Hues stay as they are. Where the sheet is stripped, the curve stays dark on white: readable.
    """
    # invert(0.933) makes #ffffff into #111111, the ground of outputs in JupyterLab's dark theme.
    return (
        "<style>[data-jp-theme-light=false] img.theseus-curve,"
        "body.vscode-dark img.theseus-curve{filter:invert(.933) hue-rotate(180deg)}</style>"
    )
