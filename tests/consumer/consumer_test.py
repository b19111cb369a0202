#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Installs the project into a folder, moves that folder, and builds and runs programs against it as a user
# would: a C++ one through find_package, a C99 one through pkg-config. Nothing of the source or build tree is
# on their paths.

import argparse
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def run(*command, **settings):
    print("+", *command, flush=True)
    return subprocess.run([str(part) for part in command], check=True, text=True, **settings)


def output(*command, **settings):
    return run(*command, stdout=subprocess.PIPE, **settings).stdout.strip()


def expect_version(said, version):
    if said != f"zipccl {version}":
        raise SystemExit(f"the program said {said!r}, not version {version}")
    print(said)


def install(arguments):
    first = arguments.prefix.with_name("first-prefix")
    for folder in (first, arguments.prefix):
        shutil.rmtree(folder, ignore_errors=True)
    run("cmake", "--install", arguments.build, "--prefix", first, stdout=subprocess.DEVNULL)
    # An installed tree may be moved: nothing in it may name the place where it was put first.
    first.rename(arguments.prefix)
    for path in arguments.prefix.rglob("*"):
        if path.is_file() and path.suffix in (".cmake", ".pc", ".h", ".hpp"):
            for place in (first, arguments.build):
                if str(place).encode() in path.read_bytes():
                    raise SystemExit(f"{path} names {place}")


def with_cmake(arguments):
    build = arguments.prefix.with_name("cpp-build")
    shutil.rmtree(build, ignore_errors=True)
    run("cmake", "-G", "Ninja", "-S", HERE / "cpp", "-B", build, "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={arguments.prefix}", f"-DCMAKE_CXX_COMPILER={arguments.cxx}")  # fmt: skip
    run("cmake", "--build", build)
    expect_version(output(build / "consumer"), arguments.version)


def with_pkg_config(arguments):
    (pc,) = arguments.prefix.rglob("zipccl.pc")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}
    said = output("pkg-config", "--modversion", "zipccl", env=environment)
    expect_version(f"zipccl {said}", arguments.version)
    flags = output("pkg-config", "--cflags", "--libs", "zipccl", env=environment).split()
    program = arguments.prefix.with_name("c-consumer")
    run(arguments.cc, "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
        HERE / "consumer.c", "-o", program, *flags)  # fmt: skip
    environment["LD_LIBRARY_PATH"] = str(pc.parent.parent)
    expect_version(output(program, env=environment), arguments.version)


def main():
    parser = argparse.ArgumentParser(description="Uses the installed package.")
    steps = {"install": install, "cmake": with_cmake, "pkg-config": with_pkg_config}
    parser.add_argument("step", choices=steps)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--prefix", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", required=True)
    arguments = parser.parse_args()
    steps[arguments.step](arguments)


if __name__ == "__main__":
    main()
