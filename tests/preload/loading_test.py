#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The traps of docs/dropin.md that concern the loader: real LD_PRELOAD, ctypes before and after NCCL, the library in
# NCCL's place, one image ever, children, fork, dlclose, exit. Each case is a Python process of its own, on the fake
# NCCL, and on the real one where this machine has it.

import argparse
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--stand", type=pathlib.Path, required=True, help="the interposers beside the recording engine")
parser.add_argument("--fake", type=pathlib.Path, required=True, help="the fake libnccl.so.2")
parser.add_argument("--old", type=pathlib.Path, required=True, help="one of an old version")
parser.add_argument("--lonely", type=pathlib.Path, required=True, help="a folder to put an interposer without engine")
ARGUMENTS, REST = parser.parse_known_args()

PRELOAD = ARGUMENTS.stand / "libzipccl_preload.so"
REPLACEMENT = ARGUMENTS.stand / "zipccl" / "libnccl.so.2"
REAL = next(
    (path for path in map(pathlib.Path, ["/usr/local/cuda/lib/libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
                                         "/usr/lib/x86_64-linux-gnu/libnccl.so.2"]) if path.exists()),
    None,
)  # fmt: skip

# What every case may use: a unique id, calls of a library, what is mapped.
PRELUDE = """
import ctypes, os, re, sys

class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]

def version(nccl):
    value = ctypes.c_int(-1)
    assert nccl.ncclGetVersion(ctypes.byref(value)) == 0
    return value.value

def unique_id(nccl):
    value = UniqueId()
    assert nccl.ncclGetUniqueId(ctypes.byref(value)) == 0
    assert bytes(value) != bytes(128)
    return value

def communicator(nccl):
    comm = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique_id(nccl), 0) == 0
    return comm

def preloaded(path):
    nccl = ctypes.CDLL(path, os.RTLD_LOCAL | os.RTLD_NOW)
    hooks = ctypes.CDLL(None)       # where the symbols of an extension are looked up first
    hooks.ncclGetUniqueId = nccl.ncclGetUniqueId
    return hooks

kept = []  # buffers that work on a stream may still touch

def broadcast(nccl, comm):
    buffer = (ctypes.c_uint16 * 1000)(*range(1000))
    kept.append(buffer)
    assert nccl.ncclBroadcast(buffer, buffer, ctypes.c_size_t(1000), 9, 0, comm, None) == 0
    return buffer

def mapped(part):
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if part in line})

def runs(engine):
    class Control(ctypes.Structure):
        _fields_ = [(name, ctypes.CFUNCTYPE(ctypes.c_int)) for name in
                    ("attachCalls", "attached", "detached", "aborted", "wanted", "runs")]
    engine.recordingEngineControl.restype = ctypes.POINTER(Control)
    return engine.recordingEngineControl().contents.runs()
"""

# A call that reaches NCCL through the interposer and changes nothing.
PASSES = f"""
hooks = preloaded("{ARGUMENTS.fake}")
comm = communicator(hooks)
assert list(broadcast(hooks, comm)) == list(range(1000))
assert hooks.ncclCommDestroy(comm) == 0
"""


def python(body, **environment):
    script = PRELUDE + textwrap.dedent(body)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZIPCCL_", "LD_"))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**clean, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done


