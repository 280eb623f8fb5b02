#include "second_count.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"

namespace commlens::test {
namespace {

/// The text between `before` and the next quote or comma; empty when it is not there.
std::string field(const std::string& line, const std::string& before) {
  const std::size_t at = line.find(before);
  if (at == std::string::npos) {
    return {};
  }
  const std::size_t start = at + before.size();
  return line.substr(start, line.find_first_of("\",", start) - start);
}

}  // namespace

Counts counts_of_recording(const Trace& trace, Rank rank) {
  Counts counts;
  for (const RankStream& stream : trace.streams) {
    if (stream.ranks.first != rank) {
      continue;
    }
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      Count& count = counts[std::string(trace.names.text(op.name))];
      ++count.calls;
      if (op.kind == CommKind::send || op.kind == CommKind::recv) {
        count.bytes += (op.input * op.dtype).value + (op.output * op.dtype).value;
      }
    }
  }
  if (const auto both = counts.find("MPI_Sendrecv"); both != counts.end()) {
    both->second.calls /= 2;
  }
  return counts;
}

Counts counts_of_ltrace(const std::filesystem::path& file) {
  Counts counts;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    double share = 0;
    double seconds = 0;
    std::int64_t each = 0;
    Count count;
    std::string name;
    if (words >> share >> seconds >> each >> count.calls >> name) {
      counts[name] = count;
    }
  }
  return counts;
}

Counts counts_of_eztrace(const JobDirectory& directory, const std::string& archive) {
  Counts counts;
  directory.run(fmt::format("otf2-print {} >events.txt", archive));
  std::ifstream in(directory.path() / "events.txt");
  std::map<std::string, std::string> function;  // that each location is in
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string event;
    std::string location;
    words >> event >> location;
    if (event == "ENTER") {
      function[location] = field(line, "Region: \"");
      ++counts[function[location]].calls;
    } else if (const std::string length = field(line, "Length: "); !length.empty()) {
      counts[function[location]].bytes += std::stoll(length);
    }
  }
  return counts;
}

bool has_program(const std::string& program) {
  return JobDirectory().run(fmt::format("command -v {}", program)).exit_code == 0;
}

}  // namespace commlens::test
