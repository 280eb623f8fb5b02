#include "commlens/trace/stream_checks.hpp"

#include <fmt/format.h>

namespace commlens {
namespace {

constexpr std::int64_t k_most_dropped = std::int64_t{1} << 38;  // of one stream; a sum of streams fits
constexpr std::int64_t k_furthest_ns = INT64_MAX / 2;

}  // namespace

bool is_impossible(const StreamRecord& record) {
  const bool is_far = record.started_ns < -k_furthest_ns || record.started_ns > k_furthest_ns ||
                      record.duration_ns < k_no_row || record.duration_ns > k_furthest_ns;
  return (record.iteration < k_init_iteration && record.iteration != k_unknown_iteration) ||
         record.micro_batch < k_no_micro_batch || (is_far && record.started_ns != k_no_time);
}

StreamRecord as_version_2(StreamRecord record) {
  const bool is_zero = record.op_number == 0 && record.iteration == 0 && record.started_ns == 0 &&
                       record.duration_ns == 0 && record.issue_lead_ns == 0 && record.micro_batch == 0;
  record.op_number += is_zero ? 0 : 1;
  return record;
}

Times times_of(const StreamRecord& record) {
  using std::chrono::nanoseconds;
  return {nanoseconds(record.started_ns - std::int64_t{record.issue_lead_ns}), nanoseconds(record.started_ns),
          nanoseconds(record.started_ns + record.duration_ns)};
}

std::string fault_of(const StreamHeader& header, const StreamEntry& entry) {
  if (header.magic != k_stream_magic) {
    return "no stream of a commlens trace (its first bytes are not \"commlens\")";
  }
  if (header.version < 1 || header.version > k_ring_version) {
    return fmt::format("version {}, this program reads versions 1 to {}", header.version, k_ring_version);
  }
  const bool is_ring = header.version == k_ring_version;
  if (is_ring ? header.header_bytes < sizeof(RingHead) : header.header_bytes != sizeof(StreamHeader)) {
    return fmt::format("header of {} bytes, expected {}{}", header.header_bytes, is_ring ? "at least " : "",
                       is_ring ? sizeof(RingHead) : sizeof(StreamHeader));
  }
  if (header.record_bytes != sizeof(StreamRecord)) {
    return fmt::format("records of {} bytes, expected {}", header.record_bytes, sizeof(StreamRecord));
  }
  if (header.first_rank != entry.ranks.first.value || header.last_rank != entry.ranks.last.value) {
    return fmt::format("holds ranks {} to {}, the manifest says {} to {}", header.first_rank,
                       header.last_rank, entry.ranks.first.value, entry.ranks.last.value);
  }
  if (header.dropped_full > std::uint64_t{k_most_dropped} ||
      header.dropped_late > std::uint64_t{k_most_dropped}) {
    return fmt::format("says that {} and {} calls were dropped", header.dropped_full, header.dropped_late);
  }
  if (entry.events && header.records > static_cast<std::uint64_t>(*entry.events)) {
    return fmt::format("holds {} records, the manifest says {}", header.records, *entry.events);
  }
  return {};
}

bool is_on_device(const StreamRecord& record) {
  return record.started_ns != k_no_time && record.duration_ns == k_unfinished && record.issue_lead_ns > 0;
}

CallState state_of(const StreamRecord& record) {
  if (record.started_ns == k_no_time) {
    return CallState::finished;
  }
  switch (record.duration_ns) {
    case k_unfinished:
      return CallState::under_way;
    case k_failed:
      return CallState::failed;
    case k_cancelled:
      return CallState::cancelled;
    default:
      return CallState::finished;
  }
}

}  // namespace commlens
