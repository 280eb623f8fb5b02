#include "commlens/trace/rank_process.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace commlens {
namespace {

/// The first of some environment variables that is set; empty when none is.
std::string_view first_set(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      return value;
    }
  }
  return {};
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Text for one line of a file; longer is no name.
std::string short_text(std::string_view text) {
  constexpr std::size_t longest = 1024;
  return text.find_first_of("\n\r") == std::string_view::npos ? std::string(text.substr(0, longest)) : "";
}

std::string own_program() {
  std::array<char, 4096> path = {};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  return size <= 0 ? "" : short_text({path.data(), static_cast<std::size_t>(size)});
}

}  // namespace

std::string own_host() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The program's name, in parentheses, is the second field and may hold anything.
std::optional<std::int64_t> start_ticks_of(std::int64_t pid) {
  std::FILE* const file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "re");
  if (file == nullptr) {
    return std::nullopt;
  }
  std::array<char, 1024> block = {};
  const std::size_t size = std::fread(block.data(), 1, block.size(), file);
  std::fclose(file);
  std::string_view rest(block.data(), size);
  rest.remove_prefix(std::min(rest.size(), rest.rfind(')') + 1));
  constexpr int fields_between = 20;  // from the space behind the name to the one before the 22nd field
  for (int field = 0; field < fields_between; ++field) {
    rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1));
  }
  return whole_number(rest.substr(0, rest.find(' ')));
}

RankProcess own_process() {
  const std::int64_t pid = getpid();
  return {.host = own_host(),
          .pid = pid,
          .start_ticks = start_ticks_of(pid).value_or(0),
          .exe = own_program(),
          .job_id = short_text(first_set({"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"})),
          .local_rank = whole_number(
              first_set({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"}))};
}

}  // namespace commlens
