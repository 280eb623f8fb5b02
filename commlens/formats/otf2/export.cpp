#include "commlens/formats/otf2/export.hpp"

#include <fmt/format.h>

#include "commlens/formats/io/incomplete_calls.hpp"
#include "commlens/formats/otf2/api.hpp"

namespace commlens::formats::otf2 {

Result<void> write(const Trace& trace, const CallSelection& /*selection*/,
                   const std::filesystem::path& directory) {
  const IncompleteCalls incomplete = incomplete_calls(trace, [&](const CommOp& op) {
    return op.kind != CommKind::other && !trace.groups.knows_members(op.group);
  });
  if (incomplete.calls > 0) {
    return failure(fmt::format("OTF2 needs the ranks of every group; the trace does not tell those of {}",
                               text_of(trace, incomplete)));
  }
  const Result<const Otf2Api*> api = load_otf2();
  if (!api) {
    return tl::unexpected(api.error());
  }
  return (*api)->write(trace, directory);
}

}  // namespace commlens::formats::otf2
