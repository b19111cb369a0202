#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs `zipccl perf all_gather --transport mpi` under mpiexec: one rank speaks, all end alike.

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SMALL = ["perf", "all_gather", "--transport", "mpi", "-b", "24K", "-e", "96K", "-f", "4", "-n", "3", "-w", "1"]


def run(processes, *words, program=None, fault=None, env=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZIPCCL_")}
    # As root and with more processes than cores, which OpenMPI wants to be told.
    environment.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_mpi_yield_when_idle="1",
        OMPI_MCA_btl_vader_single_copy_mechanism="none",
    )
    if fault:
        environment["ZIPCCL_TEST_FAULT"] = fault
    environment.update(env or {})
    return subprocess.run(
        [ARGUMENTS.mpiexec, "-n", str(processes), program or ARGUMENTS.zipccl, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


class PerfMpiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_one_rank_speaks(self):
        path = self.folder / "out.json"
        ended = run(4, *SMALL, "-J", str(path))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        table = rows(ended.stdout)
        self.assertEqual([row[0] for row in table], ["24576", "98304"])
        for row in table:
            self.assertEqual((row[11], row[17]), ("0", "0"))
            self.assertEqual(row[21], "staged")
            self.assertGreater(float(row[19]), 1.2)
        self.assertEqual(ended.stdout.count("4 ranks"), 1)
        self.assertIn("MPI processes on 1 host", ended.stdout)
        report = json.loads(path.read_text(encoding="ascii"))
        self.assertEqual((report["ranks"], report["transport"]["hosts"]), (4, 1))

    def test_mpis_own_collective_stands_beside(self):
        path = self.folder / "out.json"
        cases = [
            ("all_gather",),
            ("all_reduce",),
            ("all_reduce", "--op", "avg", "--data", "widened:0.02"),
            ("alltoall",),
            ("alltoall", "--splits", "zipf:1.5"),
            ("broadcast", "--root", "1"),
            ("gather", "--root", "2"),
            ("reduce_scatter", "--op", "mulsum"),
            ("scatter", "--root", "2"),
            ("sendrecv",),
        ]
        for words in cases:
            with self.subTest(words):
                ended = run(3, "perf", *words, *SMALL[2:4], "-b", "24K", "-e", "24K", "-n", "2", "-J", str(path))
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                self.assertIn("# MPI's own collective beside it: ", ended.stdout)
                report = json.loads(path.read_text(encoding="ascii"))
                self.assertTrue(report["transport"]["plainMpi"])
                for row, result in zip(rows(ended.stdout), report["results"]):
                    self.assertEqual(len(row), 28)
                    own = result["outOfPlace"]["plainMpi"]
                    self.assertEqual(own["wrongElements"], 0)
                    self.assertGreater(own["timeUs"]["least"], 0)
                    self.assertEqual(f"{own['speedup']['median']:.2f}", row[27])
                    error = result["errorAgainstFp64"]
                    self.assertEqual(error is not None, words[0] in ("all_reduce", "reduce_scatter"))
                    if error:
                        # MPI rounds bf16 at each step and the library each addend: none is far off.
                        self.assertLess(error["plainMpi"], 0.02)

    def test_what_mpi_has_not_is_left_out(self):
        ended = run(2, "perf", "all_reduce", "-d", "half", *SMALL[2:])
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("# MPI's own collective is not measured: MPI has no sum of this datatype", ended.stdout)
        self.assertEqual(len(rows(ended.stdout)[0]), 23)

    def test_a_link_is_not_emulated_for_mpi(self):
        ended = run(2, *SMALL, "--link", "1Gbit")
        self.assertEqual(ended.returncode, 2, ended.stdout + ended.stderr)
        self.assertEqual(ended.stderr.count("--link emulates links of --transport local only"), 1, ended.stderr)

    def test_a_wrong_bit_on_any_rank_ends_with_one(self):
        for rank in range(3):
            ended = run(3, *SMALL, program=ARGUMENTS.faulty, fault=f"flip:{rank}:1")
            self.assertEqual(ended.returncode, 1, ended.stderr)
            self.assertEqual(rows(ended.stdout)[-1][11], "1")

    def test_a_failing_call_ends_with_three(self):
        ended = run(3, *SMALL, program=ARGUMENTS.faulty, fault="error:1:1")
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("zipccl: zipcclAllGather: ", ended.stderr)
        self.assertIn("sendbuff", ended.stderr)

    def test_what_ranks_cannot_do_is_said_once(self):
        for words, status, message in (
            (["-b", "1Q"], 2, "is not a size"),
            (["--ranks", "5"], 2, "--ranks is 5, but mpirun started 3 processes"),
            (["--data", "file:missing"], 2, "there is no file 'missing'"),
            (["-J", str(self.folder / "missing" / "out.json")], 3, "--json: cannot write"),
            (["-b", "1024T"], 3, "GiB of memory"),
        ):
            ended = run(3, *SMALL, *words) if words[0] != "-b" else run(3, *SMALL[:4], *words)
            self.assertEqual(ended.returncode, status, ended.stderr)
            self.assertEqual(ended.stderr.count(message), 1, ended.stderr)
            self.assertEqual(rows(ended.stdout), [])

    def test_different_arguments_are_noticed(self):
        ended = run(1, *SMALL, ":", "-n", "1", ARGUMENTS.zipccl, *SMALL, "-c", "2")
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertIn("rank 1 was started with other arguments", ended.stderr)

    def test_one_process_without_mpiexec(self):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        ended = subprocess.run(
            [ARGUMENTS.zipccl, *SMALL],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("1 rank,", ended.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--zipccl", required=True)
    parser.add_argument("--faulty", required=True)
    parser.add_argument("--mpiexec", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
