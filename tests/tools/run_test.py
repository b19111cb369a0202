#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# `zipccl run` and `zipccl doctor`: what they start, with which variables, what they say and how they end.

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--zipccl", type=pathlib.Path, required=True)
parser.add_argument("--fake-nccl", type=pathlib.Path, required=True)
parser.add_argument("--dynamic-runtime", action="store_true", help="the launcher could not have the C++ library inside")
ARGUMENTS, REST = parser.parse_known_args()

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("ZIPCCL_", "LD_"))}

# A communicator through the hooks, NCCL being loaded for this script alone.
USES_NCCL = f"""
import ctypes, os
nccl = ctypes.CDLL("{ARGUMENTS.fake_nccl}", os.RTLD_LOCAL | os.RTLD_NOW)
class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]
unique, comm = UniqueId(), ctypes.c_void_p()
assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
hooks = ctypes.CDLL(None)
hooks.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
assert hooks.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0
assert hooks.ncclCommDestroy(comm) == 0
"""


def zipccl(*arguments, **environment):
    return subprocess.run(
        [str(ARGUMENTS.zipccl), *map(str, arguments)],
        env={**CLEAN, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class RunTest(unittest.TestCase):
    def test_takes_the_place_of_the_process(self):
        done = zipccl("run", "--", "sh", "-c", "echo out; echo error >&2; exit 7")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "out\n", "error\n"))

    def test_passes_arguments_as_they_are(self):
        words = ["-x", "--nccl", "a b", "", "--", "--replace-nccl", "-h"]
        script = "import json, sys; print(json.dumps(sys.argv[1:]))"
        done = zipccl("run", "--", sys.executable, "-c", script, *words)
        self.assertEqual(json.loads(done.stdout), words, done.stderr)

    def test_preloads(self):
        show = ["sh", "-c", "echo $LD_PRELOAD; echo $ZIPCCL_NCCL_LIB"]
        preloaded, nccl = zipccl("run", "--", *show).stdout.splitlines()
        self.assertTrue(preloaded.endswith("/libzipccl_preload.so"), preloaded)
        self.assertTrue(pathlib.Path(preloaded).is_file())
        self.assertEqual(nccl, "")
        # A library that is there and does no harm.
        preloaded, nccl = zipccl("run", "--replace-nccl", "--nccl", "/x", "--", *show).stdout.splitlines()
        self.assertTrue(preloaded.endswith("/zipccl/libnccl.so.2"), preloaded)
        self.assertEqual(nccl, "/x")
        done = zipccl("run", "--", *show, LD_PRELOAD=preloaded)
        self.assertRegex(done.stdout.splitlines()[0], rf"^.*/libzipccl_preload\.so:{preloaded}$")

    def test_is_the_same_however_it_is_written(self):
        show = ["sh", "-c", "echo $LD_PRELOAD; echo $ZIPCCL_NCCL_LIB"]
        usual = zipccl("run", "--replace-nccl", "--nccl", "/x", "--", *show).stdout
        self.assertEqual(usual.splitlines()[1], "/x")
        # What the small program leaves to the command.
        for words in (["--nccl=/x", "--replace-nccl"], ["--replace-nccl", "--replace-nccl", "--nccl", "/x"]):
            done = zipccl("run", *words, "--", *show)
            self.assertEqual((done.returncode, done.stdout), (0, usual), done.stderr)

    def test_needs_the_whole_of_an_installation(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder, "bin", "zipccl")
            alone.parent.mkdir()
            shutil.copy2(ARGUMENTS.zipccl, alone)
            for arguments, missing in ((["run", "--", "true"], "libzipccl_preload.so"), (["--version"], "zipccl/zipccl")):
                done = subprocess.run([alone, *arguments], env=CLEAN, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertRegex(done.stderr, rf"^zipccl: {folder}/.*{missing}: (there is no such file|No such file)")
                self.assertRegex(done.stderr, "must be whole")

    def test_says_why_it_cannot(self):
        done = zipccl("run", "--", "/nowhere/program")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("/nowhere/program: No such file", done.stderr)
        for arguments in (["run"], ["run", "--"], ["run", "true"], ["run", "--nonsense", "--", "true"]):
            done = zipccl(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertNotEqual(done.stderr, "")

    def test_children_map_no_cuda(self):
        maps = zipccl("run", "--", "sh", "-c", "cat /proc/self/maps").stdout
        self.assertIn("libzipccl_preload.so", maps)
        for part in ("libcuda", "libcudart", "libzipccl.so", "libnccl"):
            self.assertNotIn(part, maps)

    def test_adds_few_milliseconds(self):
        def processor_time(command):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, env=CLEAN, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        # The time of the processor, and the least of many: other programs on this machine do not count.
        plain = ["sh", "-c", "true"]
        turns = [(processor_time(plain), processor_time([str(ARGUMENTS.zipccl), "run", "--", *plain])) for _ in range(60)]
        added = 1000 * (min(run for _, run in turns) - min(alone for alone, _ in turns))
        print(f"zipccl run adds {added:.2f} ms", file=sys.stderr)
        # One on an idle machine (docs/dropin.md).
        self.assertLess(added, 3.0)

    def test_needs_no_library_of_ours(self):
        """Loading which would take twice as long as all that it does."""
        needed = subprocess.run(["ldd", ARGUMENTS.zipccl], capture_output=True, text=True, check=True).stdout
        self.assertRegex(needed, r"libc\.so")
        self.assertNotIn("zipccl.so", needed)
        if not ARGUMENTS.dynamic_runtime:
            self.assertNotIn("stdc++", needed)


class DoctorTest(unittest.TestCase):
    def test_tells_of_this_machine(self):
        done = zipccl("doctor", ZIPCCL_STRATEGY="native")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^\* ZIPCCL_STRATEGY +native$")
        self.assertRegex(done.stdout, r"(?m)^  ZIPCCL_MAX_SCRATCH +256M$")
        self.assertRegex(done.stdout, r"transformed: .*AllGather")
        self.assertRegex(done.stdout, r"untouched: .*GetVersion")
        for part in ("interposer", "engine", "replacement"):
            self.assertIn(part, done.stdout)

    def test_tells_of_a_program(self):
        done = zipccl("doctor", "--", "sh", "-c", f"'{sys.executable}' -c '{USES_NCCL}'; exit 5")
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        self.assertIn("It ended with status 5", done.stdout)
        self.assertRegex(done.stdout, rf"process \d+ .*python.*: NCCL 2\.32\.3 \({ARGUMENTS.fake_nccl}, loaded\)")
        self.assertRegex(done.stdout, r"\d+ processes without NCCL")

    def test_tells_why_nothing_is_intercepted(self):
        direct = USES_NCCL.replace("ctypes.CDLL(None)", "nccl")
        done = zipccl("doctor", "--", sys.executable, "-c", direct)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--replace-nccl reaches those", done.stdout)
        done = zipccl("doctor", "--", sys.executable, "-c", USES_NCCL, ZIPCCL_DISABLE="1")
        self.assertIn("everything passes: ZIPCCL_DISABLE=1", done.stdout)

    def test_leaves_no_file(self):
        folder = pathlib.Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
        try:
            self.assertEqual(zipccl("doctor", "--", "true", TMPDIR=str(folder)).returncode, 0)
            self.assertEqual(list(folder.iterdir()), [])
        finally:
            folder.rmdir()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
