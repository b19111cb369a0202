// SPDX-License-Identifier: Apache-2.0
//
// The frames and the faulty frames that the golden files hold.

#include "golden/golden_cases.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "codec/bytes.hpp"
#include "codec/frame.hpp"
#include "codec/layout.hpp"

namespace zipccl::golden {
namespace {

using codec::Datatype;
using codec::DecodeStatus;
using codec::FrameSpec;
using codec::Layout;
using codec::loadWord;
using codec::storeWord;
using codec::TileKind;

constexpr std::uint64_t kGoldenSeed = 0x5A43434C;
constexpr std::uint32_t kTile = codec::kTileElements;

// Words: 32 bits an element, whose upper half is the bf16 or fp16 element.

using Words = std::vector<std::uint32_t>;

std::uint32_t below(Random& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(random.below(bound));
}

/// The number with these bits, below 2^16, cut to an upper half.
std::uint32_t cutToUpperHalf(Datatype datatype, std::uint32_t floatBits) {
  if (datatype != Datatype::kFloat16) return floatBits & 0xFFFF0000U;
  constexpr std::uint32_t kBiasDifference = 127 - 15;
  const std::uint32_t field = floatBits >> 23 & 0xFFU;
  const std::uint32_t significand = (floatBits & 0x7FFFFFU) | 0x800000U;
  std::uint32_t magnitude = 0;
  if (field > kBiasDifference) {
    magnitude = ((floatBits & 0x7FFFFFFFU) - (kBiasDifference << 23)) >> 13;
  } else if (field > kBiasDifference - 11) {
    magnitude = significand >> (kBiasDifference + 14 - field);
  }
  return (floatBits & 0x80000000U) | magnitude << 16;
}

/// Close to Gaussian with a standard deviation of 2^log2Sigma, from integers alone: a sum of twelve
/// uniform numbers, which a float holds exactly, cut to the datatype's upper half.
std::uint32_t bellWord(Datatype datatype, Random& random, int log2Sigma) {
  std::int32_t sum = -6 * 65536;
  for (int i = 0; i < 12; ++i) sum += static_cast<std::int32_t>(below(random, 65536));
  const auto scale = std::bit_cast<float>(static_cast<std::uint32_t>(127 + log2Sigma - 16) << 23);
  return cutToUpperHalf(datatype, std::bit_cast<std::uint32_t>(static_cast<float>(sum) * scale));
}

/// What tiles of one datatype are made of.
class Tiles {
 public:
  Tiles(Datatype datatype, Random& random)
      : datatype_(datatype), element_(codec::elementFormat(datatype)), random_(random) {}

  /// Of a standard deviation that is a normal number.
  [[nodiscard]] Words bell() const {
    const bool isFloat16 = datatype_ == Datatype::kFloat16;
    return bellOf(isFloat16 ? static_cast<int>(below(random_, 13)) - 5
                            : static_cast<int>(below(random_, 40)) - 30);
  }
  [[nodiscard]] Words bellOf(int log2Sigma) const {
    Words words(kTile);
    for (std::uint32_t& word : words) word = bellWord(datatype_, random_, log2Sigma);
    return words;
  }

  /// A third zeros of both signs, a few subnormals.
  [[nodiscard]] Words zeroRich() const {
    Words words = bell();
    for (std::uint32_t& word : words) {
      const std::uint32_t choice = below(random_, 32);
      if (choice < 9) word = 0;
      if (choice == 9) word = 0x80000000U;
      if (choice == 10) word = wordOf(0);
    }
    return words;
  }

  [[nodiscard]] Words raw() const {
    Words words(kTile);
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random_()) & 0xFFFF0000U;
    return words;
  }

  /// NaN payloads, infinities, zeros and subnormals among values near 1.
  [[nodiscard]] Words special() const {
    Words words(kTile);
    for (std::uint32_t& word : words) {
      const std::uint32_t choice = below(random_, 16);
      word = wordOf(choice == 0   ? element_.maxExponent()
                    : choice == 1 ? 0
                                  : fieldOfOne() - 9 + below(random_, 12));
      if (choice == 2) word = element_.maxExponent() << (31 - element_.exponentBits);
    }
    return words;
  }

