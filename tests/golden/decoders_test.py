#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the library's decoder and the one in Python against each other: on every golden file, on a sample of
# the same kinds from fresh bits, on frames of an encoder that makes other choices than the library's, and on
# mutations of those. Skips nothing: a file that the manifest does not name is a fault too.

"""Run with: python3 decoders_test.py GOLDEN_TOOL. ZIPCCL_TEST_SEED repeats a run."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import test_zipccl_decode as frames
import zipccl_decode

GOLDEN_TOOL = sys.argv.pop() if len(sys.argv) > 1 else ""
HERE = pathlib.Path(__file__).parent
MUTATIONS = 400

# What a decoder may say of the content: with several faults, any of them (docs/format.md section 9).
CONTENT_STATUSES = {"kBadDescriptor", "kBadGroupOffset", "kBadEscapeCount"}


def golden_tool(*arguments):
    command = [GOLDEN_TOOL, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.rng = frames.freshRandom(self)


class Manifest(Folder):
    """The Python decoder on files that the library wrote."""

    def decode_by_command(self, frame):
        """(status, elements or None) by the command line that a person would use."""
        out = self.folder / "out"
        out.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-B", str(HERE / "zipccl_decode.py"), str(frame), str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.stderr, "")
        status = done.stdout.split("\n", maxsplit=1)[0]
        self.assertEqual(done.returncode, 0 if status == "kOk" else 1)
        self.assertEqual(out.exists(), status == "kOk")
        return status, out.read_bytes() if status == "kOk" else None

    def check(self, folder, decode):
        manifest = json.loads((folder / "manifest.json").read_text())
        named = set()
        for entry in manifest["frames"]:
            with self.subTest(entry["frame"]):
                status, elements = decode(folder / entry["frame"])
                self.assertEqual(status, "kOk")
                self.assertTrue(elements == (folder / entry["elements"]).read_bytes())
            named |= {entry["frame"], entry["elements"]}
        for entry in manifest["faults"]:
            with self.subTest(entry["frame"]):
                self.assertEqual(decode(folder / entry["frame"]), (entry["status"], None))
            named.add(entry["frame"])
        there = {
            path.relative_to(folder).as_posix()
            for part in ("frames", "faults")
            for path in (folder / part).iterdir()
        }
        self.assertEqual(there, named)
        self.assertGreaterEqual(len(manifest["frames"]), 15)
        self.assertGreaterEqual(len(manifest["faults"]), 60)

    def test_golden_files(self):
        self.check(HERE, self.decode_by_command)

    def test_fresh_sample(self):
        seed = self.rng.getrandbits(63)
        golden_tool("--sample", self.folder, "--seed", seed)
        self.check(self.folder, lambda path: zipccl_decode.decode(path.read_bytes())[:2])


class OtherEncoder(Folder):
    """The library's decoder on frames whose encoder chose windows, places and ignored bytes freely."""

    def library_decodes(self, strings):
        """[(status, elements or None)] of the library for a list of byte strings."""
        for index, string in enumerate(strings):
            (self.folder / f"{index}.zccl").write_bytes(string)
        lines = golden_tool("--decode-all", self.folder).split("\n")
        statuses = dict(line.split(" ") for line in lines if line)
        results = []
        for index in range(len(strings)):
            status = statuses[f"{index}.zccl"]
            decoded = self.folder / f"{index}.decoded"
            results.append((status, decoded.read_bytes() if status == "kOk" else None))
        return results

    def random_frames(self, count):
        made = []
        for index in range(count):
            datatype, layout = frames.SHAPES[index % len(frames.SHAPES)]
            kinds = [self.rng.randrange(4) for _ in range(self.rng.choice((0, 1, 2, 3, 9)))]
            made.append(frames.randomFrame(self.rng, datatype, layout, kinds))
        return made

    def test_frames(self):
        made = self.random_frames(45)
        for frame, result in zip(made, self.library_decodes([frame.bytes for frame in made])):
            self.assertEqual(result[0], "kOk")
            self.assertTrue(result[1] == frame.payload, "other elements")

    def mutated(self, frame):
        """Two places in three are in the header, the descriptors or the group offsets."""
        copy = bytearray(frame.bytes)
        for _ in range(self.rng.randrange(1, 3)):
            limit = len(copy) if self.rng.randrange(3) == 0 else min(frame.tilesAt, len(copy))
            at = self.rng.randrange(limit)
            copy[at] = self.rng.choice((copy[at] ^ 1 << self.rng.randrange(8), 0, 255,
                                        self.rng.randrange(256)))
        return bytes(copy)

    def test_mutations(self):
        bases = [frame for frame in self.random_frames(30) if len(frame.bytes) < 12000]
        strings = [self.mutated(self.rng.choice(bases)) for _ in range(MUTATIONS)]
        reached = set()
        for string, (status, elements) in zip(strings, self.library_decodes(strings)):
            expected, payload, _ = zipccl_decode.decode(string)
            reached.add(expected)
            if expected in CONTENT_STATUSES:
                self.assertIn(status, CONTENT_STATUSES)
            else:
                self.assertEqual(status, expected)
            self.assertTrue(elements == payload, "other elements")
        self.assertGreaterEqual(len(reached), 8, reached)


if __name__ == "__main__":
    frames.setUpModule()
    unittest.main()
