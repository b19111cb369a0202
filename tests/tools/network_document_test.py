#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the results between hosts in docs/performance.md against the measurements from which they were made: every row is
# what the JSON file gives, and nothing that was measured is left out. With --print it prints the rows.

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/performance.md"
SECTION = "# Between hosts"
MEASUREMENTS = ROOT / "docs/measurements/network.json"
MIB = 1 << 20

sys.path.insert(0, str(ROOT / "bench"))
import network_bench  # noqa: E402 (the path first)


def milliseconds(us):
    return f"{us / 1000:.3g}" if us < 100_000 else f"{us / 1000:.0f}"


def row(result):
    report = result["report"]
    perf = report["results"][0]
    own = result["nativeUs"].get("MPI")
    speedup = result["speedup"]
    data = report["data"]["source"].removeprefix("file:data/")
    return (
        f"{result['network']['hosts']} hosts, {result['network']['gigabits']} Gbit/s",
        f"{report['collective']} {perf['sizeBytes'] / MIB:g} MiB `{data}`",
        perf["strategy"],
        milliseconds(result["nativeUs"]["zipccl with encoding off"]),
        f"{milliseconds(own)}, {result['algorithm']}" if own else "-",
        milliseconds(result["zipcclUs"]),
        f"{speedup['median']:.2f} ({speedup['lowerQuartile']:.2f} to {speedup['upperQuartile']:.2f})",
        f"{perf['ratio'] or 1:.2f}",
        f"{1 - result['machine']['cores']['idle']:.0%}",
    )


CELLS = 9  # of these tables, and of no other in the section


def document_rows(text):
    rows = set()
    for line in text.partition(f"\n{SECTION}\n")[2].splitlines():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if len(cells) == CELLS and " to " in cells[6]:
            rows.add(cells)
    return rows


def faults_of(measurements):
    """What is wrong in the measurements by themselves."""
    for result in measurements["results"]:
        perf = result["report"]["results"][0]
        if result["report"]["wrongElements"] or not perf["checked"]:
            yield f"{result['name']}: bits arrived wrong, or were not compared"
        told = network_bench.summary(perf["outOfPlace"])
        if any(told[name] != result[name] for name in told):
            yield f"{result['name']}, {perf['sizeBytes']}: the summary is not that of the samples"


def main():
    text = DOCUMENT.read_text()
    measurements = json.loads(MEASUREMENTS.read_text())
    if sys.argv[1:] == ["--print"]:
        for result in measurements["results"]:
            print("| " + " | ".join(row(result)) + " |")
        return 0
    expected = {row(result) for result in measurements["results"]}
    found = document_rows(text)
    faults = [f"{each}: {'missing' if each in expected else 'not measured'}" for each in sorted(expected ^ found)]
    faults += faults_of(measurements)

    # That a changed figure, a row too few and a changed sample would be seen.
    first = min(found, default=("0",) * CELLS)
    if document_rows(text.replace(first[6], first[6].replace("0", "9", 1), 1)) == expected:
        faults.append("not seen: a figure")
    if document_rows("\n".join(line for line in text.splitlines() if first[6] not in line)) == expected:
        faults.append("not seen: a row too few")
    measurements["results"][0]["report"]["results"][0]["outOfPlace"]["samples"][0]["zipcclUs"] *= 3
    measurements["results"][0]["report"]["results"][0]["outOfPlace"]["samples"][1]["zipcclUs"] *= 3
    if len(list(faults_of(measurements))) != 1:
        faults.append("not seen: a changed sample")

    print("\n".join([*faults, f"{len(expected)} rows, {len(faults)} faults"]))
    return 1 if faults or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
