#include "commlens/frameworks/torchtitan/behaviour.hpp"

#include <array>

namespace commlens::torchtitan {
namespace {

constexpr std::array k_behaviours = {
    Behaviour{.version = {"0.2.2", "", "0.2.2", ""}, .saves_scattered = true, .has_ring = true},
    Behaviour{.version = recorded_version("0.3.0")},
};

}  // namespace

const Behaviour& behaviour(const Job& job) {
  return behaviour_of(k_behaviours, job.framework_version, k_default_version);
}

std::vector<KnownVersion> known_versions() { return versions_of(k_behaviours); }

}  // namespace commlens::torchtitan
