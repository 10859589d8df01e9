"""The figures of `speed` as a picture."""

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

COLOURS = {
    "payclient": "#1f77b4",
    "httpx": "#7f7f7f",
    "httpx2": "#bcbd22",
    "aiohttp": "#d62728",
    "pyreqwest": "#9467bd",
}


def draw(found, clients, ladder, path):
    """Draw lookups per second over concurrency, one line per client on asyncio's own event loop."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name in clients:
        if "@" in name or ":" in name:
            continue
        points = [(c, found["figures"]["plain"].get(f"{name}, {c}")) for c in ladder]
        points = [(c, cell["per_second"]) for c, cell in points if cell]
        library, _, fast = name.partition("-")
        axes.plot(
            *zip(*points, strict=True),
            color=COLOURS[library],
            linestyle="-" if fast or library != "payclient" else "--",
            marker="o",
            label=name,
        )
    axes.set(xscale="log", xlabel="lookups at once", ylabel="lookups per second", ylim=(0, None))
    axes.set_xticks(ladder, [f"{concurrency:,}" for concurrency in ladder])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
