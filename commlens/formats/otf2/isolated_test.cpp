#include "commlens/formats/otf2/isolated.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/formats/otf2/record_stream.hpp"

namespace commlens::formats::otf2 {
namespace {

CallRecord all_reduce_of(std::int64_t rank, std::int64_t start_ns) {
  CallRecord record;
  record.rank = rank;
  record.iteration_unknown = true;
  record.op = CommKind::all_reduce;
  record.dtype = DType::fp32;
  record.input_bytes = record.output_bytes = 4096;
  record.group = {true, {Rank{0}, Rank{3}}};
  record.start_ns = start_ns;
  record.duration_ns = 7;
  record.tag = "say \"hi\"\n";
  return record;
}

std::string error_of(const IsolatedReader& reader) {
  const Result<Trace> trace = read_isolated(reader, "some.file");
  return trace ? "no error" : trace.error().message;
}

/// Whether a child of this process is left over.
bool has_children() { return waitpid(-1, nullptr, WNOHANG) >= 0; }

TEST(Isolated, HandsOverRecordsAndWhatWasLeftOut) {
  const IsolatedReader reader{"test", [](const std::filesystem::path& path, const RecordSink& sink) {
                                EXPECT_EQ(path, "some.file");
                                for (std::int64_t call = 0; call < 10'000;
                                     ++call) {  // more than a pipe holds
                                  sink.add(all_reduce_of(call % 2 * 3, call));
                                }
                                sink.skip("torn line", 2);
                                sink.skip("torn line", 3);
                                sink.assume("rank", 4);
                                return Result<void>{};
                              }};
  const Result<Trace> trace = read_isolated(reader, "some.file");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.producer, "test");
  EXPECT_EQ(trace->provenance.description, "some.file");
  EXPECT_EQ(trace->provenance.skipped.at("torn line"), 5);
  EXPECT_EQ(trace->provenance.assumed, (std::map<std::string, std::int64_t>{{"rank", 4}}));
  ASSERT_EQ(trace->streams.size(), 2U);
  ASSERT_EQ(trace->streams[1].events.size(), 5'000U);
  EXPECT_EQ(trace->streams[1].times[4'999].started.count(), 9'999);
  const CommOp& op = trace->op(trace->streams[1].events[0].op);
  EXPECT_EQ(op.input.value, 1024);
  EXPECT_EQ(trace->groups.members(op.group, Rank{3}), (std::vector{Rank{0}, Rank{3}}));
  EXPECT_EQ(trace->tags.text(op.tag), "say \"hi\"\n");
  EXPECT_EQ(trace->streams[1].events[0].iteration, k_unknown_iteration);
  EXPECT_FALSE(has_children());
}

TEST(Isolated, CountsRecordsThatCannotBe) {
  const Result<Trace> trace =
      read_isolated({"test",
                     [](const std::filesystem::path& /*path*/, const RecordSink& sink) {
                       sink.add(all_reduce_of(0, 0));
                       sink.add(all_reduce_of(1, 0));  // not in the group
                       return Result<void>{};
                     }},
                    "some.file");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped.at(std::string(k_skipped_impossible)), 1);
}

TEST(Isolated, ACrashIsOneError) {
  const std::string error =
      error_of({"test", [](const std::filesystem::path& /*path*/, const RecordSink& sink) {
                  sink.add(all_reduce_of(0, 0));
                  std::raise(SIGSEGV);
                  return Result<void>{};
                }});
  EXPECT_EQ(error, "some.file: its library crashed on it (Segmentation fault); the file is damaged");
  EXPECT_FALSE(has_children());
}

TEST(Isolated, AWildWriteIsOneError) {
  const std::string error =
      error_of({"test", [](const std::filesystem::path& /*path*/, const RecordSink& /*sink*/) {
                  // NOLINTNEXTLINE(performance-no-int-to-ptr): there is nothing to optimise
                  volatile int* const nowhere = reinterpret_cast<volatile int*>(std::uintptr_t{16});
                  *nowhere = 1;  // NOLINT
                  return Result<void>{};
                }});
  EXPECT_EQ(error.rfind("some.file: ", 0), 0U) << error;
  EXPECT_NE(error, "no error");
}

TEST(Isolated, RunningOutOfMemoryIsOneError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more address space than any limit";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers take more address space than any limit";
#endif
#endif
  IsolatedReader reader{"test", [](const std::filesystem::path& /*path*/, const RecordSink& /*sink*/) {
                          std::vector<std::string> hoard;
                          while (hoard.size() < 10'000) {
                            hoard.emplace_back(std::size_t{1} << 20, 'x');
                          }
                          return Result<void>{};
                        }};
  reader.limits.memory_bytes = std::int64_t{64} << 20;
  EXPECT_EQ(error_of(reader), "some.file: reading it needs more than 64 MiB of memory");
}

TEST(Isolated, BeingKilledIsOneError) {
  const std::string error =
      error_of({"test", [](const std::filesystem::path& /*path*/, const RecordSink& sink) {
                  sink.add(all_reduce_of(0, 0));
                  kill(getpid(), SIGKILL);
                  return Result<void>{};
                }});
  EXPECT_NE(error.find("some.file: the process that read it was killed"), std::string::npos) << error;
}

TEST(Isolated, EndlessWorkIsOneError) {
  IsolatedReader reader{"test", [](const std::filesystem::path& /*path*/, const RecordSink& /*sink*/) {
                          for (std::atomic<std::uint64_t> turns = 0;; ++turns) {
                          }
                          return Result<void>{};
                        }};
  reader.limits.processor_time = std::chrono::seconds(1);
  EXPECT_EQ(error_of(reader), "some.file: reading it takes more than 1 s");
}

TEST(Isolated, SilenceIsOneError) {
  IsolatedReader reader{"test", [](const std::filesystem::path& /*path*/, const RecordSink& /*sink*/) {
                          pause();
                          return Result<void>{};
                        }};
  reader.limits.silence = std::chrono::seconds(1);
  EXPECT_EQ(error_of(reader), "some.file: nothing came of it for 1 s");
  EXPECT_FALSE(has_children());
}

TEST(Isolated, PassesOnWhatTheReaderSays) {
  EXPECT_EQ(error_of({"test",
                      [](const std::filesystem::path& /*path*/, const RecordSink& sink) {
                        sink.add(all_reduce_of(0, 0));
                        return Result<void>(failure("no such\ntable"));
                      }}),
            "some.file: no such table");
  EXPECT_EQ(error_of({"test",
                      [](const std::filesystem::path& /*path*/, const RecordSink& /*sink*/) -> Result<void> {
                        throw std::runtime_error("library says no");
                      }}),
            "some.file: library says no");
}

TEST(Isolated, AFileWithoutCallsOrAnEarlyEndIsAnError) {
  EXPECT_EQ(error_of({"test", [](const std::filesystem::path& /*path*/,
                                 const RecordSink& /*sink*/) { return Result<void>{}; }}),
            "some.file: no communication in it");
  EXPECT_EQ(error_of({"test",
                      [](const std::filesystem::path& /*path*/, const RecordSink& /*sink*/) -> Result<void> {
                        _exit(0);
                      }}),
            "some.file: the process that read it ended early");
}

TEST(Isolated, TheChildWritesNoFilesAndNothingOnTheTerminal) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(error_of({"test",
                      [](const std::filesystem::path& /*path*/, const RecordSink& /*sink*/) {
                        std::fputs("library chatter", stderr);
                        return Result<void>{};
                      }}),
            "some.file: no communication in it");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Isolated, ReadsWhereTheStandardFilesAreClosed) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      close(standard);
    }
    const Result<Trace> trace =
        read_isolated({"test",
                       [](const std::filesystem::path& /*path*/, const RecordSink& sink) {
                         sink.add(all_reduce_of(0, 0));
                         return Result<void>{};
                       }},
                      "some.file");
    _exit(trace ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(RecordDecoder, RefusesWhatNoEncoderWrites) {
  for (const std::string_view line :
       {"", "X", "R", "R 0 {}", "R -1 {}", "R - nonsense", "S x y", "S -1 y", "G 1 x", "R 99999999999 {}"}) {
    CallBuilder calls("test", "f");
    EXPECT_FALSE(RecordDecoder(calls).take(line)) << line;
  }
}

TEST(RecordDecoder, GetsWhatTheEncoderWrites) {
  std::string text;
  RecordEncoder encoder(text);
  CallRecord hidden;
  hidden.rank = 2;
  hidden.iteration = 5;
  hidden.op = CommKind::broadcast;
  hidden.dtype = DType::uint8;
  hidden.input_bytes = hidden.output_bytes = 3;
  hidden.group.is_given = true;
  hidden.group_size = 4;
  hidden.group_name = "comm 0x1";
  hidden.root_unknown = true;
  encoder.add(hidden);
  CallRecord compute;
  compute.rank = 2;
  compute.iteration_unknown = true;
  compute.is_compute = true;
  compute.start_ns = -5;
  compute.duration_ns = 9;
  encoder.add(compute);
  encoder.finish();
  CallBuilder calls("test", "f");
  RecordDecoder decoder(calls);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const Result<void> taken = decoder.take(std::string_view(text).substr(begin, end - begin));
    ASSERT_TRUE(taken) << taken.error().message;
    begin = end + 1;
  }
  EXPECT_TRUE(decoder.is_finished());
  const Trace trace = calls.finish();
  EXPECT_TRUE(trace.provenance.skipped.empty());
  ASSERT_EQ(trace.streams.size(), 1U);
  ASSERT_EQ(trace.streams[0].events.size(), 1U) << text;
  const CommOp& op = trace.op(trace.streams[0].events[0].op);
  EXPECT_EQ(trace.groups.size(op.group), 4);
  EXPECT_EQ(trace.groups.name(op.group), "comm 0x1");
  EXPECT_EQ(trace.streams[0].compute,
            (std::vector<ComputeInterval>{
                {std::chrono::nanoseconds(-5), std::chrono::nanoseconds(4), k_unknown_iteration}}));
}

}  // namespace
}  // namespace commlens::formats::otf2
