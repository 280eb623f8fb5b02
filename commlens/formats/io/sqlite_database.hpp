#pragma once
#include <cstdint>
#include <filesystem>
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
  /// Nothing when the value is no whole number.
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

/// An open SQLite file.
class SqliteDatabase {
 public:
  /// Makes a new file, faster than safe: it is thrown away when we fail. Throws SystemError when the disk
  /// does.
  static SqliteDatabase create(const std::filesystem::path& path);
  /// Opens a file of other people's for reading, with SQLite's guards against hostile ones on.
  static Result<SqliteDatabase> open(const std::filesystem::path& path);

  Result<SqliteStatement> prepare(std::string_view sql) const;
  /// Runs statements that give no rows.
  Result<void> run(const std::string& sql) const;

 private:
  struct Closer {
    void operator()(sqlite3* database) const;
  };
  explicit SqliteDatabase(sqlite3* database) : database_(database) {}
  std::unique_ptr<sqlite3, Closer> database_;
};

}  // namespace commlens::formats
