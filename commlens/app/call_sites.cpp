#include "commlens/app/call_sites.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <elf.h>
#include <fmt/format.h>

#include "commlens/app/record_program.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A site as it was recorded: the place in a file that the call returns to.
struct CodePlace {
  fs::path file;
  std::uint64_t offset = 0;
};

/// "/usr/bin/app+0x1a2b"; nothing of other texts.
std::optional<CodePlace> code_place(std::string_view text) {
  constexpr std::string_view mark = "+0x";
  const std::size_t at = text.rfind(mark);
  if (!text.starts_with('/') || at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view digits = text.substr(at + mark.size());
  CodePlace place{text.substr(0, at), 0};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), place.offset, 16);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size();
  return is_whole ? std::optional(place) : std::nullopt;
}

/// The address that debug information has for a place in an ELF file; std::nullopt of other files, and of
/// places that are not loaded.
std::optional<std::uint64_t> linked_address(const fs::path& file, std::uint64_t offset) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    return std::nullopt;
  }
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header = {};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int at = 0; at < header.e_phnum; ++at) {
    Elf64_Phdr segment = {};
    if (!in.read(reinterpret_cast<char*>(&segment), sizeof segment)) {
      return std::nullopt;
    }
    if (segment.p_type == PT_LOAD && offset >= segment.p_offset &&
        offset - segment.p_offset < segment.p_filesz) {
      return offset - segment.p_offset + segment.p_vaddr;
    }
  }
  return std::nullopt;
}

/// The next line of `rest`, taken off it.
std::string taken_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return std::string(line);
}

/// What addr2line says of an address: "solve" and "/home/me/heat.c:42 (discriminator 3)", or "??" and "??:0".
std::string place_text(const CodePlace& place, const std::string& function, const std::string& line) {
  const std::string path = line.substr(0, line.find(" (discriminator"));
  const bool has_line = !path.starts_with("??") && !path.ends_with(":?") && !path.ends_with(":0");
  std::string text = has_line ? fs::path(path).filename().string()
                              : fmt::format("{}+0x{:x}", place.file.filename().string(), place.offset);
  if (!function.empty() && !function.starts_with("??")) {
    text += " " + function;
  }
  return text;
}

/// The sites of one file that are sought: their rows, places and addresses.
struct SoughtSite {
  NameId row{};
  CodePlace place;
  std::uint64_t address = 0;
};

/// Asks addr2line; false when it is not installed.
bool find_lines(const fs::path& file, const std::vector<SoughtSite>& sites,
                std::map<NameId, std::string>& shown) {
  constexpr std::size_t most_at_once = 1000;  // words of a command line have their limit
  for (std::size_t first = 0; first < sites.size(); first += most_at_once) {
    std::vector<std::string> command = {"addr2line", "-f", "-C", "-e", file.string()};
    const std::size_t end = std::min(first + most_at_once, sites.size());
    for (std::size_t at = first; at < end; ++at) {
      // The call is before the place it returns to, which may be of the next line.
      command.push_back(fmt::format("0x{:x}", sites[at].address - 1));
    }
    const std::string output = output_of(command);
    if (output.empty()) {
      return false;
    }
    std::string_view rest = output;
    for (std::size_t at = first; at < end; ++at) {
      const std::string function = taken_line(rest);
      const std::string line = taken_line(rest);
      shown[sites[at].row] = place_text(sites[at].place, function, line);
    }
  }
  return true;
}

/// Whether the file was written after the recording ended.
bool is_newer(const fs::path& file, const fs::path& trace) {
  std::error_code failed;
  const fs::file_time_type recorded = fs::last_write_time(trace / "manifest.json", failed);
  if (failed) {
    return false;
  }
  const fs::file_time_type written = fs::last_write_time(file, failed);
  return !failed && written > recorded;
}

}  // namespace

std::map<NameId, std::string> shown_call_sites(const Trace& tables, const fs::path& trace,
                                               const Events& events) {
  std::map<NameId, std::string> shown;
  std::map<fs::path, std::vector<SoughtSite>> sought;
  std::set<fs::path> absent;
  for (const CommOp& op : tables.ops()) {
    const std::string& text = tables.names.text(op.site);
    const std::optional<CodePlace> place = code_place(text);
    if (!shown.emplace(op.site, text).second || !place) {
      continue;
    }
    shown[op.site] = place_text(*place, "", "??:0");
    if (const auto address = linked_address(place->file, place->offset); address && *address > 0) {
      sought[place->file].push_back({op.site, *place, *address});
    } else if (absent.insert(place->file).second) {
      events.warn(fmt::format("{}: not here as it was recorded, so its functions and lines are not known",
                              place->file.string()));
    }
  }
  for (const auto& [file, sites] : sought) {
    if (is_newer(file, trace)) {
      events.warn(fmt::format("{} is newer than the trace: its functions and lines may be others now",
                              file.string()));
    }
    if (!find_lines(file, sites, shown)) {
      events.warn("addr2line (GNU binutils) is not installed, so functions and lines of calls are not known");
      break;
    }
  }
  return shown;
}

}  // namespace commlens
