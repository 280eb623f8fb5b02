#include "commlens/trace/comm_members.hpp"

#include <array>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace commlens {
std::filesystem::path members_file(const std::filesystem::path& directory, std::uint64_t communicator) {
  return directory / fmt::format("nccl-comm-{:016x}.bin", communicator);
}

std::vector<std::optional<Rank>> published_members(const std::filesystem::path& directory,
                                                   std::uint64_t communicator, std::size_t most) {
  std::vector<std::optional<Rank>> members;
  const int file =
      ::open(members_file(directory, communicator).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    return members;
  }
  std::array<std::int64_t, 512> block = {};
  while (members.size() < most) {
    const auto at = static_cast<off_t>(members.size() * sizeof(std::int64_t));
    const ssize_t bytes = ::pread(file, block.data(), sizeof block, at);
    const std::size_t entries = bytes <= 0 ? 0 : static_cast<std::size_t>(bytes) / sizeof(std::int64_t);
    if (entries == 0) {
      break;
    }
    for (std::size_t entry = 0; entry < entries && members.size() < most; ++entry) {
      const std::int64_t value = block[entry];
      members.push_back(value > 0 ? std::optional(Rank{value - 1}) : std::nullopt);
    }
  }
  ::close(file);
  return members;
}

}  // namespace commlens
