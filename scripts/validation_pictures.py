#!/usr/bin/env python3
"""Draws forecasts and runs on machines with a GPU, as SVG: speed by position where VRAM becomes full,
by layers on the GPU, by experts in RAM, by the cold share of the KV cache.

Usage: scripts/validation_pictures.py [--build build/release] [--runs DIR] [-o docs/pictures]
Needs matplotlib (Debian: python3-matplotlib). scripts/validation_doc.py shows the pictures.
"""
import argparse
import pathlib
import sys

import matplotlib

sys.dont_write_bytecode = True

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "rigcast"  # the same bytes for the same runs
from matplotlib import pyplot as plt
from matplotlib.ticker import ScalarFormatter

from layout import ROOT
from validation_runs import RUNS, machines

FORECAST, MEASURED = "#d95f02", "#1b6ca8"
STYLES = [("-", "o"), ("--", "s"), (":", "^"), ("-.", "D")]
BAND = dict(color=FORECAST, alpha=0.15, linewidth=0)


def axes(title, xlabel, log=False):
    figure, ax = plt.subplots(figsize=(7, 4))
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("tokens per second")
    ax.grid(alpha=0.3)
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(ScalarFormatter())
    return figure, ax


def save(figure, file):
    handles, _ = figure.axes[0].get_legend_handles_labels()
    if handles:
        figure.axes[0].legend(frameon=False, fontsize=8)
    if figure.axes[0].get_yscale() == "linear":
        figure.axes[0].set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    print(file)


def by_position(run, file):
    """One run: speeds that were forecast and measured, and where each falls."""
    figure, ax = axes(run.name, "tokens in the cache")
    points = run.forecast["decode"]["by_position"]
    ax.plot([p["tokens"] for p in points], [p["tokens_per_s"] for p in points], color=FORECAST,
            label="forecast")
    dots = run.measured["decode"]["by_position"]
    ax.plot([d["tokens"] for d in dots], [d["tokens_per_s"] for d in dots], ".", markersize=3,
            color=MEASURED, label="measured")
    if "cliff" in run.figures:
        ax.axvline(run.figures["cliff"]["predicted"], color=FORECAST, linestyle="--", linewidth=0.8)
        ax.axvline(run.figures["cliff"]["measured"], color=MEASURED, linestyle=":", linewidth=0.8)
    save(figure, file)


def curves(title, xlabel, lines, file, log=False):
    """lines: label -> [(x, run)]: forecasts as lines with their intervals, runs as dots."""
    figure, ax = axes(title, xlabel, log)
    for (label, points), (style, dot) in zip(sorted(lines.items()), STYLES):
        points.sort(key=lambda p: p[0])
        x = [at for at, _ in points]
        bounds = [r.forecast["interval"]["tokens_per_s"] for _, r in points]
        ax.fill_between(x, [b[0] for b in bounds], [b[1] for b in bounds], **BAND)
        name = f", {label}" if label else ""
        ax.plot(x, [r.figures["decode"]["predicted"] for _, r in points], style, color=FORECAST,
                marker="_", markersize=9, label=f"forecast{name}")
        ax.plot(x, [r.figures["decode"]["measured"] for _, r in points], dot, color=MEASURED,
                markersize=5, label=f"measured{name}")
    save(figure, file)


def alike(run, **wanted):
    """Of the usual kind: no depth, F16 cache, and what is wanted of placement and cache."""
    s = run.scenario
    placement, kv = s["placement"], s["kv"]
    usual = {"decode_device": "placement", "cpu_moe_layers": 0, "policy": "vram",
             "cold_type": "f16", **wanted}
    return all((placement | kv).get(key) == value for key, value in usual.items()
               if value is not None)


def model_of(run):
    s = run.scenario
    return s["model"]["full_name"], s["model"]["quant"], s["workload"]["prompt_tokens"], \
        s["workload"]["depth"], s["runtime"]["ubatch"]


def groups(runs):
    found = {}
    for run in runs:
        found.setdefault(model_of(run), []).append(run)
    return [(f"{k[0]} {k[1]}, prompt of {k[2]:,}" + (f" after {k[3]:,}" if k[3] else ""), own)
            for k, own in found.items() if len(own) > 2]


def groups_of_short_prompts(runs):
    """Tokens after them are alike, whatever their length."""
    found = {}
    for run in runs:
        name, quant, prompt, depth, _ = model_of(run)
        if prompt <= 1024 and depth == 0:
            found.setdefault(f"{name} {quant}, short prompts", []).append(run)
    return [(title, own) for title, own in found.items() if len(own) > 2]


def cold_share(run):
    w = run.scenario["workload"]
    tokens = w["depth"] + w["prompt_tokens"] + w["output_tokens"]
    whole = tokens * run.scenario["model"]["kv_bytes_per_token"]
    return 1 - min(1, run.forecast["memory"][0]["kv"] / whole)


def draw(machine, folder):
    file = lambda what: folder / f"{machine.name}-{what}.svg"
    for old in folder.glob(f"{machine.name}-*.svg"):  # of runs that are no longer there
        old.unlink()
    runs = [r for r in machine.counted if "decode" in r.figures]
    for i, run in enumerate([r for r in runs if len(r.measured["measured"]["token_s"]) > 1000], 1):
        by_position(run, file(f"cliff-{i}"))
    split = [r for r in runs if alike(r) and not r.scenario["placement"]["gpu_layers_auto"]]
    for i, (title, own) in enumerate(groups_of_short_prompts(split), 1):
        curves(title, "layers on the GPU (the head is the last)",
               {"": [(r.scenario["placement"]["gpu_layers"], r) for r in own]},
               file(f"layers-{i}"), log=True)
    experts = [r for r in runs if alike(r, cpu_moe_layers=None) and r.regime == "experts in RAM"]
    for i, (title, own) in enumerate(groups(experts), 1):
        curves(title, "layers whose experts are in RAM",
               {"": [(r.scenario["placement"]["cpu_moe_layers"], r) for r in own]},
               file(f"experts-{i}"))
    caches = [r for r in runs if alike(r, policy=None) and r.scenario["kv"]["policy"] != "vram"]
    for i, (title, own) in enumerate(groups(caches), 1):
        lines = {}
        for r in own:
            lines.setdefault(r.scenario["kv"]["policy"], []).append((cold_share(r), r))
        curves(title, "share of the KV cache in RAM", lines, file(f"kv-{i}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", default=str(RUNS), help="folder of machines")
    parser.add_argument("-o", "--output", default=str(ROOT / "docs" / "pictures"))
    options = parser.parse_args()
    folder = pathlib.Path(options.output)
    for machine in machines(pathlib.Path(options.build).resolve() / "rigcast", pathlib.Path(options.runs)):
        if machine.has_gpu:
            folder.mkdir(parents=True, exist_ok=True)
            draw(machine, folder)


if __name__ == "__main__":
    main()