  /// Exactly `escapes` values far below all others, which are near 1.
  [[nodiscard]] Words withEscapes(std::uint32_t escapes) const {
    const std::uint32_t farFields = (fieldOfOne() - 7) / 2;
    Words words(kTile);
    for (std::uint32_t n = 0; n < kTile; ++n) {
      words[n] = wordOf(n < escapes ? 1 + below(random_, farFields)
                                    : fieldOfOne() - 1 + below(random_, 2));
    }
    for (std::uint32_t n = kTile; n > 1; --n) std::swap(words[n - 1], words[below(random_, n)]);
    return words;
  }

 private:
  [[nodiscard]] std::uint32_t fieldOfOne() const { return element_.maxExponent() / 2; }

  [[nodiscard]] std::uint32_t wordOf(std::uint32_t exponent) const {
    const std::uint32_t mantissaBits = 15 - element_.exponentBits;
    const std::uint32_t sign = below(random_, 2) << 31;
    return sign | (exponent << mantissaBits | below(random_, 1U << mantissaBits)) << 16;
  }

  Datatype datatype_;
  codec::ElementFormat element_;
  Random& random_;
};

Words emptyTile() { return Words(kTile, 0); }

/// Random bits, and -0.0 in the middle, whose zero byte tells every tool that the file is not text.
Words tailOf(Random& random, std::size_t count) {
  Words words(count);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  words[count / 2] = 0x80000000U;
  return words;
}

Words withLowHalves(Random& random, Words words) {
  for (std::uint32_t& word : words) word |= below(random, 65536);
  return words;
}

Words join(std::initializer_list<Words> parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes elementsOf(Datatype datatype, const Words& words) {
  const std::uint64_t elementBytes = codec::elementBytes(datatype);
  Bytes elements(words.size() * elementBytes);
  for (std::size_t n = 0; n < words.size(); ++n) {
    // A little-endian machine: a 16-bit element is the upper half.
    const std::uint32_t word = elementBytes == 4 ? words[n] : words[n] >> 16;
    std::memcpy(elements.data() + n * elementBytes, &word, elementBytes);
  }
  return elements;
}

constexpr std::uint64_t kDefaultPool = ~0ULL;
constexpr std::uint64_t kLargestPool = ~0ULL - 1;

Frame encodeFrame(std::string name, Datatype datatype, Layout layout, const Words& words,
                  std::uint64_t poolBytes, bool checksum = false,
                  const codec::ApplicationWords& application = {}) {
  Frame frame;
  frame.name = name;
  frame.elementsName = std::move(name);
  frame.spec = {datatype, layout, words.size(), poolBytes, checksum};
  if (poolBytes == kDefaultPool) {
    frame.spec.poolBytes = codec::defaultPoolBytes(datatype, layout, words.size());
  } else if (poolBytes == kLargestPool) {
    frame.spec.poolBytes = codec::maxPoolBytes(datatype, layout, words.size());
  }
  frame.elements = elementsOf(datatype, words);
  frame.frame.resize(codec::maxFrameBytes(datatype, words.size()));
  const codec::EncodeResult result = codec::encodeWith(
      codec::scalarTileCodec(), frame.spec, frame.elements.data(), frame.frame, application);
  frame.frame.resize(result.frameBytes());
  return frame;
}

Frame encodeBf16(std::string name, const Words& words, std::uint64_t poolBytes = kDefaultPool,
                 bool checksum = false) {
  return encodeFrame(std::move(name), Datatype::kBfloat16, Layout::kNarrow, words, poolBytes,
                     checksum);
}

Frame encodeFp16(std::string name, const Words& words, std::uint64_t poolBytes = kDefaultPool,
                 bool checksum = false) {
  return encodeFrame(std::move(name), Datatype::kFloat16, Layout::kNarrow, words, poolBytes,
                     checksum);
}

/// Nine tiles, so two groups.
Words groupsOf(const Tiles& tiles, Random& random, std::uint32_t escapes) {
  return join({tiles.bell(), tiles.raw(), emptyTile(), tiles.zeroRich(), tiles.special(),
               tiles.withEscapes(escapes), tiles.bell(), tiles.raw(), tiles.bell(),
               tailOf(random, 3)});
}

void addBfloat16(Random& random, std::vector<Frame>& all) {
  const Tiles tiles(Datatype::kBfloat16, random);
  all.push_back(encodeBf16("bf16_nothing", {}, 0, true));
  all.push_back(encodeBf16("bf16_one_element", tailOf(random, 1)));
  all.push_back(encodeBf16("bf16_tail", tailOf(random, 67), 0, true));
  all.push_back(encodeBf16("bf16_seven", tiles.bell()));
  all.push_back(encodeBf16("bf16_six_and_zero", tiles.zeroRich()));
  all.push_back(encodeBf16("bf16_empty", join({emptyTile(), tailOf(random, 1)})));
  all.push_back(encodeBf16("bf16_raw", tiles.raw(), kLargestPool));
  all.push_back(encodeBf16("bf16_special", join({tiles.special(), tailOf(random, 5)})));
  all.push_back(encodeBf16("bf16_640_escapes", tiles.withEscapes(640)));
  all.push_back(encodeBf16("bf16_641_escapes", tiles.withEscapes(641)));

  // The first region holds about 2 KB.
  const Words words = groupsOf(tiles, random, 300);
  const codec::ApplicationWords application = {random(), random(), random(), random()};
  const auto add = [&](const char* name, std::uint64_t poolBytes, bool checksum) {
    all.push_back(encodeFrame(name, Datatype::kBfloat16, Layout::kNarrow, words, poolBytes,
                              checksum, application));
    all.back().elementsName = "bf16_groups";
  };
  add("bf16_groups_pool_none", 0, true);
  add("bf16_groups_pool_inside_region", 896, false);
  add("bf16_groups_pool_largest", kLargestPool, true);
}

void addFloat16(Random& random, std::vector<Frame>& all) {
  const Tiles tiles(Datatype::kFloat16, random);
  all.push_back(encodeFp16("fp16_nothing", {}, 0, true));
  all.push_back(encodeFp16("fp16_tail", tailOf(random, 67), 0, true));
  all.push_back(encodeFp16("fp16_seven", tiles.bell()));
  all.push_back(encodeFp16("fp16_subnormal", tiles.bellOf(-17)));
  all.push_back(encodeFp16("fp16_six_and_zero", tiles.zeroRich()));
  all.push_back(encodeFp16("fp16_empty", join({emptyTile(), tailOf(random, 1)}), 0));
  all.push_back(encodeFp16("fp16_raw", tiles.raw(), kLargestPool));
  all.push_back(encodeFp16("fp16_special", join({tiles.special(), tailOf(random, 5)})));
  all.push_back(encodeFp16("fp16_256_escapes", tiles.withEscapes(256)));
  all.push_back(encodeFp16("fp16_257_escapes", tiles.withEscapes(257)));
  all.push_back(encodeFp16("fp16_groups", groupsOf(tiles, random, 200), 512, true));
}

void addFloat32(Random& random, std::vector<Frame>& all) {
  const Tiles tiles(Datatype::kFloat32, random);
  const Words words = join({tiles.bell(), withLowHalves(random, tiles.zeroRich()),
                            withLowHalves(random, emptyTile()), withLowHalves(random, tiles.raw()),
                            tiles.raw(), tailOf(random, 2)});
  for (const bool checksum : {false, true}) {
    for (const Layout layout : {Layout::kNarrow, Layout::kWide}) {
      const bool wide = layout == Layout::kWide;
      // A checksum goes with a small pool, so that the border lies inside low planes too.
      if (wide && checksum) continue;
      const char* const name = wide ? "fp32_wide" : checksum ? "fp32_pool_small" : "fp32_narrow";
      all.push_back(encodeFrame(name, Datatype::kFloat32, layout, words,
                                checksum ? 256 : kDefaultPool, checksum));
      all.back().elementsName = "fp32";
    }
  }
}

}  // namespace

std::vector<Frame> frames(Random& random) {
  std::vector<Frame> all;
  addBfloat16(random, all);
  addFloat32(random, all);
  addFloat16(random, all);
  all.push_back(workedExample());
  return all;
}

Frame workedExample() {
  Words words(kTile, 0x3FC00000U);                             // 1.5
  words[0] = 0xC0200000U;                                      // -2.5: lane 0, slot 0
  words[8] = 0x7F800000U;                                      // +infinity: lane 1, slot 0
  words[9] = 0xB5800000U;                                      // -2^-20: lane 1, slot 1
  const Words tail = {0x3F800000U, 0x80000000U, 0x7FC10000U};  // 1.0, -0.0, a NaN
  return encodeBf16("worked_example", join({words, tail}), 128);
}

namespace {

/// A frame with something written over it.
class Edit {
 public:
  explicit Edit(const Frame& frame) : bytes_(frame.frame) {}

