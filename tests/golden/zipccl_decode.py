#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Decodes a ZipCCL frame, format version 1, in plain Python. It follows docs/format.md and nothing
# else, section by section, and shares no code with the library: what both of them read alike is
# what the document says. It also prints what a frame holds (--dump).

"""Independent decoder of ZipCCL frames, format version 1.

    python3 zipccl_decode.py FRAME OUT           decode FRAME into OUT
    python3 zipccl_decode.py --dump FRAME [OUT]  also print the header and the tiles

The first line of the output is the status. OUT is written only on kOk.
Exit status: 0 on kOk, 1 on a rejected frame, 2 on usage errors.
"""

import argparse
import struct
import sys

# --- Section 1 to 3: constants ------------------------------------------------------------------

TILE_ELEMENTS = 1024
GROUP_TILES = 8
LANES = 32
SLOTS = 32

HEADER_BYTES = 128
CODE_PLANE_AT = 1024
FINE_PLANE_AT = 1408
LOW_PLANE_BYTES = 2048
MAX_ELEMENTS = 1 << 40

NARROW = 0
WIDE = 1


class Element:
    """A row of the table of datatypes in section 1."""

    def __init__(self, name, elementBytes, exponentBits, upperRecordBytes, rawRestBytes,
                 maxWindowBase):
        self.name = name
        self.elementBytes = elementBytes
        self.exponentBits = exponentBits
        self.fineBits = 8 - exponentBits
        self.upperRecordBytes = upperRecordBytes  # the record without its low plane
        self.rawRestBytes = rawRestBytes
        self.maxEscapes = rawRestBytes
        self.maxWindowBase = maxWindowBase

    def hasLowHalves(self):
        return self.elementBytes == 4


ELEMENTS = {
    1: Element("bf16", 2, 8, 1408, 640, 249),
    2: Element("fp16", 2, 5, 1792, 256, 25),
    3: Element("fp32", 4, 8, 1408, 640, 249),
}

SEVEN, SIX_ZERO, EMPTY, RAW = range(4)
KIND_NAMES = ("seven", "six+zero", "empty", "raw")
ESCAPE_CODE = 7

FLAG_CHECKSUM = 1

# Every status that a frame on its own can have, in the order in which they are checked. kTruncated
# comes first for a string that is too short for a header, and after the header otherwise.
STATUSES = (
    "kOk", "kTruncated", "kBadMagic", "kUnsupportedVersion", "kUnsupportedCodec", "kBadDatatype",
    "kBadLayout", "kBadTileSize", "kBadReserved", "kBadElementCount", "kBadPoolBytes",
    "kBadExtraBytes", "kBadDescriptor", "kBadGroupOffset", "kBadEscapeCount", "kChecksumMismatch",
)


class Rejected(Exception):
    """The frame is not valid; the argument is the status name. Never leaves decode()."""


def align(value, unit):
    return (value + unit - 1) // unit * unit


# --- Section 2 and 3: the header and the places of the sections ---------------------------------


class Header:
    """The header's fields as they stand, valid or not, and the section offsets that follow."""

    def __init__(self, frame):
        (self.magic, self.version, self.codec, self.datatype, self.layout, self.tileLog2,
         self.groupLog2, self.flags, self.reserved12, self.elementCount, self.poolBytes,
         self.extraBytes, self.checksum, *words) = struct.unpack_from("<4s6BHIQQQQ4Q", frame, 0)
        self.applicationWords = tuple(words)
        self.reserved80 = bytes(frame[80:HEADER_BYTES])

        # Of a reserved datatype nothing is known; status() looks at that before it looks at sizes.
        element = self.element = ELEMENTS.get(self.datatype, ELEMENTS[1])
        wide = element.hasLowHalves() and self.layout == WIDE
        self.elementBytes = element.elementBytes
        self.recordBytes = element.upperRecordBytes + (LOW_PLANE_BYTES if wide else 0)
        self.tileCount = self.elementCount // TILE_ELEMENTS
        self.groupCount = align(self.tileCount, GROUP_TILES) // GROUP_TILES
        self.tailBytes = self.elementCount % TILE_ELEMENTS * self.elementBytes
        # What a narrow fp32 tile keeps in extra space for its low halves; nothing otherwise.
        self.extraLowBytes = LOW_PLANE_BYTES if element.hasLowHalves() and not wide else 0
        self.maxExtraBytes = self.tileCount * (element.rawRestBytes + self.extraLowBytes)

        self.descriptorsAt = HEADER_BYTES
        self.groupsAt = self.descriptorsAt + align(4 * self.tileCount, 8)
        self.tilesAt = align(self.groupsAt + 8 * self.groupCount, 128)
        self.tailAt = self.tilesAt + self.recordBytes * self.tileCount
        self.poolAt = align(self.tailAt + self.tailBytes, 128)
        self.staticBytes = self.poolAt + self.poolBytes
        self.dynamicBytes = max(0, self.extraBytes - self.poolBytes)

    def status(self):
        """The first fault in the order of section 9, or kOk."""
        if self.magic != b"ZCCL":
            return "kBadMagic"
        if self.version != 1:
            return "kUnsupportedVersion"
        if self.codec != 1:
            return "kUnsupportedCodec"
        if self.datatype not in ELEMENTS:
            return "kBadDatatype"
        if self.layout not in (NARROW, WIDE):
            return "kBadLayout"
        if self.layout == WIDE and not self.element.hasLowHalves():
            return "kBadLayout"
        if self.tileLog2 != 10 or self.groupLog2 != 3:
            return "kBadTileSize"
        if self.flags & ~FLAG_CHECKSUM or self.reserved12 or any(self.reserved80):
            return "kBadReserved"
        if self.checksum and not self.flags & FLAG_CHECKSUM:
            return "kBadReserved"
        if self.elementCount > MAX_ELEMENTS:
            return "kBadElementCount"
        if self.poolBytes % 128 or self.poolBytes > self.maxExtraBytes:
            return "kBadPoolBytes"
        if self.extraBytes % 16 or self.extraBytes > self.maxExtraBytes:
            return "kBadExtraBytes"
        return "kOk"


