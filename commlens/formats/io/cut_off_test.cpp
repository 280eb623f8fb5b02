#include "commlens/formats/io/cut_off.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/io/write_stream.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;

constexpr std::string_view k_whole_event =
    R"k({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce(x)",)k"
    R"k("ts": 1, "dur": 1})k";
constexpr std::string_view k_half_event = R"k(, {"ph": "X", "cat": "ker)k";

constexpr std::string_view k_header =
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
constexpr std::string_view k_row = "8 2 float sum -1 1.5 1 1 0 2.5 1 1 0\n";
constexpr std::string_view k_half_row = "16 4 float sum -1 1.";

template <typename... Texts>
std::string joined(Texts... texts) {
  return (std::string(texts) + ...);
}

/// What import_any says of a file beside the trace.
std::string said_of(const std::filesystem::path& file) {
  std::string said = "nothing was said";
  const Result<Trace> trace = import_any(file, &said);
  return trace ? said : trace.error().message;
}

TEST(CutOff, SaysWhereAFileEnds) {
  const ScratchDirectory directory;
  const std::filesystem::path kineto = directory.write("k.json", joined(k_whole_event, k_half_event));
  EXPECT_EQ(said_of(kineto), kineto.string() + ": cut off at byte 143; 1 call read");
  const std::filesystem::path table = directory.write("t.txt", joined(k_header, k_row, k_half_row));
  EXPECT_EQ(said_of(table),
            table.string() + ": ends within a line at byte 134, and has broken lines; 2 calls read");
}

TEST(CutOff, SaysSoWhereAFileEndsBetweenTwoValues) {
  const ScratchDirectory directory;
  const std::filesystem::path kineto = directory.write("k.json", k_whole_event);
  EXPECT_EQ(said_of(kineto), kineto.string() + ": cut off at byte 118; 1 call read");
}

TEST(CutOff, CountsTheBytesOfTheDecompressedText) {
  const ScratchDirectory directory;
  const std::string file = (directory / "k.json.gz").string();
  write_stream(file, [](const TextSink& sink) { sink(joined(k_whole_event, k_half_event)); });
  EXPECT_EQ(said_of(file), file + ": cut off at byte 143; 1 call read");
}

TEST(CutOff, SaysNothingOfAWholeFile) {
  const ScratchDirectory directory;
  EXPECT_EQ(said_of(directory.write("k.json", joined(k_whole_event, "]}"))), "");
  EXPECT_EQ(said_of(directory.write("t.txt", joined(k_header, k_row))), "");
  EXPECT_EQ(said_of(directory.write("t.txt", joined(k_header, k_row.substr(0, k_row.size() - 1)))), "")
      << "only the line end is missing";
  EXPECT_EQ(said_of(directory.write("t.txt", joined(k_header, k_half_row, "\n", k_row))), "")
      << "the broken row is not the last";
}

}  // namespace
}  // namespace commlens::formats