  template <typename Word>
  Edit& set(std::uint64_t offset, Word word) {
    if (offset + sizeof word > bytes_.size()) throw std::logic_error("edit outside the frame");
    storeWord(bytes_.data() + offset, word);
    return *this;
  }
  Edit& setByte(std::uint64_t offset, std::uint32_t value) {
    return set(offset, static_cast<std::uint8_t>(value));
  }
  Edit& flipBit(std::uint64_t offset, std::uint32_t bit) {
    return setByte(offset, std::to_integer<std::uint32_t>(bytes_[offset]) ^ (1U << bit));
  }
  Edit& addTo32(std::uint64_t offset, std::uint32_t addend) {
    return set(offset, loadWord<std::uint32_t>(bytes_.data() + offset) + addend);
  }
  Edit& cut(std::uint64_t bytes) {
    bytes_.resize(bytes_.size() - bytes);
    return *this;
  }
  Edit& keep(std::uint64_t bytes) {
    bytes_.resize(bytes);
    return *this;
  }

  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

// Offsets of the header's fields (docs/format.md section 3).
constexpr std::uint64_t kVersionAt = 4;
constexpr std::uint64_t kCodecAt = 5;
constexpr std::uint64_t kDatatypeAt = 6;
constexpr std::uint64_t kLayoutAt = 7;
constexpr std::uint64_t kTileLog2At = 8;
constexpr std::uint64_t kGroupLog2At = 9;
constexpr std::uint64_t kFlagsAt = 10;
constexpr std::uint64_t kReserved12At = 12;
constexpr std::uint64_t kElementCountAt = 16;
constexpr std::uint64_t kPoolBytesAt = 24;
constexpr std::uint64_t kExtraBytesAt = 32;
constexpr std::uint64_t kChecksumAt = 40;
constexpr std::uint64_t kReserved80At = 80;
// Of a frame with one tile.
constexpr std::uint64_t kDescriptorAt = 128;
constexpr std::uint64_t kGroupOffsetAt = 136;
constexpr std::uint64_t kRecordAt = 256;

/// The frames of which the faults are made: each is small and has what its faults need.
class Bases {
 private:
  Tiles bf16Tiles_;
  Tiles fp16Tiles_;

