#include "commlens/capture/call_sites.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "commlens/capture/environment.hpp"

namespace commlens::capture {
namespace {

/// Everything in /proc/self/maps; empty when it cannot be read.
std::string maps_text() {
  std::string text;
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return text;
  }
  std::array<char, 4096> part;  // on the stack of a thread of the program
  ssize_t size = 0;
  do {
    size = ::read(file, part.data(), part.size());
    text.append(part.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  } while (size > 0 || (size < 0 && errno == EINTR));
  ::close(file);
  return text;
}

/// Takes a hexadecimal number and the character behind it off the front.
std::optional<std::uint64_t> taken_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end == text.data() + text.size()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return value;
}

}  // namespace

std::unique_ptr<CallSites> CallSites::if_asked(Recorder& recorder) {
  const char* const asked = std::getenv(k_sites_variable);
  return asked == nullptr || *asked == '\0' ? nullptr : std::make_unique<CallSites>(recorder);
}

std::uint16_t CallSites::of(const void* address) {
  if (const auto found = known_.find(address); found != known_.end()) {
    return found->second;
  }
  if (address == nullptr || known_.size() >= k_most_sites) {
    return 0;
  }
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const Mapping* const mapping = mapping_of(at);
  std::uint32_t row = 0;
  if (mapping != nullptr) {
    const std::string site = mapping->file.empty() ? k_no_file
                                                   : fmt::format("{}+0x{:x}", mapping->file,
                                                                 at - mapping->first + mapping->offset);
    row = static_cast<std::uint32_t>(recorder_.name(site));
  }
  const auto kept = static_cast<std::uint16_t>(row <= UINT16_MAX ? row : 0);
  known_.emplace(address, kept);
  return kept;
}

const CallSites::Mapping* CallSites::known_mapping_of(std::uintptr_t address) const {
  const auto found = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
    return mapping.first <= address && address < mapping.end;
  });
  return found == mappings_.end() ? nullptr : &*found;
}

const CallSites::Mapping* CallSites::mapping_of(std::uintptr_t address) {
  if (const Mapping* const known = known_mapping_of(address)) {
    return known;
  }
  // "7f12a000-7f12b000 r-xp 00001000 08:01 1234   /usr/lib/libx.so"
  mappings_.clear();
  const std::string text = maps_text();
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto first = taken_number(line);
    const auto end = first ? taken_number(line) : std::nullopt;
    const bool is_code = end && line.size() > 5 && line[2] == 'x';
    line.remove_prefix(is_code ? 5 : 0);
    const auto offset = is_code ? taken_number(line) : std::nullopt;
    if (offset) {
      const std::size_t path = line.find('/');
      mappings_.push_back(
          {*first, *end, *offset,
           std::string(path == std::string_view::npos ? std::string_view() : line.substr(path))});
    }
  }
  return known_mapping_of(address);
}

}  // namespace commlens::capture
