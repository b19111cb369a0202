#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program as ranks of an MPI job on emulated hosts (bench/network.py), one on each:
#
#   bench/network_run.py --build BUILD [--hosts 4] [--gigabits 1] PROGRAM [ARGUMENT...]
#
# Needs root and an MPI of OpenMPI. Status: the job's, or 2 when something is missing that it needs.

import argparse
import pathlib
import subprocess
import sys

import network


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--gigabits", type=float, default=1)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        network.enter()
    except network.Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    hosts = network.Network(options.hosts)
    hosts.shape(options.gigabits)
    line = hosts.mpirun([options.program, *options.arguments], options.hosts, [("ZIPCCL_PLUGIN_DIR", options.build / "lib")])
    return subprocess.run(line, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
