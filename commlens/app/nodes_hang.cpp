#include "commlens/app/nodes_hang.hpp"

#include "commlens/base/table.hpp"

namespace commlens {

Result<HangResult> hang_of_nodes(WatchRequest job, std::chrono::milliseconds unchanged_for) {
  job.is_single = true;
  job.hang_after = unchanged_for;
  job.ignores_pauses = true;
  return watch(job).map([](const WatchResult& watched) {
    const JobView& view = watched.view;
    HangResult result = hang_of(view);
    if (view.hang.finding.verdict != HangVerdict::none && !view.hang.is_confirmed &&
        view.hang.still_for < view.hang.limit) {
      result.waits_below = view.hang.limit;
    }
    if (!view.error.empty()) {
      result.notes.push_back(printable(view.error));  // a node's name may be anything
    }
    add_notes(result);
    return result;
  });
}

}  // namespace commlens
