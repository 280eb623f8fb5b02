#include "commlens/trace/recorder_file.hpp"

#include <span>

#include "commlens/trace/ring_memory.hpp"
#include "commlens/trace/stream_layout.hpp"

namespace commlens {

GrowingFile recorder_file(const std::filesystem::path& path, Rank rank, std::int64_t ring_records) {
  StreamHeader header;
  header.stream = static_cast<std::uint32_t>(rank.value);
  header.first_rank = rank.value;
  header.last_rank = rank.value;
  if (ring_records == 0) {
    return GrowingFile(path, std::as_bytes(std::span(&header, 1)));
  }
  const auto capacity = static_cast<std::uint64_t>(ring_records);
  const RingHead head = ring_head(header, capacity);
  const GrowingFile::Ring ring{head.stream.header_bytes, capacity * sizeof(StreamRecord)};
  return GrowingFile(path, std::as_bytes(std::span(&head, 1)), ring);
}

}  // namespace commlens
