#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Rules that hold for every file of the tree. Each rule is a function from a Tree to the faults it found;
# run as a program, one rule (or all) is applied to one tree, and the exit status is 1 when there is a fault.
# tree_rules_test.py plants a fault of each kind and sees it caught.

import argparse
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys

CODE_SUFFIXES = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp"}
SOURCE_SUFFIXES = CODE_SUFFIXES | {".cmake", ".in", ".map", ".py", ".sh"}
SETTINGS_NAMES = {".clang-format", ".clang-tidy"}
SOURCE_NAMES = SETTINGS_NAMES | {"CMakeLists.txt"}
BUILD_FOLDERS = {"build", ".cache", ".git", "__pycache__"}


@dataclasses.dataclass(frozen=True, order=True)
class Fault:
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Tree:
    """The files of a checkout: what git tracks or would track, or without git all but build folders."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.paths = sorted(self._list())

    def _list(self):
        # A folder inside some other checkout is not what that checkout tracks.
        if shutil.which("git") and (self.root / ".git").exists():
            listed = subprocess.run(
                ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                capture_output=True,
                check=False,
            )
            if listed.returncode == 0:
                names = [name for name in listed.stdout.decode().split("\0") if name]
                return [name for name in names if (self.root / name).is_file()]
        return [
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if path.is_file() and not BUILD_FOLDERS.intersection(path.relative_to(self.root).parts)
        ]

    def bytes(self, path):
        return (self.root / path).read_bytes()

    def lines(self, path):
        return self.bytes(path).decode("utf-8", errors="replace").splitlines()

    def is_binary(self, path):
        # What a fuzzer made is bytes, whatever they look like.
        return path.startswith("tests/fuzz/corpus/") or b"\0" in self.bytes(path)[:65536]

    def is_source(self, path):
        name = pathlib.PurePosixPath(path)
        if name.suffix in SOURCE_SUFFIXES or name.name in SOURCE_NAMES:
            return True
        return self.bytes(path).startswith(b"#!")

    def code(self, *folders):
        """The C, C++ and CUDA files below the given folders."""
        for path in self.paths:
            name = pathlib.PurePosixPath(path)
            if name.suffix in CODE_SUFFIXES and name.parts[0] in folders:
                yield path


def check_spdx(tree):
    """Each source file starts with the licence, then one paragraph that says what the file is."""
    for path in tree.paths:
        if not tree.is_source(path):
            continue
        lines = tree.lines(path)
        start = 1 if lines and lines[0].startswith("#!") else 0
        head = [line.strip() for line in lines[start : start + 3]] + [""] * 3
        if not re.fullmatch(r"(//|#|/\*|<!--) SPDX-License-Identifier: Apache-2\.0( -->)?", head[0]):
            yield Fault(path, start + 1, "no SPDX-License-Identifier: Apache-2.0 here")
            continue
        if pathlib.PurePosixPath(path).name in SETTINGS_NAMES:
            continue
        if head[1] not in ("//", "#", "*") or not re.match(r"(//|#|\*) \S", head[2]):
            yield Fault(path, start + 2, "no paragraph that says what the file is")


def check_ascii(tree):
    """Text is ASCII."""
    for path in tree.paths:
        if tree.is_binary(path):
            continue
        for number, line in enumerate(tree.bytes(path).split(b"\n"), 1):
            bad = next((byte for byte in line if byte > 126), None)
            if bad is not None:
                yield Fault(path, number, f"byte 0x{bad:02x} is not ASCII")


FLOOR_ROW = re.compile(r"\|\s*(?P<number>\d)\s*\|(?P<folders>[^|]*)\|[^|]*\|(?P<uses>[^|]*)\|")


def read_floors(tree, left_out=()):
    """What each floor of src/ may include, itself and what its uses use among it, from docs/architecture.md.

    left_out: floors that a build does not have, and through which nothing is reached then.
    """
    table = "docs/architecture.md"
    direct = {}
    number = {}
    for line in tree.lines(table):
        row = FLOOR_ROW.match(line)
        for folder in re.findall(r"`src/(\w+)/`", row.group("folders")) if row else []:
            uses = [word.strip("` ") for word in row.group("uses").split(",")]
            direct[folder] = {use for use in uses if use not in ("", "-")}
            number[folder] = int(row.group("number"))
    if not direct:
        raise ValueError(f"{table} has no table of floors")
    for floor, uses in direct.items():
        for use in uses:
            if use not in direct:
                raise ValueError(f"{table}: {floor} uses {use}, which is no floor")
            if number[use] >= number[floor]:
                raise ValueError(f"{table}: {floor} (floor {number[floor]}) uses {use} ({number[use]})")

    def closure(floor):
        return {floor}.union(*(closure(use) for use in direct[floor] if use not in left_out))

    return {floor: closure(floor) for floor in direct if floor not in left_out}


HEADER_ROW = re.compile(r"\|\s*`zipccl/(?P<header>[\w.]+)`\s*\|\s*(?P<floor>\w+)\s*\|")


def read_public_headers(tree):
    """The floor of each header of include/zipccl/, from docs/architecture.md."""
    rows = [HEADER_ROW.match(line) for line in tree.lines("docs/architecture.md")]
    return {row.group("header"): row.group("floor") for row in rows if row}


def read_tool_floors(tree, left_out=()):
    """The floors whose public headers tools/ may include, those that these use among them."""
    floors = read_floors(tree, left_out)
    for line in tree.lines("docs/architecture.md"):
        row = FLOOR_ROW.match(line)
        if row and "`tools/`" in row.group("folders"):
            named = re.search(r"public headers of (.*)", row.group("uses"))
            if not named:
                break
            wanted = [word.strip() for word in named.group(1).split(",")]
            unknown = [floor for floor in wanted if floor not in floors and floor not in left_out]
            if unknown:
                raise ValueError(f"docs/architecture.md: tools/ uses {unknown[0]}, which is no floor")
            return set().union(*(floors[floor] for floor in wanted if floor in floors))
    raise ValueError("docs/architecture.md does not say whose public headers tools/ may use")


def read_preload_floors(tree, floors):
    """The floors whose headers preload/ may include, with all that these use: those that its row names."""
    for line in tree.lines("docs/architecture.md"):
        row = FLOOR_ROW.match(line)
        if row and "`preload/`" in row.group("folders"):
            words = [word.strip("` ") for word in re.split("[;,]", row.group("uses"))]
            return set().union(*(floors[word] for word in words if word in floors))
    return set()


INCLUDE = re.compile(r"\s*#\s*include\b\s*(.*)")


def check_floors(tree):
    """No file includes a floor above its own; tools, examples and public headers see no floor; no ../ anywhere.

    Tools include public headers of the floors that the table names, and no others; the interposer includes the
    floors that the table names and of public headers the engine's table. Tests and benchmarks include what they like.
    """
    floors = read_floors(tree)
    owners = read_public_headers(tree)
    tool_floors = read_tool_floors(tree)
    preload_floors = read_preload_floors(tree, floors)
    for path in tree.code("src", "include", "tools", "preload", "tests", "bench", "examples"):
        parts = pathlib.PurePosixPath(path).parts
        if parts[0] == "src" and parts[1] not in floors:
            yield Fault(path, 1, f"src/{parts[1]} is not in the table of floors")
            continue
        allowed = floors[parts[1]] if parts[0] == "src" else preload_floors if parts[0] == "preload" else set()
        for number, line in enumerate(tree.lines(path), 1):
            include = INCLUDE.match(line)
            if not include:
                continue
            name = re.match(r'["<]([^">]+)[">]', include.group(1))
            if not name:
                yield Fault(path, number, "includes what a macro names, which no check can follow")
                continue
            target = pathlib.PurePosixPath(name.group(1)).parts
            if ".." in target or "src" in target:
                yield Fault(path, number, f"{name.group(1)}: include by floor, as in codec/layout.hpp")
            elif parts[0] not in ("tests", "bench") and target[0] in floors and target[0] not in allowed:
                yield Fault(path, number, f"{name.group(1)} is not below {'/'.join(parts[:2])}")
            elif parts[0] == "tools" and target[0] == "zipccl" and owners.get(target[-1]) not in tool_floors:
                yield Fault(path, number, f"{name.group(1)} is not among the public headers that tools may use")
            elif parts[0] == "preload" and target[0] == "zipccl" and name.group(1) != "zipccl/nccl_engine.h":
                yield Fault(path, number, f"{name.group(1)}: the interposer may use zipccl/nccl_engine.h alone")


COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
LOUD = re.compile(
    r"(?<![\w.>:])(?:(?:::|std::)\s*)?"
    r"(?P<name>printf|vprintf|puts|putchar|abort|exit|_exit|_Exit|quick_exit|terminate)\s*\("
    r"|\b(?P<stream>stdout|STDOUT_FILENO|cout|wcout)\b"
)


def check_quiet(tree):
    """Libraries write nothing to stdout and never end the program."""
    for path in tree.code("src", "include", "preload"):
        text = tree.bytes(path).decode("utf-8", errors="replace")
        blank = COMMENT_OR_STRING.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)
        for found in LOUD.finditer(blank):
            # After a type's name stands a declaration: a member may be called abort.
            before = re.search(r"(\w+)\s*$", blank[max(0, found.start() - 40) : found.start()])
            if found.group("name") and before and before.group(1) not in ("return", "else", "do"):
                continue
            line = blank.count("\n", 0, found.start()) + 1
            yield Fault(path, line, f"{found.group('name') or found.group('stream')} in a library")


def check_paths(tree):
    """What a document names in backticks or links to as a file of this repository exists."""
    present = set(tree.paths)
    for path in tree.paths:
        present.update(parent.as_posix() for parent in pathlib.PurePosixPath(path).parents)
    tops = {path.split("/")[0] for path in tree.paths}
    for path in tree.paths:
        if not path.endswith(".md"):
            continue
        fenced = False
        for number, line in enumerate(tree.lines(path), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
                continue
            if fenced:
                continue
            for quoted in re.findall(r"`([^`]+)`", line):
                name = quoted.split("#")[0].rstrip("/")
                first = name.split("/")[0]
                plain = re.fullmatch(r"[\w.+/-]+", name) is not None
                if plain and (("/" in name and first in tops) or re.fullmatch(r"[A-Z]+\.md", name)):
                    if name not in present:
                        yield Fault(path, number, f"`{quoted}` does not exist")
            for link in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:|#", link):
                    continue
                target = (tree.root / path).parent / link.split("#")[0]
                if not target.exists():
                    yield Fault(path, number, f"the link {link} leads nowhere")


RULES = {
    "spdx": check_spdx,
    "ascii": check_ascii,
    "floors": check_floors,
    "quiet": check_quiet,
    "paths": check_paths,
}


def main():
    parser = argparse.ArgumentParser(description="Checks the tree's rules.")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--rule", choices=sorted(RULES), action="append")
    arguments = parser.parse_args()

    tree = Tree(arguments.root)
    if not tree.paths:
        print(f"no files below {arguments.root}")
        return 1
    faults = sorted(fault for rule in arguments.rule or RULES for fault in RULES[rule](tree))
    for fault in faults:
        print(fault)
    print(f"{len(tree.paths)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
