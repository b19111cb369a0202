#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the results of the host codec in docs/performance.md against the measurements from which they were
# written: every row is what the JSON files give, and nothing that was measured is left out. The table of a file is the
# one in the section that names it.

import importlib.util
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/performance.md"
DATATYPES = {"bfloat16": "bf16", "half": "fp16", "float": "fp32"}


def report_module():
    """bench/host_bench_report.py, which makes the rows of its table itself."""
    path = ROOT / "bench/host_bench_report.py"
    spec = importlib.util.spec_from_file_location("host_bench_report", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(result, name):
    speed = result[name]["speedToMemcpy"]
    return f"{speed['median']:.3f} ({speed['least']:.3f} to {speed['most']:.3f})"


def perf_rows(measurements):
    """Of `zipccl perf codec --device host`."""
    for run in measurements["runs"]:
        if not run["report"]["isRight"]:
            raise ValueError(f"{run['hostCodec']}: bits came back wrong")
        for result in run["report"]["results"]:
            data = f"{DATATYPES[result['datatype']]} {result['layout']} `{result['data']}`"
            yield (run["hostCodec"], data, told(result, "encode"), told(result, "decode"))


def bench_rows(measurements):
    """Of scripts/host_bench.sh."""
    return report_module().rows(measurements["results"])


TABLES = {
    "host_codec_xeon.json": perf_rows,
    "host_bench_xeon.json": bench_rows,
    "host_bench_epyc.json": bench_rows,
    "host_bench_peers_xeon.json": bench_rows,
}


def document_rows(text, name):
    """The rows with figures in the section that names a file."""
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        if f"(measurements/{name})" not in section:
            continue
        for line in section.splitlines():
            cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
            if line.startswith("|") and re.search(r"\d\.\d", line):
                yield cells


def main():
    text = DOCUMENT.read_text()
    failed = []
    count = 0
    for name, rows_of in TABLES.items():
        expected = set(rows_of(json.loads((ROOT / "docs/measurements" / name).read_text())))
        count += len(expected)
        rows = set(document_rows(text, name))
        for row in sorted(expected ^ rows):
            failed.append(row)
            print(f"{name}: {row}: {'missing' if row in expected else 'not measured'}")
        if not expected or not rows:
            failed.append(name)
            print(f"{name}: no rows")
            continue
        # That a changed figure and a row too few would be seen.
        first = min(rows)
        line = next(line for line in text.splitlines() if all(cell in line for cell in first))
        digit = re.search(r"\d\.\d(\d)", line).start(1)
        changed = line[:digit] + str((int(line[digit]) + 1) % 10) + line[digit + 1 :]
        for what, planted in {"a figure": text.replace(line, changed), "a row too few": text.replace(line, "")}.items():
            if set(document_rows(planted, name)) == expected:
                failed.append(what)
                print(f"{name}: not seen: {what}")

    print(f"{count} rows, {len(failed)} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
