#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/otf2/definitions.hpp"

namespace commlens::formats::otf2 {

/// A message as OTF2 records it.
struct Otf2Message {
  bool sends = false;
  std::uint32_t peer = 0;  // position in the communicator
  std::uint32_t comm = 0;
  std::uint64_t bytes = 0;
  std::string_view name;  // of the MPI function
};

/// A collective as OTF2 records it.
struct Otf2Collective {
  std::uint8_t op = 0;  // OTF2_CollectiveOp
  std::uint32_t comm = 0;
  std::uint32_t root = 0;  // position in the communicator, or one of the special values above
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// What a rank's event is as a record. `is_ours`: we wrote the archive, so sizes are input and output as they
/// stand, and names come as attributes.
CallRecord record_of(const Otf2Definitions& definitions, Rank self, const Otf2Message& message, bool is_ours);
/// Nothing for what moves no data of the program (communicators, windows).
std::optional<CallRecord> record_of(const Otf2Definitions& definitions, Rank self,
                                    const Otf2Collective& collective, bool is_ours);

/// The ranks in the text of an attribute, "2 1"; none when it is no such text.
std::vector<Rank> ranks_in(std::string_view text);

/// The operation of a kind, by the name of the call where the kind is `other`; std::nullopt if OTF2 has none.
std::optional<std::uint8_t> otf2_collective(CommKind kind, std::string_view name);

}  // namespace commlens::formats::otf2
