#pragma once
#include <cstdint>

#include <CLI/CLI.hpp>

namespace commlens {

/// A range whose bounds the help text does not spell out.
CLI::Validator between(std::int64_t least, std::int64_t most);
/// The same for finite numbers; CLI::Range takes nan.
CLI::Validator between(double least, double most);

}  // namespace commlens
