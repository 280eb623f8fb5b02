#pragma once
#include "commlens/config/map_reader.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/model/job.hpp"

namespace commlens::huggingface {

/// Reads `model_type` of a config.json, and the sizes and parts of a model of that type; what the file leaves
/// out has the default of its configuration class (transformers 5.23 models/TYPE/configuration_TYPE.py).
/// `reader` reads `config`.
void read_model_type(MapReader& reader, const ConfigNode& config, Job& job);

}  // namespace commlens::huggingface
