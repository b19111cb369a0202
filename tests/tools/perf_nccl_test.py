#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs `zipccl perf --transport nccl` on the fake NCCL: ranks as threads, as processes of its own and of mpirun, and
# as torchrun and srun would start them; one rank speaks, all end alike.

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402 (the path first)

SMALL = ["-b", "24K", "-e", "96K", "-f", "4", "-n", "3", "-w", "1"]
COLLECTIVES = {
    "all_gather": True,
    "all_reduce": True,
    "alltoall": False,
    "broadcast": True,
    "gather": True,
    "reduce_scatter": True,
    "scatter": True,
    "sendrecv": False,
}
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "ZIPCCL_", "TORCHELASTIC_")


def environment(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    kept.update(variables)
    return kept


def command(name, *words, nccl=True):
    return [ARGUMENTS.zipccl, "perf", name, "--transport", "nccl", *(["--nccl", ARGUMENTS.fake_nccl] if nccl else []), *words]


def start(words, **variables):
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )


def end(process):
    out, error = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def run(words, **variables):
    return end(start(words, **variables))


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


class PerfNcclTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "out.json"

    def expect_good(self, ended, strategy="staged", in_place=True):
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        table = rows(ended.stdout)
        self.assertEqual([row[0] for row in table], ["24576", "98304"])
        for row in table:
            self.assertEqual((row[11], row[17]), ("0", "0" if in_place else "N/A"), ended.stdout)
            self.assertEqual(row[21], strategy, ended.stdout)
            if strategy == "staged":
                self.assertGreater(float(row[19]), 1.2, ended.stdout)
        return table

    def test_every_collective_on_threads_and_processes(self):
        for name, in_place in COLLECTIVES.items():
            for words in ([], ["--processes"]):
                with self.subTest(name, words=words):
                    ended = run(command(name, *SMALL, *words, "-J", str(self.path)))
                    self.expect_good(ended, in_place=in_place)
                    report = json.loads(self.path.read_text(encoding="ascii"))
                    self.assertEqual((report["collective"], report["wrongElements"]), (name, 0))
                    self.assertEqual((report["ranks"], report["transport"]["name"]), (2, "nccl"))
                    self.assertEqual(report["transport"]["nccl"]["processes"], words != [])
                    self.assertTrue(report["transport"]["nccl"]["file"].endswith("libnccl.so.2"))
                    self.assertIn("processes on 1 host" if words else "threads on 1 host", ended.stdout)

    def test_several_ranks(self):
        for words in ([], ["--processes"]):
            for name, more in (("all_gather", []), ("reduce_scatter", ["--op", "avg"]), ("alltoall", ["--splits", "zipf:1.2"])):
                with self.subTest(name, words=words):
                    ended = run(command(name, *SMALL, "--ranks", "3", *words, *more))
                    self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                    self.assertEqual([row[11] for row in rows(ended.stdout)], ["0", "0"])
                    self.assertIn("3 ranks", ended.stdout)

    def test_what_native_sends_is_known(self):
        ended = run(command("all_reduce", *SMALL, "--ranks", "4", "--strategy", "native", "-J", str(self.path)))
        self.expect_good(ended, strategy="native")
        for result in json.loads(self.path.read_text())["results"]:
            self.assertEqual(result["nativeWireBytes"], 2 * result["sizeBytes"] * 3 / 4)
            self.assertEqual(result["ratio"], 1)

    def test_strategies_and_the_words_for_them(self):
        ended = run(command("all_gather", "-d", "uint8", "--data", "random-bits", *SMALL))
        self.expect_good(ended, strategy="native")
        self.assertIn("# strategy: native: the datatype has no frame format", ended.stdout)
        ended = run(command("all_gather", *SMALL, "--strategy", "auto"))
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual([row[11] for row in rows(ended.stdout)], ["0", "0"])

    def test_operations(self):
        for operation in ("sum", "avg", "mulsum"):
            for data in ("normal:0.02", "widened:0.02"):
                with self.subTest(operation, data=data):
                    words = [*SMALL, "--op", operation, "--data", data, "-J", str(self.path)]
                    ended = run(command("all_reduce", *words))
                    # Factors of the program's own are NCCL's affair.
                    self.expect_good(ended, strategy="native" if operation == "mulsum" else "staged")
                    error = json.loads(self.path.read_text())["results"][0]["errorAgainstFp64"]
                    self.assertLess(error["zipccl"], 0.01)

    def test_an_old_nccl(self):
        for name in ("alltoall", "gather", "scatter"):
            ended = run([ARGUMENTS.zipccl, "perf", name, "--transport", "nccl", "--nccl", ARGUMENTS.old_nccl, *SMALL])
            self.expect_good(ended, in_place=COLLECTIVES[name])

    def test_the_file_may_stand_in_the_environment(self):
        ended = run(command("all_gather", *SMALL, nccl=False), ZIPCCL_NCCL_LIB=ARGUMENTS.fake_nccl, NCCL_P2P_DISABLE="1")
        self.expect_good(ended)
        self.assertIn("NCCL_P2P_DISABLE=1", ended.stdout)

    def start_ranks(self, count, variables_of, *words):
        return [start(command("all_gather", *SMALL, *words), **variables_of(rank)) for rank in range(count)]

    def test_as_torchrun_starts_it(self):
        port = str(free_port())
        started = self.start_ranks(
            3,
            lambda rank: {
                "RANK": str(rank),
                "WORLD_SIZE": "3",
                "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            },
        )
        ended = [end(process) for process in started]
        self.expect_good(ended[0])
        for other in ended[1:]:
            self.assertEqual((other.returncode, other.stdout, other.stderr), (0, "", ""))

    def test_a_rank_before_the_first_does_not_take_its_port(self):
        # A network where every connection is from the port that it goes to.
        network = ["unshare", "--user", "--map-root-user", "--net"]
        if subprocess.run([*network, "ip", "link"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no network namespaces, or no ip")
        port = 40_000
        words = shlex.join(command("all_gather", *SMALL))
        common = f"WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}"
        tries = """import socket, struct
with socket.socket() as place:
    place.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    place.connect(("127.0.0.1", %d))
    assert place.getsockname() == place.getpeername()""" % port
        script = f"""
            set -e
            ip link set lo up
            echo {port} {port} > /proc/sys/net/ipv4/ip_local_port_range
            {shlex.quote(sys.executable)} -c {shlex.quote(tries)}
            echo {port} {port + 1} > /proc/sys/net/ipv4/ip_local_port_range
            RANK=1 {common} {words} &
            early=$!
            sleep 1
            echo 32768 60999 > /proc/sys/net/ipv4/ip_local_port_range
            RANK=0 {common} {words}
            wait $early
        """
        ended = run([*network, "bash", "-c", script])
        self.expect_good(ended)

    def test_as_srun_starts_it(self):
        job = str(free_port())
        started = self.start_ranks(
            2,
            lambda rank: {
                "SLURM_PROCID": str(rank),
                "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_LOCALID": str(rank),
                "SLURM_STEP_NUM_NODES": "1",
                "SLURM_JOB_ID": job,
            },
        )
        ended = [end(process) for process in started]
        self.expect_good(ended[0])
        self.assertEqual((ended[1].returncode, ended[1].stdout), (0, ""))

    def test_as_mpirun_starts_it(self):
        if not ARGUMENTS.mpiexec:
            self.skipTest("no MPI")
        ended = run([ARGUMENTS.mpiexec, "-n", "3", *command("all_gather", *SMALL)])
        self.expect_good(ended)
        self.assertEqual(ended.stdout.count("3 ranks"), 1)

    def test_what_cannot_be_is_said_once(self):
        for words, status, message in (
            (["--data", "file:missing"], 2, "there is no file 'missing'"),
            (["--link", "1Gbit"], 2, "--link emulates links of --transport local only"),
            (["-J", "/nowhere/out.json"], 3, "--json: cannot write"),
        ):
            for more in ([], ["--processes"]):
                with self.subTest(words, more=more):
                    ended = run(command("all_gather", *SMALL, *words, *more))
                    self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
                    self.assertEqual(ended.stderr.count(message), 1, ended.stderr)
                    self.assertEqual(rows(ended.stdout), [])

    def test_ranks_share_devices_as_processes_only(self):
        ended = run(command("all_gather", *SMALL, "--ranks", "3"), FAKE_DEVICES="2")
        self.assertEqual(ended.returncode, 2, ended.stdout + ended.stderr)
        self.assertIn("there are 2, not 3. With --processes", ended.stderr)
        for ranks, words in (("3", "3 ranks share 2 x host"), ("2", "2 x host")):
            ended = run(command("all_gather", *SMALL, "--processes", "--ranks", ranks), FAKE_DEVICES="2")
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            self.assertIn(f", {words}", ended.stdout)
            self.assertNotIn("NCCL_HOSTID", ended.stdout)
        # A host that somebody else has named is told, and shares nothing.
        ended = run(command("all_gather", *SMALL, "--processes"), NCCL_HOSTID="node7")
        self.assertIn("2 x host", ended.stdout)
        self.assertIn("NCCL_HOSTID=node7", ended.stdout)

    def test_flags_of_nccl_are_refused_elsewhere(self):
        for words in (["--processes"], ["--nccl", "x"], ["--rendezvous", "a:1"]):
            ended = run([ARGUMENTS.zipccl, "perf", "all_gather", *SMALL, *words])
            self.assertEqual(ended.returncode, 2)
            self.assertIn(f"{words[0]} is a flag of --transport nccl only", ended.stderr)

    def test_without_nccl_it_says_so(self):
        ended = run(command("all_gather", "--nccl", "/nowhere/libnccl.so.2", nccl=False))
        self.assertEqual(ended.returncode, 3)
        self.assertIn("NCCL cannot be loaded", ended.stderr)
        ended = run(command("all_gather", "--nccl", ARGUMENTS.zipccl, nccl=False))
        self.assertEqual(ended.returncode, 3)

    def test_other_arguments_are_noticed(self):
        port = str(free_port())
        ended = []
        for rank, words in enumerate((SMALL, [*SMALL, "-c", "2"])):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
            ended.append(start(command("all_gather", *words), **variables))
        ended = [end(process) for process in ended]
        self.assertEqual([each.returncode for each in ended], [2, 2])
        self.assertIn("rank 1 was started with other arguments", ended[0].stderr)

    def test_a_job_on_several_hosts_needs_an_address(self):
        variables = {
            "OMPI_COMM_WORLD_RANK": "0",
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
        }
        ended = run(command("all_gather", *SMALL), **variables)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("set MASTER_ADDR", ended.stderr)

    def test_when_a_process_dies_the_others_end(self):
        port = str(free_port())
        words = ["-b", "1M", "-e", "1M", "-n", "100000"]
        started = []
        for rank in range(2):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            started.append(start(command("all_gather", *words), **variables))
        # The head of the table: they measure.
        while not started[0].stdout.readline().startswith("#  "):
            pass
        started[1].kill()
        ended = [end(process) for process in started]
        self.assertEqual(ended[0].returncode, 3, ended[0].stderr)
        self.assertIn("left", ended[0].stderr)

    def test_a_wrong_bit_ends_with_one(self):
        for words in ([], ["--processes"]):
            faulty = [ARGUMENTS.faulty, *command("all_gather", *SMALL, *words)[1:]]
            ended = run(faulty, ZIPCCL_TEST_FAULT="flip:1:1")
            self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
            self.assertIn("WRONG BITS", ended.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--zipccl", required=True)
    parser.add_argument("--faulty", required=True)
    parser.add_argument("--fake-nccl", required=True)
    parser.add_argument("--old-nccl", required=True)
    parser.add_argument("--mpiexec", default="")
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
