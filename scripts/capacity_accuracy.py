#!/usr/bin/env python3
"""Errors of forecasts of capacity under a limit on latencies, on measured sweeps of loads: writes docs/capacity.md.

Usage: scripts/capacity_accuracy.py [--build build/release] [--check]

Forecasts every point of every sweep, which takes some seven minutes of one core: scripts/nightly.sh checks the document.
A sweep is one server under several loads. Its capacity under a limit is the highest load that meets it, interpolated
in a straight line between the last point that meets it and the first that breaks it; that of the forecast follows in the same
way from the forecasts of the same points.
"""
import csv
import math
import re
import statistics
from collections import defaultdict
from typing import NamedTuple

from layout import ROOT, arguments, filled, table, write
from serving_accuracy import LEFT_OUT, chip_of, forecasts, measured

SLO = ROOT / "loads" / "slo"
# Allowed medians and 90th percentiles, of chips that the fit has seen and of others.
BARS = ((0.07, 0.15), (0.12, 0.25))
# What users of servers ask for, beside the limits of loads/slo.
USUAL_S = {"tpot": (0.050, 0.080, 0.100), "ttft": (2.0,)}
COLUMNS = {"tpot_p50_s": "TPOT p50", "tpot_p99_s": "TPOT p99", "ttft_mean_s": "TTFT mean",
           "ttft_p50_s": "TTFT p50", "ttft_p99_s": "TTFT p99"}
# Columns of the measurements in which points of one sweep may differ.
OF_POINTS = re.compile(r"id|source_path|concurrency|request_rate|requests|output_tok_s|flags|\w+_ms")
LENGTHS = ("prompt_tokens", "output_tokens")


class CapacityError(NamedTuple):
    error: float  # of the measured capacity
    beyond: bool  # the forecast's lies outside of the sweep: the error is at least that large
    same_bracket: bool  # both lie between the same two points
    bracket: float  # load of the first point that breaks the limit over that of the last one that meets it


def limits_of(metric):
    """Seconds: every limit of MLPerf's on this latency, and the usual ones."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SLO.glob("*.toml")))
    named = re.findall(rf'^{metric} = "([\d.]+) ms"', texts, re.MULTILINE)
    return sorted({float(ms) / 1000 for ms in named} | set(USUAL_S[metric]))


def load_of(run):
    return float(run["concurrency"] or run["request_rate"])


def sweeps(runs):
    """Lists of runs that differ in their load alone. Drawn lengths have means that differ by chance."""
    groups = defaultdict(list)
    for run in runs:
        if run["arrival"] in ("closed", "poisson") and (run["concurrency"] or run["request_rate"]):
            drawn = run["arrival"] == "poisson"
            key = tuple(value for name, value in run.items()
                        if not OF_POINTS.fullmatch(name) and not (drawn and name in LENGTHS))
            groups[key].append(run)
    return [group for group in groups.values() if len({load_of(run) for run in group}) > 1]


def crossing(points, limit):
    """Loads between which the limit lies, and the load at which it is reached; None where all points meet it, or
    none does. points: (load, latency), by load; the latency of an overloaded server is infinite."""
    broken = next((i for i, (_, latency) in enumerate(points) if latency > limit), None)
    if broken in (None, 0):
        return None
    (low, met), (high, over) = points[broken - 1], points[broken]
    share = 0 if math.isinf(over) else (limit - met) / (over - met)
    return low, high, low + share * (high - low)


def median_points(points):
    """One point of each load."""
    by_load = defaultdict(list)
    for load, latency in points:
        by_load[load].append(latency)
    return sorted((load, statistics.median(latencies)) for load, latencies in by_load.items())


def capacity_error(measured, forecast, limit):
    """A CapacityError of a sweep's points; None if the measured ones do not lie on both sides of the limit."""
    measured, forecast = median_points(measured), median_points(forecast)
    found = crossing(measured, limit)
    if not found:
        return None
    low, high, capacity = found
    own = crossing(forecast, limit)
    if own:
        return CapacityError(abs(own[2] / capacity - 1), False, own[:2] == found[:2], high / low)
    # The forecast meets the limit at every load, or at none: it is off by more than the end of the sweep is.
    end = forecast[0][0] if forecast[0][1] > limit else forecast[-1][0]
    return CapacityError(abs(end / capacity - 1), True, False, high / low)


def published(group, latencies, metric):
    """Percentiles of this latency that all points have; the mean where they have none."""
    def all_have(which):
        return all(f"{metric}_{which}_s" in latencies[run["id"]] for run in group)
    has = [which for which in ("p50", "p99") if all_have(which)] or [w for w in ("mean",) if all_have(w)]
    return [f"{metric}_{which}_s" for which in has]


def capacity_errors(runs, latencies, chip_of):
    """latencies: of a run's id and a metric (measured, forecast), in seconds. Lists of CapacityError by metric, by
    engine and chip."""
    errors = defaultdict(lambda: defaultdict(list))
    for group in sweeps([run for run in runs if latencies.get(run["id"])]):
        where = group[0]["engine"], chip_of(group[0])
        for metric in ("ttft", "tpot"):
            for column in published(group, latencies, metric):
                points = [(load_of(run), *latencies[run["id"]][column]) for run in group]
                for limit in limits_of(metric):
                    found = capacity_error([(load, m) for load, m, _ in points],
                                           [(load, f) for load, _, f in points], limit)
                    if found:
                        errors[where][column].append(found)
    return errors


