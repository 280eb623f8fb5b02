#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/app/hang.hpp"
#include "commlens/base/table.hpp"

// What both the text and the JSON of a look at a job say.
namespace commlens {

/// "1 rank", "3 ranks".
std::string how_many(std::int64_t count, std::string_view one);

/// Ranks in words: "0-3 7", shortened after a few pieces.
std::string ranks_in_words(std::vector<std::int64_t> ranks);

std::vector<std::int64_t> numbers_of(const std::vector<Rank>& ranks);
/// Of rows of JobProgress::ranks.
std::vector<std::int64_t> numbers_of(const HangResult& result, const std::vector<std::size_t>& rows);

std::string op_of(const SeenCall& call);
const std::vector<Rank>& members_of(const HangResult& result, const SeenCall& call);

/// What a rank is doing.
std::string doing_of(const HangResult& result, std::size_t row);
/// The call that a rank is in, of several that of the point `waits_in`; null when it is in none.
const SeenCall* call_of(const HangResult& result, std::size_t row, std::optional<std::size_t> waits_in = {});

/// How the ranks at fault are named.
enum class CulpritWords : std::uint8_t {
  numbers,  // "rank 2"
  hosts     // "rank 2 (host n3)", of a few hosts, for a line that stands alone
};

/// The verdict in a line.
std::string headline(const HangResult& result, CulpritWords words = CulpritWords::numbers);
/// A line or two for each culprit.
std::string culprits_text(const HangResult& result);

/// A line a rank.
Table ranks_table(const HangResult& result);

/// What to run to see where a culprit is, or those inside where there is none; on which machine.
std::vector<std::string> commands_for(const HangResult& result);

}  // namespace commlens
