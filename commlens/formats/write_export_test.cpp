#include "commlens/formats/write_export.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/unfinished.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

Result<void> write_two_files(const Trace& /*trace*/, const CallSelection& /*selection*/,
                             const std::filesystem::path& directory) {
  std::ofstream(directory / "traces.two") << "anchor";
  std::ofstream(directory / "traces.more") << "more";
  std::filesystem::create_directory(directory / "traces");
  std::ofstream(directory / "traces" / "0") << "zero";
  return {};
}

Result<void> write_one_file(const Trace& /*trace*/, const CallSelection& /*selection*/,
                            const std::filesystem::path& file) {
  EXPECT_FALSE(std::filesystem::exists(file));
  std::ofstream(file) << "one";
  return {};
}

Result<void> fail_late(const Trace& /*trace*/, const CallSelection& /*selection*/,
                       const std::filesystem::path& file) {
  std::ofstream(file) << "half";
  return failure("cannot say it");
}

Result<void> fail_late_in_stream(const Trace& /*trace*/, const CallSelection& /*selection*/,
                                 const TextSink& sink) {
  sink("half");
  return failure("cannot say it");
}

const Exporter k_two = {.name = "two", .directory = write_two_files, .anchor = "traces.two"};
const Exporter k_one = {.name = "one", .file = write_one_file};

std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Exporters, EachHasANameOfItsOwnAndOneWayToWrite) {
  std::set<std::string_view> names;
  for (const Exporter& exporter : exporters()) {
    EXPECT_TRUE(names.insert(exporter.name).second) << exporter.name;
    EXPECT_FALSE(exporter.description.empty()) << exporter.name;
    EXPECT_EQ((exporter.stream != nullptr) + (exporter.file != nullptr) + (exporter.directory != nullptr), 1)
        << exporter.name;
    EXPECT_EQ(exporter_named(exporter.name), &exporter);
  }
  EXPECT_EQ(exporter_named("excel"), nullptr);
}

TEST(WriteExport, ReplacesAFileWhole) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory.write("f", "old");
  ASSERT_TRUE(write_export(k_one, Trace{}, {}, file.string()));
  EXPECT_EQ(content_of(file), "one");
  EXPECT_EQ(names_in(directory / "."), std::vector<std::string>{"f"});
}

TEST(WriteExport, MakesADirectory) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write_export(k_two, Trace{}, {}, (directory / "out/").string()));
  EXPECT_EQ(names_in(directory / "out"), (std::vector<std::string>{"traces", "traces.more", "traces.two"}));
  EXPECT_EQ(names_in(directory / "."), std::vector<std::string>{"out"});
}

TEST(WriteExport, SpreadsADirectoryBesideAnAnchorThatIsNamed) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write_export(k_two, Trace{}, {}, (directory / "mine.two").string()));
  EXPECT_EQ(names_in(directory / "."), (std::vector<std::string>{"mine", "mine.more", "mine.two"}));
  EXPECT_EQ(content_of(directory / "mine.two"), "anchor");
  EXPECT_EQ(content_of(directory / "mine/0"), "zero");
}

TEST(WriteExport, RemovesNoDirectoryThatHoldsSomething) {
  const ScratchDirectory directory;
  std::filesystem::create_directory(directory / "mine");
  directory.write("mine/trace.json", "precious");
  for (const char* const name : {"mine", "mine.two"}) {
    const Result<void> written = write_export(k_two, Trace{}, {}, (directory / name).string());
    ASSERT_FALSE(written) << name;
    EXPECT_NE(written.error().message.find("mine is in the way of the directory"), std::string::npos)
        << written.error().message;
  }
  const Result<void> written = write_export(k_one, Trace{}, {}, (directory / "mine").string());
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("in the way of the file"), std::string::npos);
  EXPECT_EQ(names_in(directory / "."), std::vector<std::string>{"mine"});
  EXPECT_EQ(content_of(directory / "mine/trace.json"), "precious");
}

TEST(WriteExport, ReplacesAnEarlierExportOfTheSameNames) {
  const ScratchDirectory directory;
  for (const char* const name : {"mine.two", "out"}) {
    ASSERT_TRUE(write_export(k_two, Trace{}, {}, (directory / name).string()));
    directory.write("mine/0", "old");
    const Result<void> again = write_export(k_two, Trace{}, {}, (directory / name).string());
    ASSERT_TRUE(again) << again.error().message;
  }
  EXPECT_EQ(content_of(directory / "mine/0"), "old");  // of the second turn, which is another directory
  ASSERT_TRUE(write_export(k_two, Trace{}, {}, (directory / "mine.two").string()));
  EXPECT_EQ(content_of(directory / "mine/0"), "zero");
  EXPECT_EQ(names_in(directory / "."), (std::vector<std::string>{"mine", "mine.more", "mine.two", "out"}));
  directory.write("mine/1", "another");
  EXPECT_FALSE(write_export(k_two, Trace{}, {}, (directory / "mine.two").string()));
  EXPECT_EQ(content_of(directory / "mine/1"), "another");
}

TEST(WriteExport, LeavesEverythingAsItWasWhenTheExporterFails) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory.write("f", "old");
  const Exporter in_file{.name = "late", .file = fail_late};
  const Exporter in_stream{.name = "late", .stream = fail_late_in_stream};
  for (const auto& [exporter, name] :
       {std::pair(in_file, "f"), std::pair(in_stream, "f"), std::pair(in_stream, "f.gz")}) {
    const Result<void> written = write_export(exporter, Trace{}, {}, (directory / name).string());
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().message, "cannot say it");
  }
  EXPECT_EQ(content_of(file), "old");
  EXPECT_EQ(names_in(directory / "."), std::vector<std::string>{"f"});
}