class LoadingTest(unittest.TestCase):
    def check(self, body, **environment):
        done = python(body, **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def libraries(self):
        return [ARGUMENTS.fake, ARGUMENTS.old] + ([REAL] if REAL else [])

    def test_preloaded_and_nccl_loaded_locally(self):
        self.check(
            f"""
            hooks = preloaded("{ARGUMENTS.fake}")
            comm = communicator(hooks)
            broadcast(hooks, comm)
            (path,) = mapped("{ARGUMENTS.stand}/libzipccl.so")
            assert runs(ctypes.CDLL(path)) == 1
            assert hooks.ncclCommDestroy(comm) == 0
            assert [os.path.realpath(p) for p in mapped("libnccl.so")] == [os.path.realpath("{ARGUMENTS.fake}")]
            """,
            LD_PRELOAD=PRELOAD,
        )

    def test_ctypes_before_nccl(self):
        self.check(
            f"""
            hooks = ctypes.CDLL("{PRELOAD}", os.RTLD_GLOBAL | os.RTLD_NOW)
            nccl = ctypes.CDLL("{ARGUMENTS.fake}", os.RTLD_LOCAL | os.RTLD_NOW)
            hooks.ncclGetUniqueId = nccl.ncclGetUniqueId
            comm = communicator(hooks)
            broadcast(hooks, comm)
            (path,) = mapped("{ARGUMENTS.stand}/libzipccl.so")
            assert runs(ctypes.CDLL(path)) == 1
            assert hooks.ncclCommDestroy(comm) == 0
            """
        )

    def test_ctypes_after_nccl(self):
        # NCCL's own calls are its own then; nothing breaks.
        for library in self.libraries():
            self.check(
                f"""
                nccl = ctypes.CDLL("{library}", os.RTLD_GLOBAL | os.RTLD_NOW)
                before = version(nccl)
                ctypes.CDLL("{PRELOAD}", os.RTLD_GLOBAL | os.RTLD_NOW)
                assert version(nccl) == before
                unique_id(nccl)
                assert mapped("{ARGUMENTS.stand}/libzipccl.so") == []
                """
            )

    def test_version_and_unique_id_under_the_interposer(self):
        for library in self.libraries():
            done = self.check(
                f"""
                nccl = ctypes.CDLL("{library}")
                unique_id(nccl)
                print(version(nccl))
                assert nccl.ncclGroupStart() == 0 and nccl.ncclGroupEnd() == 0
                assert ctypes.CDLL(None).ncclGroupStart() == 0 and ctypes.CDLL(None).ncclGroupEnd() == 0
                """,
                LD_PRELOAD=PRELOAD,
            )
            self.assertGreater(int(done.stdout), 22000, done.stdout)

    def test_replacement_forwards_to_the_named_library(self):
        for library in self.libraries():
            self.check(
                f"""
                nccl = ctypes.CDLL("libnccl.so.2")
                assert mapped("libnccl.so.2") == [os.path.realpath("{REPLACEMENT}")], mapped("libnccl")
                direct = version(nccl)
                unique_id(nccl)
                assert nccl.ncclGroupStart() == 0 and nccl.ncclGroupEnd() == 0
                value = ctypes.c_int(-1)
                assert nccl.pncclGetVersion(ctypes.byref(value)) == 0 and value.value == direct
                real = ctypes.CDLL("{library}")
                assert version(real) == direct
                assert len(mapped("libnccl.so.2")) == 2
                """,
                LD_PRELOAD=REPLACEMENT,
                ZIPCCL_NCCL_LIB=library,
            )

    def test_replacement_makes_communicators(self):
        self.check(
            f"""
            nccl = ctypes.CDLL("libnccl.so.2")
            comm = communicator(nccl)
            buffer = broadcast(nccl, comm)
            assert list(buffer) == list(range(1000))
            (path,) = mapped("{ARGUMENTS.stand}/libzipccl.so")
            assert runs(ctypes.CDLL(path)) == 1
            assert nccl.ncclCommDestroy(comm) == 0
            """,
            LD_PRELOAD=REPLACEMENT,
            ZIPCCL_NCCL_LIB=ARGUMENTS.fake,
        )

    def test_replacement_says_what_the_real_one_lacks(self):
        done = self.check(
            """
            nccl = ctypes.CDLL("libnccl.so.2")
            assert nccl.ncclCommSuspend(None, 0) == 5
            assert nccl.ncclCommGrow(None, 1, None, 0, None, None) == 5
            """,
            LD_PRELOAD=REPLACEMENT,
            ZIPCCL_NCCL_LIB=ARGUMENTS.old,
        )
        self.assertIn("has no ncclCommSuspend", done.stderr)

    def test_one_image_ever(self):
        # Another library is named than the one that is loaded: the loaded one is NCCL.
        self.check(
            f"""
            nccl = ctypes.CDLL("{ARGUMENTS.fake}", os.RTLD_LOCAL | os.RTLD_NOW)
            hooks = ctypes.CDLL(None)
            assert hooks.ncclGroupStart() == 0 and hooks.ncclGroupEnd() == 0
            assert [os.path.realpath(p) for p in mapped("libnccl.so")] == [os.path.realpath("{ARGUMENTS.fake}")]
            """,
            LD_PRELOAD=PRELOAD,
            ZIPCCL_NCCL_LIB=ARGUMENTS.old,
        )

    def test_without_any_nccl(self):
        done = self.check(
            """
            hooks = ctypes.CDLL(None)
            assert hooks.ncclGroupStart() == 2
            assert hooks.ncclGroupStart() == 2
            """,
            LD_PRELOAD=PRELOAD,
        )
        self.assertEqual(done.stderr.count("no libnccl.so.2 is loaded"), 1, done.stderr)
        self.assertRegex(done.stderr, r"^[\w-]+:\d+:\d+ \[-1\] preload/\w+\.cpp:\d+ ZIPCCL WARN ")

    def test_a_missing_engine_passes_everything(self):
        lonely = ARGUMENTS.lonely / "libzipccl_preload.so"
        ARGUMENTS.lonely.mkdir(parents=True, exist_ok=True)
        lonely.write_bytes(PRELOAD.read_bytes())
        done = self.check(
            PASSES + 'assert mapped("libzipccl.so") == []',
            LD_PRELOAD=lonely,
        )
        self.assertEqual(done.stderr.count("the engine cannot be loaded"), 1, done.stderr)

    def test_an_engine_of_another_version_is_left_alone(self):
        other = ARGUMENTS.lonely / "other"
        other.mkdir(parents=True, exist_ok=True)
        (other / "libzipccl_preload.so").write_bytes(PRELOAD.read_bytes())
        (name,) = [path.name for path in ARGUMENTS.stand.glob("libzipccl.so.*")]
        # A library that has nothing of an engine.
        (other / name).write_bytes((ARGUMENTS.fake.resolve().parents[1] / "libzipccl_fake_device.so").read_bytes())
        done = self.check(
            PASSES,
            LD_PRELOAD=other / "libzipccl_preload.so",
        )
        self.assertIn("is of another version", done.stderr)

    def test_disabled_loads_no_engine(self):
        self.check(
            PASSES + 'assert mapped("libzipccl.so") == []',
            LD_PRELOAD=PRELOAD,
            ZIPCCL_DISABLE="1",
        )

    def test_children_map_no_cuda_and_no_engine(self):
        for library in (PRELOAD, REPLACEMENT):
            done = subprocess.run(
                ["sh", "-c", "cat /proc/self/maps"],
                env={**os.environ, "LD_PRELOAD": str(library)},
                capture_output=True,
                text=True,
                check=True,
            )
            self.assertIn(str(library.resolve()), done.stdout)
            for part in ("libcuda", "libcudart", "libzipccl.so", "libstdc++", str(ARGUMENTS.fake.resolve())):
                self.assertNotIn(part, done.stdout)

    def test_fork(self):
        # A child of fork ends well, whether it came before or after the engine; so does the parent.
        self.check(
            f"""
            hooks = preloaded("{ARGUMENTS.fake}")
            def child():
                pid = os.fork()
                if pid == 0:
                    sys.exit(7)             # with destructors
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
            child()
            comm = communicator(hooks)
            child()
            broadcast(hooks, comm)
            child()
            assert hooks.ncclCommDestroy(comm) == 0
            """,
            LD_PRELOAD=PRELOAD,
        )

    def test_dlclose(self):
        # NCCL and the interposer are given up by who loaded them; both stay, as hooks and threads need them.
        self.check(
            f"""
            import _ctypes
            hooks = ctypes.CDLL("{PRELOAD}", os.RTLD_GLOBAL | os.RTLD_NOW)
            for turn in range(3):
                nccl = ctypes.CDLL("{ARGUMENTS.fake}", os.RTLD_LOCAL | os.RTLD_NOW)
                hooks.ncclGetUniqueId = nccl.ncclGetUniqueId
                comm = communicator(hooks)
                assert list(broadcast(hooks, comm)) == list(range(1000))
                assert hooks.ncclCommDestroy(comm) == 0
                _ctypes.dlclose(nccl._handle)
                assert hooks.ncclGroupStart() == 0 and hooks.ncclGroupEnd() == 0
            _ctypes.dlclose(hooks._handle)
            assert len(mapped("libzipccl_preload.so")) == 1
            """
        )

    def test_exit_with_communicators_left(self):
        # Nothing of the device is called when the process ends, and nothing waits.
        self.check(
            f"""
            hooks = preloaded("{ARGUMENTS.fake}")
            comm = communicator(hooks)
            broadcast(hooks, comm)
            assert hooks.ncclGroupStart() == 0
            """,
            LD_PRELOAD=PRELOAD,
        )


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
