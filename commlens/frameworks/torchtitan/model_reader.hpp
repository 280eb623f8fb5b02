#pragma once
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/frameworks/torchtitan/registry.hpp"
#include "commlens/model/model_config.hpp"

namespace commlens::torchtitan {

/// A model with what torchtitan's modules have besides.
struct TitanModel {
  ModelConfig config;
  std::string flavour;
  bool fuses_qkv = true;
  bool balances_experts = false;
  Dispatcher dispatcher = Dispatcher::all_to_all;
};

/// The model of a flavour; fails, by name, for what has no rules. `where` says what asked for it.
Result<TitanModel> titan_model(const Flavour& flavour, std::int64_t sequence, std::string_view where);

/// Reads the keys of a case's `model` map (docs/formats/case.md) over `model`, which may be without any
/// sizes.
Result<void> read_model(const ConfigNode& map, TitanModel& model, ReaderNotes notes);

/// Puts it into a job of torchtitan.
void apply(const TitanModel& model, Options& options);

}  // namespace commlens::torchtitan
