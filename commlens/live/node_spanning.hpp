#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "commlens/live/job_progress.hpp"
#include "commlens/live/work_blocks.hpp"
#include "commlens/trace/json_fields.hpp"

namespace commlens {

/// Reads the rows `spanning` of a node's state (docs/formats/node.md).
class SpanningReader {
 public:
  /// `ranks`: of the node, ascending. All outlive it; `fields` keeps what is wrong.
  SpanningReader(JsonFields& fields, const std::vector<CallChannel>& channels, const std::vector<Rank>& ranks)
      : fields_(fields), channels_(channels), ranks_(ranks), told_(ranks.size()) {}

  /// Adds what several ranks whose calls are alike did.
  void read(const nlohmann::json& row, std::vector<SpanningWork>& all);

 private:
  /// What a rank has told.
  struct Told {
    std::size_t works = 0;
    std::size_t row = 0;  // the last, from 1
  };

  std::vector<std::int64_t> numbers_of(const nlohmann::json& row, JsonFields::Range each,
                                       std::optional<std::size_t> size);
  void read_times(const nlohmann::json& times, SpanningWork work, std::vector<SpanningWork>& all);
  void refuse(const char* why) { fields_.fail("spanning", why); }

  JsonFields& fields_;
  const std::vector<CallChannel>& channels_;
  const std::vector<Rank>& ranks_;
  std::vector<Told> told_;  // by rank
  std::size_t rows_ = 0;
};

}  // namespace commlens