# --- Section 4: which element stands in which slot -----------------------------------------------


def slotOrder(elementBytes):
    """Indices into [lane * 32 + slot] in the order of the tile's elements."""
    run = 16 // elementBytes  # elements in 16 bytes
    places = [0] * TILE_ELEMENTS
    for lane in range(LANES):
        for slot in range(SLOTS):
            element = LANES * run * (slot // run) + run * lane + slot % run
            places[element] = SLOTS * lane + slot
    return places


SLOT_ORDER = {elementBytes: slotOrder(elementBytes) for elementBytes in (2, 4)}


# --- Section 5: the tile descriptor --------------------------------------------------------------


class Descriptor:
    def __init__(self, word):
        self.base = word & 0xFF
        self.kind = word >> 8 & 3
        self.lowHalves = word >> 10 & 1
        self.reserved = word >> 11 & 0x1F
        self.escapes = word >> 16

    def isValid(self, element):
        if self.reserved or self.base > element.maxWindowBase or self.escapes > element.maxEscapes:
            return False
        if self.kind in (EMPTY, RAW) and (self.base or self.escapes):
            return False
        return not self.lowHalves or element.hasLowHalves()

    def exponents(self):
        """The exponent field of every code but the escape."""
        if self.kind == SEVEN:
            return [self.base + code for code in range(7)]
        return [self.base + code for code in range(6)] + [0]


def readDescriptors(frame, header):
    words = struct.unpack_from("<%dI" % header.tileCount, frame, header.descriptorsAt)
    return [Descriptor(word) for word in words]


# --- Section 7: where a tile's extra space is ----------------------------------------------------


class ExtraPlaces:
    """Where a tile's parts stand, as offsets in extra space; None for a part that it lacks."""

    def __init__(self):
        self.rawRest = None
        self.lowPlane = None
        self.escapes = None


def placeGroup(header, tiles, start):
    """Lays out the region of a group; returns a place for each tile and the end of the region."""
    places = [ExtraPlaces() for _ in tiles]
    cursor = start
    for tile, place in zip(tiles, places):
        if tile.kind == RAW:
            place.rawRest = cursor
            cursor += header.element.rawRestBytes
        if tile.lowHalves and header.extraLowBytes:
            place.lowPlane = cursor
            cursor += header.extraLowBytes
    for tile, place in zip(tiles, places):
        if tile.escapes:
            place.escapes = cursor
            cursor += tile.escapes
    return places, align(cursor, 16)


def readGroupOffsets(frame, header):
    return struct.unpack_from("<%dQ" % header.groupCount, frame, header.groupsAt)


def placeTiles(frame, header, descriptors):
    places = []
    for group, start in enumerate(readGroupOffsets(frame, header)):
        tiles = descriptors[GROUP_TILES * group:GROUP_TILES * (group + 1)]
        groupPlaces, end = placeGroup(header, tiles, start)
        if start % 16 or end > header.extraBytes or (end == start and start != 0):
            raise Rejected("kBadGroupOffset")
        places += groupPlaces
    return places


# --- Section 6: the tile record ------------------------------------------------------------------


def readThreeBitPlane(frame, planeAt):
    """The values of the code plane or the fine plane at [lane * 32 + slot]."""
    words = struct.unpack_from("<96I", frame, planeAt)
    values = []
    for lane in range(LANES):
        lanes = words[lane], words[32 + lane], words[64 + lane]
        for pair in range(15):
            j, k = divmod(pair, 3)
            both = lanes[k] >> 3 * j
            values.append(both & 7)
            values.append(both >> 16 & 7)
        for bit in (15, 31):
            values.append(sum((lanes[k] >> bit & 1) << k for k in range(3)))
    return values


# Slots of a tile, at [lane * 32 + slot], in the order in which escapes are stored.
ESCAPE_ORDER = [
    SLOTS * lane + 2 * pair + half for lane in range(LANES) for half in (0, 1)
    for pair in range(SLOTS // 2)
]


def decodeWindowTile(frame, element, recordAt, tile, escapesAt):
    """Upper halves of a seven or six+zero tile at [lane * 32 + slot]."""
    codes = readThreeBitPlane(frame, recordAt + CODE_PLANE_AT)
    if codes.count(ESCAPE_CODE) != tile.escapes:
        raise Rejected("kBadEscapeCount")
    table = tile.exponents() + [0]  # the escapes are put in next
    exponents = [table[code] for code in codes]
    if tile.escapes:
        escaped = [place for place in ESCAPE_ORDER if codes[place] == ESCAPE_CODE]
        for place, byte in zip(escaped, frame[escapesAt:escapesAt + tile.escapes]):
            exponents[place] = byte & (1 << element.exponentBits) - 1
    fine = [0] * TILE_ELEMENTS
    if element.fineBits:
        fine = readThreeBitPlane(frame, recordAt + FINE_PLANE_AT)

    uppers = []
    for lane in range(LANES):
        rotated = []  # the halves of the lane's rotated pair words, by slot
        for slot in range(SLOTS):
            byte = frame[recordAt + 512 * (slot // 16) + 16 * lane + slot % 16]
            place = SLOTS * lane + slot
            rotated.append(exponents[place] << 16 - element.exponentBits
                           | byte << element.fineBits | fine[place])
        for even, odd in zip(rotated[0::2], rotated[1::2]):
            word = odd << 16 | even
            word = word >> 1 | (word & 1) << 31
            uppers += (word & 0xFFFF, word >> 16)
    return uppers


def decodeRawTile(frame, element, recordAt, restAt):
    """Upper halves of a raw tile at [lane * 32 + slot]; a pair word is two of them."""
    inRecord = element.upperRecordBytes // 128  # pair words of a lane
    uppers = []
    for lane in range(LANES):
        for k in range(2):
            uppers += struct.unpack_from("<8H", frame, recordAt + 512 * k + 16 * lane)
        for k in range(inRecord - 8):
            uppers += struct.unpack_from("<2H", frame,
                                         recordAt + CODE_PLANE_AT + 128 * k + 4 * lane)
        for k in range(16 - inRecord):
            uppers += struct.unpack_from("<2H", frame, restAt + 128 * k + 4 * lane)
    return uppers


def readLowPlane(frame, planeAt):
    """Low halves of a tile at [lane * 32 + slot]."""
    lows = []
    for lane in range(LANES):
        for quarter in range(4):
            lows += struct.unpack_from("<8H", frame, planeAt + 512 * quarter + 16 * lane)
    return lows


def decodeTile(frame, header, index, tile, place):
    """The tile's elements as bytes. Offsets in extra space are counted from poolAt: the dynamic
    part follows the static part, so that extra space is one run of bytes of the frame."""
    element = header.element
    recordAt = header.tilesAt + header.recordBytes * index
    if tile.kind == EMPTY:
        uppers = [0] * TILE_ELEMENTS
    elif tile.kind == RAW:
        uppers = decodeRawTile(frame, element, recordAt, header.poolAt + place.rawRest)
    else:
        escapesAt = header.poolAt + place.escapes if tile.escapes else None
        uppers = decodeWindowTile(frame, element, recordAt, tile, escapesAt)

    order = SLOT_ORDER[header.elementBytes]
    if not element.hasLowHalves():
        return struct.pack("<1024H", *[uppers[slot] for slot in order])
    if not tile.lowHalves:
        return struct.pack("<1024I", *[uppers[slot] << 16 for slot in order])
    if place.lowPlane is None:
        lows = readLowPlane(frame, recordAt + element.upperRecordBytes)
    else:
        lows = readLowPlane(frame, header.poolAt + place.lowPlane)
    return struct.pack("<1024I", *[uppers[slot] << 16 | lows[slot] for slot in order])


# --- Section 8: the checksum ---------------------------------------------------------------------

MASK64 = (1 << 64) - 1


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK64
    return x ^ x >> 31


def checksumOf(header, payload):
    padded = bytes(payload) + bytes(-len(payload) % 8)
    total = mix(header.elementCount + (header.datatype << 56))
    step = 0
    for (word,) in struct.iter_unpack("<Q", padded):
        step += 0x9E3779B97F4A7C15
        total += mix((word + step) & MASK64)
    return total & MASK64


# --- Section 9: the decoder ----------------------------------------------------------------------


def decode(frame):
    """Decodes a frame whose dynamic part follows its static part.

    Returns (status name, payload, header). The payload is None unless the status is kOk; the header
    is None when the frame is too short to hold one. Nothing is allocated from a count in the header
    before the frame is known to be long enough for it. Bytes behind the frame are not looked at.
    """
    frame = bytes(frame)
    if len(frame) < HEADER_BYTES:
        return "kTruncated", None, None
    header = Header(frame)
    status = header.status()
    if status != "kOk":
        return status, None, header
    if len(frame) < header.staticBytes + header.dynamicBytes:
        return "kTruncated", None, header

    try:
        descriptors = readDescriptors(frame, header)
        if not all(tile.isValid(header.element) for tile in descriptors):
            raise Rejected("kBadDescriptor")
        places = placeTiles(frame, header, descriptors)
        payload = bytearray()
        for index, (tile, place) in enumerate(zip(descriptors, places)):
            payload += decodeTile(frame, header, index, tile, place)
        payload += frame[header.tailAt:header.tailAt + header.tailBytes]
        if header.flags & FLAG_CHECKSUM and checksumOf(header, payload) != header.checksum:
            raise Rejected("kChecksumMismatch")
    except Rejected as rejected:
        return rejected.args[0], None, header
    return "kOk", bytes(payload), header


# --- Command line --------------------------------------------------------------------------------


def dump(frame, header, out):
    """Prints the header and, when it is valid and its static part is all there, the tiles."""
    if header is None:
        out.write("no header: %d bytes\n" % len(frame))
        return
    datatypes = {value: element.name for value, element in ELEMENTS.items()}
    layouts = {NARROW: "narrow", WIDE: "wide"}
    rows = [
        ("frame bytes", len(frame)),
        ("magic", header.magic.hex(" ")),
        ("format version", header.version),
        ("codec", header.codec),
        ("datatype", "%d %s" % (header.datatype, datatypes.get(header.datatype, "reserved"))),
        ("layout", "%d %s" % (header.layout, layouts.get(header.layout, "reserved"))),
        ("log2 of tile size", header.tileLog2),
        ("log2 of group size", header.groupLog2),
        ("flags", "0x%04x" % header.flags),
        ("elementCount", header.elementCount),
        ("poolBytes", header.poolBytes),
        ("extraBytes", header.extraBytes),
        ("checksum", "0x%016x" % header.checksum),
        ("application words", " ".join("0x%016x" % word for word in header.applicationWords)),
    ]
    if header.status() == "kOk":
        rows += [(name, getattr(header, name)) for name in (
            "tileCount", "groupCount", "tailBytes", "recordBytes", "groupsAt", "tilesAt", "tailAt",
            "poolAt", "staticBytes", "dynamicBytes", "maxExtraBytes")]
    for name, value in rows:
        out.write("%-18s  %s\n" % (name, value))
    if header.status() != "kOk" or len(frame) < header.staticBytes:
        return

    out.write("\n%8s %8s %5s %-8s %4s %4s %7s  %s\n" %
              ("tile", "group", "valid", "kind", "base", "low", "escapes", "group offset"))
    offsets = readGroupOffsets(frame, header)
    for index, tile in enumerate(readDescriptors(frame, header)):
        group = index // GROUP_TILES
        out.write("%8d %8d %5s %-8s %4d %4s %7d  %s\n" % (
            index, group, "yes" if tile.isValid(header.element) else "NO", KIND_NAMES[tile.kind],
            tile.base, "yes" if tile.lowHalves else "no", tile.escapes,
            offsets[group] if index % GROUP_TILES == 0 else ""))


def main(arguments):
    parser = argparse.ArgumentParser(
        description="Decodes a ZipCCL frame, format version 1, and prints the status.",
        epilog="Exit status: 0 on kOk, 1 on a rejected frame, 2 on usage errors.")
    parser.add_argument("--dump", action="store_true",
                        help="print the header and the tiles as well; OUT may be left out")
    parser.add_argument("frame", metavar="FRAME", help="file that holds one frame")
    parser.add_argument("out", metavar="OUT", nargs="?",
                        help="file for the elements, written only on kOk")
    options = parser.parse_args(arguments)
    if options.out is None and not options.dump:
        parser.error("OUT is missing")

    try:
        with open(options.frame, "rb") as file:
            frame = file.read()
    except OSError as error:
        parser.error("cannot read FRAME: %s" % error)
    status, payload, header = decode(frame)
    print(status)
    if options.dump:
        dump(frame, header, sys.stdout)
    if status != "kOk":
        return 1
    if options.out is not None:
        try:
            with open(options.out, "wb") as file:
                file.write(payload)
        except OSError as error:
            parser.error("cannot write OUT: %s" % error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
