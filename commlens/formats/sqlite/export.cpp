#include "commlens/formats/sqlite/export.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/op_details.hpp"
#include "commlens/formats/io/sqlite_database.hpp"
#include "commlens/formats/sqlite/schema.hpp"

namespace commlens::formats::sqlite {
namespace {

class SqliteWriter {
 public:
  SqliteWriter(const Trace& trace, const std::filesystem::path& path)
      : trace_(trace),
        path_(path),
        database_(with_tables(path)),
        group_(prepared("INSERT INTO groups VALUES (?1, ?2, ?3, ?4, ?5)")),
        member_(prepared("INSERT INTO group_members VALUES (?1, ?2, ?3)")),
        op_(prepared("INSERT INTO ops VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                     "?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)")),
        call_(prepared("INSERT INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")),
        compute_(prepared("INSERT INTO compute VALUES (?1, ?2, ?3, ?4)")),
        seen_(trace.ops().size()) {}

  void write() {
    write_meta();
    std::vector<std::size_t> rows(trace_.streams.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    std::sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
      return trace_.streams[a].ranks < trace_.streams[b].ranks;
    });
    for (const std::size_t row : rows) {
      const RankStream& stream = trace_.streams[row];
      for (const Rank rank : stream.ranks) {
        write(stream, rank);
      }
    }
    run(database_, path_, k_sqlite_views);
    run(database_, path_, "COMMIT;");
  }

 private:
  /// A new file in the middle of the one transaction.
  static SqliteDatabase with_tables(const std::filesystem::path& path) {
    SqliteDatabase database = SqliteDatabase::create(path);
    run(database, path, k_sqlite_tables);
    run(database, path, "BEGIN;");
    return database;
  }

  void write_meta() {
    SqliteStatement meta = prepared("INSERT INTO meta VALUES (?1, ?2)");
    const Provenance& provenance = trace_.provenance;
    for (const auto& [key, value] : std::vector<std::pair<std::string_view, std::string>>{
             {"schema", "commlens.sqlite/1"},
             {"source", std::string(name_of(provenance.source))},
             {"accounting", std::string(name_of(provenance.accounting))},
             {"producer", provenance.producer},
             {"description", provenance.description},
             {"framework", provenance.framework},
             {"verified", provenance.verified ? "true" : "false"},
             {"averaged_times", provenance.averaged_times ? "true" : "false"},
             {"ranks", fmt::format("{}", trace_.ranks())},
             {"job_ranks", fmt::format("{}", trace_.job_ranks())}}) {
      insert(meta.bind(1, key).bind(2, value));
    }
    write_reasons("INSERT INTO skipped VALUES (?1, ?2)", provenance.skipped);
    write_reasons("INSERT INTO assumed VALUES (?1, ?2)", provenance.assumed);
  }

  void write_reasons(const char* insertion, const std::map<std::string, std::int64_t>& reasons) {
    SqliteStatement rows = prepared(insertion);
    for (const auto& [reason, records] : reasons) {
      insert(rows.bind(1, reason).bind(2, std::optional(records)));
    }
  }

  void write(const RankStream& stream, Rank rank) {
    for (std::size_t index = 0; index < stream.events.size(); ++index) {
      const CommEvent& event = stream.events[index];
      call_.bind(1, std::optional(rank.value)).bind(2, std::optional(static_cast<std::int64_t>(index)));
      call_.bind(3, iteration_of(event.iteration));
      call_.bind(4, event.micro_batch == k_no_micro_batch ? std::nullopt
                                                          : std::optional<std::int64_t>(event.micro_batch));
      call_.bind(5, std::optional(op_row(event.op, rank)));
      if (stream.times.empty()) {
        call_.bind(6, std::nullopt).bind(7, std::nullopt).bind(8, std::nullopt);
      } else {
        const Times& times = stream.times[index];
        call_.bind(6, std::optional<std::int64_t>(times.issued.count()))
            .bind(7, std::optional<std::int64_t>(times.started.count()))
            .bind(8, std::optional<std::int64_t>((times.finished - times.started).count()));
      }
      insert(call_);
    }
    for (const ComputeInterval& interval : stream.compute) {
      insert(compute_.bind(1, std::optional(rank.value))
                 .bind(2, iteration_of(interval.iteration))
                 .bind(3, std::optional<std::int64_t>(interval.started.count()))
                 .bind(4, std::optional<std::int64_t>((interval.finished - interval.started).count())));
    }
  }

  static std::optional<std::int64_t> iteration_of(Iteration iteration) {
    return iteration == k_unknown_iteration ? std::nullopt : std::optional<std::int64_t>(iteration);
  }

  /// The group as this rank sees it: patterns of predicted traces are other groups to other ranks.
  std::int64_t group_row(GroupId id, Rank rank) {
    std::vector<Rank> members = trace_.groups.members(id, rank);
    const Axis axis = trace_.groups.axis(id);
    const std::string& name = trace_.groups.name(id);
    const CommunicatorId communicator = trace_.groups.communicator(id);
    const auto [found, added] =
        groups_.try_emplace({members, axis, name, members.empty() ? trace_.groups.size(id) : 0, communicator},
                            static_cast<std::int64_t>(groups_.size()) + 1);
    if (added) {
      group_.bind(1, std::optional(found->second))
          .bind(2, name_of(axis))
          .bind(3, std::optional(trace_.groups.size(id)));
      name.empty() ? group_.bind(4, std::nullopt) : group_.bind(4, std::string_view(name));
      communicator == k_no_communicator ? group_.bind(5, std::nullopt)
                                        : group_.bind(5, std::string_view(text_of(communicator)));
      insert(group_);
      for (std::size_t position = 0; position < members.size(); ++position) {
        insert(member_.bind(1, std::optional(found->second))
                   .bind(2, std::optional(static_cast<std::int64_t>(position)))
                   .bind(3, std::optional(members[position].value)));
      }
    }
    return found->second;
  }

