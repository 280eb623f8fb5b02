#include "commlens/machine/cost/point_to_point.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_channels_of_peers = 32;
constexpr std::int64_t k_ll_bytes_per_channel = 16'384;
constexpr std::int64_t k_chunk_in_node = 512 * 1024;
constexpr std::int64_t k_chunk_between_nodes = 128 * 1024;

}  // namespace

PeerChannels peer_channels(const TimedCall& call) {
  const bool in_node = call.place.nodes == 1;
  const std::int64_t chunk = in_node ? k_chunk_in_node : k_chunk_between_nodes;
  const std::int64_t least_part = in_node ? chunk / 8 : chunk / 2;
  const std::int64_t most_part = in_node ? chunk * 32 : chunk;
  const bool is_all = call.op == CommKind::all_to_all;
  const std::int64_t bytes = is_all ? ceil_div(call.bytes.value, call.place.ranks) : call.bytes.value;
  std::int64_t channels = k_most_channels_of_peers;
  while (channels > 1 && channels * (is_all ? call.place.ranks : 2) > k_most_channels_of_peers) {
    channels /= 2;
  }
  const std::int64_t first_channels = channels;
  std::int64_t part = std::max(least_part, ceil_div(bytes, channels));
  while (part > most_part && channels <= k_most_channels_of_peers / 2) {
    channels *= 2;
    part = std::max(least_part, ceil_div(bytes, channels));
  }
  PeerChannels result;
  result.used = std::max<std::int64_t>(1, std::min(channels, ceil_div(bytes, least_part)));
  result.is_ll = bytes <= result.used * k_ll_bytes_per_channel;
  result.bytes_per_channel = static_cast<double>(bytes) / static_cast<double>(result.used);
  const std::int64_t smallest = std::min(bytes, least_part);
  const std::int64_t before_more = channels > first_channels ? most_part : 0;
  result.most_bytes_per_channel =
      std::max({result.bytes_per_channel, static_cast<double>(smallest), static_cast<double>(before_more)});
  return result;
}

std::vector<std::int64_t> peer_group_deltas(std::int64_t groups) {
  std::int64_t power = 1;
  while (power < groups) {
    power *= 2;
  }
  std::vector<std::int64_t> deltas;
  for (std::int64_t round = 0; round < power; ++round) {
    const std::int64_t delta = (round * round + round) / 2 % power;
    if (delta < groups) {
      deltas.push_back(delta);
    }
  }
  return deltas;
}

}  // namespace commlens
