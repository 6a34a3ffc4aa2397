#!/usr/bin/env python3
"""Writes docs/accuracy.md, errors of forecasts on chips that the fit has not seen, and the README's
table of them.

Usage: scripts/accuracy.py [--build build/release] [--left-out FILE] [--check]
Reads the table that `rigcast calibrate` writes, through `rigcast validate --left-out`.
"""
import csv
import sys
from collections import Counter

sys.dont_write_bytecode = True
from accuracy_reasons import likely_reason, reason_class
from layout import ROOT, README, arguments, filled, json_of, percent, readme_with, table, write
from serving_accuracy import serving_tables

TARGET = ROOT / "docs" / "accuracy.md"
MEASUREMENTS = ROOT / "runtimes" / "measurements" / "benchmarks.csv"
LEFT_OUT = ROOT / "runtimes" / "fitted" / "llama.cpp.left-out.csv"
JUDGES = ROOT / "runtimes" / "measurements" / "judge"
BARS = ROOT / "tests" / "validation" / "bars.toml"
RENEW = ("rigcast calibrate --against runtimes/measurements/benchmarks.csv --runs "
         "runtimes/measurements/llama.cpp-*.jsonl.gz && python3 scripts/accuracy.py")
METRICS = {"tg_tps": "decode", "pp_tps": "prefill"}


def pair(errors):
    if errors is None:
        return "-"
    return f"{100 * errors['median_abs_error']:.1f} / {100 * errors['p90_abs_error']:.1f} %"


def verdict(bar):
    if not bar["applies"]:
        return "too few chips: reported only"
    return "**reached**" if bar["reached"] else "not reached"


def bars_table(bars):
    rows = [[b["name"], f"{100 * b['allowed_median']:.0f} / {100 * b['allowed_p90']:.0f} %",
             b["chips"], b["rows"], pair(b["chips_equal"]), pair(b["rows_equal"]), verdict(b)]
            for b in bars]
    return table(["what", "bar", "chips", "rows", "chips equal", "rows equal", "verdict"], rows,
                 right=range(1, 6))


def metric_table(summary, metric):
    keys = ("fitted_median_abs_error", "fitted_p90_abs_error", "left_out_median_abs_error",
            "left_out_p90_abs_error", "bias", "coverage")
    rows = [[s["regime"], s["chips"], s["rows"], *(percent(s[key]) for key in keys)]
            for s in summary if s["metric"] == metric]
    return table([METRICS[metric], "chips", "rows", "fitted median", "fitted p90",
                  "left-out median", "left-out p90", "bias", "inside"], rows)


def builds_table(summary):
    """By the year of the build, of the regimes that a bar is about."""
    lines = [[METRICS[s["metric"]], s["regime"], s["builds"], s["chips"], s["rows"],
              percent(s["left_out_median_abs_error"]), percent(s["left_out_p90_abs_error"]), percent(s["bias"])]
             for s in sorted(summary, key=lambda s: (s["metric"] != "tg_tps", s["regime"]))]
    return table(["metric", "regime", "builds", "chips", "rows", "left-out median", "left-out p90", "bias"], lines,
                 right=range(3, 8))


def families_table(families):
    keys = ("left_out_median_abs_error", "left_out_p90_abs_error", "bias", "coverage")
    rows = [[METRICS[f["metric"]], f["regime"], f["families"], f["rows"],
             *(percent(f[key]) for key in keys)] for f in families]
    return table(["metric", "regime", "families", "rows", "left-out median", "left-out p90", "bias",
                  "inside"], rows, right=range(2, 8))


def others_table(summary):
    tools = list(summary[0]["errors"])
    rows = [[s["regime"], s["chips"], s["rows"], *(pair(s["errors"][tool]) for tool in tools)]
            for s in summary]
    return table(["decode", "chips", "rows", *tools], rows)


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def farthest_table(rows):
    lines = [[r["id"], r["rig"], f"{r['model']} {r['quant']}", METRICS[r["metric"]],
              *(figure(r[key]) for key in ("measured", "fitted", "left_out")),
              f"{100 * r['error']:+.0f} %", likely_reason(r)] for r in rows]
    return table(["row", "rig", "model", "metric", "measured", "fitted", "left out", "error",
                  "likely reason"], lines, right=range(4, 8))


def skipped_table(reasons):
    rows = Counter()
    for reason, count in reasons.items():
        rows[reason_class(reason)] += count
    return table(["why", "rows"], sorted(rows.items(), key=lambda item: (-item[1], item)))


# Of `rigcast validate`: what is compared, and its name in the table.
JUDGED = {"decode.tokens_per_s": "decode", "prefill_tokens_per_s": "prompt",
          "ttft.warm.total_s": "first token, warm", "ttft.cold.total_s": "first token, cold",
          "memory.vram": "VRAM", "memory.ram": "RAM"}


