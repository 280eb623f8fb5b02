#include "commlens/formats/io/sqlite_database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include "commlens/base/check.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats {
namespace {

Error error_of(sqlite3* database) { return {sqlite3_errmsg(database)}; }

}  // namespace

void SqliteStatement::Finalizer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteStatement& SqliteStatement::bind(int parameter, std::optional<std::int64_t> value) {
  const int status = value ? sqlite3_bind_int64(statement_.get(), parameter, *value)
                           : sqlite3_bind_null(statement_.get(), parameter);
  COMMLENS_CHECK(status == SQLITE_OK, "the statement has the parameter and stands before its first row");
  return *this;
}

SqliteStatement& SqliteStatement::bind(int parameter, double value) {
  COMMLENS_CHECK(sqlite3_bind_double(statement_.get(), parameter, value) == SQLITE_OK,
                 "the statement has the parameter and stands before its first row");
  return *this;
}

SqliteStatement& SqliteStatement::bind(int parameter, std::string_view value) {
  const std::string text = valid_utf8(value);
  if (sqlite3_bind_text64(statement_.get(), parameter, text.data(), text.size(), SQLITE_TRANSIENT,
                          SQLITE_UTF8) != SQLITE_OK) {
    throw SystemError("no memory, or a text of more than 1 GB, for SQLite");
  }
  return *this;
}

Result<bool> SqliteStatement::step() {
  const int status = sqlite3_step(statement_.get());
  if (status != SQLITE_ROW && status != SQLITE_DONE) {
    return tl::unexpected(error_of(sqlite3_db_handle(statement_.get())));
  }
  return status == SQLITE_ROW;
}

void SqliteStatement::reset() { sqlite3_reset(statement_.get()); }

int SqliteStatement::columns() const { return sqlite3_column_count(statement_.get()); }

bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::optional<std::int64_t> SqliteStatement::integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) {
    return std::nullopt;
  }
  return sqlite3_column_int64(statement_.get(), column);
}

double SqliteStatement::number(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::string_view SqliteStatement::text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) {
    return {};
  }
  return {reinterpret_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void SqliteDatabase::Closer::operator()(sqlite3* database) const { sqlite3_close(database); }

SqliteDatabase SqliteDatabase::create(const std::filesystem::path& path) {
  sqlite3* opened = nullptr;
  const int status =
      sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  SqliteDatabase database(opened);
  const Result<void> set = status != SQLITE_OK
                               ? tl::unexpected(error_of(opened))
                               : database.run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;");
  if (!set) {
    throw SystemError(fmt::format("cannot write {}: {}", path.string(), set.error().message));
  }
  return database;
}

Result<SqliteDatabase> SqliteDatabase::open(const std::filesystem::path& path) {
  sqlite3* opened = nullptr;
  const int status = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
  SqliteDatabase database(opened);
  if (status != SQLITE_OK) {
    return failure(fmt::format("{}: {}", path.string(), error_of(opened).message));
  }
  constexpr int longest = 16 << 20;  // of a value, as of a line of text
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, longest);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  if (const Result<void> set =
          database.run("PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;");
      !set) {
    return failure(fmt::format("{}: {}", path.string(), set.error().message));
  }
  return database;
}

Result<SqliteStatement> SqliteDatabase::prepare(std::string_view sql) const {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &prepared, nullptr) !=
      SQLITE_OK) {
    return tl::unexpected(error_of(database_.get()));
  }
  return SqliteStatement(prepared);
}

Result<void> SqliteDatabase::run(const std::string& sql) const {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return tl::unexpected(error_of(database_.get()));
  }
  return {};
}

}  // namespace commlens::formats
