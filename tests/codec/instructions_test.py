#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Counts the instructions that the codec takes a value, by callgrind, and fails where they are more than 3 % above
# docs/measurements/host_codec_instructions.json: `instructions_test.py PROGRAM COMPILER BUILD_TYPE`. Skips (status 77)
# without valgrind and for another compiler than that of the figures. valgrind knows no AVX-512, so that
# implementation is not counted. With --write the figures are written anew.
#
# And holds the table of docs/performance.md against the same file.

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs/measurements/host_codec_instructions.json"
DOCUMENT = ROOT / "docs/performance.md"
MOST_GROWTH = 0.03
SKIPPED = 77


def count(program):
    """Instructions a value, by (codec, data, operation)."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                "--toggle-collect=countedCall",
                "--dump-after=countedCall",
                f"--callgrind-out-file={folder}/counted",
                program,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise SystemExit(f"{program} failed:\n{run.stdout}{run.stderr}")
        calls = [json.loads(line) for line in run.stdout.splitlines()]
        counts = {}
        for number, call in enumerate(calls, 1):
            text = pathlib.Path(f"{folder}/counted.{number}").read_text(errors="replace")
            total = int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE).group(1))
            counts[(call["codec"], call["data"], call["operation"])] = total / call["values"]
    return counts


def grown(counts, figures):
    """Where more instructions are taken than allowed, and what is not in the figures."""
    for key, now in sorted(counts.items()):
        figure = figures.get(key)
        if figure is None:
            yield f"{' '.join(key)}: no figure"
        elif now > figure * (1 + MOST_GROWTH):
            yield f"{' '.join(key)}: {now:.3f} instructions a value, {now / figure - 1:+.1%} over {figure:.3f}"


def told_rows(figures):
    """The rows of the document's table."""
    rows = set()
    for codec, data, _ in figures:
        told = [f"{figures[(codec, data, operation)]:.2f}" for operation in ("encode", "decode", "reduce")]
        rows.add((codec, data, *told))
    return rows


def document_rows(text):
    section = re.search(r"^## Instructions a value\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = set()
    for line in section.group(1).splitlines() if section else []:
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if len(cells) == 5 and re.fullmatch(r"\d+\.\d\d", cells[2]):
            rows.add(cells)
    return rows


def main():
    program, compiler, build_type = [argument for argument in sys.argv[1:] if argument != "--write"]
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        return SKIPPED
    made_by = f"{compiler} {build_type}"
    stored = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if "--write" not in sys.argv and made_by != stored.get("compiler"):
        print(f"skipped: the figures are those of {stored.get('compiler')}, this is {made_by}")
        return SKIPPED

    counts = count(program)
    if "--write" in sys.argv:
        results = [
            {"codec": codec, "data": data, "operation": operation, "instructionsAValue": round(value, 4)}
            for (codec, data, operation), value in counts.items()
        ]
        FIGURES.write_text(json.dumps({"compiler": made_by, "results": results}, indent=1) + "\n")
        stored = json.loads(FIGURES.read_text())
    figures = {
        (result["codec"], result["data"], result["operation"]): result["instructionsAValue"]
        for result in stored["results"]
    }
    faults = list(grown(counts, figures))
    for row in sorted(told_rows(figures) ^ document_rows(DOCUMENT.read_text())):
        faults.append(f"| {' | '.join(row)} |: {'missing in' if row in told_rows(figures) else 'only in'} the document")

    # That growth would be seen.
    key, figure = next(iter(figures.items()))
    if not list(grown({key: figure * 1.04}, figures)) or list(grown({key: figure * 1.02}, figures)):
        faults.append("growth is not seen as it should be")
    for fault in faults:
        print(fault)
    print(f"{len(counts)} counts, {len(faults)} faults")
    return 1 if faults or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
