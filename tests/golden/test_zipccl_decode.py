#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Tests zipccl_decode.py with frames from an encoder of its own, also written from docs/format.md
# alone. The encoder picks what other encoders would not: windows that fit badly, regions out of
# order and with gaps, noise in every ignored byte.

"""Run with: python3 test_zipccl_decode.py. ZIPCCL_TEST_SEED repeats a run."""

import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
import unittest

import zipccl_decode
from zipccl_decode import decode

SEED = int(os.environ.get("ZIPCCL_TEST_SEED") or time.time_ns() % (1 << 32))

BF16, FP16, FP32 = 1, 2, 3
NARROW, WIDE = 0, 1
SEVEN, SIX_ZERO, EMPTY, RAW = 0, 1, 2, 3
SHAPES = ((BF16, NARROW), (FP16, NARROW), (FP32, NARROW), (FP32, WIDE))

EXPONENT_BITS = {BF16: 8, FP16: 5, FP32: 8}
RECORD_BYTES = {BF16: 1408, FP16: 1792, FP32: 1408}  # without a low plane
MOST_ESCAPES = {BF16: 640, FP16: 256, FP32: 640}     # as many bytes as the raw rest has
MOST_BASE = {BF16: 249, FP16: 25, FP32: 249}


def setUpModule():
    print("ZIPCCL_TEST_SEED=%d" % SEED, flush=True)


def freshRandom(test):
    """Every test has its own stream, so that a single test repeats without the others."""
    return random.Random("%d %s" % (SEED, test.id().split(".")[-1]))


# --- Encoder -------------------------------------------------------------------------------------


class Tile:
    """The values of a tile, by element, and the choices that its encoder makes."""

    def __init__(self, kind, uppers, lows=None, base=0, storeLows=None):
        self.kind = kind
        self.uppers = uppers
        self.lows = lows or [0] * 1024
        self.base = base
        self.storeLows = any(self.lows) if storeLows is None else storeLows
        self.escapes = []

    def code(self, exponent, rng):
        codes = [c for c in range(7 if self.kind == SEVEN else 6) if self.base + c == exponent]
        if self.kind == SIX_ZERO and exponent == 0:
            codes.append(6)
        return rng.choice(codes) if codes else 7


def randomTile(rng, kind, datatype, escapes=None):
    """A tile that the kind can hold. escapes: their number, or None for any."""
    base = 0
    if kind == EMPTY:
        uppers = [0] * 1024
    elif kind == RAW:
        uppers = [rng.getrandbits(16) for _ in range(1024)]
    else:
        most, mostBase, bits = MOST_ESCAPES[datatype], MOST_BASE[datatype], EXPONENT_BITS[datatype]
        base = rng.choice((0, 1, mostBase - 1, mostBase, rng.randrange(mostBase + 1)))
        named = [base + c for c in range(6)] + [base + 6 if kind == SEVEN else 0]
        unnamed = [e for e in range(1 << bits) if e not in named]
        if escapes is None:
            escapes = rng.choice((0, 1, 15, 16, 17, most, rng.randrange(most + 1)))
        exponents = [rng.choice(named) for _ in range(1024)]
        for n in rng.sample(range(1024), escapes):
            exponents[n] = rng.choice(unnamed)
        uppers = [rng.getrandbits(1) << 15 | e << 15 - bits | rng.getrandbits(15 - bits)
                  for e in exponents]
    lows, storeLows = None, False
    if datatype == FP32:
        lowKind = rng.choice(("none", "zeros stored", "some", "all"))
        storeLows = lowKind != "none"
        if lowKind == "some":
            lows = [0] * 1024
            lows[rng.randrange(1024)] = rng.randrange(1, 1 << 16)
        elif lowKind == "all":
            lows = [rng.getrandbits(16) for _ in range(1024)]
    return Tile(kind, uppers, lows, base, storeLows)