def worth_forecasting(runs):
    """Runs of sweeps with measured points on both sides of some limit."""
    def straddles(group, metric, which):
        figures = [float(run[f"{metric}_{which}_ms"]) / 1000 for run in group if run[f"{metric}_{which}_ms"]]
        return figures and any(min(figures) <= limit < max(figures) for limit in limits_of(metric))
    return [run for group in sweeps(runs)
            if any(straddles(group, metric, which) for metric in USUAL_S for which in ("mean", "p50", "p99"))
            for run in group]


def forecast_latencies(runs, validation):
    """Of `rigcast validate`, as capacity_errors wants them. Waits of a server that is forecast to be overloaded have no
    figure: they rise as long as its load goes on."""
    latencies = defaultdict(dict)
    for row in validation["rows"]:
        if row["counted"] and row["metric"].startswith(tuple(USUAL_S)):
            latencies[row["id"]][row["metric"]] = row["measured"], row["predicted"]
    for note in validation["notes"]:
        if note["id"] in latencies and "no figure" in note["reason"]:
            for which in ("mean", "p50", "p99"):
                if measured := runs[note["id"]][f"ttft_{which}_ms"]:
                    latencies[note["id"]][f"ttft_{which}_s"] = float(measured) / 1000, math.inf
    return latencies


def left_out_latencies(latencies, rows, column):
    """Those of the measured points with the forecasts of the table that `rigcast calibrate` writes: of the fit ("error"),
    or of that without the chip ("left_out_error")."""
    out = defaultdict(dict)
    for row in rows:
        if row["metric"] in latencies.get(row["id"], {}):
            measured, _ = latencies[row["id"]][row["metric"]]
            forecast = measured * (1 + float(row[column])) if row[column] else math.inf
            out[row["id"]][row["metric"]] = measured, forecast
    return out


def quantile(weighted, share):
    """The least error that has this share of the weights at or below it."""
    weighted = sorted(weighted)
    wanted, sum_of = share * sum(weight for _, weight in weighted), 0
    for error, weight in weighted:
        sum_of += weight
        if sum_of >= wanted - 1e-9:
            return error
    return weighted[-1][0]


def cell(errors, bar):
    """Median and 90th percentile of (CapacityError, weight), in percent. What is only known to be at least that large has
    the mark; in bold what is not shown to be within the bar."""
    if not errors:
        return ""
    figures = []
    for share, allowed in zip((0.5, 0.9), bar):
        least = quantile([(found.error, weight) for found, weight in errors], share)
        most = quantile([(math.inf if found.beyond else found.error, weight) for found, weight in errors], share)
        text = ("" if least == most else "≥ ") + f"{100 * least:.0f}"
        figures.append(f"**{text}**" if most > allowed else text)
    return " / ".join(figures)


def chips_equal(of_chips):
    """(CapacityError, weight) of lists of them: every list weighs 1."""
    return [(found, 1 / len(of_chip)) for of_chip in of_chips for found in of_chip]


def line_of(chips, bar):
    """Cells of one chip's errors by column, or of several chips'."""
    every = [[found for column in COLUMNS for found in chip.get(column, [])] for chip in chips]
    flat = [found for chip in every for found in chip]
    return [len(flat), sum(found.beyond for found in flat),
            f"{100 * sum(found.same_bracket for found in flat) / len(flat):.0f} %",
            f"{statistics.median(found.bracket for found in flat):.0f}",
            *(cell(chips_equal([chip[column] for chip in chips if column in chip]), bar) for column in COLUMNS),
            cell(chips_equal(every), bar)]


def capacity_table(errors, bar_of):
    """A line for each engine and chip, and one of all of vLLM's chips with equal weights."""
    lines = [[*where, *line_of([of_chip], bar_of(where[0]))] for where, of_chip in sorted(errors.items())]
    own = [of_chip for (engine, _), of_chip in errors.items() if engine == "vllm"]
    lines.append(["vllm", "all alike", *line_of(own, bar_of("vllm"))])
    header = ["engine", "GPU", "limits", "beyond", "same bracket", "bracket", *COLUMNS.values(), "all"]
    return table(header, lines, right=range(2, 20))


def capacity_tables(build):
    """Capacity under a limit, of vLLM's profile as it is shipped, and of the fits without each chip."""
    runs = measured()
    latencies = forecast_latencies(runs, forecasts(build, worth_forecasting(runs.values())))
    shipped = capacity_errors(runs.values(), latencies, lambda run: chip_of(run["gpu"]))
    with LEFT_OUT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    chips = {row["id"]: row["chip"] for row in rows}

    def of_fit(column):
        points = left_out_latencies(latencies, rows, column)
        return capacity_errors(runs.values(), points, lambda run: chips[run["id"]])

    return {"capacity": capacity_table(shipped, lambda engine: BARS[engine != "vllm"]),
            "capacity_fitted": capacity_table(of_fit("error"), lambda _: BARS[0]),
            "capacity_left_out": capacity_table(of_fit("left_out_error"), lambda _: BARS[1])}


def main():
    options = arguments(__doc__)
    document = filled("capacity.md", capacity_tables(options.build))
    write({ROOT / "docs" / "capacity.md": document}, options.check, "scripts/capacity_accuracy.py")


if __name__ == "__main__":
    main()
