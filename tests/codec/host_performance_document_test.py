#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the results of the host codec in docs/performance.md against the measurements from which they were
# written: every row is what the JSON file gives, and nothing that was measured is left out.

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/performance.md"
MEASUREMENTS = ROOT / "docs/measurements/host_codec_xeon.json"
DATATYPES = {"bfloat16": "bf16", "half": "fp16", "float": "fp32"}


def told(result, name):
    speed = result[name]["speedToMemcpy"]
    return f"{speed['median']:.3f} ({speed['least']:.3f} to {speed['most']:.3f})"


def expected_rows(measurements):
    rows = set()
    for run in measurements["runs"]:
        for result in run["report"]["results"]:
            data = f"{DATATYPES[result['datatype']]} {result['layout']} `{result['data']}`"
            rows.add((run["hostCodec"], data, told(result, "encode"), told(result, "decode")))
    return rows


def document_rows(text):
    rows = set()
    for line in text.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if len(cells) == 4 and " to " in cells[2]:
            rows.add(cells)
    return rows


def main():
    text = DOCUMENT.read_text()
    measurements = json.loads(MEASUREMENTS.read_text())
    expected = expected_rows(measurements)
    failed = sorted(expected ^ document_rows(text))
    for row in failed:
        print(f"{row}: {'missing' if row in expected else 'not measured'}")
    for run in measurements["runs"]:
        if not run["report"]["isRight"]:
            failed.append("isRight")
            print(f"{run['hostCodec']}: bits came back wrong")

    # That a changed figure and a row too few would be seen.
    first = min(document_rows(text))
    changed = text.replace(first[2], first[2].replace("0", "9", 1), 1)
    fewer = "\n".join(line for line in text.splitlines() if first[2] not in line)
    for name, planted in {"a figure": changed, "a row too few": fewer}.items():
        if document_rows(planted) == expected:
            failed.append(name)
            print(f"not seen: {name}")

    print(f"{len(expected)} rows, {len(failed)} faults")
    return 1 if failed or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
