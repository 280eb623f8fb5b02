// A native trace directory: the input up to its first zero byte is manifest.json and, after a byte 1, the
// tables of a recorded rank, rank-0.jsonl; the rest is stream-0.bin and, from the bytes "commcomp" on, the
// file of compute intervals stream-0.compute.bin. A trace that can be read must be equal after it is written
// and read again.
#include <algorithm>

#include "commlens/base/check.hpp"
#include "commlens/trace/trace_file.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace commlens;
  static const InputDirectory directory;
  static const InputDirectory copies;
  const std::string_view input = as_text(bytes, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view texts = input.substr(0, end);
  const std::size_t manifest = std::min(texts.find('\1'), end);
  directory.write("manifest.json", texts.substr(0, manifest));
  directory.write("rank-0.jsonl", texts.substr(std::min(manifest + 1, end)));
  const std::string_view records = input.substr(std::min(end + 1, input.size()));
  const std::size_t compute = std::min(records.find("commcomp"), records.size());
  directory.write("stream-0.bin", records.substr(0, compute));
  directory.write("stream-0.compute.bin", records.substr(compute));
  const Result<Trace> trace = read_trace(directory.path());
  if (!trace) {
    return 0;
  }
  write_trace(*trace, copies.path() / "copy");
  const Result<Trace> copy = read_trace(copies.path() / "copy");
  COMMLENS_CHECK(copy.has_value(), "what we wrote can be read");
  COMMLENS_CHECK(copy->streams.size() == trace->streams.size() && copy->ops() == trace->ops(),
                 "a trace survives writing");
  for (std::size_t stream = 0; stream < trace->streams.size(); ++stream) {
    COMMLENS_CHECK(copy->streams[stream].compute == trace->streams[stream].compute,
                   "compute stretches survive writing");
  }
  return 0;
}
