#!/usr/bin/env python3
"""Fails if forecasts became worse, or if the stored table of errors is not from this program.

Usage: scripts/accuracy_guard.py [--program build/release/rigcast] [--left-out FILE]
                                 [--write-limits]
With --write-limits it writes tests/accuracy/limits.csv from the table and checks nothing.
"""
import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
from left_out import (BARS, CALIBRATE, LEFT_OUT, MEASUREMENTS, ROOT, median_and_p90, read_rows,
                      read_usable)

LIMITS = ROOT / "tests" / "accuracy" / "limits.csv"
SLACK = 1.05
NEAR = 0.02  # what rounding of the fitted figures and sampling of positions may change
# The fit computes prefill over several GPUs in closed form; the program overlaps their ubatches.
NEAR_IF_OVERLAPPED = 0.10
ROWS_NEAR = 0.98
ROWS_FORECAST = 0.80
RENEW = f"run {CALIBRATE}, then scripts/accuracy.py"


def validation(program):
    command = [program, "validate", "--against", str(MEASUREMENTS), "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return {row["id"]: row["predicted"] for row in json.loads(done.stdout)["rows"]}


def is_near(row, predicted):
    overlapped = row.metric == "pp_tps" and row.regime == "several GPUs"
    near = NEAR_IF_OVERLAPPED if overlapped else NEAR
    return predicted is not None and abs(predicted / row.fitted - 1) <= near


def stale(rows, predicted):
    far = [r for r in rows if not is_near(r, predicted.get(r.id))]
    print(f"{len(rows) - len(far)} of {len(rows)} stored forecasts are the program's")
    if len(rows) - len(far) >= ROWS_NEAR * len(rows):
        return []
    shown = ", ".join(f"{r.id} ({r.fitted:g}, now {predicted.get(r.id) or math.nan:.6g})"
                      for r in far[:5])
    return [f"the table of errors belongs to another profile or program: {shown}; {RENEW}"]


def worse(rows, limits):
    out = []
    for bar in BARS:
        some = bar.rows(rows)
        if bar.name not in limits:
            out.append(f"{bar.name}: no limit in {LIMITS.name}; run with --write-limits")
            continue
        if not some:
            out.append(f"{bar.name}: no rows are left")
            continue
        median, _ = median_and_p90(some, [r.left_out for r in some])
        print(f"{bar.name}: median {100 * median:.1f} %, limit {100 * limits[bar.name]:.1f} %")
        if median > limits[bar.name]:
            out.append(f"{bar.name}: the median error of {100 * median:.1f} % is above "
                       f"{100 * limits[bar.name]:.1f} %")
    return out


def fewer(predicted):
    usable = read_usable(MEASUREMENTS)
    forecast = sum(i in predicted for i in usable)
    print(f"{forecast} of {len(usable)} usable rows are forecast")
    if forecast >= ROWS_FORECAST * len(usable):
        return []
    return [f"only {forecast} of {len(usable)} usable rows are forecast"]


def read_limits():
    lines = [line for line in LIMITS.read_text().splitlines() if not line.startswith("#")]
    return {r["bar"]: float(r["median"]) for r in csv.DictReader(lines)}


def write_limits(rows):
    lines = ["# Median left-out errors that no change may exceed, as shares: those of the day that",
             "# this was written, times 1.05, rounded up. Do not edit: written by",
             "# scripts/accuracy_guard.py --write-limits.",
             "bar,median"]
    for bar in BARS:
        some = bar.rows(rows)
        if some:
            median, _ = median_and_p90(some, [r.left_out for r in some])
            lines.append(f'"{bar.name}",{math.ceil(1000 * SLACK * median) / 1000:.3f}')
    LIMITS.parent.mkdir(exist_ok=True)
    LIMITS.write_text("\n".join(lines) + "\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--program", default="build/release/rigcast")
    arguments.add_argument("--left-out", type=pathlib.Path, default=LEFT_OUT)
    arguments.add_argument("--write-limits", action="store_true")
    options = arguments.parse_args()
    if not options.left_out.exists():
        sys.exit(f"{options.left_out} is missing: {RENEW}")
    rows = read_rows(options.left_out)
    if options.write_limits:
        return write_limits(rows)
    predicted = validation(str((ROOT / options.program).resolve()))
    failures = stale(rows, predicted) + worse(rows, read_limits()) + fewer(predicted)
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
