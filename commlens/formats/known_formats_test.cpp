#include "commlens/formats/known_formats.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/write_export.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;
using namespace std::string_view_literals;

constexpr std::string_view k_call =
    R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":2,"output_bytes":2,"group":[0,1]})"
    "\n";

std::string error_of(const std::filesystem::path& path) {
  const Result<Trace> trace = import_any(path);
  return trace ? "no error" : trace.error().message;
}

TEST(KnownFormats, SaysWhatAFileIsThatIsNotReadAndWhatToDo) {
  struct Case {
    const char* name;
    std::string_view content;
    const char* said;
  };
  const ScratchDirectory directory;
  for (const Case& each : {
           Case{"a.nsys-rep", "\x01\x02\0"sv,
                "a report of Nsight Systems; make it a database with nsys export --type sqlite"},
           Case{"a.ncu-rep", "NVR\0\1"sv, "a report of Nsight Compute"},
           Case{"a.pftrace", "\x0a\x04\x10\x01\x18\x02"sv, "a Perfetto trace in protobuf; name the file"},
           Case{"a.cubex", "anchor.xml\0\0"sv, "a Cube profile, which holds sums only"},
           Case{"0.evt", "\x03\0\0"sv, "a part of an OTF2 archive; name the archive's .otf2 file"},
           Case{"a.json.zst", "\x28\xb5\x2f\xfd\x04"sv,
                "compressed with zstd; read it through a pipe: zstdcat "},
           Case{"a.xz",
                "\xfd"
                "7zXZ\0\1"sv,
                ": xzcat "},
           Case{"a.bz2", "BZh91AY&SY"sv, ": bzcat "},
           Case{"a.zip", "PK\x03\x04\x14\0"sv, "a zip archive; unpack it"},
           Case{"a.prv", "#Paraver (01/01/2024 at 12:00):1_ns\n"sv,
                "a Paraver trace, for which there is no reader; record the run"},
           Case{"a.out",
                "\x7f"
                "ELF\x02\x01\x01\0"sv,
                "a program; commlens record -- "},
           Case{"t.json", R"({"traceEvents": [{"ph": "X", "name": "f", "ts": 1, "dur": 2}]})"sv,
                "a Chrome trace, but not of PyTorch's profiler"},
           Case{"w.csv", "comm_type,comm_group,comm_group_size,msg_size\n"sv, "an export of commlens; name"},
           Case{"s.goal", "num_ranks 2\n\nrank 0 {\n"sv, "an export of commlens; name"},
           Case{"m.pickle", "\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94."sv,
                "a Python pickle, but no dump of PyTorch's flight recorder"},
       }) {
    const std::filesystem::path file = directory.write(each.name, each.content);
    const std::string said = error_of(file);
    EXPECT_NE(said.find(each.said), std::string::npos) << each.name << ": " << said;
    EXPECT_EQ(said.rfind(file.string() + ": ", 0), 0U) << said;
    EXPECT_EQ(said.find("no format we know"), std::string::npos) << said;
    EXPECT_EQ(said.find('{'), std::string::npos) << said;
  }
}

TEST(KnownFormats, TakesNothingElse) {
  for (const std::string_view text : {"hello"sv, "\x03x"sv, "{\"a\": 1}"sv, "\x80"sv, "numbers"sv}) {
    EXPECT_EQ(unreadable_format("f", text), "") << text;
  }
}

/// What a directory or file holds after an export to it.
std::filesystem::path exported(const ScratchDirectory& directory, const char* to) {
  const Result<Trace> trace = import_any(directory.write("calls.jsonl", k_call));
  const std::filesystem::path target = directory / (std::string("out.") + to);
  const Result<void> written = write_export(*exporter_named(to), *trace, {}, target.string());
  EXPECT_TRUE(written) << to << ": " << (written ? "" : written.error().message);
  return target;
}

TEST(KnownFormats, KnowsOurOwnExports) {
  const ScratchDirectory directory;
  for (const char* const to : {"perfetto", "sqlite"}) {
    const std::string said = error_of(exported(directory, to));
    EXPECT_NE(said.find("an export of commlens; name the trace that it was made from"), std::string::npos)
        << to << ": " << said;
  }
}

TEST(KnownFormats, ADirectoryOfReadableFilesIsNamedByThem) {
  const ScratchDirectory directory;
  const std::filesystem::path chakra = exported(directory, "chakra");
  const std::string one = error_of(chakra);
  EXPECT_NE(one.find("; it holds a file that can be read (chakra-et): name " + (chakra / "").string()),
            std::string::npos)
      << one;
  const std::filesystem::path logs = directory / "logs";
  std::filesystem::create_directory(logs);
  directory.write("logs/b.jsonl", k_call);
  directory.write("logs/a.jsonl", k_call);
  directory.write("logs/README", "hello");
  const std::string two = error_of(logs);
  EXPECT_NE(two.find("it holds files that can be read (calls-jsonl): name one, such as " +
                     (logs / "a.jsonl").string() + ", or make a trace"),
            std::string::npos)
      << two;
  std::filesystem::create_directory(directory / "none");
  EXPECT_EQ(error_of(directory / "none").find("it holds"), std::string::npos);
}

}  // namespace
}  // namespace commlens::formats
