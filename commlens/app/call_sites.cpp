#include "commlens/app/call_sites.hpp"

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

#include "commlens/app/source_lines.hpp"

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

std::string place_text(const CodePlace& place, const SourceLine& found) {
  std::string text = found.file.empty()
                         ? fmt::format("{}+0x{:x}", place.file.filename().string(), place.offset)
                         : fmt::format("{}:{}", fs::path(found.file).filename().string(), found.line);
  return found.function.empty() ? text : text + " " + found.function;
}

/// The sites of one file that are sought: their rows, places and addresses.
struct SoughtSite {
  NameId row{};
  CodePlace place;
  std::uint64_t address = 0;
};

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
    shown[op.site] = place_text(*place, {});
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
    const SourceLines lines(file);
    for (const SoughtSite& site : sites) {
      // The call is before the place it returns to, which may be of the next line.
      shown[site.row] = place_text(site.place, lines.at(site.address - 1));
    }
  }
  if (!sought.empty() && !SourceLines::are_known()) {
    events.warn("libdw (elfutils) is not installed, so functions and lines of calls are not known");
  }
  return shown;
}

}  // namespace commlens
