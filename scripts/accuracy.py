#!/usr/bin/env python3
"""Writes docs/accuracy.md: errors of forecasts on chips that the fit has not seen.

Usage: scripts/accuracy.py [--build build/release] [--left-out FILE] [-o FILE] [--check]
With --check it writes nothing and fails if the file is not what it would write. The table that it
reads is written by `rigcast calibrate`.
"""
import argparse
import csv
import io
import json
import re
import math
import pathlib
import subprocess
import sys
from collections import Counter

sys.dont_write_bytecode = True
from accuracy_reasons import likely_reason, reason_class
from left_out import (BARS, CALIBRATE, ENOUGH_CHIPS, LEFT_OUT, MEASUREMENTS, METRICS, REGIMES, ROOT,
                      bias, chips, median_and_p90, read_rows, read_usable, row_weights,
                      share_inside)

TARGET = ROOT / "docs" / "accuracy.md"
README = ROOT / "README.md"
WORST = 20
WORST_OF_A_CHIP = 3
TOOLS = {"llmfit": "llmfit", "canirun": "canirun.ai"}


def output_of(program, *arguments):
    done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def percent(share):
    return "-" if share is None else f"{100 * share:.1f} %"


def pair(two):
    return f"{100 * two[0]:.1f} / {100 * two[1]:.1f} %"


def table(header, rows, numbers_from=1, numbers_to=99):
    rules = ["---:" if numbers_from <= i < numbers_to else "---" for i in range(len(header))]
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(rules) + "|"]
    lines += ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows]
    return "\n".join(lines)


def left_out(rows, weigh=None):
    forecasts = [r.left_out for r in rows]
    return median_and_p90(rows, forecasts, weigh) if weigh else median_and_p90(rows, forecasts)


def reaches(bar, two):
    return two[0] <= bar.median and two[1] <= bar.p90


def verdict(bar, some):
    if chips(some) < ENOUGH_CHIPS:
        return "too few chips: reported only"
    return "**reached**" if reaches(bar, left_out(some)) else "not reached"


def bars_section(rows):
    lines = []
    for bar in BARS:
        some = bar.rows(rows)
        bounds = f"{100 * bar.median:.0f} / {100 * bar.p90:.0f} %"
        if not some:
            lines.append([bar.name, bounds, 0, 0, "-", "-", "too few chips: reported only"])
            continue
        lines.append([bar.name, bounds, chips(some), len(some), pair(left_out(some)),
                      pair(left_out(some, row_weights)), verdict(bar, some)])
    return f"""## The bars

Median / 90th percentile of the left-out error. The verdict is on the column where chips count
equally, and both figures must hold. A bar applies where there are at least {ENOUGH_CHIPS} chips.

{table(["what", "bar", "chips", "rows", "chips equal", "rows equal", "verdict"], lines, 1, 6)}
"""


def groups(rows, metric):
    of = [r for r in rows if r.metric == metric]
    named = [(regime, [r for r in of if r.regime == regime]) for regime in REGIMES]
    named += [("deep context", [r for r in of if r.deep]),
              ("quantized KV", [r for r in of if r.quantized_kv]), ("all", of)]
    return [(name, some) for name, some in named if some]


def full_section(rows):
    parts = ["""## By metric and regime

Chips count equally. "Fitted": by the fit on all rows, this chip's included, which flatters. "Left
out": by the fit without this chip. Bias is the mean of the signed left-out error, so a few
forecasts that are much too high weigh more than many that are a little low. "Inside" is the share
that lies inside the 80 % interval which the other chips of the group give (the 10 % and 90 %
quantiles of their measured / left-out forecast): 80 % would be perfect. Deep context (8,192 tokens
or more in the cache) and quantized KV cut across regimes.
"""]
    for metric, words in METRICS.items():
        lines = []
        for name, some in groups(rows, metric):
            fitted = median_and_p90(some, [r.fitted for r in some])
            lines.append([name, chips(some), len(some), *map(percent, fitted),
                          *map(percent, left_out(some)), percent(bias(some)),
                          percent(share_inside(some))])
        parts.append(f"### {words.capitalize()} ({metric})\n\n" + table(
            [words, "chips", "rows", "fitted median", "fitted p90", "left-out median",
             "left-out p90", "bias", "inside"], lines) + "\n")
    return "\n".join(parts)


