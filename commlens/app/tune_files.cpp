#include "commlens/app/tune_files.hpp"

#include <array>
#include <ctime>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "commlens/app/output_place.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/app/version.hpp"
#include "commlens/base/file.hpp"
#include "commlens/transport/transport_table.hpp"

namespace commlens {
namespace {

/// A file of the request with its flag.
struct FlaggedFile {
  const char* flag;
  const std::string& path;
};
std::array<FlaggedFile, 4> flagged(const RuleFiles& files) {
  return {{{"--write-openmpi", files.open_mpi},
           {"--write-mpich", files.mpich},
           {"--write-nccl", files.nccl},
           {"--write-transports", files.transports}}};
}

/// "host, 8 cores of AMD EPYC …".
std::string machine_text() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string processor = "an unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      processor = line.substr(std::min(line.find(':') + 2, line.size()));
      break;
    }
  }
  return fmt::format("{}, {} cores of {}", host.data(), std::thread::hardware_concurrency(), processor);
}

tune::RuleOrigin origin_of(const TuneResult& result) {
  return {.machine = machine_text(),
          .versions = fmt::format("commlens {}, {}", k_version, result.library),
          .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))),
          .seed = result.seed,
          .messages = fmt::format("{}, on {} ranks", result.messages, result.ranks)};
}

TransportTable table_of(const TuneResult& result) {
  TransportTable table;
  for (const tune::Rule& rule : result.tuned.rules()) {
    table.entries.push_back({.kind = rule.kind,
                             .least = rule.message,
                             .most = rule.message,
                             .ranks = rule.ranks,
                             .transport = result.transport,
                             .algorithm = rule.algorithm});
  }
  return table;
}

std::string transports_text(const TuneResult& result) {
  const tune::RuleOrigin origin = origin_of(result);
  return transport_table_text(
      table_of(result),
      fmt::format("Transports, written by commlens tune\nmessages: {}\nmachine: {}\n"
                  "versions: {}\ndate: {}, seed: {}",
                  origin.messages, origin.machine, origin.versions, origin.date, origin.seed));
}

Result<std::string> text_of(const FlaggedFile& file, const TuneResult& result) {
  const std::string_view flag = file.flag;
  const std::vector<tune::Rule> rules = result.tuned.rules();
  return flag == "--write-openmpi" ? tune::open_mpi_rules(rules, origin_of(result))
         : flag == "--write-mpich" ? tune::mpich_rules(rules)
         : flag == "--write-nccl"  ? tune::nccl_tuner_rules(rules, origin_of(result))
                                   : Result<std::string>(transports_text(result));
}

}  // namespace

Result<void> check_rule_files(const TuneRequest& request) {
  std::vector<std::string> inputs = all_files_of(request.messages.input);
  for (const FlaggedFile& file : flagged(request.files)) {
    if (file.path.empty()) {
      continue;
    }
    if (file.path == "-") {
      return failure(fmt::format("{}: name a file; standard output has the result", file.flag));
    }
    const Result<void> usable = check_file_place(file.flag, file.path).and_then([&] {
      return check_apart(file.flag, file.path, inputs);
    });
    if (!usable) {
      return usable;
    }
    inputs.push_back(file.path);
  }
  if (request.append == "-") {
    return failure("--append -: name a file; standard output has the result");
  }
  return request.append.empty() ? Result<void>() : check_file_place("--append", request.append).and_then([&] {
    return check_apart("--append", request.append, inputs);
  });
}

Result<void> check_library(const RuleFiles& files, const std::string& library, const std::string& version) {
  if (!files.open_mpi.empty() && library != "openmpi") {
    return failure(
        "--write-openmpi: only a job over Open MPI times its algorithms; start it with Open MPI's "
        "mpirun and --transport mpi");
  }
  if (!files.mpich.empty() && library != "mpich") {
    return failure(
        "--write-mpich: only a job over MPICH times its algorithms; start it with MPICH's mpirun and "
        "--transport mpi");
  }
  if (!files.mpich.empty() && !tune::mpich_rules_fit(version)) {
    return failure(
        fmt::format("--write-mpich: its rules are those of MPICH 4.0, and this is {}; another version "
                    "would end a job at the first algorithm it does not know",
                    version));
  }
  return files.nccl.empty()
             ? Result<void>()
             : failure("--write-nccl: only a job over NCCL times its algorithms; use --transport nccl");
}

Result<std::vector<std::string>> write_rule_files(const RuleFiles& files, const TuneResult& result) {
  std::vector<std::string> written;
  for (const FlaggedFile& file : flagged(files)) {
    if (file.path.empty()) {
      continue;
    }
    const Result<std::string> text = text_of(file, result);
    if (!text) {
      return failure(fmt::format("{}: {}", file.flag, text.error().message));
    }
    write_file_atomically(file.path, *text);
    written.push_back(file.path);
  }
  return written;
}

}  // namespace commlens