 public:
  explicit Bases(Random& random)
      : bf16Tiles_(Datatype::kBfloat16, random),
        fp16Tiles_(Datatype::kFloat16, random),
        tail(encodeBf16("tail", tailOf(random, 3))),
        fp32Tail(
            encodeFrame("fp32_tail", Datatype::kFloat32, Layout::kNarrow, tailOf(random, 3), 0)),
        coded(encodeBf16("coded", bf16Tiles_.withEscapes(20))),
        codedWithoutPool(encodeBf16("coded", bf16Tiles_.withEscapes(20), 0)),
        codedWithoutEscapes(encodeBf16("coded", bf16Tiles_.withEscapes(0), 0)),
        zeroRich(encodeBf16("zero_rich", bf16Tiles_.zeroRich())),
        empty(encodeBf16("empty", emptyTile(), 0)),
        raw(encodeBf16("raw", bf16Tiles_.raw(), 0)),
        checked(encodeBf16("checked", bf16Tiles_.withEscapes(20), 0, true)),
        checkedTail(encodeBf16("checked", tailOf(random, 3), 0, true)),
        fp32Raw(encodeFrame("fp32_raw", Datatype::kFloat32, Layout::kNarrow,
                            withLowHalves(random, bf16Tiles_.raw()), 0)),
        fp16Tail(encodeFp16("fp16_tail", tailOf(random, 3))),
        fp16Coded(encodeFp16("fp16_coded", fp16Tiles_.withEscapes(20))),
        fp16Empty(encodeFp16("fp16_empty", emptyTile(), 0)),
        fp16Raw(encodeFp16("fp16_raw", fp16Tiles_.raw(), 0)),
        fp16Checked(encodeFp16("fp16_checked", fp16Tiles_.withEscapes(20), 0, true)) {}

  Frame tail, fp32Tail, coded, codedWithoutPool, codedWithoutEscapes, zeroRich, empty, raw, checked,
      checkedTail, fp32Raw, fp16Tail, fp16Coded, fp16Empty, fp16Raw, fp16Checked;
};

class FaultList {
 public:
  void add(DecodeStatus status, const char* name, const Edit& edit) {
    faults_.push_back({name, status, edit.bytes()});
  }
  [[nodiscard]] std::vector<Fault> take() { return std::move(faults_); }

