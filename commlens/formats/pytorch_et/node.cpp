#include "commlens/formats/pytorch_et/node.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/json_members.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/io/torch_tensors.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::pytorch_et {
namespace {

using TorchEtJson = nlohmann::json;

constexpr std::string_view k_et_call = "record_param_comms";
constexpr std::string_view k_et_groups = "## process_group:init ##";
constexpr std::string_view k_et_step = "ProfilerStep#";
constexpr std::int64_t k_largest_tensor = std::int64_t{1} << 50;  // bytes: 1 PiB

const TorchEtJson& element(const TorchEtJson& array, std::size_t at) {
  static const TorchEtJson nothing;
  return array.is_array() && at < array.size() ? array[at] : nothing;
}

/// One side of a call: its values and their types, which schema 1.0.1 keeps beside each other.
struct Arguments {
  const TorchEtJson& values;
  const TorchEtJson& types;
};
Arguments arguments_of(const TorchEtJson& node, const char* side, const char* flat_types) {
  const TorchEtJson& values = json_at(node, side);
  return values.is_array() ? Arguments{values, json_at(node, flat_types)}
                           : Arguments{json_at(values, "values"), json_at(values, "types")};
}

/// What the tensors in a value have together; a tensor is [tensor id, storage id, offset, elements, bytes of
/// one, "device"], and is in any number of lists.
struct TensorSum {
  TensorsOfCall all;
  std::int64_t element_size = 0;
  bool is_absurd = false;
};
void add_tensors(const TorchEtJson& value, int depth, TensorSum& sum) {
  if (!value.is_array() || depth > 8) {
    return;
  }
  if (value.size() >= 6 && value[5].is_string() && value[3].is_number_integer()) {
    const std::int64_t elements = json_whole(value[3]).value_or(-1);
    const std::int64_t size = json_whole(value[4]).value_or(-1);
    sum.is_absurd = sum.is_absurd || elements < 0 || size < 0 || size > 64 ||
                    elements > k_largest_tensor / 64 || sum.all.bytes > k_largest_tensor;
    sum.all.are_given = true;
    sum.element_size = size;
    sum.all.bytes += sum.is_absurd ? 0 : elements * size;
    return;
  }
  for (const TorchEtJson& inner : value) {
    add_tensors(inner, depth + 1, sum);
  }
}

/// The value of the attribute `name` (schema 1.0.2 on), or null.
const TorchEtJson& attribute(const TorchEtJson& node, std::string_view name) {
  static const TorchEtJson nothing;
  const TorchEtJson& attributes = json_at(node, "attrs");
  const auto found = std::find_if(attributes.begin(), attributes.end(), [name](const TorchEtJson& candidate) {
    const TorchEtJson& called = json_at(candidate, "name");
    return called.is_string() && called.get_ref<const std::string&>() == name;
  });
  return found == attributes.end() ? nothing : json_at(*found, "value");
}

/// The place of the call's name among its arguments: the first that is a string. What comes before it
/// differs between versions, and a wait has no tensors there.
std::optional<std::size_t> place_of_name(const TorchEtJson& values) {
  for (std::size_t at = 0; values.is_array() && at < values.size(); ++at) {
    if (values[at].is_string()) {
      return at;
    }
  }
  return std::nullopt;
}

/// What the arguments after the name say of the group: [in_split, out_split, size] (1.0.2) or [in_split,
/// out_split, start, stride, size]; in 1.0.1 a split has an element per rank.
StridedGroup members_of(const TorchEtJson& values, std::size_t name) {
  StridedGroup group;
  const std::size_t after = values.size() - name - 1;
  if (after >= 5) {
    group.size = json_whole(values[name + 5]).value_or(0);
    group.start = json_whole(values[name + 3]).value_or(-1);
    group.stride = json_whole(values[name + 4]).value_or(-1);
  } else if (after >= 3) {
    group.size = json_whole(values[name + 3]).value_or(0);
  } else if (element(values, name + 1).is_array()) {
    group.size =
        static_cast<std::int64_t>(std::max(values[name + 1].size(), element(values, name + 2).size()));
  }
  group.size = group.size > k_max_ranks ? 0 : std::max<std::int64_t>(group.size, 0);
  return group;
}

/// The group's name where it has one, ["0", "default_pg"], else its address as a number.
std::string group_of(const TorchEtJson& value) {
  if (const std::optional<std::int64_t> address = json_whole(value)) {
    return *address == 0 ? "" : std::to_string(*address);
  }
  return json_text(element(value, 0));
}

/// Takes the sizes from the attributes where the arguments show no tensors.
void take_attributes(const TorchEtJson& node, TorchEtCall& call) {
  const std::optional<DType> dtype = torch_dtype(json_text(attribute(node, "dtype")));
  if (!dtype || call.input.are_given || call.output.are_given) {
    return;
  }
  call.dtype = *dtype;
  for (const auto& [key, side] :
       {std::pair{"in_msg_nelems", &call.input}, {"out_msg_nelems", &call.output}}) {
    const std::optional<std::int64_t> elements = json_whole(attribute(node, key));
    if (elements && *elements > 0 && *elements <= k_largest_tensor / 8) {
      *side = {*elements * size_of(*dtype), true};
    }
  }
}

TorchEtNode call_of(const TorchEtJson& node) {
  const Arguments inputs = arguments_of(node, "inputs", "input_types");
  const Arguments outputs = arguments_of(node, "outputs", "output_types");
  const std::optional<std::size_t> name = place_of_name(inputs.values);
  TorchEtNode read;
  read.kind = TorchEtNode::Kind::unreadable;
  if (!name) {
    return read;
  }
  TorchEtCall& call = read.call;
  call.id = json_whole(node, "id").value_or(0);
  call.name = json_text(inputs.values[*name]);
  call.rank = *name >= 1 ? json_whole(inputs.values[*name - 1]) : std::nullopt;
  call.group = *name >= 2 ? group_of(inputs.values[*name - 2]) : "";
  call.members = members_of(inputs.values, *name);
  TensorSum sent;
  TensorSum received;
  if (*name >= 4) {
    add_tensors(inputs.values[0], 0, sent);
  }
  add_tensors(outputs.values, 0, received);
  if (sent.is_absurd || received.is_absurd) {
    return read;
  }
  const std::string type = json_text(element(sent.all.are_given ? inputs.types : outputs.types, 0));
  const std::int64_t element_size = sent.all.are_given ? sent.element_size : received.element_size;
  const std::optional<DType> dtype = torch_dtype(torch_tensor_type(type));
  call.dtype = dtype && size_of(*dtype) == element_size ? *dtype : DType::uint8;
  call.input = sent.all;
  call.output = received.all;
  take_attributes(node, call);
  read.kind = TorchEtNode::Kind::call;
  return read;
}

}  // namespace

TorchEtNode read_torch_et_node(std::string_view json) {
  const TorchEtJson node = shallow_json(json);
  TorchEtNode read;
  if (!node.is_object()) {
    read.kind = TorchEtNode::Kind::unreadable;
    return read;
  }
  const std::string name = json_text(node, "name");
  if (name == k_et_call) {
    return call_of(node);
  }
  if (name == k_et_groups) {
    read.kind = TorchEtNode::Kind::groups;
    read.groups = json_text(element(arguments_of(node, "inputs", "input_types").values, 0));
  } else if (name.starts_with(k_et_step)) {
    const Result<std::int64_t> step = parse_integer(std::string_view(name).substr(k_et_step.size()));
    read.kind = step && *step >= 0 && *step <= INT32_MAX ? TorchEtNode::Kind::step : TorchEtNode::Kind::other;
    read.id = json_whole(node, "id").value_or(0);
    read.step = step.value_or(0);
  }
  return read;
}

bool may_be_communication(std::string_view json) {
  return json.find(k_et_call) != std::string_view::npos || json.find(k_et_groups) != std::string_view::npos ||
         json.find(k_et_step) != std::string_view::npos;
}

}  // namespace commlens::formats::pytorch_et
