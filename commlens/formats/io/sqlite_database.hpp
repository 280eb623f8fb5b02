#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace commlens::formats {

/// A prepared statement; must not outlive its database.
class SqliteStatement {
 public:
  /// Values of the parameters ?1, ?2, …; nothing is NULL. Text is copied, malformed UTF-8 replaced.
  SqliteStatement& bind(int parameter, std::optional<std::int64_t> value);
  SqliteStatement& bind(int parameter, double value);
  SqliteStatement& bind(int parameter, std::string_view value);

  /// Goes to the next row: whether there is one. Fails with what SQLite says.
  Result<bool> step();
  /// Makes it ready to run again; bound values stay.
  void reset();

  int columns() const;
  bool is_null(int column) const;
  /// std::nullopt if the value is no integer.
  std::optional<std::int64_t> integer(int column) const;
  double number(int column) const;
  /// Valid until the next step; empty for NULL.
  std::string_view text(int column) const;

 private:
  friend class SqliteDatabase;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
};

/// What reading a file of unknown origin may cost.
struct SqliteLimits {
  std::chrono::nanoseconds processor_time{};  // of this thread, from the opening on
  std::int64_t rows = 0;                      // of one statement: `SqliteDatabase::each`
};

/// An open SQLite file.
class SqliteDatabase {
 public:
  /// Makes a new file, faster than safe: it is thrown away when we fail. Throws SystemError when the disk
  /// does.
  static SqliteDatabase create(const std::filesystem::path& path);
  /// Opens a file of unknown origin for reading. Its schema can run nothing (SQLITE_DBCONFIG_DEFENSIVE, no
  /// trusted schema, no views, no triggers), a value has 16 MiB at most and SQLite takes 1 GiB at most.
  /// Beyond the limits statements fail; without `limits` these are what the size of the file allows: a minute
  /// and a second for each MiB, and 10,000 rows and one for each 4 bytes (a page that is in a table many
  /// times gives more).
  static Result<SqliteDatabase> open(const std::filesystem::path& path,
                                     std::optional<SqliteLimits> limits = std::nullopt);

  Result<SqliteStatement> prepare(std::string_view sql) const;
  /// Runs `take` for each row of a statement.
  Result<void> each(std::string_view sql, const std::function<void(const SqliteStatement&)>& take) const;
  /// Runs statements that give no rows.
  Result<void> run(const std::string& sql) const;

 private:
  struct Closer {
    void operator()(sqlite3* database) const;
  };
  struct Guard;  // of a file of unknown origin
  struct GuardDeleter {
    void operator()(Guard* guard) const;
  };
  explicit SqliteDatabase(sqlite3* database) : database_(database) {}
  Error error() const;

  std::unique_ptr<Guard, GuardDeleter> guard_;  // outlives the connection, which asks it
  std::unique_ptr<sqlite3, Closer> database_;
};

}  // namespace commlens::formats
