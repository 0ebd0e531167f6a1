"""The picture of `sync_vs_async.py`: four heat maps with the 5 s line and the gateway's limit in them.

Safe for the colour-blind: from light to dark for time, hatched vermilion for what was cut off, lines that
differ by their dashes, and every cell says its time in figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import patheffects
from matplotlib import pyplot as plt
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from asynctask.condition import time_in_words
from benchmarks._grid_report import WAYS, Grid, is_cut

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks._harness import Samples

CUT: Final = "#D55E00"
HALO: Final = [patheffects.Stroke(linewidth=5, foreground="white"), patheffects.Normal()]
DASHES: Final = (0, (2, 1))
TICKS: Final = (0.01, 0.1, 1.0, 10.0)


def draw(grid: Grid, samples: Samples, path: Path) -> None:
    """Write the picture as a PNG file."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10.5, "hatch.linewidth": 0.7})
    figure, axes = plt.subplots(2, 2, figsize=(11, 9), sharex=True, sharey=True, layout="constrained")
    colours = plt.get_cmap("YlGnBu")
    times = ScalarMappable(LogNorm(0.003, 10), colours)
    for panel, (way, title) in zip(axes.flat, WAYS.items(), strict=True):
        _panel(panel, grid, samples, way, times)
        panel.set_title(title, loc="left", fontsize=12.5, fontweight="bold")
    for panel in axes[1]:
        panel.set_xlabel("latency of one call")
    for panel in axes[:, 0]:
        panel.set_ylabel("records")
    bar = figure.colorbar(times, ax=axes, shrink=0.6, aspect=30, pad=0.02, ticks=TICKS)
    bar.ax.set_yticklabels([time_in_words(seconds) for seconds in TICKS])
    bar.ax.minorticks_off()
    bar.set_label("time until the answer")
    figure.suptitle(
        "The same work behind nginx: answered in the request, and as a job\n", fontsize=15, fontweight="bold"
    )
    figure.text(
        0.5,
        0.958,
        f"Scale 1:{grid.scale}, so read records and times {grid.scale} times as large. "
        "The latency of a call is as it is.",
        ha="center",
        va="top",
    )
    figure.legend(
        handles=[
            Line2D([], [], color="black", lw=2.6, label=_limit(grid, "the 5 s line", grid.line)),
            Line2D(
                [],
                [],
                color="black",
                lw=2.6,
                ls=DASHES,
                label=_limit(grid, "the gateway's limit", grid.gateway),
            ),
            Patch(facecolor=CUT, hatch="////", edgecolor="white", label="cut off by the gateway: 504"),
        ],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _limit(grid: Grid, what: str, seconds: float) -> str:
    return f"{what} ({seconds:g} s here for {seconds * grid.scale:g} s)"


def _panel(panel: Any, grid: Grid, samples: Samples, way: str, times: Any) -> None:
    rows, columns = len(grid.sizes), len(grid.latencies)
    seconds: dict[tuple[int, int], float] = {}
    for row, records in enumerate(grid.sizes):
        for column, latency in enumerate(grid.latencies):
            case = grid.case(way, records, latency)
            seconds[column, row] = samples[case, "seconds"].median
            cut = is_cut(grid, samples, way, (records, latency))
            face = CUT if cut else times.to_rgba(seconds[column, row])
            panel.add_patch(
                Rectangle(
                    (column, row),
                    1,
                    1,
                    facecolor=face,
                    edgecolor="white",
                    lw=0.8,
                    hatch="////" if cut else None,
                )
            )
            dark = cut or seconds[column, row] > 0.4
            panel.text(
                column + 0.5,
                row + 0.5,
                "504" if cut else time_in_words(seconds[column, row], exact=False),
                ha="center",
                va="center",
                color="white" if dark else "black",
                fontweight="bold" if cut else "normal",
                path_effects=[patheffects.Stroke(linewidth=3, foreground=CUT), patheffects.Normal()]
                if cut
                else [],
            )
    # The limit is drawn last and dashed, so that where both lines are one, both can be seen.
    for limit, dashes in ((grid.line, "solid"), (grid.gateway, DASHES)):
        inside = {cell for cell, time in seconds.items() if time < limit}
        panel.add_collection(
            LineCollection(
                _edges(rows, columns, inside),
                colors="black",
                linewidths=2.6,
                linestyles=[dashes],
                path_effects=HALO,
                zorder=3,
            )
        )
    panel.set(xlim=(0, columns), ylim=(0, rows))
    panel.set_xticks(
        [n + 0.5 for n in range(columns)], [time_in_words(latency) for latency in grid.latencies]
    )
    panel.set_yticks([n + 0.5 for n in range(rows)], [f"{records:,}" for records in grid.sizes])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _edges(rows: int, columns: int, inside: set[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The sides of cells that part those that are inside from those that are not."""
    edges = []
    for column in range(columns):
        for row in range(rows):
            here = (column, row) in inside
            if column + 1 < columns and here != ((column + 1, row) in inside):
                edges.append([(column + 1, row), (column + 1, row + 1)])
            if row + 1 < rows and here != ((column, row + 1) in inside):
                edges.append([(column, row + 1), (column + 1, row + 1)])
    return edges
