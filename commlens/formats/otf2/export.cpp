#include "commlens/formats/otf2/export.hpp"

#include <fmt/format.h>

#include "commlens/formats/io/untold_calls.hpp"
#include "commlens/formats/otf2/api.hpp"

namespace commlens::formats::otf2 {

Result<void> write(const Trace& trace, const CallSelection& /*selection*/,
                   const std::filesystem::path& folder) {
  const UntoldCalls untold = untold_calls(trace, [&](const CommOp& op) {
    return op.kind != CommKind::other && !trace.groups.knows_members(op.group);
  });
  if (untold.calls > 0) {
    return failure(fmt::format("OTF2 needs the ranks of every group; the trace does not tell those of {}",
                               text_of(trace, untold)));
  }
  const Result<const Otf2Api*> api = load_otf2();
  if (!api) {
    return tl::unexpected(api.error());
  }
  return (*api)->write(trace, folder);
}

}  // namespace commlens::formats::otf2
