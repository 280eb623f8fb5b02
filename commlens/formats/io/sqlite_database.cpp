#include "commlens/formats/io/sqlite_database.hpp"

#include <algorithm>
#include <ctime>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "commlens/base/check.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats {
namespace {

constexpr int k_longest_value = 16 << 20;                      // bytes, as of a line of text
constexpr std::int64_t k_most_memory = std::int64_t{1} << 30;  // of SQLite in this process
constexpr int k_steps_between_checks = 100'000;                // of SQLite's virtual machine; a millisecond

Error error_of(sqlite3* database) { return {sqlite3_errmsg(database)}; }

std::chrono::nanoseconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

SqliteLimits limits_of(const std::filesystem::path& path) {
  std::error_code status;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, status));
  const std::int64_t bytes = status ? 0 : std::max<std::int64_t>(size, 0);
  return {.processor_time = std::chrono::seconds(60 + (bytes >> 20)), .rows = 10'000 + bytes / 4};
}

/// A URI that makes SQLite put no file beside one in WAL mode, unless such files are there already and belong
/// to the database.
std::string name_for_reading(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const char c : path.string()) {
    uri += c == '?' || c == '#' || c == '%' ? fmt::format("%{:02x}", c) : std::string(1, c);
  }
  std::error_code status;
  const bool is_alone = !std::filesystem::exists(path.string() + "-wal", status) &&
                        !std::filesystem::exists(path.string() + "-journal", status);
  return is_alone ? uri + "?immutable=1" : uri;
}

}  // namespace

struct SqliteDatabase::Guard {
  SqliteLimits limits;
  std::chrono::nanoseconds end{};  // of this thread's processor time

  bool is_over() const { return processor_time() > end; }
  static int interrupts(void* guard) { return static_cast<const Guard*>(guard)->is_over() ? 1 : 0; }
};

void SqliteDatabase::GuardDeleter::operator()(Guard* guard) const { delete guard; }

void SqliteStatement::Finalizer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteStatement& SqliteStatement::bind(int parameter, std::optional<std::int64_t> value) {
  const int status = value ? sqlite3_bind_int64(statement_.get(), parameter, *value)
                           : sqlite3_bind_null(statement_.get(), parameter);
  COMMLENS_CHECK(status == SQLITE_OK, "the statement has the parameter and has no row yet");
  return *this;
}

SqliteStatement& SqliteStatement::bind(int parameter, double value) {
  COMMLENS_CHECK(sqlite3_bind_double(statement_.get(), parameter, value) == SQLITE_OK,
                 "the statement has the parameter and has no row yet");
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

Result<SqliteDatabase> SqliteDatabase::open(const std::filesystem::path& path,
                                            std::optional<SqliteLimits> limits) {
  sqlite3* opened = nullptr;
  const int status = sqlite3_open_v2(name_for_reading(path).c_str(), &opened,
                                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  SqliteDatabase database(opened);
  if (status != SQLITE_OK) {
    return tl::unexpected(error_of(opened));
  }
  const SqliteLimits most = limits.value_or(limits_of(path));
  database.guard_.reset(new Guard{.limits = most, .end = processor_time() + most.processor_time});
  sqlite3_progress_handler(opened, k_steps_between_checks, Guard::interrupts, database.guard_.get());
  sqlite3_hard_heap_limit64(k_most_memory);
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, k_longest_value);
  for (const auto& [guard, value] : {std::pair(SQLITE_DBCONFIG_DEFENSIVE, 1),
                                     {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                     {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                     {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}}) {
    sqlite3_db_config(opened, guard, value, nullptr);
  }
  if (const Result<void> set =
          database.run("PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;");
      !set) {
    return tl::unexpected(set.error());
  }
  return database;
}

Result<SqliteStatement> SqliteDatabase::prepare(std::string_view sql) const {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &prepared, nullptr) !=
      SQLITE_OK) {
    return tl::unexpected(error());
  }
  return SqliteStatement(prepared);
}

Error SqliteDatabase::error() const {
  if (guard_ && sqlite3_errcode(database_.get()) == SQLITE_INTERRUPT) {
    return {fmt::format("reading it takes more than {} s",
                        std::chrono::duration<double>(guard_->limits.processor_time).count())};
  }
  return error_of(database_.get());
}

Result<void> SqliteDatabase::each(std::string_view sql,
                                  const std::function<void(const SqliteStatement&)>& take) const {
  Result<SqliteStatement> statement = prepare(sql);
  if (!statement) {
    return tl::unexpected(statement.error());
  }
  std::int64_t rows = 0;
  Result<bool> more = statement->step();
  for (; more && *more; more = statement->step()) {
    if (guard_ && ++rows > guard_->limits.rows) {
      return failure("it has more rows than a file of its size holds; it is damaged");
    }
    take(*statement);
  }
  return more ? Result<void>() : tl::unexpected(error());
}

Result<void> SqliteDatabase::run(const std::string& sql) const {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return tl::unexpected(error());
  }
  return {};
}

}  // namespace commlens::formats
