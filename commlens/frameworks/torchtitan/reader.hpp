#pragma once
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torchtitan {

/// A case with `framework: torchtitan` (docs/formats/case.md): the map `torchtitan` with module, config, args
/// and sections, which win over args; a map `model` that wins over the flavour of the configuration.
Result<Job> read_case(MapReader& document, const std::string& version);

/// The job of a command line (settings_of_arguments).
Result<Job> job_of_arguments(const ConfigNode& settings);

/// Files of arguments with --module and --config.
ConfigReader argument_reader();
/// TOML files of torchtitan 0.1 and 0.2: their jobs have the version 0.2.2.
ConfigReader toml_reader();

}  // namespace commlens::torchtitan
