# SPDX-License-Identifier: Apache-2.0
#
# Files that no honest program wrote, made by hand: for each what the command must say of it. The bytes of the small
# ones are also seeds of the fuzzer (tests/fuzz/corpus/safetensors): `python3 tests/tools/hostile_files.py FOLDER`
# writes them.

import json
import pathlib
import struct
import sys


def with_length(length, rest=b""):
    return struct.pack("<Q", length) + rest


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else header.encode()
    return with_length(len(text), text + data)


def entry(name, dtype, shape, begin, end):
    return json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}})[1:-1]


def one(dtype, shape, begin, end, data):
    return safetensors("{" + entry("a", dtype, shape, begin, end) + "}", data)


def two(first, second, data):
    return safetensors("{" + entry("a", *first) + "," + entry("b", *second) + "}", data)


def raw(value, data=b"x"):
    """A file with one tensor whose entry is this text."""
    return safetensors('{"a":' + value + "}", data)


MOST = 2**64 - 1

# Safetensors files by name: their bytes, and words of the complaint.
SAFETENSORS = {
    "nothing": (b"", "shorter than 8 bytes"),
    "seven_bytes": (b"1234567", "shorter than 8 bytes"),
    "length_alone": (with_length(2), "longer than the file"),
    "length_of_zero": (with_length(0, b"{}"), "does not begin with {"),
    "length_of_all_ones": (with_length(MOST, b"{}"), "longer than the file"),
    "length_that_wraps": (with_length(MOST - 7, b"{}"), "longer than the file"),
    "length_with_sign": (with_length(2**63 + 2, b"{}"), "longer than the file"),
    "length_off_by_one": (with_length(3, b"{}"), "longer than the file"),
    "html": (b"<html><body>404 Not Found</body></html>", "longer than the file"),
    "nul_in_header": (safetensors(b"{}\0\0"), "no valid JSON"),
    "header_cut": (safetensors('{"a":{"dtype":"U8","sha'), "no valid JSON"),
    "not_utf8": (safetensors(b'{"\xff\xfe":{}}'), "no valid JSON"),
    "array_at_top": (safetensors("[]"), "does not begin with {"),
    "two_objects": (safetensors("{}{}"), "no valid JSON"),
    "depth": (safetensors('{"a":' + "[" * 200000), "the entry of 'a' is an array"),
    "depth_of_objects": (safetensors("{" + '"a":{' * 50000), "unknown field 'a'"),
    "metadata_of_depth": (safetensors('{"__metadata__":{"a":' + "[" * 1000), "where only strings"),
    "begin_after_end": (one("U8", [2], 2, 0, b"xy"), "lie outside"),
    "end_outside": (one("U8", [3], 0, 3, b"xy"), "lie outside"),
    "offsets_that_wrap": (one("U8", [3], MOST - 2, MOST, b"xyz"), "lie outside"),
    "offset_beyond_64_bits": (raw('{"dtype":"U8","shape":[1],"data_offsets":[0,99999999999999999999]}'), "a fraction"),
    "overlap": (two(("U8", [3], 0, 3), ("U8", [3], 2, 5), b"vwxyz"), "has not ended"),
    "same_bytes_twice": (two(("U8", [2], 0, 2), ("U8", [2], 0, 2), b"xy"), "has not ended"),
    "gap": (two(("U8", [1], 0, 1), ("U8", [1], 2, 3), b"xyz"), "has long ended"),
    "bytes_nobody_has": (one("U8", [1], 0, 1, b"xyz"), "end at byte 1 of 3"),
    "data_cut": (one("BF16", [4], 0, 8, b"1234567"), "lie outside"),
    "half_an_element": (one("BF16", [1], 0, 3, b"xyz"), "hold 3 bytes"),
    "shape_too_small": (one("F32", [1], 0, 8, b"12345678"), "hold 8 bytes"),
    "shape_that_wraps": (one("F32", [2**32, 2**32], 0, 0, b""), "more than can be"),
    "shape_that_wraps_to_fit": (one("BF16", [2**63 + 1], 0, 2, b"xy"), "more than can be"),
    "negative_extent": (one("U8", [-1], 0, 1, b"x"), "a negative number"),
    "extent_of_1e3": (raw('{"dtype":"U8","shape":[1e3],"data_offsets":[0,1]}'), "a fraction"),
    "a_hundred_dimensions": (one("U8", [1] * 100, 0, 1, b"x"), "more than 64 dimensions"),
    "name_twice": (
        safetensors("{" + entry("a", "U8", [1], 0, 1) + "," + entry("a", "U8", [1], 1, 2) + "}", b"xy"),
        "'a' appears twice",
    ),
    "field_twice": (raw('{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}'), "appears twice"),
    "unknown_field": (raw('{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":"y"}'), "unknown field"),
    "dtype_is_a_number": (raw('{"dtype":16,"shape":[1],"data_offsets":[0,1]}'), "not a string"),
    "three_offsets": (raw('{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}'), "two unsigned numbers"),
    "no_shape": (raw('{"dtype":"U8","data_offsets":[0,1]}'), "lacks"),
    "terminal_codes": (
        safetensors('{"\\u001b]0;owned\\u0007":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}', b"x"),
        "\\x1b]0;owned\\x07",
    ),
}

# Indexes of sharded models.
INDEXES = {
    "empty": (b"", "no valid JSON"),
    "array": (b"[]", "no JSON object"),
    "no_map": (b'{"metadata":{}}', "has no weight_map"),
    "map_is_an_array": (b'{"weight_map":[]}', "weight_map is no object"),
    "file_is_a_number": (b'{"weight_map":{"a":1}}', "not a string"),
    "file_is_an_object": (b'{"weight_map":{"a":{"b":"c"}}}', "not a string"),
    "tensor_twice": (b'{"weight_map":{"a":"x","a":"y"}}', "'a' appears twice"),
    "leads_upwards": (b'{"weight_map":{"a":"../x.safetensors"}}', "no name of a file"),
    "leads_to_the_root": (b'{"weight_map":{"a":"/etc/passwd"}}', "no name of a file"),
    "leads_to_the_folder": (b'{"weight_map":{"a":"."}}', "no name of a file"),
    "nul_in_name": (b'{"weight_map":{"a":"x\\u0000y"}}', "no name of a file"),
    "shard_is_missing": (b'{"weight_map":{"a":"missing.safetensors"}}', "No such file"),
    "nul": (b'{"weight_map":{}}\0', "no valid JSON"),
    "depth": (b'{"a":' + b"[" * 1000000, "no valid JSON"),
}

# Sound ones, for the fuzzer to begin with.
SOUND = {
    "file_sound": two(("BF16", [2, 1], 0, 4), ("F32", [], 4, 8), b"abcdefgh"),
    "file_sound_metadata": safetensors('{"__metadata__":{"format":"pt"},' + entry("e", "I64", [0], 0, 0) + "}  "),
    "index_sound": b'{"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}',
}

LARGEST_SEED = 4096

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for name, content in SOUND.items():
        (folder / name).write_bytes(content)
    for kind, files in (("file", SAFETENSORS), ("index", INDEXES)):
        for name, (content, _) in files.items():
            if len(content) <= LARGEST_SEED:
                (folder / f"{kind}_{name}").write_bytes(content)
