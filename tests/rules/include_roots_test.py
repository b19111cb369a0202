#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the build against the tables of floors and public headers: takes the include paths that CMake gives each
# floor's target and the tools, plants an include of a header of each floor, and has the compiler accept what the
# tables allow and reject, as a file that does not exist, what they do not. Called with the file that CMake
# generated.

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tree_rules

BUILD = json.loads(pathlib.Path(sys.argv.pop()).read_text())
TREE = tree_rules.Tree(BUILD["source"])
LEFT_OUT = () if BUILD["cuda"] else ("gpu",)
ALLOWED = tree_rules.read_floors(TREE, LEFT_OUT)
TARGETS = BUILD["floors"]
FOREIGN = tempfile.TemporaryDirectory()
pathlib.Path(FOREIGN.name, "mpi.h").touch()


def headers(folder):
    return [path for path in TREE.paths if path.startswith(folder) and path.endswith((".hpp", ".h"))]


def preprocess(floor, include):
    """Whether a source of `floor` finds the header, and what the compiler said."""
    roots = [root for root in (BUILD["tools"] if floor == "tools" else TARGETS[floor]) if root]
    # One public header is for programs that have an MPI, which no floor needs.
    roots.append(FOREIGN.name)
    done = subprocess.run(
        [BUILD["compiler"], "-std=c++20", "-E", "-o", "/dev/null", *(f"-I{root}" for root in roots)]
        + ["-x", "c++", "-"],
        input=f"#include <cstddef>\n#include {include}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stderr


class IncludeRootsTest(unittest.TestCase):
    def judge(self, floor, include, name, allowed):
        found, said = preprocess(floor, include)
        if allowed:
            self.assertTrue(found, f"{floor} may include {name}, but: {said}")
        else:
            self.assertFalse(found, f"{floor} must not see {name}, but the compiler finds it")
            first = next(line for line in said.splitlines() if "error" in line)
            self.assertRegex(first, rf"{name}.*(No such file|file not found)")

    def test_build_and_table_name_the_same_floors(self):
        self.assertEqual(set(TARGETS), set(ALLOWED))

    def test_every_pair_of_floors(self):
        pairs = 0
        for floor in TARGETS:
            for other in TARGETS:
                for header in headers(f"src/{other}/")[:1]:
                    name = header.removeprefix("src/")
                    with self.subTest(floor=floor, header=name):
                        self.judge(floor, f'"{name}"', name, other in ALLOWED[floor])
                        pairs += 1
        self.assertGreaterEqual(pairs, 2 * len(TARGETS), "too few headers to try the floors with")

    def test_every_public_header(self):
        owners = BUILD["publicHeaders"]
        present = {pathlib.PurePosixPath(path).name for path in headers("include/zipccl/")}
        listed = tree_rules.read_public_headers(TREE)
        self.assertEqual(set(listed) - {"version.h"}, present)
        built = {header: floor for header, floor in listed.items() if floor not in LEFT_OUT}
        self.assertEqual(owners, built, "the build and docs/architecture.md")
        for header, owner in owners.items():
            for floor in TARGETS:
                with self.subTest(floor=floor, header=header):
                    name = f"zipccl/{header}"
                    self.judge(floor, f"<{name}>", name, owner in ALLOWED[floor])

    def test_tools_see_public_headers_only(self):
        if not BUILD["tools"]:
            self.skipTest("built without tools")
        for floor in TARGETS:
            for header in headers(f"src/{floor}/")[:1]:
                name = header.removeprefix("src/")
                with self.subTest(header=name):
                    self.judge("tools", f'"{name}"', name, False)
        allowed = tree_rules.read_tool_floors(TREE, LEFT_OUT)
        for header, owner in BUILD["publicHeaders"].items():
            with self.subTest(header=header):
                self.judge("tools", f"<zipccl/{header}>", f"zipccl/{header}", owner in allowed)


if __name__ == "__main__":
    unittest.main()