def others_section(rows, formulas, usable):
    decode = {r.id: r for r in rows if r.metric == "tg_tps"}
    other = {f["id"]: {t: float(f[t]) for t in TOOLS if f[t]} for f in formulas}
    common = [r for i, r in decode.items() if len(other.get(i, {})) == len(TOOLS)]
    lines = []
    for name, some in groups(common, "tg_tps"):
        by_tool = [median_and_p90(some, [other[r.id][t] for r in some]) for t in TOOLS]
        lines.append([name, chips(some), len(some), pair(left_out(some)), *map(pair, by_tool)])
    total = sum(m["metric"] == "tg_tps" for m in usable.values())
    counts = [["rigcast", len(decode)]] + [
        [label, sum(t in f for i, f in other.items() if i in usable)] for t, label in TOOLS.items()]
    counts = [[label, n, percent(n / total)] for label, n in counts]
    return f"""## The same rows by other tools' formulas

llmfit and canirun.ai forecast decode alone. Their formulas were written anew from their constants
(`bench/formulas/`) and get the machine as rigcast resolved it. Median / 90th percentile of the
error, chips counting equally, on the rows where all three give a number; rigcast's are the left-out
forecasts. An error of a forecast that is too low cannot exceed 100 %.

{table(["decode", "chips", "rows", "rigcast", *TOOLS.values()], lines)}

Of {total} usable decode rows, each gives a number for (rigcast: a left-out one):

{table(["tool", "rows", "share"], counts)}
"""


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def worst_rows(rows):
    def size(row):
        return abs(math.log(row.left_out / row.measured))

    found, seen = [], Counter()
    for row in sorted(rows, key=lambda r: (-size(r), r.id)):
        seen[row.chip] += 1
        if seen[row.chip] <= WORST_OF_A_CHIP:
            found.append(row)
    return found[:WORST]


def worst_section(rows, usable):
    nothing = {"tool": "", "notes": ""}
    lines = [[r.id, r.rig, f"{r.model} {r.quant}", METRICS[r.metric], figure(r.measured),
              figure(r.fitted), figure(r.left_out), f"{100 * (r.left_out / r.measured - 1):+.0f} %",
              likely_reason(r, usable.get(r.id, nothing))] for r in worst_rows(rows)]
    return f"""## The {WORST} rows farthest off

By the factor between left-out forecast and measurement, at most {WORST_OF_A_CHIP} a chip, in tokens
a second. Where the fitted forecast is near and the left-out one is not, no other chip told the fit
about this one. Reasons are likely ones, written by hand (`scripts/accuracy_reasons.py`).

{table(["row", "rig", "model", "metric", "measured", "fitted", "left out", "error",
        "likely reason"], lines, 4, 8)}
"""


def missing_section(rows, validation, usable):
    fitted = {r.id for r in rows}
    forecast = [r for r in validation["rows"] if r["id"] in usable]
    both = sum(r["id"] in fitted for r in forecast)
    alone = Counter(r["regime"] for r in forecast if r["id"] not in fitted)
    which = ", ".join(f"{name}: {n}" for name, n in sorted(alone.items()))
    skipped = Counter(reason_class(s["reason"]) for s in validation["skipped"]
                      if s["id"] in usable)
    lines = [[words, n] for words, n in sorted(skipped.items(), key=lambda item: (-item[1], item))]
    return f"""## What is not forecast

{len(usable):,} decode and prefill rows are usable: not marked SUSPECT or CAUTION by whoever
collected them. {len(forecast):,} of them have a forecast, {percent(len(forecast) / len(usable))}:

- {both:,} that were fitted and are in the tables above;
- {len(forecast) - both:,} that were not ({which or "none"}): caches in RAM are too thinly
  measured to say how good a forecast is.

{len(fitted) - both:,} more were fitted, though the program finds that they do not fit into memory.
Rows without a forecast, by reason:

{table(["why", "rows"], lines)}
"""


