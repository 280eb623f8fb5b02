// The folder of a job that is followed: the input up to its first zero byte is rank-0.jsonl, the rest
// rank-0.bin. It is given in two parts, as if it grew. What a single look counts is what the reader of whole
// traces finds, where that can read it.
#include <algorithm>

#include "commlens/base/check.hpp"
#include "commlens/live/folder_follower.hpp"
#include "commlens/trace/trace_file.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

constexpr std::string_view k_manifest =
    R"({"schema":"commlens.trace/2","source":"recorded","producer":"fuzz","description":"","framework":"",)"
    R"("verified":true,"accounting":"messages","skipped":{},"assumed":{},"tags":[""],"names":[""],)"
    R"("rules":[{"name":"","source":"","verified":true}],"groups":[],"ops":[],)"
    R"("streams":[{"file":"rank-0.bin","first_rank":0,"last_rank":0,"version":2,"tables":"rank-0.jsonl"}]})";

commlens::PollTime second(std::int64_t at) { return {std::chrono::seconds(at), at * 1'000'000'000}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace commlens;
  static const InputDirectory directory;
  const std::string_view input = as_text(bytes, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view tables = input.substr(0, end);
  const std::string_view records = input.substr(std::min(end + 1, input.size()));
  directory.write("manifest.json", k_manifest);
  FolderFollower follower(directory.path(), {.hang_after = std::chrono::seconds(1)});
  std::int64_t at = 0;
  for (const std::size_t part : {std::size_t{2}, std::size_t{1}}) {
    directory.write("rank-0.jsonl", tables.substr(0, tables.size() / part));
    directory.write("rank-0.bin", records.substr(0, records.size() / part));
    COMMLENS_CHECK(follower.poll(second(++at)).has_value(), "a recording can be followed");
  }
  COMMLENS_CHECK(follower.poll(second(at + 100)).has_value(), "a recording can be followed");
  FolderFollower single(directory.path(), {.hang_after = {}, .is_single = true});
  COMMLENS_CHECK(single.poll(second(1)).has_value(), "a recording can be followed");
  const Result<Trace> trace = read_trace(directory.path());
  if (trace && single.view().generation == 1 && single.view().ranks[0].error.empty()) {
    const std::int64_t calls = trace->streams.empty() ? 0 : std::ssize(trace->streams[0].events);
    COMMLENS_CHECK(single.view().totals.calls == calls, "a follower counts what a reader finds");
  }
  return 0;
}
