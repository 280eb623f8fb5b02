#include "commlens/formats/kineto/calls.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/formats/io/torch_names.hpp"

namespace commlens::formats::kineto {
namespace {

constexpr const char* k_unknown_type = "call of an unknown data type, kept without its size";
constexpr const char* k_unknown_output = "call whose received size is taken to be the sent one";
/// A group beyond this is not written out: no job has it, a broken file may.
constexpr std::int64_t k_largest_listed_group = std::int64_t{1} << 20;
constexpr const char* k_rank_not_in_group = "call on a group without the rank of the file";

/// The numbers in "[0, 1]"; nothing when the list was cut short ("[0, 1, ...]").
std::vector<Rank> listed_ranks(std::string_view text) {
  std::vector<Rank> ranks;
  if (text.find("...") != std::string_view::npos) {
    return ranks;
  }
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t rank = 0;
    const auto [stop, failed] = std::from_chars(at, end, rank);
    if (failed == std::errc()) {
      if (rank < 0 || rank >= k_max_ranks) {
        return {};
      }
      ranks.push_back(Rank{rank});
    }
    at = failed == std::errc() ? stop : at + 1;
  }
  return ranks;
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  std::int64_t total = 0;
  for (const std::int64_t count : counts) {
    total = count > INT64_MAX / 4 - total ? INT64_MAX / 4 : total + count;
  }
  return total;
}

/// Sizes of both buffers in elements, and the type's name.
struct Sizes {
  std::optional<std::int64_t> in;
  std::optional<std::int64_t> out;
  std::string type;
};

Sizes sizes_of(const TorchCall& call) {
  if (call.metadata != nullptr && !call.metadata->collective.empty()) {
    return {call.metadata->in_elements, call.metadata->out_elements, call.metadata->dtype};
  }
  Sizes sizes{.in = std::nullopt, .out = std::nullopt, .type = call.type};
  if (!call.elements.empty()) {
    sizes.in = sum(call.elements);
  }
  if (has_tensor_arguments(call.op) && call.op_elements.size() >= 2) {
    sizes.out = call.op_elements[0];
    sizes.in = sizes.in ? sizes.in : std::optional(call.op_elements[1]);
  }
  return sizes;
}

/// What the two buffers hold, in elements, as docs/formats/calls.md defines them for the kind.
std::pair<std::int64_t, std::int64_t> buffers_of(const Sizes& sizes, CommKind kind) {
  const std::int64_t in = sizes.in.value_or(sizes.out.value_or(0));
  const std::int64_t out = sizes.out.value_or(in);
  switch (kind) {
    case CommKind::send:
      return {in, 0};
    case CommKind::recv:
      return {0, std::max(in, out)};
    case CommKind::barrier:
      return {0, 0};
    case CommKind::all_reduce:
    case CommKind::broadcast:
    case CommKind::reduce:
      return {std::max(in, out), std::max(in, out)};
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
    case CommKind::all_to_all:
    case CommKind::other:
      break;
  }
  return {in, out};
}

/// Whether the two buffers differ for this kind, so that one does not follow from the other.
bool has_two_sizes(CommKind kind) {
  return kind == CommKind::all_gather || kind == CommKind::reduce_scatter || kind == CommKind::all_to_all ||
         kind == CommKind::other;
}

/// The sizes of a gather or scatter tell how many ranks share the whole.
std::optional<std::int64_t> size_by_shards(const Sizes& sizes, CommKind kind) {
  const std::int64_t in = sizes.in.value_or(0);
  const std::int64_t out = sizes.out.value_or(0);
  if (kind == CommKind::all_gather && in > 0 && out >= in && out % in == 0) {
    return out / in;
  }
  if (kind == CommKind::reduce_scatter && out > 0 && in >= out && in % out == 0) {
    return in / out;
  }
  return std::nullopt;
}

/// In the order of the group, as far as the trace has them.
std::vector<Rank> ranks_of_group(const KinetoMetadata& metadata, const KinetoJob& job) {
  std::vector<Rank> ranks = listed_ranks(metadata.group_ranks);
  const std::int64_t size = metadata.group_size.value_or(static_cast<std::int64_t>(ranks.size()));
  if (static_cast<std::int64_t>(ranks.size()) != size) {
    ranks.clear();
  }
  if (ranks.empty()) {
    const auto found = job.groups.find(metadata.group_name);
    if (found != job.groups.end() &&
        (!metadata.group_size || static_cast<std::int64_t>(found->second.size()) == size)) {
      ranks = found->second;
    }
  }
  const std::int64_t stride = metadata.rank_stride.value_or(0);
  const std::int64_t start = metadata.rank_start.value_or(-1);
  const bool is_regular = stride > 0 && start >= 0 && size > 0 && stride < k_max_ranks &&
                          size < k_max_ranks && start < k_max_ranks - stride * (size - 1);
  if (ranks.empty() && is_regular) {
    for (std::int64_t place = 0; place < size; ++place) {
      ranks.push_back(Rank{start + place * stride});
    }
  }
  if (ranks.empty() && size > 0 && size <= k_largest_listed_group && metadata.group_size == job.world_size) {
    for (std::int64_t rank = 0; rank < size; ++rank) {
      ranks.push_back(Rank{rank});
    }
  }
  return ranks;
}

/// PyTorch numbers its process groups alike on all ranks.
/// Source: torch/distributed/distributed_c10d.py:_process_group_name.
std::string communicator_of(const KinetoMetadata& metadata) {
  return metadata.group_name.empty() ? "" : fmt::format("pg {}", metadata.group_name);
}

void put_pair(const KinetoMetadata* metadata, CommKind kind, Rank rank, CallRecord& record) {
  record.group.is_given = true;
  const bool sends = kind == CommKind::send;
  const std::optional<std::int64_t> peer = metadata == nullptr ? std::nullopt
                                           : sends             ? metadata->destination
                                                               : metadata->source;
  if (peer && *peer >= 0 && *peer < k_max_ranks) {
    record.group.ranks = sends ? std::vector{rank, Rank{*peer}} : std::vector{Rank{*peer}, rank};
    record.communicator = communicator_of(*metadata);
  }
}

}  // namespace