def document(rows, formulas, validation, usable):
    opening = f"""# Accuracy

Generated by `scripts/accuracy.py`; do not edit. To make everything anew, with a release build:

```console
$ {CALIBRATE} && python3 scripts/accuracy.py
```

## How errors are measured

`runtimes/measurements/benchmarks.csv` holds speeds that people published. Those of llama.cpp and
ik_llama.cpp are fitted. To see what a forecast is worth on hardware that nobody has measured, the
fit is repeated once for each chip without any row of that chip (a GPU model, a set of them, or the
CPU model where there is no GPU), and the rows left out are forecast by it: {len(rows):,} rows of
{chips(rows)} chips. The error of a row is |forecast / measured - 1|.

One chip may have a hundred rows and another one row, so every chip counts equally: a row weighs one
over the rows of its chip in the group. Median and 90th percentile are weighted quantiles: the
smallest error that half, or nine tenths, of the weight does not exceed. Rows that whoever collected
them marked SUSPECT or CAUTION are left out everywhere.

The rows are other people's: settings that a source does not state are assumed, builds span years,
and two sources for one machine differ by several percent. The errors include all of that.
"""
    return "\n".join([opening, bars_section(rows), full_section(rows),
                      others_section(rows, formulas, usable), worst_section(rows, usable),
                      missing_section(rows, validation, usable)])


README_ROW = re.compile(r"^\| ([^|]+) \| \d+ / \d+ % \| (\d+) \| (\d+) \| ([^|]+) \|", re.M)
README_TABLE = re.compile(r"(<!-- accuracy -->\n).*?(<!-- /accuracy -->)", re.DOTALL)


def readme_with(text):
    """README.md with the bars' rows of `text` in its table."""
    lines = ["| on chips left out of the fit | chips | rows | median / 90th percentile |",
             "|---|---:|---:|---:|"]
    lines += [f"| {what} | {chips} | {rows} | {reached} |"
              for what, chips, rows, reached in README_ROW.findall(text)]
    table = "\n".join(lines) + "\n"
    return README_TABLE.sub(lambda m: m[1] + table + m[2], README.read_text(encoding="utf-8"))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", default="build/release")
    arguments.add_argument("--left-out", type=pathlib.Path, default=LEFT_OUT)
    arguments.add_argument("-o", "--output", type=pathlib.Path, default=TARGET)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    if not options.left_out.exists():
        sys.exit(f"{options.left_out} is missing: run {CALIBRATE}")
    build = (ROOT / options.build).resolve()
    formulas = output_of(str(build / "bench" / "bench_formulas"), str(MEASUREMENTS))
    validation = output_of(str(build / "rigcast"), "validate", "--against", str(MEASUREMENTS),
                           "--format", "json")
    text = document(read_rows(options.left_out), list(csv.DictReader(io.StringIO(formulas))),
                    json.loads(validation), read_usable(MEASUREMENTS))
    readme = readme_with(text)
    if not options.check:
        options.output.write_text(text, encoding="utf-8")
        README.write_text(readme, encoding="utf-8")
    elif not options.output.exists() or options.output.read_text(encoding="utf-8") != text:
        sys.exit(f"{options.output} is out of date: run {CALIBRATE} && python3 scripts/accuracy.py")
    elif README.read_text(encoding="utf-8") != readme:
        sys.exit("README.md has an old table of errors: run python3 scripts/accuracy.py")


if __name__ == "__main__":
    main()
