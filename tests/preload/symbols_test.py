#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the list of NCCL's functions against what is built from it, against nccl.h and against NCCL libraries, where
# there are any on this machine; and the interposers to libc as their only dependency.

import argparse
import os
import pathlib
import re
import subprocess
import sys
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--list", type=pathlib.Path, required=True)
parser.add_argument("--preload", type=pathlib.Path, required=True)
parser.add_argument("--nccl", type=pathlib.Path, required=True)
parser.add_argument("--sanitized", action="store_true")
ARGUMENTS, REST = parser.parse_known_args()

LINE = re.compile(r"(nccl\w+) +(hook|pass) +(twin|-) +2\.(\d+) +\S")
HEADERS = ["/usr/include/nccl.h", "/usr/local/include/nccl.h", "/usr/local/cuda/include/nccl.h"]
LIBRARIES = ["/usr/local/cuda/lib/libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
             "/usr/lib/x86_64-linux-gnu/libnccl.so.2"]  # fmt: skip


def read_list(path):
    """name: (action, has a twin, minor version since when)"""
    listed = {}
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        name, action, twin, since = LINE.match(line).groups()
        assert name not in listed, f"{name} is listed twice"
        listed[name] = (action, twin == "twin", int(since))
    return listed


def exports(library):
    lines = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", str(library)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[0].split("@")[0] for line in lines}


def dynamic(library, tag):
    lines = subprocess.run(["readelf", "-dW", str(library)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(rf"\({tag}\).*\[(.*?)\]", lines))


def declared(header):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.DOTALL)
    return set(re.findall(r"^[^#\n]*\b(nccl[A-Z]\w*)\s*\(", text, re.MULTILINE))


def present(*patterns):
    return [path for path in map(pathlib.Path, patterns) if path.exists()]


LISTED = read_list(ARGUMENTS.list)


def all_names():
    return set(LISTED) | {"p" + name for name, (_, has_twin, _) in LISTED.items() if has_twin}


class SymbolsTest(unittest.TestCase):
    def test_preload_exports_the_hooks(self):
        hooks = {name for name, (action, _, _) in LISTED.items() if action == "hook"}
        self.assertGreater(len(hooks), 30)
        self.assertEqual(exports(ARGUMENTS.preload), hooks)

    def test_replacement_exports_everything(self):
        self.assertEqual(exports(ARGUMENTS.nccl), all_names())
        self.assertEqual(dynamic(ARGUMENTS.nccl, "SONAME"), {"libnccl.so.2"})

    def test_both_depend_on_libc_alone(self):
        if ARGUMENTS.sanitized:
            self.skipTest("sanitizers bring libraries of their own")
        for library in (ARGUMENTS.preload, ARGUMENTS.nccl):
            self.assertEqual(dynamic(library, "NEEDED"), {"libc.so.6"}, library)

    def test_every_function_of_the_header_is_listed(self):
        headers = present(*HEADERS, *filter(None, [os.environ.get("ZIPCCL_TEST_NCCL_HEADER")]))
        if not headers:
            self.skipTest("no nccl.h on this machine")
        for header in headers:
            names = declared(header)
            self.assertGreater(len(names), 30, header)
            self.assertEqual(names - set(LISTED), set(), header)

    def test_every_symbol_of_libraries_is_listed(self):
        libraries = present(*LIBRARIES, *filter(None, [os.environ.get("ZIPCCL_TEST_NCCL_LIB")]))
        if not libraries:
            self.skipTest("no libnccl.so.2 on this machine")
        for library in libraries:
            shown = {name for name in exports(library) if re.match("p?nccl", name)}
            self.assertGreater(len(shown), 60, library)
            self.assertEqual(shown - all_names(), set(), library)

    def test_a_name_that_is_missing_would_be_found(self):
        gone = "ncclAllGather"
        action = LISTED.pop(gone)
        try:
            self.assertNotEqual(exports(ARGUMENTS.nccl), all_names())
            for header in present(*HEADERS):
                self.assertIn(gone, declared(header) - set(LISTED))
        finally:
            LISTED[gone] = action


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