def slots(datatype, values):
    """values[element] as [lane][slot]."""
    if datatype != FP32:
        return [[values[256 * (i // 8) + 8 * l + i % 8] for i in range(32)] for l in range(32)]
    return [[values[128 * (i // 4) + 4 * l + i % 4] for i in range(32)] for l in range(32)]


def pairWords(lane):
    return [lane[2 * w] | lane[2 * w + 1] << 16 for w in range(16)]


def put(buffer, at, form, *values):
    struct.pack_into("<" + form, buffer, at, *values)


def exponentOf(datatype, upper):
    """Bits 14..7 of a bf16 or of the upper half of an fp32, bits 14..10 of an fp16."""
    return upper >> 10 & 0x1F if datatype == FP16 else upper >> 7 & 0xFF


def packThreeBits(record, at, l, pairs):
    """The three words of lane l in the plane at `at`, from sixteen pairs of three-bit values."""
    for k in range(3):
        p = sum(pairs[3 * j + k] << 3 * j for j in range(5))
        p += (pairs[15] >> k & 0x00010001) << 15
        put(record, at + 128 * k + 4 * l, "I", p)


def encodeWindow(record, datatype, tile, lanes, rng):
    """Fills the planes of a seven or six+zero tile and collects its escapes."""
    for l, lane in enumerate(lanes):
        fine = []
        for w, word in enumerate(pairWords(lane)):
            rotated = (word << 1 | word >> 31) & 0xFFFFFFFF
            fine.append(rotated & 0x00070007)
            if datatype == FP16:
                rotated >>= 3
            for i, byte in ((2 * w, rotated & 0xFF), (2 * w + 1, rotated >> 16 & 0xFF)):
                record[512 * (i // 16) + 16 * l + i % 16] = byte
        codes = [tile.code(exponentOf(datatype, value), rng) for value in lane]
        packThreeBits(record, 1024, l, [codes[2 * w] + 65536 * codes[2 * w + 1] for w in range(16)])
        if datatype == FP16:
            packThreeBits(record, 1408, l, fine)
        for i in list(range(0, 32, 2)) + list(range(1, 32, 2)):
            if codes[i] == 7:
                tile.escapes.append(exponentOf(datatype, lane[i]))


def encodeRaw(record, datatype, lanes):
    """Fills the record's part of a raw tile; returns the raw rest."""
    wordsBehind = 6 if datatype == FP16 else 3  # in the record, behind the first 1024 bytes
    rest = bytearray(MOST_ESCAPES[datatype])
    for l, lane in enumerate(lanes):
        words = pairWords(lane)
        for k in range(2):
            put(record, 512 * k + 16 * l, "4I", *words[4 * k:4 * k + 4])
        for k in range(wordsBehind):
            put(record, 1024 + 128 * k + 4 * l, "I", words[8 + k])
        for k in range(8 - wordsBehind):
            put(rest, 128 * k + 4 * l, "I", words[8 + wordsBehind + k])
    return rest


def encodeLows(lanes):
    plane = bytearray(2048)
    for l, lane in enumerate(lanes):
        for i, low in enumerate(lane):
            put(plane, 512 * (i // 8) + 16 * l + 2 * (i % 8), "H", low)
    return plane


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def checksumOf(datatype, elementCount, payload):
    words = struct.unpack("<%dQ" % -(-len(payload) // 8), payload + b"\0" * (-len(payload) % 8))
    terms = [mix((d + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) for i, d in enumerate(words)]
    return (mix(elementCount + datatype * 2**56) + sum(terms)) % 2**64


def alignUp(x, a):
    return -(-x // a) * a


class Frame:
    """An encoded frame, the elements that it holds, and where things stand in it."""

    def __init__(self, rng, datatype, layout, tiles, tail=(), pool=None, checksum=True,
                 gaps=True, noise=True):
        elementBytes = 4 if datatype == FP32 else 2
        recordBytes = RECORD_BYTES[datatype] + (2048 if layout == WIDE else 0)
        self.payload = self.payloadOf(datatype, tiles, tail)
        elementCount = 1024 * len(tiles) + len(tail)
        tileCount, groupCount = len(tiles), -(-len(tiles) // 8)
        self.groupsAt = 128 + alignUp(4 * tileCount, 8)
        self.tilesAt = alignUp(self.groupsAt + 8 * groupCount, 128)
        tailAt = self.tilesAt + recordBytes * tileCount
        poolAt = alignUp(tailAt + elementBytes * len(tail), 128)
        narrowFp32 = datatype == FP32 and layout == NARROW
        self.maxExtraBytes = tileCount * (MOST_ESCAPES[datatype] + (2048 if narrowFp32 else 0))

        def noiseBytes(count):
            return bytearray(rng.randbytes(count) if noise else count)

        # Records, and what goes to the extra space for each tile.
        records, fixedParts = [], []
        for tile in tiles:
            record, fixed = noiseBytes(recordBytes), bytearray()
            tile.escapes = []
            lanes = slots(datatype, tile.uppers)
            if tile.kind == RAW:
                fixed += encodeRaw(record, datatype, lanes)
            elif tile.kind != EMPTY:
                encodeWindow(record, datatype, tile, lanes, rng)
            if tile.storeLows:
                plane = encodeLows(slots(datatype, tile.lows))
                if narrowFp32:
                    fixed += plane
                else:
                    record[1408:] = plane
            records.append(record)
            fixedParts.append(fixed)

        # Regions, placed in any order, with gaps while the bound leaves room.
        regions = []
        for g in range(groupCount):
            of = range(8 * g, min(8 * g + 8, tileCount))
            region = bytearray().join(fixedParts[t] for t in of)
            # Above the field the bits of an escape byte are ignored.
            region += bytes(e | (rng.getrandbits(8) << EXPONENT_BITS[datatype] & 0xFF if noise else 0)
                            for t in of for e in tiles[t].escapes)
            regions.append(region + noiseBytes(-len(region) % 16))
        self.offsets = [0] * groupCount
        slack = self.maxExtraBytes - sum(map(len, regions))
        extra = bytearray()
        for g in rng.sample(range(groupCount), groupCount):
            if regions[g]:
                gap = 16 * rng.randrange(min(slack // 16, 9) + 1) if gaps else 0
                slack -= gap
                extra += noiseBytes(gap)
                self.offsets[g] = len(extra)
                extra += regions[g]
        self.extraBytes = len(extra)
        self.regionBytes = [len(region) for region in regions]
        if pool is None:
            pool = 128 * rng.randrange(self.maxExtraBytes // 128 + 1)
        self.poolBytes = pool(self) if callable(pool) else pool
        assert self.poolBytes % 128 == 0 and self.poolBytes <= self.maxExtraBytes
        extra += noiseBytes(max(0, self.poolBytes - len(extra)))

        self.words = tuple(rng.getrandbits(64) for _ in range(4))
        frame = noiseBytes(poolAt)
        frame[0:128] = bytes(128)
        put(frame, 0, "4s6BH", b"ZCCL", 1, 1, datatype, layout, 10, 3, 1 if checksum else 0)
        put(frame, 16, "4Q", elementCount, self.poolBytes, self.extraBytes,
            checksumOf(datatype, elementCount, self.payload) if checksum else 0)
        put(frame, 48, "4Q", *self.words)
        for t, tile in enumerate(tiles):
            put(frame, 128 + 4 * t, "I", tile.base | tile.kind << 8 | int(tile.storeLows) << 10 |
                len(tile.escapes) << 16)
            at = self.tilesAt + recordBytes * t
            frame[at:at + recordBytes] = records[t]
        for g, offset in enumerate(self.offsets):
            put(frame, self.groupsAt + 8 * g, "Q", offset)
        frame[tailAt:tailAt + elementBytes * len(tail)] = self.tailOf(datatype, tail)
        self.staticBytes = poolAt + self.poolBytes
        self.recordBytes = recordBytes
        self.bytes = bytes(frame + extra)

    @staticmethod
    def tailOf(datatype, tail):
        return struct.pack("<%d%s" % (len(tail), "I" if datatype == FP32 else "H"), *tail)

    @classmethod
    def payloadOf(cls, datatype, tiles, tail):
        if datatype != FP32:
            parts = [struct.pack("<1024H", *tile.uppers) for tile in tiles]
        else:
            parts = [struct.pack("<1024I", *[u << 16 | l for u, l in zip(tile.uppers, tile.lows)])
                     for tile in tiles]
        return b"".join(parts) + cls.tailOf(datatype, tail)


def randomTail(rng, datatype, count):
    return [rng.getrandbits(32 if datatype == FP32 else 16) for _ in range(count)]


def randomFrame(rng, datatype, layout, kinds, tailCount=None, **choices):
    tailCount = rng.choice((0, 1, 3, 511, 1023)) if tailCount is None else tailCount
    tiles = [randomTile(rng, kind, datatype) for kind in kinds]
    return Frame(rng, datatype, layout, tiles, randomTail(rng, datatype, tailCount), **choices)


def patched(frame, *edits):
    """A copy with (offset, format, value) written into it."""
    copy = bytearray(frame)
    for at, form, value in edits:
        put(copy, at, form, value)
    return bytes(copy)


# --- Tests ---------------------------------------------------------------------------------------


class RoundTrip(unittest.TestCase):
    def setUp(self):
        self.rng = freshRandom(self)

    def check(self, frame):
        status, payload, header = decode(frame.bytes)
        self.assertEqual(status, "kOk")
        self.assertTrue(payload == frame.payload, "payload differs")
        self.assertEqual(header.applicationWords, frame.words)
        self.assertEqual(len(frame.bytes), header.staticBytes + header.dynamicBytes)
        # Bytes behind the frame do not belong to it.
        self.assertEqual(decode(frame.bytes + b"behind")[:2], (status, payload))

    def testNoElements(self):
        for datatype, layout in SHAPES:
            for checksum in (False, True):
                frame = Frame(self.rng, datatype, layout, [], checksum=checksum)
                self.assertEqual(len(frame.bytes), 128)
                self.check(frame)

    def testTailOnly(self):
        for datatype, layout in SHAPES:
            for count in (1, 2, 63, 64, 65, 1023):
                self.check(Frame(self.rng, datatype, layout, [],
                                 randomTail(self.rng, datatype, count)))

    def testEveryKindAlone(self):
        for datatype, layout in SHAPES:
            for kind in (SEVEN, SIX_ZERO, EMPTY, RAW):
                for _ in range(4):
                    self.check(randomFrame(self.rng, datatype, layout, [kind]))

    def testEveryBaseAndEscapeBound(self):
        for datatype in (BF16, FP16):
            most = MOST_ESCAPES[datatype]
            for kind in (SEVEN, SIX_ZERO):
                tiles = []
                for escapes in (0, 1, 31, 32, 33, most - 1, most):
                    tiles.append(randomTile(self.rng, kind, datatype, escapes))
                self.check(Frame(self.rng, datatype, NARROW, tiles))

    def testSignsMantissasAndSpecials(self):
        """Every upper half there is, in raw tiles and in windows that move over them."""
        uppers = list(range(1 << 16))
        self.rng.shuffle(uppers)
        raw = [Tile(RAW, uppers[1024 * t:1024 * (t + 1)]) for t in range(64)]
        for datatype in (BF16, FP16):
            self.check(Frame(self.rng, datatype, NARROW, raw))
            bits = EXPONENT_BITS[datatype]
            # Four exponents to a tile or to eight.
            for kind in (SEVEN, SIX_ZERO):
                tiles = []
                for e in range(0, 1 << bits, 4):
                    values = [s << 15 | (e + d) << 15 - bits | m for s in (0, 1) for d in range(4)
                              for m in range(1 << 15 - bits)]
                    base = min(MOST_BASE[datatype], max(0, e - self.rng.randrange(3)))
                    # An equal share of each exponent, so that 256 escape at most.
                    count = len(values) // 1024
                    tiles += [Tile(kind, self.rng.sample(values[t::count], 1024), base=base)
                              for t in range(count)]
                self.check(Frame(self.rng, datatype, NARROW, tiles))

    def testGroupsOfAllKinds(self):
        for datatype, layout in SHAPES:
            for count in (7, 8, 9, 16, 27):
                kinds = [self.rng.choice((SEVEN, SIX_ZERO, EMPTY, RAW)) for _ in range(count)]
                checksum = bool(self.rng.getrandbits(1))
                self.check(randomFrame(self.rng, datatype, layout, kinds, checksum=checksum))

    def testGroupsWithoutExtraSpace(self):
        """Offset 0 both where nothing is needed and where a region starts there."""
        for datatype, layout in SHAPES:
            none = [Tile(EMPTY, [0] * 1024) for _ in range(8)]
            some = [randomTile(self.rng, RAW, datatype) for _ in range(8)]
            frame = Frame(self.rng, datatype, layout, none + some + none, gaps=False)
            self.assertEqual(frame.offsets, [0, 0, 0])
            self.check(frame)
            self.check(Frame(self.rng, datatype, layout, none))

    def testPoolChoices(self):
        def straddled(frame):
            """The pool ends inside of the first region that is long enough."""
            for offset, count in zip(frame.offsets, frame.regionBytes):
                end = alignUp(offset + 1, 128)
                if end < offset + count:
                    return end
            raise AssertionError("no region to cut")

        for datatype, layout in SHAPES:
            for pool in (0, lambda frame: frame.maxExtraBytes, straddled,
                         lambda frame: frame.extraBytes // 128 * 128):
                kinds = [RAW, SEVEN, SIX_ZERO, EMPTY] * 5
                self.check(randomFrame(self.rng, datatype, layout, kinds, pool=pool))

    def testRegionsOutOfOrder(self):
        kinds = [RAW] + [SEVEN] * 7
        for datatype, layout in SHAPES:
            while True:
                frame = randomFrame(self.rng, datatype, layout, kinds * 3)
                if frame.offsets != sorted(frame.offsets):
                    break
            self.check(frame)

    def testWindowThatFitsBadly(self):
        """A legal base that names one of the tile's seven exponents, and codes 0 to 6 elsewhere."""
        exponents = list(range(121, 128))
        values = [self.rng.choice(exponents) << 7 | self.rng.getrandbits(7) for _ in range(1024)]
        for value in range(100):
            values[value] = 0
        for base in (117, 121, 123, 125):
            tile = Tile(SEVEN, values, base=base)
            if sum(not base <= v >> 7 <= base + 6 for v in values) <= 640:
                self.check(Frame(self.rng, BF16, NARROW, [tile]))
        self.check(Frame(self.rng, BF16, NARROW, [Tile(RAW, values), Tile(RAW, [0] * 1024)]))

    def testHostEncoderIsNoiseFree(self):
        kinds = [SEVEN, SIX_ZERO, EMPTY, RAW]
        self.check(randomFrame(self.rng, BF16, NARROW, kinds, noise=False))


class KnownAnswers(unittest.TestCase):
    """Numbers worked out by hand from the document, without the encoder above."""

    def header(self, datatype, layout, elementCount, pool=0, extra=0):
        frame = bytearray(128)
        frame[0:10] = bytes((0x5A, 0x43, 0x43, 0x4C, 1, 1, datatype, layout, 10, 3))
        frame[16:40] = struct.pack("<3Q", elementCount, pool, extra)
        return frame

    def testChecksum(self):
        # The first two outputs of SplitMix64 from seed 0.
        first, second = 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4
        for datatype, elementCount in ((BF16, 0), (FP16, 5), (FP32, 2**40)):
            header = zipccl_decode.Header(self.header(datatype, NARROW, elementCount))
            # The finisher of SplitMix64, of the number of elements and the datatype.
            own = zipccl_decode.mix(datatype << 56 | elementCount)
            for payload, want in ((b"", 0), (bytes(1), first), (bytes(8), first),
                                  (bytes(10), first + second)):
                self.assertEqual(zipccl_decode.checksumOf(header, payload), (own + want) % 2**64)
        self.assertEqual(zipccl_decode.mix(0x9E3779B97F4A7C15), first)

    def testWindowTileBits(self):
        # One bf16 tile, header 128, descriptor 128..131, offset 136..143, record from 256.
        frame = self.header(BF16, NARROW, 1024, extra=16) + bytearray(1664 - 128 + 16)
        frame[128:132] = bytes((120, 0, 2, 0))  # seven, base 120, two escapes
        frame[256 + 16] = 0xAA                  # lane 1 slot 0: mantissa 0x55; slot 1 is positive
        frame[256 + 17] = 0x01                  # ... and slot 0 is negative
        frame[256 + 512 + 3 * 16 + 15] = 0x03   # lane 3 slot 31: mantissa 1; slot 30 is negative
        frame[256 + 1024 + 4 * 2 + 1] = 0x80    # lane 2, P[0] bit 15: code bit 0 of slot 30
        frame[256 + 1152 + 4 * 2 + 1] = 0x80    # lane 2, P[1] bit 15: code bit 1 of slot 30
        frame[256 + 1280 + 4 * 2 + 3] = 0x80    # lane 2, P[2] bit 31: code bit 2 of slot 31
        frame[256 + 1152 + 4 * 5] = 0x28        # lane 5, P[1] bits 5..3 = 5: pair 4, slot 8
        frame[256 + 1280 + 4 * 6 + 2] = 0x07    # lane 6, P[2] bits 18..16: pair 2, slot 5 escapes
        frame[256 + 1024 + 4 * 6 + 1] = 0x70    # lane 6, P[0] bits 14..12: pair 12, slot 24 escapes
        frame[1664:1666] = bytes((9, 200))      # even slots first: slot 24, then slot 5
        want = [120 << 7] * 1024
        want[8] = 0x8000 | 120 << 7 | 0x55
        want[256 * 3 + 8 * 3 + 6] |= 0x8000
        want[256 * 3 + 8 * 3 + 7] |= 1
        want[256 * 3 + 8 * 2 + 6] = 123 << 7
        want[256 * 3 + 8 * 2 + 7] = 124 << 7
        want[256 + 8 * 5] = 125 << 7
        want[256 * 3 + 8 * 6] = 9 << 7
        want[8 * 6 + 5] = 200 << 7
        status, payload, _ = decode(frame)
        self.assertEqual(status, "kOk")
        self.assertEqual(payload, struct.pack("<1024H", *want))

    def testRawTileBits(self):
        frame = self.header(BF16, NARROW, 1024, pool=640, extra=640) + bytearray(1664 - 128 + 640)
        frame[129] = 3
        want = [0] * 1024
        # lane 4: slot 7 (W[3], high), slot 9 (W[4]), slot 20 (W[10], low), slots 22 and 31 (rest).
        for at, element, value in ((256 + 4 * 16 + 14, 8 * 4 + 7, 0x1234),
                                   (256 + 512 + 4 * 16 + 2, 256 + 8 * 4 + 1, 0x8001),
                                   (256 + 1280 + 4 * 4, 512 + 8 * 4 + 4, 0xFFFF),
                                   (1664 + 4 * 4, 512 + 8 * 4 + 6, 0x7F80),
                                   (1664 + 512 + 4 * 4 + 2, 768 + 8 * 4 + 7, 0x00FF)):
            frame[at:at + 2] = struct.pack("<H", value)
            want[element] = value
        status, payload, _ = decode(frame)
        self.assertEqual(status, "kOk")
        self.assertEqual(payload, struct.pack("<1024H", *want))

    def testFp16Bits(self):
        # One fp16 tile, record from 256 of 1792 bytes, pool at 2048.
        frame = self.header(FP16, NARROW, 1024, extra=16) + bytearray(2048 - 128 + 16)
        frame[128:132] = bytes((11, 0, 2, 0))   # seven, base 11, two escapes
        frame[256 + 16] = 0x81                  # lane 1 slot 0: mantissa bits 9 and 2
        frame[256 + 1408 + 4 * 1] = 0x07        # ... its bits 1 and 0; slot 1 is negative
        frame[256 + 1408 + 4 * 1 + 2] = 0x01    # ... slot 0 is negative too
        frame[256 + 1536 + 4 * 3 + 1] = 0x80    # lane 3, word 1 bit 15: mantissa bit 0 of slot 30
        frame[256 + 1664 + 4 * 3 + 3] = 0x80    # lane 3, word 2 bit 31: mantissa bit 1 of slot 31
        frame[256 + 1152 + 4 * 5] = 0x28        # lane 5, P[1] bits 5..3 = 5: pair 4, slot 8
        frame[256 + 1280 + 4 * 6 + 2] = 0x07    # lane 6, P[2] bits 18..16: pair 2, slot 5 escapes
        frame[256 + 1024 + 4 * 6 + 1] = 0x70    # lane 6, P[0] bits 14..12: pair 12, slot 24 escapes
        frame[2048:2050] = bytes((9, 31 | 0xA0))  # slot 24, then slot 5; bits 7..5 are ignored
        want = [11 << 10] * 1024
        want[8] = 0x8000 | 11 << 10 | 0x204 | 3
        want[9] |= 0x8000
        want[256 * 3 + 8 * 3 + 6] |= 1
        want[256 * 3 + 8 * 3 + 7] |= 2
        want[256 + 8 * 5] = 16 << 10
        want[256 * 3 + 8 * 6] = 9 << 10
        want[8 * 6 + 5] = 31 << 10
        status, payload, _ = decode(frame)
        self.assertEqual(status, "kOk")
        self.assertEqual(payload, struct.pack("<1024H", *want))

    def testFp16RawTileBits(self):
        frame = self.header(FP16, NARROW, 1024, pool=256, extra=256) + bytearray(2048 - 128 + 256)
        frame[129] = 3
        want = [0] * 1024
        # lane 4: slot 21 (W[10], high), slot 22 (W[11], low), slot 27 (W[13], high), and in the rest
        # slots 28 and 31.
        for at, element, value in ((256 + 1280 + 4 * 4 + 2, 512 + 8 * 4 + 5, 0x1234),
                                   (256 + 1408 + 4 * 4, 512 + 8 * 4 + 6, 0x8001),
                                   (256 + 1664 + 4 * 4 + 2, 768 + 8 * 4 + 3, 0xFFFF),
                                   (2048 + 4 * 4, 768 + 8 * 4 + 4, 0x7C00),
                                   (2048 + 128 + 4 * 4 + 2, 768 + 8 * 4 + 7, 0x00FF)):
            frame[at:at + 2] = struct.pack("<H", value)
            want[element] = value
        status, payload, _ = decode(frame)
        self.assertEqual(status, "kOk")
        self.assertEqual(payload, struct.pack("<1024H", *want))

    def testFp32Places(self):
        # Wide: record from 256 of 3456 bytes, pool at 3712. An empty tile with low halves.
        frame = self.header(FP32, WIDE, 1025) + bytearray(3712 - 128)
        frame += struct.pack("<I", 0xDEADBEEF) + bytes(124)
        frame[129] = 2 | 4
        # lane 31, slot 13: element 128 * 3 + 4 * 31 + 1, at 512 * 1 + 16 * 31 + 2 * 5.
        frame[256 + 1408 + 512 + 496 + 10] = 0x21
        want = [0] * 1024
        want[128 * 3 + 124 + 1] = 0x21
        status, payload, _ = decode(frame)
        self.assertEqual(status, "kOk")
        self.assertEqual(payload, struct.pack("<1025I", *want, 0xDEADBEEF))


class Rejection(unittest.TestCase):
    def setUp(self):
        self.rng = freshRandom(self)

    def statusOf(self, frame, *edits):
        status, payload, _ = decode(patched(frame, *edits))
        self.assertEqual(payload is None, status != "kOk")
        return status

    def expect(self, want, frame, *edits):
        self.assertEqual(self.statusOf(frame, *edits), want, edits)

    def plainFrame(self, checksum=True):
        """bf16: seven without escapes, six+zero with 5, empty, raw, 6 empty, one seven with 640."""
        rng = self.rng
        tiles = [randomTile(rng, SEVEN, BF16, 0), randomTile(rng, SIX_ZERO, BF16, 5),
                 Tile(EMPTY, [0] * 1024), randomTile(rng, RAW, BF16)]
        tiles += [Tile(EMPTY, [0] * 1024) for _ in range(4)]
        tiles += [randomTile(rng, SEVEN, BF16, 640)] + [Tile(EMPTY, [0] * 1024) for _ in range(7)]
        tiles += [Tile(EMPTY, [0] * 1024)]
        return Frame(rng, BF16, NARROW, tiles, randomTail(rng, BF16, 3), checksum=checksum)

    def testEveryTruncation(self):
        for datatype, layout in SHAPES:
            kinds = [self.rng.choice((SEVEN, SIX_ZERO, RAW))]
            for pool in (0, lambda frame: frame.maxExtraBytes):
                frame = randomFrame(self.rng, datatype, layout, kinds, pool=pool)
                needed = frame.staticBytes + max(0, frame.extraBytes - frame.poolBytes)
                self.assertEqual(len(frame.bytes), needed)
                for count in range(len(frame.bytes)):
                    status, payload, header = decode(frame.bytes[:count])
                    self.assertEqual((status, payload), ("kTruncated", None))
                    self.assertEqual(header is None, count < 128)

    def testHeaderStatuses(self):
        frame = self.plainFrame(checksum=False).bytes
        limit = 17 * 640
        for i in range(4):
            self.expect("kBadMagic", frame, (i, "B", frame[i] ^ 1 << self.rng.randrange(8)))
        for version in (0, 2, 255):
            self.expect("kUnsupportedVersion", frame, (4, "B", version))
        for codec in (0, 2, 255):
            self.expect("kUnsupportedCodec", frame, (5, "B", codec))
        for datatype in (0, 4, 255):
            self.expect("kBadDatatype", frame, (6, "B", datatype))
        for layout in (1, 2, 255):
            self.expect("kBadLayout", frame, (7, "B", layout))
        self.expect("kBadLayout", frame, (6, "B", FP32), (7, "B", 2))
        self.expect("kBadLayout", frame, (6, "B", FP16), (7, "B", 1))
        for log2 in (0, 9, 11, 255):
            self.expect("kBadTileSize", frame, (8, "B", log2))
        for log2 in (0, 2, 4, 255):
            self.expect("kBadTileSize", frame, (9, "B", log2))
        for bit in range(1, 16):
            self.expect("kBadReserved", frame, (10, "H", 1 << bit))
        for at in list(range(12, 16)) + list(range(80, 128)):
            self.expect("kBadReserved", frame, (at, "B", 1 << self.rng.randrange(8)))
        for at in range(40, 48):
            self.expect("kBadReserved", frame, (at, "B", 1 << self.rng.randrange(8)))
        for count in (2**40 + 1, 2**63, 2**64 - 1):
            self.expect("kBadElementCount", frame, (16, "Q", count))
        for pool in (1, 64, 127, 129, limit + 128, 2**63, 2**64 - 128):
            self.expect("kBadPoolBytes", frame, (24, "Q", pool))
        for extra in (1, 8, 15, 17, limit + 16, 2**63, 2**64 - 16):
            self.expect("kBadExtraBytes", frame, (32, "Q", extra))

    def testExtraLimitByShape(self):
        """A pool of all of the limit passes, one unit more does not."""
        for datatype, layout, limit in ((BF16, NARROW, 640), (FP16, NARROW, 256),
                                        (FP32, NARROW, 2688), (FP32, WIDE, 640)):
            frame = Frame(self.rng, datatype, layout, [Tile(EMPTY, [0] * 1024)], pool=limit)
            self.expect("kOk", frame.bytes)
            self.expect("kBadPoolBytes", frame.bytes, (24, "Q", limit + 128))
            self.expect("kOk", frame.bytes, (32, "Q", limit))
            self.expect("kBadExtraBytes", frame.bytes, (32, "Q", limit + 16))

    def testDescriptorStatus(self):
        frame = self.plainFrame().bytes
        seven, six, empty, raw, full = 128, 132, 136, 140, 160

        def word(at):
            return struct.unpack_from("<I", frame, at)[0]

        for bit in range(10, 16):  # bit 10: low halves in a bf16 frame
            for at in (seven, six, empty, raw):
                self.expect("kBadDescriptor", frame, (at, "I", word(at) | 1 << bit))
        for base in (250, 255):
            self.expect("kBadDescriptor", frame, (seven, "B", base), (full, "B", base))
            self.expect("kBadDescriptor", frame, (six, "B", base))
        for at in (empty, raw):
            self.expect("kBadDescriptor", frame, (at, "B", 1))
            self.expect("kBadDescriptor", frame, (at + 2, "H", 1))
        for escapes in (641, 65535):
            self.expect("kBadDescriptor", frame, (full + 2, "H", escapes))
        self.expect("kBadEscapeCount", frame, (full + 2, "H", 639))

    def testDescriptorStatusOfFp16(self):
        tiles = [randomTile(self.rng, SEVEN, FP16, 256), randomTile(self.rng, SIX_ZERO, FP16, 0)]
        frame = Frame(self.rng, FP16, NARROW, tiles).bytes
        for at in (128, 132):
            for base in (26, 31, 249):
                self.expect("kBadDescriptor", frame, (at, "B", base))
            self.expect("kBadDescriptor", frame, (at + 2, "H", 257))
            self.expect("kBadDescriptor", frame, (at + 1, "B", frame[at + 1] | 4))

    def testGroupOffsetStatus(self):
        frame = self.plainFrame()
        at = frame.groupsAt
        offsets, sizes, extra = frame.offsets, frame.regionBytes, frame.extraBytes
        self.assertEqual(sizes, [656, 640, 0])
        for g in range(2):
            for bit in range(4):
                self.expect("kBadGroupOffset", frame.bytes,
                            (at + 8 * g, "Q", offsets[g] | 1 << bit))
            for offset in (extra - sizes[g] + 16, extra, 2**63, 2**64 - 16, 2**64 - sizes[g]):
                self.expect("kBadGroupOffset", frame.bytes, (at + 8 * g, "Q", offset))
        for offset in (1, 16, extra, 2**64 - 16):
            self.expect("kBadGroupOffset", frame.bytes, (at + 16, "Q", offset))
        # Overlap is not checked: both regions inside, the elements wrong.
        self.expect("kChecksumMismatch", frame.bytes,
                    (at, "Q", offsets[1] if offsets[1] + sizes[0] <= extra else offsets[1] - 16))

    def testEscapeCountStatus(self):
        frame = self.plainFrame()
        six = struct.unpack_from("<H", frame.bytes, 134)[0]
        self.assertEqual(six, 5)
        # Within the padding of the group's region, so that only the count is wrong.
        for count in (0, 4, 6):
            self.expect("kBadEscapeCount", frame.bytes, (134, "H", count))
        code = frame.tilesAt + 1024
        word = struct.unpack_from("<I", frame.bytes, code)[0]
        self.expect("kBadEscapeCount", frame.bytes, (code, "I", word | 7))
        self.expect("kBadEscapeCount", frame.bytes, (130, "H", 1))

    def testChecksumStatus(self):
        frame = self.plainFrame()
        stored = struct.unpack_from("<Q", frame.bytes, 40)[0]
        self.expect("kChecksumMismatch", frame.bytes, (40, "Q", stored ^ 1))
        self.expect("kChecksumMismatch", frame.bytes, (40, "Q", 0))
        at = frame.tilesAt + self.rng.randrange(1024)
        self.expect("kChecksumMismatch", frame.bytes, (at, "B", frame.bytes[at] ^ 0x10))
        # The same bytes as other elements: another datatype, another count.
        tail = Frame(self.rng, BF16, NARROW, [], (5, 6, 7), noise=False).bytes
        self.expect("kOk", tail)
        self.expect("kChecksumMismatch", tail, (6, "B", FP16))
        self.expect("kChecksumMismatch", tail, (16, "Q", 4))

    def testStatusOrder(self):
        """Of two faults the one that stands first in the document's table is reported."""
        frame = self.plainFrame()
        code = frame.tilesAt + 1024
        word = struct.unpack_from("<I", frame.bytes, code)[0]
        stored = struct.unpack_from("<Q", frame.bytes, 40)[0]
        header = [("kBadMagic", (0, "B", 0)), ("kUnsupportedVersion", (4, "B", 9)),
                  ("kUnsupportedCodec", (5, "B", 9)), ("kBadDatatype", (6, "B", 9)),
                  ("kBadLayout", (7, "B", 9)), ("kBadTileSize", (8, "B", 9)),
                  ("kBadReserved", (80, "B", 9)), ("kBadElementCount", (16, "Q", 2**41)),
                  ("kBadPoolBytes", (24, "Q", 1)), ("kBadExtraBytes", (32, "Q", 1))]
        content = [("kBadDescriptor", (136, "H", 0x8200)),
                   ("kBadGroupOffset", (frame.groupsAt, "Q", frame.offsets[0] | 8)),
                   ("kBadEscapeCount", (code, "I", word | 7)),
                   ("kChecksumMismatch", (40, "Q", stored ^ 2))]
        faults = header + content
        for i, (want, first) in enumerate(faults):
            self.expect(want, frame.bytes, first)
            for _, second in faults[i + 1:]:
                self.expect(want, frame.bytes, first, second)
        # Too short for its parts comes between the header and the content, too short for a header
        # before everything.
        for want, fault in header:
            self.expect(want, frame.bytes[:-1], fault)
            self.assertEqual(decode(patched(frame.bytes, fault)[:127])[0], "kTruncated")
        for _, fault in content:
            self.expect("kTruncated", frame.bytes[:-1], fault)

    def testHostileCounts(self):
        """A header alone makes the decoder neither slow nor large, whatever it promises."""
        frame = self.plainFrame().bytes
        tracemalloc.start()
        started = time.process_time()
        for datatype in (BF16, FP16, FP32):
            for count in (2**40, 2**40 - 1, 2**39 + 5, 2**20):
                limit = count // 1024 * MOST_ESCAPES[datatype]
                for pool in (0, limit):
                    for extra in (0, limit):
                        self.expect("kTruncated", frame, (6, "B", datatype), (16, "Q", count),
                                    (24, "Q", pool), (32, "Q", extra))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(peak, 1 << 20)
        self.assertLess(time.process_time() - started, 2)


class Mutation(unittest.TestCase):
    MUTATIONS = 3000

    def setUp(self):
        self.rng = freshRandom(self)

    def mutate(self, frame):
        rng = self.rng
        copy = bytearray(frame.bytes)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            where = rng.randrange(8)
            if where == 0:  # a header field
                at, form = rng.choice(((16, "Q"), (24, "Q"), (32, "Q"), (4, "I"), (8, "I")))
                old = struct.unpack_from("<" + form, copy, at)[0]
                new = rng.choice((old + 1, old - 1, old + 16, old - 16, old + 128, old + 1024,
                                  old - 1024, old ^ 1 << rng.randrange(64), rng.getrandbits(64)))
                put(copy, at, form, new % (1 << (8 * struct.calcsize(form))))
                continue
            if where == 1:
                at = rng.randrange(128)
            elif where <= 4:  # descriptors and group offsets
                at = rng.randrange(128, frame.tilesAt)
            else:
                at = rng.randrange(len(copy))
            copy[at] = rng.choice((copy[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255))
        if rng.randrange(20) == 0:
            del copy[rng.randrange(len(copy)):]
        return bytes(copy)

    def testMutations(self):
        seen = {}
        for _ in range(self.MUTATIONS):
            if len(seen) == 0 or self.rng.randrange(50) == 0:
                datatype, layout = self.rng.choice(SHAPES)
                kinds = [self.rng.choice((SEVEN, SIX_ZERO, EMPTY, RAW))
                         for _ in range(self.rng.choice((1, 1, 1, 2, 2, 9)))]
                checksum = self.rng.randrange(4) != 0
                frame = randomFrame(self.rng, datatype, layout, kinds, checksum=checksum,
                                    tailCount=self.rng.choice((1, 5, 100)))
            status, payload, header = decode(self.mutate(frame))
            self.assertIn(status, zipccl_decode.STATUSES)
            seen[status] = seen.get(status, 0) + 1
            if status != "kOk":
                self.assertIsNone(payload)
                continue
            self.assertEqual(len(payload), header.elementCount * header.elementBytes)
            if header.flags & 1:
                self.assertTrue(payload == frame.payload, "a wrong payload passed the checksum")
        # Mutations reach nearly all statuses, most runs all; each has a test of its own too.
        self.assertGreaterEqual(len(seen), 14, seen)

    def testNoise(self):
        for _ in range(300):
            self.assertIn(decode(self.rng.randbytes(self.rng.randrange(600)))[0],
                          ("kTruncated", "kBadMagic"))
        for _ in range(100):
            # A sound header, nothing but noise behind it.
            frame = randomFrame(self.rng, *self.rng.choice(SHAPES), [EMPTY, SEVEN], tailCount=0)
            noisy = frame.bytes[:128] + self.rng.randbytes(len(frame.bytes) - 128)
            self.assertIn(decode(noisy)[0], ("kBadDescriptor", "kBadGroupOffset", "kBadEscapeCount",
                                             "kChecksumMismatch"))


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.rng = freshRandom(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.frameFile = os.path.join(folder.name, "frame")
        self.outFile = os.path.join(folder.name, "out")
        self.frame = randomFrame(self.rng, FP32, NARROW, [SEVEN, EMPTY, RAW, SIX_ZERO] * 3)

    def runTool(self, *arguments):
        tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zipccl_decode.py")
        return subprocess.run([sys.executable, tool, *arguments], capture_output=True, text=True,
                              timeout=60, check=False)

    def write(self, content):
        with open(self.frameFile, "wb") as file:
            file.write(content)

    def testGoodFrame(self):
        self.write(self.frame.bytes)
        result = self.runTool(self.frameFile, self.outFile)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "kOk\n", ""))
        with open(self.outFile, "rb") as file:
            self.assertTrue(file.read() == self.frame.payload)

    def testRejectedFrames(self):
        for status, content in (("kTruncated", b""), ("kTruncated", self.frame.bytes[:-1]),
                                ("kBadMagic", patched(self.frame.bytes, (0, "B", 0))),
                                ("kBadDescriptor", patched(self.frame.bytes, (128, "H", 0xFFFF)))):
            self.write(content)
            for flags in ((), ("--dump",)):
                result = self.runTool(*flags, self.frameFile, self.outFile)
                self.assertEqual((result.returncode, result.stdout.split("\n")[0], result.stderr),
                                 (1, status, ""))
                self.assertFalse(os.path.exists(self.outFile))

    def testDump(self):
        self.write(self.frame.bytes)
        result = self.runTool("--dump", self.frameFile)
        self.assertEqual(result.returncode, 0)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "kOk")
        table = lines[lines.index("") + 2:]
        self.assertEqual([line.split()[3] for line in table],
                         ["seven", "empty", "raw", "six+zero"] * 3)
        self.assertEqual([int(table[8 * g].split()[-1]) for g in range(2)], self.frame.offsets)

    def testUsageErrors(self):
        self.write(self.frame.bytes)
        for arguments in ((), (self.frameFile,), ("--unknown", self.frameFile, self.outFile),
                          (self.frameFile, self.outFile, "third"),
                          (self.frameFile + ".missing", self.outFile)):
            result = self.runTool(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(result.stdout, "")
            self.assertFalse(os.path.exists(self.outFile))


if __name__ == "__main__":
    unittest.main()