TEST(WriteExport, RefusesStandardOutputForFilesAndDirectories) {
  EXPECT_NE(write_export(k_two, Trace{}, {}, "-").error().message.find("directory; name it with -o"),
            std::string::npos);
  EXPECT_NE(write_export(k_one, Trace{}, {}, "").error().message.find("file; name it with -o"),
            std::string::npos);
}

TEST(WriteExport, RefusesNamesOfCompressedFilesForWhatIsNotCompressed) {
  const ScratchDirectory directory;
  const Result<void> file = write_export(k_one, Trace{}, {}, (directory / "x.db.gz").string());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "one is written as a file, which is not compressed; name it without .gz");
  for (const char* const name : {"out.gz", "out.gz/"}) {
    const Result<void> whole = write_export(k_two, Trace{}, {}, (directory / name).string());
    ASSERT_FALSE(whole) << name;
    EXPECT_EQ(whole.error().message,
              "two is written as a directory, which is not compressed; name it without .gz");
  }
  EXPECT_FALSE(write_export(*exporter_named("sqlite"), Trace{}, {}, (directory / "x.gz").string()));
  EXPECT_EQ(names_in(directory / "."), std::vector<std::string>{});
}

TEST(WriteExport, MakesTheDirectoryThatADirectoryStandsIn) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write_export(k_two, Trace{}, {}, (directory / "a/b/out").string()));
  EXPECT_EQ(content_of(directory / "a/b/out/traces/0"), "zero");
}

TEST(WriteExport, ThrowsWhereItCannotWriteAndNamesWhatWasGiven) {
  const ScratchDirectory directory;
  directory.write("file", "");
  const std::string target = (directory / "file/out").string();
  try {
    (void)write_export(k_two, Trace{}, {}, target);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.what(), "cannot write " + target + ": Not a directory");
  }
}

Result<void> throw_late(const Trace& /*trace*/, const CallSelection& /*selection*/,
                        const std::filesystem::path& path) {
  throw SystemError("cannot write " + path.string() + "/a: No space left on device");
}

Result<void> name_the_path(const Trace& /*trace*/, const CallSelection& /*selection*/,
                           const std::filesystem::path& path) {
  return failure(path.string() + ": no");
}

TEST(WriteExport, NamesTheTargetWhereTheExporterNamesTheUnfinishedFile) {
  const ScratchDirectory directory;
  const std::string target = (directory / "x").string();
  for (const Exporter& exporter :
       {Exporter{.name = "f", .file = throw_late}, Exporter{.name = "d", .directory = throw_late}}) {
    try {
      (void)write_export(exporter, Trace{}, {}, target);
      ADD_FAILURE() << exporter.name;
    } catch (const SystemError& error) {
      EXPECT_EQ(error.what(), "cannot write " + target + "/a: No space left on device");
    }
  }
  const Exporter refusing{.name = "f", .file = name_the_path};
  EXPECT_EQ(write_export(refusing, Trace{}, {}, target).error().message, target + ": no");
}

Result<void> die_in_file(const Trace& /*trace*/, const CallSelection& /*selection*/,
                         const std::filesystem::path& path) {
  std::ofstream(path) << "half";
  EXPECT_TRUE(std::filesystem::exists(path));
  std::raise(SIGINT);
  return {};
}

Result<void> die_in_directory(const Trace& /*trace*/, const CallSelection& /*selection*/,
                              const std::filesystem::path& path) {
  std::filesystem::create_directory(path / "traces");
  std::ofstream(path / "traces" / "0") << "half";
  std::raise(SIGTERM);
  return {};
}

Result<void> die_in_stream(const Trace& /*trace*/, const CallSelection& /*selection*/, const TextSink& sink) {
  sink("half");
  std::raise(SIGHUP);
  return {};
}

TEST(WriteExport, LeavesEverythingAsItWasWhenASignalEndsIt) {
  const ScratchDirectory directory;
  std::filesystem::create_directory(directory / "mine");
  directory.write("mine/precious", "old");
  directory.write("f", "old");
  const std::array exporters = {
      std::tuple(Exporter{.name = "f", .file = die_in_file}, "f", SIGINT),
      std::tuple(Exporter{.name = "d", .directory = die_in_directory}, "mine", SIGTERM),
      std::tuple(Exporter{.name = "s", .stream = die_in_stream}, "f", SIGHUP),
      std::tuple(Exporter{.name = "s", .stream = die_in_stream}, "f.gz", SIGHUP),
  };
  for (const auto& [exporter, name, signal] : exporters) {
    const pid_t child = fork();
    if (child == 0) {
      remove_unfinished_on_signals();
      (void)write_export(exporter, Trace{}, {}, (directory / name).string());
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << exporter.name << ' ' << status;
  }
  EXPECT_EQ(content_of(directory / "f"), "old");
  EXPECT_EQ(names_in(directory / "mine"), std::vector<std::string>{"precious"});
  EXPECT_EQ(names_in(directory / "."), (std::vector<std::string>{"f", "mine"}));
}

}  // namespace
}  // namespace commlens::formats
