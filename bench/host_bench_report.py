#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Makes one report of what host_codec_bench (google-benchmark's JSON) and zipnn_bench.py measured:
# `host_bench_report.py MACHINE BENCHMARK.json [ZIPNN.json] > OUT.json`, and prints the rows of the table in
# docs/performance.md to stderr. scripts/host_bench.sh calls it.

import json
import statistics
import sys


def spread(speeds, copy_speed):
    ratios = [speed / copy_speed for speed in speeds]
    return {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}


def read_benchmarks(report):
    """Results by their name, each the runs of one benchmark."""
    runs = {}
    for run in report["benchmarks"]:
        if run.get("run_type") != "iteration":
            continue
        if run.get("error_occurred"):
            raise SystemExit(f"{run['name']}: {run['error_message']}")
        runs.setdefault(run["run_name"], []).append(run)
    return runs


def results_of(report):
    runs = read_benchmarks(report)
    parts = {name: name.removesuffix("/real_time").split("/") for name in runs}
    speeds = {name: [run["bytes_per_second"] for run in all_runs] for name, all_runs in runs.items()}
    copies = {parts[name][3]: statistics.median(speeds[name]) for name in runs if parts[name][1] == "memcpy"}
    for name, (operation, who, data, size) in parts.items():
        result = {"operation": operation, "who": who, "data": data, "sizeBytes": int(size.split()[0]) << 20}
        if "bits" in runs[name][0]:
            result["bits"] = runs[name][0]["bits"]
        if who != "memcpy":
            result["speedToMemcpy"] = spread(speeds[name], copies[size])
        result["bytesPerSecond"] = speeds[name]
        yield result


def rows(results):
    """The table: encode and decode of one thing in a row, and what it takes."""
    cells = {}
    for result in results:
        if "speedToMemcpy" in result:
            key = (result["who"], result["data"], result["sizeBytes"])
            cells.setdefault(key, {})[result["operation"]] = result
    for (who, data, size), by_operation in cells.items():
        told = [
            f"{by_operation[name]['speedToMemcpy']['median']:.3f}" if name in by_operation else "-"
            for name in ("encode", "decode", "reduce")
        ]
        yield (who, f"`{data}`", f"{size >> 20} MiB", *told, f"{by_operation['encode']['bits']:.2f}")


def main():
    with open(sys.argv[2], encoding="ascii") as file:
        report = json.load(file)
    results = list(results_of(report))
    for name in sys.argv[3:]:
        with open(name, encoding="ascii") as file:
            results += json.load(file)
    context = report["context"]
    json.dump(
        {
            "machine": sys.argv[1],
            "date": context["date"],
            "benchmarkLibrary": context["library_build_type"],
            "results": results,
        },
        sys.stdout,
        indent=1,
    )
    for row in rows(results):
        print("| " + " | ".join(row) + " |", file=sys.stderr)


if __name__ == "__main__":
    main()
