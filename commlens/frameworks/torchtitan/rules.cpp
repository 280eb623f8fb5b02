// The rule set of torchtitan (docs/frameworks/torchtitan.md).
#include "commlens/frameworks/torchtitan/advice.hpp"
#include "commlens/frameworks/torchtitan/behaviour.hpp"
#include "commlens/frameworks/torchtitan/checks.hpp"
#include "commlens/frameworks/torchtitan/framework.hpp"
#include "commlens/frameworks/torchtitan/lowering.hpp"
#include "commlens/frameworks/torchtitan/memory.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/frameworks/torchtitan/reader.hpp"
#include "commlens/frameworks/torchtitan/settings.hpp"
#include "commlens/frameworks/torchtitan/variations.hpp"
#include "commlens/frameworks/torchtitan/writer.hpp"

namespace commlens::torchtitan {

namespace {

void shard(Job& job, const SharedParameters& shards) {
  options(job).replicate = shards.copies;
  options(job).reshard_after_forward = shards.keeps_gathered ? Reshard::never : Reshard::always;
}

}  // namespace

FrameworkRules rules() {
  return {.name = k_name,
          .engine = k_name,
          .versions = known_versions(),
          .default_version = k_default_version,
          .base = "",
          .check = check,
          .unverified = never_recorded,
          .write = write,
          .takes_newer_models = true,
          .fits_equations = [](const Job&) { return false; },
          .has_context_parallelism = true,
          .has_expert_parallelism = true,
          .settings = {.adopt = adopt,
                       .prepare = prepare,
                       .settle =
                           [](Job& job) {
                             settle(job);
                             lower(job);
                           },
                       .has_sequence_parallelism = [](const Job&) { return true; },
                       .set_sequence_parallelism = set_sequence_parallelism,
                       .sharding_text = sharding_text,
                       .compute_dtype = pytorch::activation_dtype,
                       .takes_uneven_stages = true},
          .memory = memory_rules(),
          .advice = advice_texts(),
          .variations = add_variations,
          .case_file = {.read_job = read_case},
          .shard = shard,
          .causes = causes()};
}

}  // namespace commlens::torchtitan
