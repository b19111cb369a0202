#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs every test that the table of traps in docs/dropin.md names, and fails if one is not there, was skipped or
# failed; and if a test of the drop-in stands in no row of the table.

import argparse
import os
import pathlib
import re
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--document", type=pathlib.Path, required=True)
parser.add_argument("--program", action="append", required=True, help="a test program, then NAME=value for it")
parser.add_argument("--sequences", required=True, help="the program of random sequences, as --program")
parser.add_argument("--script", action="append", required=True, help="a test in Python, then its arguments")
ARGUMENTS = parser.parse_args()


def read_table(path):
    """The names in the last column of the rows under "Traps"."""
    section = path.read_text().split("\n## Traps\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| trap ")]
    names = []
    for row in rows:
        found = re.findall(r"`([\w.]+)`", row.split("|")[3])
        if not found:
            raise SystemExit(f"{path}: no test in the row {row}")
        names += found
    if len(names) != len(set(names)):
        raise SystemExit(f"{path}: a test is named twice")
    return set(names)


def run(command, environment=()):
    print("+", *command, flush=True)
    settings = dict(entry.split("=", 1) for entry in environment)
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def judge(what, wanted, passed, known):
    faults = [f"{what}: {name} did not pass" for name in sorted(wanted - passed)]
    return faults + [f"{what}: {name} is in no row of the table" for name in sorted(known - wanted)]


def judge_program(program, wanted):
    command, *environment = program.split(",")
    said = run([command, "--gtest_color=no"], environment)
    known = set(re.findall(r"^\[ RUN      \] (\S+)$", said, re.MULTILINE))
    passed = set(re.findall(r"^\[       OK \] (\S+) ", said, re.MULTILINE))
    return said, judge(pathlib.Path(command).name, wanted, passed, known)


def main():
    names = read_table(ARGUMENTS.document)
    sequences = {name for name in names if name.startswith("Sequences.")}
    inside = {name for name in names if "." in name} - sequences
    runs = [judge_program(ARGUMENTS.sequences, sequences)]
    runs += [judge_program(program, inside) for program in ARGUMENTS.program]
    said, known, passed = "", set(), set()
    for script in ARGUMENTS.script:
        answer = run([sys.executable, "-B", *script.split(","), "-v"])
        known |= set(re.findall(r"^(test_\w+) ", answer, re.MULTILINE))
        passed |= set(re.findall(r"^(test_\w+) .*\.\.\. ok$", answer, re.MULTILINE))
        said += answer
    runs.append((said, judge("in Python", {name for name in names if name.startswith("test_")}, passed, known)))
    faults = [fault for _, found in runs for fault in found]
    print(*(said for said, found in runs if found), sep="\n")
    print("\n".join(faults))
    print(f"{len(names)} tests named, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
