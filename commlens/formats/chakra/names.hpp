#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "commlens/comm/event.hpp"

namespace commlens::formats::chakra {

/// Attributes of Chakra nodes. Source: MLCommons Chakra src/feeder/et_feeder_node.cpp.
constexpr std::string_view k_chakra_is_cpu_op = "is_cpu_op";
constexpr std::string_view k_chakra_comm_type = "comm_type";
constexpr std::string_view k_chakra_comm_size = "comm_size";  // bytes of what a rank puts in
constexpr std::string_view k_chakra_source = "comm_src";
constexpr std::string_view k_chakra_destination = "comm_dst";
constexpr std::string_view k_chakra_tag = "comm_tag";
constexpr std::string_view k_chakra_group = "pg_name";
/// Of computing nodes: floating-point operations, and bytes read and written.
constexpr std::string_view k_chakra_num_ops = "num_ops";
constexpr std::string_view k_chakra_tensor_size = "tensor_size";
/// The node that lists the groups, as PyTorch's profiler calls it.
constexpr std::string_view k_chakra_groups_node = "## process_group:init ##";

/// Attributes of our own: what a call has and Chakra has no word for.
constexpr std::string_view k_own_rank = "commlens_rank";  // of the file
constexpr std::string_view k_own_op = "commlens_op";
constexpr std::string_view k_own_dtype = "commlens_dtype";
constexpr std::string_view k_own_input_bytes = "commlens_input_bytes";
constexpr std::string_view k_own_output_bytes = "commlens_output_bytes";
constexpr std::string_view k_own_iteration = "commlens_iteration";
constexpr std::string_view k_own_phase = "commlens_phase";
constexpr std::string_view k_own_root = "commlens_root";
constexpr std::string_view k_own_group_size = "commlens_group_size";  // of a group whose ranks are not known
constexpr std::string_view k_own_group_name = "commlens_group_name";
constexpr std::string_view k_own_communicator = "commlens_communicator";  // where ranks have several
constexpr std::string_view k_own_micro_batch = "commlens_micro_batch";
constexpr std::string_view k_own_tag = "commlens_tag";
constexpr std::string_view k_own_rule = "commlens_rule";
constexpr std::string_view k_own_name = "commlens_name";
constexpr std::string_view k_own_rounding = "commlens_rounding_bytes";
constexpr std::string_view k_own_data_dependent =
    "commlens_data_dependent";  // older exports: the match `count`
/// The words of io/op_details.hpp: the prefix and their key.
constexpr std::string_view k_own_prefix = "commlens_";
constexpr std::string_view k_own_row =
    "commlens_row";  // place among the calls, where the nodes' order is not theirs
constexpr std::string_view k_own_start = "commlens_start_ns";
constexpr std::string_view k_own_duration = "commlens_duration_ns";

/// The value of `comm_type` of a collective; nothing for send, recv and other.
/// Source: et_def.proto, CollectiveCommType.
std::optional<std::int64_t> chakra_comm_type(CommKind kind);

/// What a value of `comm_type` means: gather (3) and scatter (4) are `other`; nothing beyond 9.
std::optional<CommKind> kind_of_comm_type(std::int64_t comm_type);

}  // namespace commlens::formats::chakra
