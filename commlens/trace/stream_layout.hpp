#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "commlens/comm/event.hpp"

// The bytes of a stream's files (docs/formats/trace.md).
namespace commlens {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie in memory");

constexpr std::array<char, 8> k_stream_magic = {'c', 'o', 'm', 'm', 'l', 'e', 'n', 's'};
// Version 1 has rows of `ops` from 0, so that a record of zeros is the call of a row.
constexpr std::uint32_t k_stream_version = 2;
// A ring: RingHeader, lapped calls and counts stand between StreamHeader and the records.
constexpr std::uint32_t k_ring_version = 3;
constexpr std::int64_t k_no_time = INT64_MIN;
constexpr std::int64_t k_unfinished = -1;  // duration of a call that is under way
constexpr std::int64_t k_failed = -2;      // … of one that returned an error
constexpr std::int64_t k_cancelled = -3;   // … of one that was cancelled
constexpr std::int64_t k_no_row = -4;      // … of one that turned out to be a call the tables had no room for

/// The first 64 bytes of a file.
struct StreamHeader {
  std::array<char, 8> magic = k_stream_magic;
  std::uint32_t version = k_stream_version;
  std::uint32_t header_bytes = 64;
  std::uint32_t record_bytes = 32;
  std::uint32_t stream = 0;
  std::int64_t first_rank = 0;
  std::int64_t last_rank = 0;
  std::uint64_t records = 0;       // in use; of a ring all that were ever written
  std::uint64_t dropped_full = 0;  // calls that found the disk full
  std::uint64_t dropped_late = 0;  // calls that came faster than the file could grow
};
static_assert(sizeof(StreamHeader) == 64);

/// What follows StreamHeader in the file of a ring, whose record number i (from 0) is in place i modulo
/// `capacity`. The record is there for as long as `begun` is at most i + capacity.
struct RingHeader {
  std::uint64_t capacity = 0;   // records
  std::uint64_t begun = 0;      // records whose writing has begun: `records`, or one more meanwhile
  std::uint64_t changes = 0;    // odd while a lapped call ends
  std::uint64_t lapped = 0;     // calls under way that were overwritten: rows of LappedCall in use
  std::uint64_t unkept = 0;     // … that found no row
  std::uint64_t uncounted = 0;  // overwritten calls whose lane has no count
  std::uint64_t lapped_rows = 0;
  std::uint64_t lanes = 0;
};
static_assert(sizeof(RingHeader) == 64);

/// The first 128 bytes of a ring's file.
struct RingHead {
  StreamHeader stream;
  RingHeader ring;
};
static_assert(sizeof(RingHead) == 128);

constexpr std::int64_t k_default_ring_records = 262'144;  // 8 MiB
constexpr std::int64_t k_most_ring_records = std::int64_t{1} << 30;
constexpr std::uint64_t k_lapped_rows = 256;
constexpr std::uint64_t k_ring_lanes = 32768;
constexpr std::uint64_t k_most_lapped_rows = std::uint64_t{1} << 16;  // that readers take
constexpr std::uint64_t k_most_ring_lanes = std::uint64_t{1} << 24;

/// A file of calls, or (with its own magic and record size) of compute intervals.
constexpr std::array<char, 8> k_compute_magic = {'c', 'o', 'm', 'm', 'c', 'o', 'm', 'p'};
constexpr std::uint32_t k_compute_version = 2;  // version 1 has 0 for `check`

/// One call.
struct StreamRecord {
  std::uint32_t op_number = 0;  // row of `ops` + 1; 0: no call, whatever else is there
  std::int32_t iteration = 0;
  std::int64_t started_ns = k_no_time;
  std::int64_t duration_ns = 0;
  std::uint32_t issue_lead_ns = 0;  // started - issued; 4.29 s means that or longer
  std::int32_t micro_batch = k_no_micro_batch;
};
static_assert(sizeof(StreamRecord) == 32);

/// A call under way whose record was overwritten.
struct LappedCall {
  std::uint64_t index = 0;   // of its record
  std::uint64_t number = 0;  // among the overwritten calls of its lane, from 1
  StreamRecord record;
};
static_assert(sizeof(LappedCall) == 48);

/// Bytes before the records of a ring: headers, rows for lapped calls, and a count (u64) of each lane.
constexpr std::uint64_t ring_header_bytes(std::uint64_t lapped_rows, std::uint64_t lanes) {
  return sizeof(StreamHeader) + sizeof(RingHeader) + lapped_rows * sizeof(LappedCall) +
         lanes * sizeof(std::uint64_t);
}

/// One compute interval.
struct ComputeRecord {
  std::int64_t started_ns = 0;
  std::int64_t duration_ns = 0;
  std::int32_t iteration = 0;
  std::uint32_t check = 0;  // compute_check
};
static_assert(sizeof(ComputeRecord) == 24);

/// What is in `check`, never 0: a page of the file that was lost and reads as zeros may hold any part of
/// a record, since 24 bytes do not divide one.
constexpr std::uint32_t compute_check(const ComputeRecord& record) {
  std::uint64_t hash = static_cast<std::uint64_t>(record.started_ns) * 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 32) ^ static_cast<std::uint64_t>(record.duration_ns)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 32) ^ static_cast<std::uint32_t>(record.iteration)) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>(hash >> 32) | 1U;
}

/// Whether the first page of a file was lost: nothing of its header is left.
bool is_lost(const StreamHeader& header);

/// How many records of `size` bytes stand before the zeros at the end of a file's `records`.
std::uint64_t records_before_zeros(std::span<const std::byte> records, std::size_t size);

}  // namespace commlens
