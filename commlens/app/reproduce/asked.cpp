#include "commlens/app/reproduce/asked.hpp"

#include <fmt/format.h>

namespace commlens::study {
namespace {

const char* recompute_word(Recompute recompute) {
  return recompute == Recompute::none ? "none" : recompute == Recompute::full ? "full" : "selective";
}

}  // namespace

std::string Asked::arguments() const {
  std::string words = text.empty() ? config : fmt::format("{}/{}", k_jobs_place, config);
  words += framework.empty() ? "" : fmt::format(" --framework {}", framework);
  const auto add = [&](const char* flag, const std::optional<std::int64_t>& value) {
    words += value ? fmt::format(" {} {}", flag, *value) : "";
  };
  add("--ranks", overrides.ranks);
  add("--dp", overrides.dp);
  add("--tp", overrides.tp);
  add("--pp", overrides.pp);
  add("--cp", overrides.cp);
  add("--ep", overrides.ep);
  words += overrides.zero ? fmt::format(" --zero {}", *overrides.zero) : "";
  add("--seq", overrides.seq);
  add("--micro-batch", overrides.micro_batch);
  add("--micro-batches", overrides.micro_batches);
  add("--global-batch", overrides.global_batch);
  add("--virtual-stages", overrides.virtual_stages);
  words += overrides.recompute ? fmt::format(" --recompute {}", recompute_word(*overrides.recompute)) : "";
  add("--hpz", overrides.hpz);
  words += overrides.qwz ? " --qwz" : "";
  return words + (overrides.qgz ? " --qgz" : "");
}

}  // namespace commlens::study
