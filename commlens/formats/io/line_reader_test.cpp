#include "commlens/formats/io/line_reader.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;

std::filesystem::path compressed(const std::filesystem::path& file, std::string_view text) {
  gzFile out = gzopen(file.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  return file;
}

/// The lines of a file joined by "|", or the error.
std::string lines_of(const std::filesystem::path& file) {
  Result<TextSource> source = TextSource::open(file);
  if (!source) {
    return source.error().message;
  }
  LineReader lines(std::move(*source));
  std::string all;
  std::string_view line;
  while (true) {
    const Result<bool> more = lines.next(line);
    if (!more || !*more) {
      return more ? all : more.error().message;
    }
    all += std::string(line) + (lines.line_is_whole() ? "|" : "");
  }
}

TEST(LineReader, SplitsAtLineEnds) {
  const ScratchDirectory directory;
  EXPECT_EQ(lines_of(directory.write("f", "")), "");
  EXPECT_EQ(lines_of(directory.write("f", "a\nb")), "a|b");
  EXPECT_EQ(lines_of(directory.write("f", "a\r\n\nb\n")), "a||b|");
  EXPECT_EQ(lines_of(directory.write("f",
                                     "\xef\xbb\xbf"
                                     "a\n\xef\xbb\xbf\n")),
            "a|\xef\xbb\xbf|");
}

TEST(LineReader, ReadsCompressedTextToo) {
  const ScratchDirectory directory;
  EXPECT_EQ(lines_of(compressed(directory / "f.gz", "a\nb\n")), "a|b|");
  const std::string member = test_support::content_of(directory / "f.gz");
  EXPECT_EQ(lines_of(directory.write("two.gz", member + member)), "a|b|a|b|");
}

TEST(LineReader, KeepsLinesThatCrossBlocks) {
  const ScratchDirectory directory;
  const std::string line(700'000, 'x');
  EXPECT_EQ(lines_of(directory.write("f", line + "\n" + line + "\n")), line + "|" + line + "|");
}

TEST(LineReader, SaysWhereAGzipFileIsDamaged) {
  const ScratchDirectory directory;
  std::string text;
  for (int line = 0; line < 20'000; ++line) {
    text += std::to_string(line * 7919) + "\n";
  }
  const std::string whole = test_support::content_of(compressed(directory / "f.gz", text));
  directory.write("f.gz", whole.substr(0, whole.size() / 2));
  EXPECT_NE(lines_of(directory / "f.gz").find("f.gz: the compressed file is cut off"), std::string::npos);
  std::string damaged = whole;
  damaged[whole.size() / 2] ^= 0x55;
  EXPECT_NE(lines_of(directory.write("f.gz", damaged)).find("f.gz: "), std::string::npos);
}

TEST(LineReader, RefusesALineBeyondItsLimit) {
  const ScratchDirectory directory;
  const std::string said = lines_of(directory.write("f", "short\n" + std::string((17U << 20), 'x')));
  EXPECT_NE(said.find("f:2: a line of more than 16 MiB"), std::string::npos) << said.substr(0, 200);
}

TEST(LineReader, RefusesDirectoriesAndMissingFiles) {
  const ScratchDirectory directory;
  EXPECT_NE(lines_of(directory / ".").find("a directory, expected a file"), std::string::npos);
  EXPECT_NE(lines_of(directory / "x").find("x: no such file"), std::string::npos);
}

TEST(ReadHead, GivesTheStartOfTheDecompressedText) {
  const ScratchDirectory directory;
  EXPECT_EQ(read_head(compressed(directory / "f.gz", "abcdef"), 3), "abc");
  EXPECT_EQ(read_head(directory.write("f", "ab"), 3), "ab");
  EXPECT_FALSE(read_head(directory / "x", 3));
}

TEST(ReadWhole, GivesAFileUpToItsLimit) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory.write("f", std::string(std::size_t{3} << 20, 'x'));
  const Result<std::string> whole = read_whole(file, std::size_t{3} << 20, "list");
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_EQ(whole->size(), std::size_t{3} << 20);
  const Result<std::string> larger = read_whole(file, std::size_t{2} << 20, "list");
  ASSERT_FALSE(larger.has_value());
  EXPECT_EQ(larger.error().message, file.string() + ": more than 2 MiB, which no list has");
}

}  // namespace
}  // namespace commlens::formats
