#include "commlens/app/free_memory.hpp"

#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "commlens/base/units.hpp"

namespace commlens {
std::optional<Bytes> free_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) {
      return Bytes{kibibytes * 1024};
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

Result<void> check_free_memory(Bytes needed, std::string_view advice) {
  const std::optional<Bytes> free = free_memory();
  if (!free || needed <= *free) {
    return {};
  }
  return failure(fmt::format("the buffers of the ranks of this machine take {}, and it has {} free; {}",
                             to_text(needed), to_text(*free), advice));
}

}  // namespace commlens
