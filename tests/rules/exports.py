#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What the built libraries show and use: libzipccl.so exports the functions that its headers declare and no
# other symbol, the plugins the one function by which they are found; no object of the project calls what prints
# to stdout or ends the program.

import argparse
import pathlib
import re
import subprocess
import sys

LOUD = set("abort exit _exit _Exit quick_exit printf vprintf puts putchar stdout _ZSt4cout".split())
LOUD |= {"__printf_chk", "__vprintf_chk", "__assert_fail", "__assert_perror_fail", "__assert"}


def symbols(arguments, path):
    """(name, file) for each symbol that nm lists for a library or object."""
    listed = subprocess.run(
        ["nm", "--format=posix", "--print-file-name", *arguments, str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in listed.splitlines():
        place, name = re.match(r"(.*): (\S+) ", line).groups()
        yield name.split("@")[0], place


def declared_functions(header):
    return set(re.findall(r"ZIPCCL_API\b[^;]*?\b(zipccl\w+)\s*\(", header.read_text()))


def exported_functions(library):
    return {name for name, _ in symbols(["--dynamic", "--defined-only"], library)}


def check_undeclared(library, headers):
    declared = set().union(*(declared_functions(header) for header in headers))
    for name in sorted(exported_functions(library) - declared):
        yield f"{library.name} exports {name}, which {' and '.join(h.name for h in headers)} does not declare"


def check_missing(library, headers):
    for header in headers:
        declared = declared_functions(header)
        if not declared:
            yield f"{header} declares no function"
        for name in sorted(declared - exported_functions(library)):
            yield f"{header.name} declares {name}, which {library.name} does not export"


def check_plugin(plugin, entry):
    exported = exported_functions(plugin)
    if exported != {entry}:
        yield f"{plugin.name} exports {', '.join(sorted(exported)) or 'nothing'}, not {entry} alone"


# nvcc gives each device function a host body that exits, though nothing calls it; what the .cu files
# themselves call, the rules of the tree check.
WRITTEN_BY_NVCC = {"exit"}


def check_quiet(objects):
    for path in objects:
        for name, place in symbols(["--undefined-only"], path):
            if name in LOUD and not (name in WRITTEN_BY_NVCC and ".cu.o" in place):
                yield f"{place} uses {name}"


def main():
    parser = argparse.ArgumentParser(description="Checks the symbols of what was built.")
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--header", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--allow-missing", action="store_true", help="while the C API is being written")
    parser.add_argument("--plugin", type=pathlib.Path, action="append", default=[], help="a transport's plugin")
    parser.add_argument("objects", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()

    faults = [*check_undeclared(arguments.library, arguments.header), *check_quiet(arguments.objects)]
    for plugin in arguments.plugin:
        faults += check_plugin(plugin, "zipcclMpiFunctions")
    if not arguments.allow_missing:
        faults += check_missing(arguments.library, arguments.header)
    print("\n".join(faults))
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