 private:
  std::vector<Fault> faults_;
};

void addTruncated(const Bases& bases, FaultList& list) {
  const auto kStatus = DecodeStatus::kTruncated;
  list.add(kStatus, "truncated_to_nothing", Edit(bases.tail).keep(0));
  list.add(kStatus, "truncated_header", Edit(bases.coded).keep(127));
  list.add(kStatus, "truncated_after_header", Edit(bases.coded).keep(128));
  list.add(kStatus, "truncated_record", Edit(bases.empty).cut(1));
  list.add(kStatus, "truncated_pool", Edit(bases.coded).cut(1));
  list.add(kStatus, "truncated_tail", Edit(bases.tail).keep(133));
  list.add(kStatus, "truncated_to_static_part", Edit(bases.codedWithoutPool).cut(32));
  list.add(kStatus, "truncated_dynamic_part", Edit(bases.codedWithoutPool).cut(1));
  list.add(kStatus, "truncated_low_plane", Edit(bases.fp32Raw).cut(1));
  list.add(kStatus, "truncated_fine_plane", Edit(bases.fp16Empty).cut(1));
  list.add(kStatus, "truncated_raw_rest_of_fp16", Edit(bases.fp16Raw).cut(1));
  // A header may promise much more than there is.
  list.add(kStatus, "truncated_far", Edit(bases.tail).set(kElementCountAt, 1ULL << 40));
}

void addBadKind(const Bases& bases, FaultList& list) {
  list.add(DecodeStatus::kBadMagic, "magic_lower_case", Edit(bases.tail).setByte(0, 'z'));
  list.add(DecodeStatus::kBadMagic, "magic_big_endian",
           Edit(bases.tail).set(0, std::uint32_t{0x5A43434C}));
  list.add(DecodeStatus::kUnsupportedVersion, "version_0", Edit(bases.tail).setByte(kVersionAt, 0));
  list.add(DecodeStatus::kUnsupportedVersion, "version_2", Edit(bases.tail).setByte(kVersionAt, 2));
  list.add(DecodeStatus::kUnsupportedCodec, "codec_0", Edit(bases.tail).setByte(kCodecAt, 0));
  list.add(DecodeStatus::kUnsupportedCodec, "codec_2", Edit(bases.tail).setByte(kCodecAt, 2));
  list.add(DecodeStatus::kBadDatatype, "datatype_0", Edit(bases.tail).setByte(kDatatypeAt, 0));
  list.add(DecodeStatus::kBadDatatype, "datatype_4", Edit(bases.tail).setByte(kDatatypeAt, 4));
  list.add(DecodeStatus::kBadDatatype, "datatype_255", Edit(bases.tail).setByte(kDatatypeAt, 255));
  list.add(DecodeStatus::kBadLayout, "layout_2", Edit(bases.fp32Tail).setByte(kLayoutAt, 2));
  list.add(DecodeStatus::kBadLayout, "layout_wide_bf16", Edit(bases.tail).setByte(kLayoutAt, 1));
  list.add(DecodeStatus::kBadLayout, "layout_wide_fp16",
           Edit(bases.fp16Tail).setByte(kLayoutAt, 1));
  list.add(DecodeStatus::kBadTileSize, "tile_log2_11", Edit(bases.tail).setByte(kTileLog2At, 11));
  list.add(DecodeStatus::kBadTileSize, "group_log2_4", Edit(bases.tail).setByte(kGroupLog2At, 4));
}

void addBadReserved(const Bases& bases, FaultList& list) {
  const auto kStatus = DecodeStatus::kBadReserved;
  list.add(kStatus, "reserved_flag_1", Edit(bases.tail).flipBit(kFlagsAt, 1));
  list.add(kStatus, "reserved_flag_15", Edit(bases.tail).flipBit(kFlagsAt + 1, 7));
  list.add(kStatus, "reserved_byte_12", Edit(bases.tail).setByte(kReserved12At, 1));
  list.add(kStatus, "reserved_byte_15", Edit(bases.tail).setByte(kReserved12At + 3, 0x80));
  list.add(kStatus, "reserved_byte_80", Edit(bases.tail).setByte(kReserved80At, 1));
  list.add(kStatus, "reserved_byte_127", Edit(bases.tail).setByte(kReserved80At + 47, 0x80));
  list.add(kStatus, "checksum_without_flag", Edit(bases.tail).setByte(kChecksumAt + 7, 1));
}

void addBadSizes(const Bases& bases, FaultList& list) {
  list.add(DecodeStatus::kBadElementCount, "element_count_above_limit",
           Edit(bases.tail).set(kElementCountAt, (1ULL << 40) + 1));
  list.add(DecodeStatus::kBadElementCount, "element_count_largest",
           Edit(bases.tail).set(kElementCountAt, ~0ULL));
  list.add(DecodeStatus::kBadPoolBytes, "pool_64",
           Edit(bases.coded).set(kPoolBytesAt, std::uint64_t{64}));
  list.add(DecodeStatus::kBadPoolBytes, "pool_above_limit",
           Edit(bases.coded).set(kPoolBytesAt, std::uint64_t{768}));
  list.add(DecodeStatus::kBadPoolBytes, "pool_above_limit_of_fp16",
           Edit(bases.fp16Coded).set(kPoolBytesAt, std::uint64_t{384}));
  list.add(DecodeStatus::kBadPoolBytes, "pool_largest",
           Edit(bases.coded).set(kPoolBytesAt, ~127ULL));
  list.add(DecodeStatus::kBadPoolBytes, "pool_without_tiles",
           Edit(bases.tail).set(kPoolBytesAt, std::uint64_t{128}));
  list.add(DecodeStatus::kBadExtraBytes, "extra_24",
           Edit(bases.coded).set(kExtraBytesAt, std::uint64_t{24}));
  list.add(DecodeStatus::kBadExtraBytes, "extra_above_limit",
           Edit(bases.coded).set(kExtraBytesAt, std::uint64_t{656}));
  list.add(DecodeStatus::kBadExtraBytes, "extra_above_limit_of_fp16",
           Edit(bases.fp16Coded).set(kExtraBytesAt, std::uint64_t{272}));
  list.add(DecodeStatus::kBadExtraBytes, "extra_largest",
           Edit(bases.coded).set(kExtraBytesAt, ~15ULL));
}

void addBadDescriptors(const Bases& bases, FaultList& list) {
  const auto kStatus = DecodeStatus::kBadDescriptor;
  list.add(kStatus, "descriptor_reserved_11", Edit(bases.coded).flipBit(kDescriptorAt + 1, 3));
  list.add(kStatus, "descriptor_reserved_15", Edit(bases.raw).flipBit(kDescriptorAt + 1, 7));
  list.add(kStatus, "descriptor_base_250", Edit(bases.coded).setByte(kDescriptorAt, 250));
  list.add(kStatus, "descriptor_base_255", Edit(bases.zeroRich).setByte(kDescriptorAt, 255));
  list.add(kStatus, "descriptor_base_of_empty", Edit(bases.empty).setByte(kDescriptorAt, 1));
  list.add(kStatus, "descriptor_base_of_raw", Edit(bases.raw).setByte(kDescriptorAt, 1));
  list.add(kStatus, "descriptor_escapes_of_empty", Edit(bases.empty).setByte(kDescriptorAt + 2, 1));
  list.add(kStatus, "descriptor_escapes_of_raw", Edit(bases.raw).setByte(kDescriptorAt + 3, 1));
  list.add(kStatus, "descriptor_641_escapes",
           Edit(bases.coded).set(kDescriptorAt + 2, std::uint16_t{641}));
  list.add(kStatus, "descriptor_65535_escapes",
           Edit(bases.coded).set(kDescriptorAt + 2, std::uint16_t{65535}));
  list.add(kStatus, "descriptor_low_of_bf16", Edit(bases.coded).flipBit(kDescriptorAt + 1, 2));
  list.add(kStatus, "descriptor_low_of_fp16", Edit(bases.fp16Coded).flipBit(kDescriptorAt + 1, 2));
  list.add(kStatus, "descriptor_base_26_of_fp16", Edit(bases.fp16Coded).setByte(kDescriptorAt, 26));
  list.add(kStatus, "descriptor_257_escapes_of_fp16",
           Edit(bases.fp16Coded).set(kDescriptorAt + 2, std::uint16_t{257}));
}

void addBadOffsets(const Bases& bases, FaultList& list) {
  const auto kStatus = DecodeStatus::kBadGroupOffset;
  const auto offset = [](const Frame& frame, std::uint64_t value) {
    return Edit(frame).set(kGroupOffsetAt, value);
  };
  list.add(kStatus, "offset_8", offset(bases.coded, 8));
  list.add(kStatus, "offset_half_outside", offset(bases.coded, 16));
  list.add(kStatus, "offset_at_end", offset(bases.coded, 32));
  list.add(kStatus, "offset_wraps_around", offset(bases.coded, ~15ULL));
  list.add(kStatus, "offset_of_raw_outside", offset(bases.raw, 16));
  list.add(kStatus, "offset_of_low_outside", offset(bases.fp32Raw, 16));
  list.add(kStatus, "offset_of_fp16_raw_outside", offset(bases.fp16Raw, 16));
  list.add(kStatus, "offset_without_need", offset(bases.empty, 16));
  list.add(kStatus, "region_without_extra", Edit(bases.coded).set(kExtraBytesAt, std::uint64_t{0}));
}

void addBadContent(const Bases& bases, FaultList& list) {
  const auto kCount = DecodeStatus::kBadEscapeCount;
  const std::uint32_t oneEscape = 1U << codec::kDescriptorEscapesShift;
  list.add(kCount, "escapes_one_more", Edit(bases.coded).addTo32(kDescriptorAt, oneEscape));
  list.add(kCount, "escapes_one_less", Edit(bases.coded).addTo32(kDescriptorAt, 0U - oneEscape));
  list.add(kCount, "escapes_none_said", Edit(bases.coded).set(kDescriptorAt + 2, std::uint16_t{0}));
  list.add(kCount, "escapes_in_every_code", [&] {
    Edit edit(bases.codedWithoutEscapes);
    for (std::uint32_t i = 0; i < codec::kCodePlaneBytes; ++i) {
      edit.setByte(kRecordAt + codec::kCodePlaneAt + i, 0xFF);
    }
    return edit;
  }());
  list.add(kCount, "escapes_one_less_of_fp16",
           Edit(bases.fp16Coded).addTo32(kDescriptorAt, 0U - oneEscape));
  const auto kChecksum = DecodeStatus::kChecksumMismatch;
  list.add(kChecksum, "checksum_flipped", Edit(bases.checked).flipBit(kChecksumAt, 0));
  list.add(kChecksum, "mantissa_flipped", Edit(bases.checked).flipBit(kRecordAt + 1023, 1));
  list.add(kChecksum, "tail_flipped", Edit(bases.checkedTail).flipBit(133, 7));
  list.add(kChecksum, "fine_bit_flipped",
           Edit(bases.fp16Checked).flipBit(kRecordAt + codec::kFinePlaneAt + 383, 7));
  // The same bits as another datatype, and with a zero behind them that is no element.
  list.add(kChecksum, "datatype_of_tail_changed", Edit(bases.checkedTail).setByte(kDatatypeAt, 2));
  list.add(kChecksum, "element_count_of_tail_changed",
           Edit(bases.checkedTail).set(kElementCountAt, std::uint64_t{4}));
}

/// Two faults, of which the one that is named first decides.
void addOrder(const Bases& bases, FaultList& list) {
  list.add(DecodeStatus::kTruncated, "order_short_before_magic",
           Edit(bases.tail).setByte(0, 0).keep(127));
  list.add(DecodeStatus::kBadMagic, "order_magic_before_version",
           Edit(bases.tail).setByte(3, 0).setByte(kVersionAt, 9));
  list.add(DecodeStatus::kUnsupportedVersion, "order_version_before_codec",
           Edit(bases.tail).setByte(kVersionAt, 9).setByte(kCodecAt, 9));
  list.add(DecodeStatus::kUnsupportedCodec, "order_codec_before_datatype",
           Edit(bases.tail).setByte(kCodecAt, 9).setByte(kDatatypeAt, 9));
  list.add(DecodeStatus::kBadDatatype, "order_datatype_before_layout",
           Edit(bases.tail).setByte(kDatatypeAt, 9).setByte(kLayoutAt, 9));
  list.add(DecodeStatus::kBadLayout, "order_layout_before_tile_size",
           Edit(bases.tail).setByte(kLayoutAt, 9).setByte(kTileLog2At, 9));
  list.add(DecodeStatus::kBadTileSize, "order_tile_size_before_reserved",
           Edit(bases.tail).setByte(kGroupLog2At, 9).setByte(kReserved12At, 9));
  list.add(DecodeStatus::kBadReserved, "order_reserved_before_element_count",
           Edit(bases.tail).setByte(kChecksumAt, 9).set(kElementCountAt, ~0ULL));
  list.add(DecodeStatus::kBadElementCount, "order_element_count_before_pool",
           Edit(bases.tail).set(kElementCountAt, ~0ULL).set(kPoolBytesAt, ~0ULL));
  list.add(DecodeStatus::kBadPoolBytes, "order_pool_before_extra",
           Edit(bases.tail).set(kPoolBytesAt, ~0ULL).set(kExtraBytesAt, ~0ULL));
  list.add(DecodeStatus::kBadExtraBytes, "order_extra_before_truncated",
           Edit(bases.coded).set(kExtraBytesAt, ~0ULL).cut(1));
  list.add(DecodeStatus::kTruncated, "order_truncated_before_descriptor",
           Edit(bases.coded).setByte(kDescriptorAt, 255).cut(1));
}

}  // namespace

std::vector<Fault> faults(Random& random) {
  const Bases bases(random);
  FaultList list;
  addTruncated(bases, list);
  addBadKind(bases, list);
  addBadReserved(bases, list);
  addBadSizes(bases, list);
  addBadDescriptors(bases, list);
  addBadOffsets(bases, list);
  addBadContent(bases, list);
  addOrder(bases, list);
  return list.take();
}

std::string listing(const Bytes& frame) {
  constexpr std::size_t kLineBytes = 16;
  std::string text;
  bool repeating = false;
  for (std::size_t at = 0; at < frame.size(); at += kLineBytes) {
    const auto line = std::span(frame).subspan(at, std::min(kLineBytes, frame.size() - at));
    const bool repeats = at > 0 && at + kLineBytes < frame.size() &&
                         std::equal(line.begin(), line.end(),
                                    frame.begin() + static_cast<std::ptrdiff_t>(at) -
                                        static_cast<std::ptrdiff_t>(kLineBytes));
    if (repeats) {
      if (!repeating) text += "*\n";
      repeating = true;
      continue;
    }
    repeating = false;
    char digits[32];
    std::snprintf(digits, sizeof digits, "%04zx ", at);
    text += digits;
    for (const std::byte byte : line) {
      std::snprintf(digits, sizeof digits, " %02x", std::to_integer<unsigned>(byte));
      text += digits;
    }
    text += '\n';
  }
  return text;
}

namespace {

constexpr std::array<std::string_view, 18> kStatusNames = {"kOk",
                                                           "kTruncated",
                                                           "kBadMagic",
                                                           "kUnsupportedVersion",
                                                           "kUnsupportedCodec",
                                                           "kBadDatatype",
                                                           "kBadLayout",
                                                           "kBadTileSize",
                                                           "kBadReserved",
                                                           "kBadElementCount",
                                                           "kBadPoolBytes",
                                                           "kBadExtraBytes",
                                                           "kSpecMismatch",
                                                           "kOutputTooSmall",
                                                           "kBadDescriptor",
                                                           "kBadGroupOffset",
                                                           "kBadEscapeCount",
                                                           "kChecksumMismatch"};
static_assert(kStatusNames.size() == static_cast<std::size_t>(DecodeStatus::kChecksumMismatch) + 1);

Bytes bytesOf(const std::string& text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace

std::string_view nameOf(DecodeStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

std::optional<DecodeStatus> statusOf(std::string_view name) {
  const auto* const found = std::find(kStatusNames.begin(), kStatusNames.end(), name);
  if (found == kStatusNames.end()) return std::nullopt;
  return static_cast<DecodeStatus>(found - kStatusNames.begin());
}

Files filesOf(const std::vector<Frame>& frames, const std::vector<Fault>& faults) {
  Files files;
  nlohmann::ordered_json manifest = {{"formatVersion", codec::kFormatVersion}};
  for (const Frame& frame : frames) {
    const std::string framePath = "frames/" + frame.name + ".zccl";
    const std::string elementsPath = "frames/" + frame.elementsName + ".elements";
    files[framePath] = frame.frame;
    files[elementsPath] = frame.elements;
    manifest["frames"].push_back({{"frame", framePath}, {"elements", elementsPath}});
  }
  for (const Fault& fault : faults) {
    const std::string path = "faults/" + fault.name + ".zccl";
    files[path] = fault.frame;
    manifest["faults"].push_back({{"frame", path}, {"status", nameOf(fault.status)}});
  }
  files["manifest.json"] = bytesOf(manifest.dump(1) + "\n");
  return files;
}

Files goldenFiles() {
  Random random(kGoldenSeed);
  const std::vector<Frame> allFrames = frames(random);
  return filesOf(allFrames, faults(random));
}

}  // namespace zipccl::golden
