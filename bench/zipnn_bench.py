#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Measures ZipNN (PyPI: zipnn, with numpy and safetensors) in one thread on what host_codec_bench measures, beside a
# memcpy of the same bytes in the same round: `zipnn_bench.py ROUNDS > OUT.json`. scripts/host_bench.sh calls it.

import json
import statistics
import sys
import time
import types

import numpy


def import_zipnn():
    """ZipNN imports torch for tensors. Bytes are measured here, so where torch is missing a stand-in will do."""
    try:
        import torch  # noqa: F401
    except ImportError:
        import safetensors

        class Anything(types.ModuleType):
            def __getattr__(self, name):
                return Anything(name)

            def __call__(self, *arguments, **_):
                return arguments[0] if arguments and callable(arguments[0]) else self

        for name in ("torch", "safetensors.torch"):
            sys.modules[name] = Anything(name)
        safetensors.torch = sys.modules["safetensors.torch"]
    import zipnn

    return zipnn


MIB = 1 << 20
SIZES = (MIB, 64 * MIB)
ROTATED_BYTES = 128 * MIB


def as_bfloat16(values):
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def normal(random, count):
    return random.standard_normal(count, dtype=numpy.float32) * numpy.float32(0.02)


def with_zeros(random, count):
    values = normal(random, count)
    values[random.random(count, dtype=numpy.float32) < 0.39] = 0
    return values


# As host_codec_bench has them: data, datatype, ZipNN's name of it, bytes of an element, values.
DATA = (
    ("normal:0.02", "bf16", "bfloat16", 2, lambda random, count: as_bfloat16(normal(random, count))),
    ("zeros:0.39", "bf16", "bfloat16", 2, lambda random, count: as_bfloat16(with_zeros(random, count))),
    ("normal:0.02", "fp16", "float16", 2, lambda random, count: normal(random, count).astype(numpy.float16)),
    (
        "widened:0.02",
        "fp32",
        "float32",
        4,
        lambda random, count: as_bfloat16(normal(random, count)).astype(numpy.uint32) << 16,
    ),
    ("normal:0.02", "fp32", "float32", 4, normal),
)


def timed(function, *arguments):
    started = time.process_time()
    result = function(*arguments)
    return time.process_time() - started, result


def measure(zipnn, rounds, name, dtype, element_bytes, make, size):
    random = numpy.random.default_rng(1)
    sets = min(32, max(2, ROTATED_BYTES // size))
    sources = [make(random, size // element_bytes).tobytes() for _ in range(sets)]
    packer = zipnn.ZipNN(method="AUTO", input_format="byte", bytearray_dtype=dtype, threads=1)
    target = numpy.zeros(size, dtype=numpy.uint8)
    times = {"copy": [], "encode": [], "decode": []}
    encoded_bytes = 0
    for i in range(rounds + 1):
        source = sources[i % sets]
        # It turns the signs of what it is given, so it gets a copy of its own, which is not timed.
        own = bytearray(source)
        copy, _ = timed(numpy.copyto, target, numpy.frombuffer(source, dtype=numpy.uint8))
        encode, packed = timed(packer.compress, own)
        decode, unpacked = timed(packer.decompress, packed)
        if bytes(unpacked) != source:
            raise SystemExit(f"zipnn: {name} of {size} bytes came back wrong")
        encoded_bytes = len(packed)
        if i == 0:
            continue
        times["copy"].append(copy)
        times["encode"].append(encode)
        times["decode"].append(decode)
    return times, 8 * element_bytes * encoded_bytes / size


def main():
    rounds = int(sys.argv[1])
    zipnn = import_zipnn()
    results = []
    for data, datatype, dtype, element_bytes, make in DATA:
        for size in SIZES:
            repeats = rounds if size > MIB else 10 * rounds
            times, bits = measure(zipnn, repeats, f"{datatype} {data}", dtype, element_bytes, make, size)
            for operation in ("encode", "decode"):
                ratios = [copy / own for copy, own in zip(times["copy"], times[operation])]
                results.append(
                    {
                        "operation": operation,
                        "who": "ZipNN",
                        "data": f"{datatype} {data}",
                        "sizeBytes": size,
                        "bits": bits,
                        "speedToMemcpy": {
                            "median": statistics.median(ratios),
                            "least": min(ratios),
                            "most": max(ratios),
                        },
                        "bytesPerSecond": [size / own for own in times[operation]],
                    }
                )
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
