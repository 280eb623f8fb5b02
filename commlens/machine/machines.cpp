#include "commlens/machine/machines.hpp"

#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"
#include "commlens/machine/machine_reader.hpp"

namespace commlens {

Result<Machine> find_machine(const std::string& name_or_file) {
  constexpr std::int64_t most_bytes = 16 << 20;
  std::vector<std::string_view> names;
  for (const EmbeddedFile& machine : built_in_machines()) {
    if (machine.stem() == name_or_file) {
      return read_machine(fmt::format("{}.json", machine.stem()), machine.text);
    }
    names.push_back(machine.stem());
  }
  std::error_code unreadable;
  if (std::filesystem::exists(name_or_file, unreadable)) {
    return read_text_file(name_or_file, most_bytes).and_then([&](const std::string& content) {
      return read_machine(name_or_file, content);
    });
  }
  const std::string near = nearest(name_or_file, names);
  return failure(
      fmt::format("machine '{}' is no file and none of the known ones{}; commlens machines lists them",
                  name_or_file, near.empty() ? "" : fmt::format(", is it '{}'?", near)));
}

}  // namespace commlens
