#include "commlens/formats/otf2/import.hpp"

#include <fmt/format.h>

#include "commlens/formats/otf2/api.hpp"
#include "commlens/formats/otf2/isolated.hpp"

namespace commlens::formats::otf2 {

Result<Trace> read(const std::filesystem::path& path) {
  const Result<const Otf2Api*> api = load_otf2();
  if (!api) {
    return failure(fmt::format("{}: an OTF2 archive; {}", path.string(), api.error().message));
  }
  return read_isolated({.producer = "OTF2", .read = (*api)->read, .limits = {}}, path);
}

bool sniff(const std::filesystem::path& /*path*/, std::string_view head) {
  // A byte count, the byte order (B or L, or #), and the name of the format.
  return head.size() >= 8 && head[0] == '\x03' && head.substr(2, 4) == "OTF2";
}

}  // namespace commlens::formats::otf2