# Programs and machines of the runs that only judge, and the names of their files.
JUDGES_OF = {"llama-bench, H100": "llama.cpp-b7347-h100*", "llama-bench, H200": "llama.cpp-b7347-h200*",
             "llama-server, H200": "llama-server-b7347-h200*",
             "llama-bench, 2 cores": "llama.cpp-v0.5.0-zen5-2-cores*"}


def judged_table(build):
    """Runs of llama.cpp that only judge: as forecast before them, from the probe alone, and as today."""
    def rows_of(pattern, *flags):
        paths = sorted(JUDGES.glob(f"{pattern}.jsonl.gz"))
        rows = json_of(build / "rigcast", "validate", "--replay", *paths, *flags, "--format", "json")["rows"]
        out = {}
        for row in rows:
            if row["metric"] in JUDGED and row["counted"]:
                out.setdefault((JUDGED[row["metric"]], row["regime"]), []).append(row)
        return out

    def cell(rows):
        errors = sorted(abs(row["error"]) for row in rows)
        return f"{100 * errors[(len(errors) - 1) // 2]:.1f} / {100 * errors[-1]:.1f} %"

    def inside(rows):
        known = [row["inside"] for row in rows if row.get("inside") is not None]
        return f"{100 * sum(known) / len(known):.0f} %" if known else "-"

    lines = []
    for machine, pattern in JUDGES_OF.items():
        before, today = rows_of(pattern, "--as-written"), rows_of(pattern)
        lines += [[machine, metric, regime, len(rows), cell(rows), cell(today[metric, regime]),
                   inside(today[metric, regime])] for (metric, regime), rows in before.items()]
    return table(["", "", "regime", "runs", "as forecast before the run: median / worst", "by today's program",
                  "inside 80 %"], lines)


def document(report, others, judged, serving):
    coverage = report["coverage"]
    regimes = ", ".join(f"{name}: {n}" for name, n in coverage["not_fitted_by_regime"].items())
    counts = [[c["tool"], c["rows"], percent(c["share"])] for c in others["counts"]]
    return filled("accuracy.md", report | coverage | serving | {
        "bars": bars_table(report["bars"]),
        "decode": metric_table(report["summary"], "tg_tps"),
        "prefill": metric_table(report["summary"], "pp_tps"),
        "sweep_decode": metric_table(report["summary_of_sweep"], "tg_tps"),
        "sweep_prefill": metric_table(report["summary_of_sweep"], "pp_tps"),
        "builds": builds_table(report["builds"]),
        "families": families_table(report["families"]),
        "judged": judged,
        "others": others_table(others["summary"]),
        "usable_decode": others["usable"],
        "other_counts": table(["tool", "rows", "share"], counts),
        "farthest_count": len(report["farthest_off"]),
        "farthest": farthest_table(report["farthest_off"]),
        "forecast_share": percent(coverage["forecast_share"]),
        "not_fitted_regimes": regimes or "none",
        "rows": report["rows"],
        "skipped": skipped_table(coverage["skipped_by_reason"])})


def readme_table(bars):
    header = ["on chips left out of the fit", "chips", "rows", "median / 90th percentile"]
    return table(header, [[b["name"], b["chips"], b["rows"], pair(b["chips_equal"])]
                          for b in bars]) + "\n"


def server_table(build):
    """A real llama-server: what was forecast before it was timed, and what its client saw."""
    rows = json_of(build / "rigcast", "validate", "--replay", *JUDGES.glob("llama-server-*.jsonl.gz"),
                   "--as-written", "--format", "json")["rows"]
    cells = {}
    for row in rows:
        if row["metric"] in ("decode.tokens_per_s", "prefill_tokens_per_s"):
            speeds = (f"{v:,.0f}" if v >= 100 else f"{v:.1f}" for v in (row["predicted"], row["measured"]))
            figures = " / ".join(speeds), f"{100 * row['error']:+.0f} %"
            cells.setdefault(row["id"].removeprefix("llama-server, "), []).extend(figures)
    header = ["Q4_K_M", "decode tok/s: forecast / measured", "", "prompt tok/s: forecast / measured", ""]
    return table(header, [[name, *figures] for name, figures in cells.items()]) + "\n"


def main():
    options = arguments(__doc__, left_out=LEFT_OUT)
    if not options.left_out.exists():
        sys.exit(f"{options.left_out} is missing: run {RENEW}")
    report = json_of(options.build / "rigcast", "validate", "--against", MEASUREMENTS, "--left-out",
                     options.left_out, "--bars", BARS, "--format", "json")
    others = json_of(options.build / "bench" / "bench_formulas", MEASUREMENTS, options.left_out)
    readme = readme_with("accuracy", readme_table(report["bars"]))
    readme = readme_with("server", server_table(options.build), readme)
    written = document(report, others, judged_table(options.build), serving_tables(options.build))
    write({TARGET: written, README: readme},
          options.check, RENEW)


if __name__ == "__main__":
    main()