std::string name_of_torch_call(const TorchCall& call) {
  if (call.metadata != nullptr && !call.metadata->collective.empty()) {
    return call.metadata->collective;
  }
  return !call.annotation.empty() ? call.annotation : call.op;
}

bool has_tensor_arguments(std::string_view op) { return op.find("base_") != std::string_view::npos; }

const KinetoGroups::Group& KinetoGroups::of(const KinetoMetadata& metadata) {
  const std::string key =
      fmt::format("{}|{}|{}|{}|{}", metadata.group_name, metadata.group_size.value_or(-1),
                  metadata.rank_start.value_or(-1), metadata.rank_stride.value_or(0), metadata.group_ranks);
  const auto [found, added] = groups_.try_emplace(key);
  if (added) {
    Group& group = found->second;
    group.in_order = ranks_of_group(metadata, job_);
    group.ascending = group.in_order;
    std::sort(group.ascending.begin(), group.ascending.end());
    if (std::adjacent_find(group.ascending.begin(), group.ascending.end()) != group.ascending.end()) {
      group.ascending.clear();
    }
  }
  return found->second;
}

void TorchCallDescriber::put_sizes(const TorchCall& call, CommKind kind, CallRecord& record) {
  Sizes sizes = sizes_of(call);
  const std::optional<DType> known = torch_dtype(sizes.type);
  const DType dtype = known.value_or(DType::uint8);
  if (!known && kind != CommKind::barrier && (sizes.in.value_or(0) > 0 || sizes.out.value_or(0) > 0)) {
    provenance_.skip(k_unknown_type);
    sizes.in = sizes.out = 0;
  }
  if (has_two_sizes(kind) && sizes.in.value_or(0) > 0 && !sizes.out) {
    provenance_.assume(k_unknown_output);
  }
  const auto [in, out] = buffers_of(sizes, kind);
  record.dtype = dtype;
  record.input_bytes = saturating_product(in, size_of(dtype));
  record.output_bytes = saturating_product(out, size_of(dtype));
}

void TorchCallDescriber::put_group(const TorchCall& call, CommKind kind, CallRecord& record) {
  const KinetoMetadata none;
  const KinetoMetadata& metadata = call.metadata == nullptr ? none : *call.metadata;
  const KinetoGroups::Group& group = groups_.of(metadata);
  record.group.is_given = true;
  record.root_unknown = has_root(kind);
  if (std::binary_search(group.ascending.begin(), group.ascending.end(), rank_)) {
    const std::int64_t place = metadata.rank.value_or(-1);
    if (has_root(kind) && place >= 0 && place < std::ssize(group.in_order)) {
      record.root = group.in_order[static_cast<std::size_t>(place)].value;
      record.root_unknown = false;
    }
    record.group.ranks = group.ascending;
    record.communicator = communicator_of(metadata);
    return;
  }
  if (!group.in_order.empty()) {
    provenance_.skip(k_rank_not_in_group);
  }
  const auto size = metadata.group_size ? metadata.group_size : size_by_shards(sizes_of(call), kind);
  if (size && *size >= 1 && *size <= k_max_ranks) {
    record.group_size = size;
    record.group_name = communicator_of(metadata);
  }
}

void TorchCallDescriber::describe(const TorchCall& call, std::string_view kernel, CallRecord& record) {
  const std::string name = name_of_torch_call(call);
  const CommKind kind = name.empty() ? kind_of_kernel(kernel) : torch_collective(name).kind;
  record.op = kind;
  if (kind == CommKind::other) {
    record.name = name.empty() ? std::string(short_kernel_name(kernel)) : name;
  }
  put_sizes(call, kind, record);
  if (is_point_to_point(kind)) {
    put_pair(call.metadata, kind, rank_, record);
  } else {
    put_group(call, kind, record);
  }
}

}  // namespace commlens::formats::kineto
