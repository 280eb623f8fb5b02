// Part of the module libcommlens-mpi-*.so.
#include "commlens/transport/comm_mpi_algorithms.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/transport/comm_mpi_work.hpp"

namespace commlens {
namespace {

#if defined(OPEN_MPI)
constexpr bool k_is_open_mpi = true;
#else
constexpr bool k_is_open_mpi = false;
#endif

/// An integer (or truth value) that MPI's tool interface lets this process read and write.
struct ToolVariable {
  MPI_T_cvar_handle handle = nullptr;
  int initial = 0;                                  // before this process wrote it: what the user chose
  std::vector<std::pair<std::string, int>> values;  // names of its values (Open MPI)
  std::string description;
};

/// Whether MPI's tool interface is open. Once opened, it has to be closed, or Open MPI does not close its
/// components, which may have output to write.
bool& tools_are_open() {
  static bool are_open = false;
  return are_open;
}

bool open_tools() {
  int provided = MPI_THREAD_SINGLE;
  if (!tools_are_open()) {
    tools_are_open() = MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS;
  }
  return tools_are_open();
}

std::string text_of(const std::vector<char>& buffer) { return buffer.data(); }

std::vector<std::pair<std::string, int>> named_values(MPI_T_enum values) {
  std::vector<std::pair<std::string, int>> named;
  int count = 0;
  std::vector<char> name(256);
  int length = static_cast<int>(name.size());
  if (values == MPI_T_ENUM_NULL || MPI_T_enum_get_info(values, &count, name.data(), &length) != MPI_SUCCESS) {
    return named;
  }
  for (int at = 0; at < count; ++at) {
    int value = 0;
    length = static_cast<int>(name.size());
    if (MPI_T_enum_get_item(values, at, &value, name.data(), &length) == MPI_SUCCESS) {
      named.emplace_back(text_of(name), value);
    }
  }
  return named;
}

/// std::nullopt if the library has no integer of that name.
std::optional<ToolVariable> opened_variable(const std::string& name) {
  int index = 0;
  if (!open_tools() || MPI_T_cvar_get_index(name.c_str(), &index) != MPI_SUCCESS) {
    return std::nullopt;
  }
  std::vector<char> own_name(256);
  std::vector<char> description(8192);
  int name_length = static_cast<int>(own_name.size());
  int description_length = static_cast<int>(description.size());
  int verbosity = 0;
  int binding = 0;
  int scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum values = MPI_T_ENUM_NULL;
  if (MPI_T_cvar_get_info(index, own_name.data(), &name_length, &verbosity, &type, &values,
                          description.data(), &description_length, &binding, &scope) != MPI_SUCCESS) {
    return std::nullopt;
  }
  ToolVariable variable;
  int count = 0;
  if ((type != MPI_INT && type != MPI_C_BOOL) ||
      MPI_T_cvar_handle_alloc(index, nullptr, &variable.handle, &count) != MPI_SUCCESS || count != 1) {
    return std::nullopt;
  }
  if (type == MPI_C_BOOL) {
    bool value = false;
    MPI_T_cvar_read(variable.handle, &value);
    variable.initial = value ? 1 : 0;
  } else if (MPI_T_cvar_read(variable.handle, &variable.initial) != MPI_SUCCESS) {
    return std::nullopt;
  }
  variable.values = named_values(values);
  variable.description = text_of(description);
  return variable;
}

/// Opened once.
ToolVariable* variable_of(const std::string& name) {
  static auto* const opened = new std::map<std::string, std::optional<ToolVariable>>;
  auto found = opened->find(name);
  if (found == opened->end()) {
    found = opened->emplace(name, opened_variable(name)).first;
  }
  return found->second ? &*found->second : nullptr;
}

/// The MPI function that the transport makes of a call, as its library's variables name it; empty: none of
/// one function with algorithms.
std::string_view function_of(CommKind kind) {
  switch (kind) {
    case CommKind::all_reduce:
      return "allreduce";
    case CommKind::all_gather:
      return "allgather";
    case CommKind::reduce_scatter:
      return k_is_open_mpi ? "reduce_scatter" : "reduce_scatter_block";
    case CommKind::all_to_all:
      return "alltoall";
    case CommKind::broadcast:
      return "bcast";
    case CommKind::reduce:
      return "reduce";
    case CommKind::barrier:
      return k_is_open_mpi ? "barrier" : "";
    case CommKind::send:
    case CommKind::recv:
    case CommKind::other:
      break;
  }
  return "";
}

std::string variable_name(CommKind kind) {
  const std::string_view function = function_of(kind);
  if (k_is_open_mpi) {
    return fmt::format("coll_tuned_{}_algorithm", function);
  }
  std::string upper(function);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char letter) { return letter == '_' ? '_' : static_cast<char>(letter - 'a' + 'A'); });
  return fmt::format("MPIR_CVAR_{}_INTRA_ALGORITHM", upper);
}

/// An algorithm and its value of the library's variable.
using NamedValue = std::pair<std::string, int>;

/// Of Open MPI, which names its values. 0 is its own choice. Those that make other collective calls (a
/// reduce, then a bcast or scatterv) are not listed: these would follow rules of their own.
std::vector<NamedValue> open_mpi_values(const ToolVariable& variable, std::int64_t ranks) {
  std::vector<NamedValue> values;
  for (const NamedValue& value : variable.values) {
    const bool is_of_other_calls = value.first == "nonoverlapping" || value.first == "non-overlapping";
    if (value.second > 0 && !is_of_other_calls && (value.first != "two_proc" || ranks == 2)) {
      values.push_back(value);
    }
  }
  return values;
}

