#include "commlens/formats/io/sqlite_database.hpp"

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;

constexpr std::size_t k_page = 512;

void append_big_endian(std::size_t bytes, std::size_t value, std::string& out) {
  for (std::size_t shift = bytes; shift > 0; --shift) {
    out += static_cast<char>(value >> (8 * (shift - 1)) & 0xFFU);
  }
}

/// A page of a table's tree all of whose 61 children are page `child`. Source:
/// sqlite.org/fileformat2.html, 1.6.
std::string page_of_one_child(std::size_t child) {
  constexpr std::size_t cells = 60;
  constexpr std::size_t cell = 5;  // the child and a key of one byte
  std::string page = "\x05";
  append_big_endian(2, 0, page);  // no free block
  append_big_endian(2, cells, page);
  append_big_endian(2, k_page - cells * cell, page);
  append_big_endian(1, 0, page);
  append_big_endian(4, child, page);
  for (std::size_t row = 0; row < cells; ++row) {
    append_big_endian(2, k_page - (row + 1) * cell, page);
  }
  page.resize(k_page - cells * cell);
  for (std::size_t row = 0; row < cells; ++row) {
    append_big_endian(4, child, page);
    page += '\x01';
  }
  return page;
}

/// A file of 6 pages, 3 KiB, whose table `t` has 61^3 times the rows of one page: its root (page 2) has page
/// 4 as each of its children, that one page 5, that one page 6.
std::filesystem::path small_file_of_many_rows(const ScratchDirectory& directory) {
  const std::filesystem::path file = directory / "many.sqlite";
  {
    const SqliteDatabase database = SqliteDatabase::create(file);
    EXPECT_TRUE(
        database.run("PRAGMA page_size=512; VACUUM; CREATE TABLE t (a); CREATE TABLE u (a);"
                     "INSERT INTO t VALUES (1), (2), (3), (4);"
                     "INSERT INTO u VALUES (zeroblob(1700));"));
  }
  std::string bytes = test_support::content_of(file);
  EXPECT_EQ(bytes.size(), 6 * k_page);  // the schema, t, u, and three pages of the blob
  const std::string leaf = bytes.substr(k_page, k_page);
  bytes.replace(1 * k_page, k_page, page_of_one_child(4));
  bytes.replace(3 * k_page, k_page, page_of_one_child(5));
  bytes.replace(4 * k_page, k_page, page_of_one_child(6));
  bytes.replace(5 * k_page, k_page, leaf);
  return directory.write("bomb.sqlite", bytes);
}

TEST(SqliteDatabase, RefusesMoreRowsThanItsFileHolds) {
  const ScratchDirectory directory;
  const Result<SqliteDatabase> database = SqliteDatabase::open(small_file_of_many_rows(directory));
  ASSERT_TRUE(database) << database.error().message;
  std::int64_t rows = 0;
  const Result<void> read = database->each("SELECT a FROM t", [&](const SqliteStatement&) { ++rows; });
  EXPECT_EQ(read ? "no error" : read.error().message,
            "it has more rows than a file of its size holds; it is damaged");
  EXPECT_EQ(rows, 10'000 + 3072 / 4);
}

TEST(SqliteDatabase, EndsAStatementThatTakesTooLong) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory / "f.sqlite";
  EXPECT_TRUE(SqliteDatabase::create(file).run("CREATE TABLE t (a)"));
  const Result<SqliteDatabase> database =
      SqliteDatabase::open(file, SqliteLimits{.processor_time = std::chrono::milliseconds(50), .rows = 10});
  ASSERT_TRUE(database) << database.error().message;
  const Result<void> read = database->each(
      "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
      [](const SqliteStatement&) {});
  EXPECT_EQ(read ? "no error" : read.error().message, "reading it takes more than 0.05 s");
}

TEST(SqliteDatabase, OfUnknownOriginIsNotWrittenAndItsViewsAreNotRun) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory / "f.sqlite";
  EXPECT_TRUE(SqliteDatabase::create(file).run(
      "CREATE TABLE t (a); CREATE VIEW v AS SELECT 1; INSERT INTO t VALUES (7)"));
  const std::string before = test_support::content_of(file);
  const Result<SqliteDatabase> database = SqliteDatabase::open(file);
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_FALSE(database->run("INSERT INTO t VALUES (8)"));
  EXPECT_FALSE(database->run("PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = ''"));
  EXPECT_FALSE(database->each("SELECT * FROM v", [](const SqliteStatement&) {}));
  std::int64_t value = 0;
  EXPECT_TRUE(database->each("SELECT a FROM t",
                             [&](const SqliteStatement& row) { value = row.integer(0).value_or(0); }));
  EXPECT_EQ(value, 7);
  EXPECT_EQ(test_support::content_of(file), before);
}

TEST(SqliteDatabase, InWalModeIsReadAndGetsNoFilesBesideIt) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory / "a?b#c%d.sqlite";
  EXPECT_TRUE(SqliteDatabase::create(file).run(
      "PRAGMA journal_mode=WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7)"));
  const Result<SqliteDatabase> database = SqliteDatabase::open(file);
  ASSERT_TRUE(database) << database.error().message;
  std::int64_t rows = 0;
  EXPECT_TRUE(database->each("SELECT a FROM t", [&](const SqliteStatement&) { ++rows; }));
  EXPECT_EQ(rows, 1);
  const std::filesystem::directory_iterator entries(directory / ".");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(SqliteDatabase, RefusesAValueBeyondSixteenMebibytes) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory / "f.sqlite";
  EXPECT_TRUE(
      SqliteDatabase::create(file).run("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(17000000))"));
  const Result<SqliteDatabase> database = SqliteDatabase::open(file);
  ASSERT_TRUE(database) << database.error().message;
  const Result<void> read =
      database->each("SELECT a FROM t", [](const SqliteStatement& row) { static_cast<void>(row.text(0)); });
  EXPECT_EQ(read ? "no error" : read.error().message, "string or blob too big");
}

}  // namespace
}  // namespace commlens::formats