  std::int64_t op_row(OpId id, Rank rank) {
    const CommOp& op = trace_.op(id);
    SeenOp& seen = seen_[static_cast<std::size_t>(id)];
    if (seen.row != 0 && (seen.by == rank || !trace_.groups.pattern(op.group))) {
      return seen.row;
    }
    const std::int64_t group = group_row(op.group, rank);
    const auto [found, added] = ops_.try_emplace({id, group}, static_cast<std::int64_t>(ops_.size()) + 1);
    if (added) {
      write_op(found->second, op, group, rank);
    }
    seen = {found->second, rank};
    return seen.row;
  }

  void write_op(std::int64_t row, const CommOp& op, std::int64_t group, Rank rank) {
    const std::vector<Rank> members = trace_.groups.members(op.group, rank);
    const std::int64_t size = trace_.groups.size(op.group);
    const Bytes message = message_bytes(op);
    const bool has_a_root = op.root && op.root->value < static_cast<std::int64_t>(members.size());
    op_.bind(1, std::optional(row))
        .bind(2, name_of(op.kind))
        .bind(3, name_of(op.dtype))
        .bind(4, name_of(op.phase))
        .bind(5, std::optional(group))
        .bind(6, has_a_root ? std::optional(members[static_cast<std::size_t>(op.root->value)].value)
                            : std::nullopt)
        .bind(7, std::optional((op.input * op.dtype).value))
        .bind(8, std::optional((op.output * op.dtype).value))
        .bind(9, std::optional(message.value))
        .bind(12, std::optional(op.rounding.value));
    if (size >= 1 && op.kind != CommKind::other) {
      op_.bind(10, std::optional(wire_bytes(op.kind, message, size).value))
          .bind(11, bus_factor(op.kind, size));
    } else {  // not known
      op_.bind(10, std::nullopt).bind(11, std::nullopt);
    }
    bind_text(13, trace_.tags.text(op.tag));
    bind_text(14, trace_.rule(op.rule).name);
    bind_text(15, trace_.names.text(op.name));
    bind_details(op);
    insert(op_);
  }

  void bind_details(const CommOp& op) {
    constexpr int first = 16;
    std::array<std::string, k_op_detail_keys.size()> texts;
    for (const OpDetail& detail : op_details(trace_, op)) {
      const auto* const key = std::find(k_op_detail_keys.begin(), k_op_detail_keys.end(), detail.key);
      texts.at(static_cast<std::size_t>(key - k_op_detail_keys.begin())) = detail.text;
    }
    for (std::size_t at = 0; at < texts.size(); ++at) {
      bind_text(first + static_cast<int>(at), texts.at(at));
    }
  }

  void bind_text(int parameter, const std::string& text) {
    text.empty() ? op_.bind(parameter, std::nullopt) : op_.bind(parameter, std::string_view(text));
  }

  SqliteStatement prepared(std::string_view sql) {
    Result<SqliteStatement> statement = database_.prepare(sql);
    if (!statement) {
      fail(path_, statement.error());
    }
    return std::move(*statement);
  }

  static void run(const SqliteDatabase& database, const std::filesystem::path& path, const char* sql) {
    if (const Result<void> done = database.run(sql); !done) {
      fail(path, done.error());
    }
  }

  void insert(SqliteStatement& statement) {
    if (const Result<bool> done = statement.step(); !done) {
      fail(path_, done.error());
    }
    statement.reset();
  }

  [[noreturn]] static void fail(const std::filesystem::path& path, const Error& error) {
    throw SystemError(fmt::format("cannot write {}: {}", path.string(), error.message));
  }

  /// The row of an op, and the rank whose groups it was looked up for.
  struct SeenOp {
    std::int64_t row = 0;
    Rank by;
  };

  struct GroupKey {
    std::vector<Rank> members;
    Axis axis;
    std::string name;
    std::int64_t size;  // of one whose members are not known
    CommunicatorId communicator;
    friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
  };

  const Trace& trace_;
  std::filesystem::path path_;
  SqliteDatabase database_;
  SqliteStatement group_;
  SqliteStatement member_;
  SqliteStatement op_;
  SqliteStatement call_;
  SqliteStatement compute_;
  std::map<GroupKey, std::int64_t> groups_;
  std::map<std::pair<OpId, std::int64_t>, std::int64_t> ops_;  // by op and row of its group
  std::vector<SeenOp> seen_;                                   // by op
};

}  // namespace

Result<void> write(const Trace& trace, const CallSelection& /*selection*/,
                   const std::filesystem::path& path) {
  SqliteWriter(trace, path).write();
  return {};
}

}  // namespace commlens::formats::sqlite