/// One value of an MPICH variable.
struct MpichValue {
  std::string_view name;
  bool is_offered = true;  // not: nonblocking ones, and those for other buffers or operations than ours
  bool needs_power_of_two = false;
};

/// The values of each variable after "auto", in MPICH's order (its enumerators are not shown by the tool
/// interface; src/mpi/coll/cvars.txt, 4.0).
std::vector<MpichValue> mpich_list(CommKind kind) {
  switch (kind) {
    case CommKind::all_reduce:
      return {{"nb", false}, {"smp", false}, {"recursive_doubling"}, {"reduce_scatter_allgather"}};
    case CommKind::all_gather:
      return {{"brucks"}, {"nb", false}, {"recursive_doubling", true, true}, {"ring"}};
    case CommKind::reduce_scatter:
      return {{"noncommutative", false},
              {"recursive_doubling"},
              {"pairwise"},
              {"recursive_halving"},
              {"nb", false}};
    case CommKind::all_to_all:
      return {{"brucks"}, {"nb", false}, {"pairwise"}, {"pairwise_sendrecv_replace", false}, {"scattered"}};
    case CommKind::broadcast:
      return {{"binomial"},
              {"nb", false},
              {"smp", false},
              {"scatter_recursive_doubling_allgather", true, true},
              {"scatter_ring_allgather"}};
    case CommKind::reduce:
      return {{"binomial"}, {"nb", false}, {"smp", false}, {"reduce_scatter_gather"}};
    case CommKind::barrier:
    case CommKind::send:
    case CommKind::recv:
    case CommKind::other:
      break;
  }
  return {};
}

/// Whether the variable's description lists exactly these values after "auto", in this order: then their
/// numbers are known.
bool is_described_so(const std::string& description, const std::vector<MpichValue>& list) {
  std::size_t at = 0;
  for (const MpichValue& value : list) {
    at = description.find(value.name, at);
    if (at == std::string::npos) {
      return false;
    }
    at = description.find(" - Force", at);
    if (at == std::string::npos) {
      return false;
    }
  }
  return description.find(" - Force", at + 1) == std::string::npos;
}

std::vector<NamedValue> mpich_values(const ToolVariable& variable, CommKind kind, std::int64_t ranks) {
  const std::vector<MpichValue> list = mpich_list(kind);
  std::vector<NamedValue> values;
  if (!is_described_so(variable.description, list)) {
    return values;
  }
  const bool is_power_of_two = (ranks & (ranks - 1)) == 0;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at].is_offered && (is_power_of_two || !list[at].needs_power_of_two)) {
      values.emplace_back(list[at].name, static_cast<int>(at) + 1);
    }
  }
  return values;
}

/// Open MPI reads the algorithms of a communicator only if this was set before it started.
bool reads_choices() {
  if (!k_is_open_mpi) {
    return true;
  }
  const ToolVariable* const variable = variable_of("coll_tuned_use_dynamic_rules");
  return variable != nullptr && variable->initial != 0;
}

std::vector<NamedValue> values_of(CommKind kind, std::int64_t ranks) {
  if (function_of(kind).empty() || ranks < 2 || !reads_choices()) {
    return {};
  }
  const ToolVariable* const variable = variable_of(variable_name(kind));
  if (variable == nullptr) {
    return {};
  }
  return k_is_open_mpi ? open_mpi_values(*variable, ranks) : mpich_values(*variable, kind, ranks);
}

}  // namespace

void close_mpi_tools() {
  if (tools_are_open()) {
    MPI_T_finalize();
    tools_are_open() = false;
  }
}

std::vector<std::string> mpi_algorithms(CommKind kind, std::int64_t ranks) {
  std::vector<std::string> names;
  for (const NamedValue& value : values_of(kind, ranks)) {
    names.push_back(value.first);
  }
  return names;
}

Result<void> MpiAlgorithmChoice::choose(CommKind kind, const std::string& algorithm, std::int64_t ranks) {
  const std::vector<NamedValue> values = values_of(kind, ranks);
  const auto chosen = std::find_if(values.begin(), values.end(),
                                   [&](const NamedValue& value) { return value.first == algorithm; });
  if (chosen == values.end()) {
    return failure(fmt::format("this MPI library has no algorithm {} of {} over {} ranks to choose",
                               algorithm, name_of(kind), ranks));
  }
  const ToolVariable& variable = *variable_of(variable_name(kind));
  choices_[kind] = {.handle = variable.handle, .value = chosen->second, .initial = variable.initial};
  return {};
}

MPI_Comm MpiAlgorithmChoice::duplicate(MPI_Comm comm) const {
  for (const auto& [kind, choice] : choices_) {
    mpi_check(k_is_open_mpi ? choice.write(choice.value) : MPI_SUCCESS, "MPI_T_cvar_write");
  }
  MPI_Comm copy = MPI_COMM_NULL;
  const int error = MPI_Comm_dup(comm, &copy);
  for (const auto& [kind, choice] : choices_) {
    mpi_check(choice.write(choice.initial), "MPI_T_cvar_write");
  }
  mpi_check(error, "MPI_Comm_dup");
  return copy;
}

int MpiAlgorithmChoice::Choice::write(int chosen) const { return MPI_T_cvar_write(handle, &chosen); }

MpiAlgorithmChoice::Scope::Scope(const MpiAlgorithmChoice* choices, CommKind kind) {
  if (k_is_open_mpi || choices == nullptr) {
    return;
  }
  if (const auto found = choices->choices_.find(kind); found != choices->choices_.end()) {
    choice_ = &found->second;
    mpi_check(choice_->write(choice_->value), "MPI_T_cvar_write");
  }
}

MpiAlgorithmChoice::Scope::~Scope() {
  if (choice_ != nullptr) {
    choice_->write(choice_->initial);
  }
}

}  // namespace commlens
