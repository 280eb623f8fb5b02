#include "nccl_job.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "commlens/base/check.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens::test {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

constexpr const char* k_no_launcher =
    "unset RANK WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID "
    "SLURM_NTASKS";

std::string spelled(const Trace& trace, const CommOp& op, Rank rank) {
  std::string members;
  for (const Rank member : trace.groups.members(op.group, rank)) {
    members += fmt::format("{}{}", members.empty() ? "" : ",", member.value);
  }
  return fmt::format("{} {} {} {} {} {} {} {}", rank.value, trace.names.text(op.name), name_of(op.kind),
                     name_of(op.dtype), op.input.value, op.output.value, members,
                     op.root ? op.root->value : -1);
}

}  // namespace

NcclJob::NcclJob(const std::string& command, bool is_recorded) {
  const std::string directory =
      is_recorded ? fmt::format("COMMLENS_TRACE={}", trace().string()) : "COMMLENS_TRACE=";
  const int status = std::system(fmt::format("cd {} && {} && export {} && ( {} ) >out 2>err </dev/null",
                                             scratch_.path().string(), k_no_launcher, directory, command)
                                     .c_str());
  exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  out = content_of(scratch_ / "out");
  err = content_of(scratch_ / "err");
}

Trace NcclJob::read() const {
  Result<Trace> trace = read_trace(this->trace());
  COMMLENS_CHECK(trace, trace ? "" : trace.error().message.c_str());
  return std::move(*trace);
}

std::vector<SeenCall> calls_of(const Trace& trace) {
  std::vector<SeenCall> calls;
  for (const RankStream& stream : trace.streams) {
    for (std::size_t row = 0; row < stream.events.size(); ++row) {
      const CommOp& op = trace.op(stream.events[row].op);
      calls.push_back({spelled(trace, op, stream.ranks.first), trace.names.text(op.note),
                       row < stream.times.size() ? stream.times[row] : Times{}});
    }
  }
  return calls;
}

Counts communicators_of(const Trace& trace) {
  std::map<std::string, std::set<CommunicatorId>> communicators;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      std::string ranks;
      for (const Rank rank : trace.groups.members(op.group, stream.ranks.first)) {
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank.value);
      }
      if (!is_point_to_point(op.kind) && trace.groups.size(op.group) > 1) {
        communicators[ranks].insert(trace.groups.communicator(op.group));
      }
    }
  }
  Counts counts;
  for (const auto& [ranks, ids] : communicators) {
    counts[ranks + (ids.contains(k_no_communicator) ? " without" : "")] = static_cast<int>(ids.size());
  }
  return counts;
}

Counts counted(const std::vector<SeenCall>& calls) {
  Counts counts;
  for (const SeenCall& call : calls) {
    ++counts[call.note.empty() ? call.text : call.text + " | " + call.note];
  }
  return counts;
}

std::string library(const std::string& name) {
  return fmt::format("{}/lib{}.so", COMMLENS_NCCL_LIBRARIES, name);
}

std::string program(const std::string& name) { return fmt::format("{}/{}", COMMLENS_NCCL_PROGRAMS, name); }

std::string binary() {
  const char* const path = std::getenv("COMMLENS_BINARY");
  return path == nullptr ? "build/release/commlens" : path;
}

}  // namespace commlens::test
