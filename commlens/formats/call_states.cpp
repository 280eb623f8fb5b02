#include "commlens/formats/call_states.hpp"

#include <string>

#include <fmt/format.h>

#include "commlens/formats/flight_recorder/import.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats {

Result<StatedTrace> read_call_states(const std::filesystem::path& path) {
  constexpr std::size_t head_bytes = 65536;
  return read_head(path, head_bytes).and_then([&](const std::string& head) -> Result<StatedTrace> {
    if (!flight_recorder::sniff(path, head)) {
      return failure(fmt::format(
          "{}: neither the directory of a recording nor a flight recorder's dump; only these know calls that "
          "have not finished",
          path.string()));
    }
    return flight_recorder::read_states(path);
  });
}

}  // namespace commlens::formats
