#pragma once
#include <string>

#include "commlens/app/train.hpp"
#include "commlens/base/result.hpp"
#include "commlens/cli/console.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/rank_flags.hpp"

namespace CLI {
class App;
}

namespace commlens {

/// The command line of `train`: a request, and flags that are not parsed into it yet.
struct TrainFlags {
  TrainRequest request;
  LayoutFlags layout;
  RankFlags ranks;
  std::string framework;
  std::string decay;
  std::string vocab_file;
  std::string merge_file;
  bool no_prefetch = false;
  bool no_overlap = false;
  OutputFlags output;  // the format only

  void declare(CLI::App& verb);
};

/// The request of the flags. Fails on invalid values.
Result<TrainRequest> request_of(const TrainFlags& flags);

}  // namespace commlens
