#include "commlens/capture/mpi_types.hpp"

#include <algorithm>
#include <optional>

namespace commlens::capture {
namespace {

enum class Meaning : std::uint8_t { number, real, bytes };

std::optional<DType> dtype_of(Meaning meaning, int size) {
  switch (size) {
    case 1:
      return meaning == Meaning::number ? DType::int8 : DType::uint8;
    case 2:
      return meaning == Meaning::real ? DType::fp16 : DType::int16;
    case 4:
      return meaning == Meaning::real ? DType::fp32 : DType::int32;
    case 8:
      return meaning == Meaning::real ? DType::fp64 : DType::int64;
    default:
      return std::nullopt;
  }
}

}  // namespace

Types::Types() {
  const auto all = [&](Meaning meaning, std::initializer_list<MPI_Datatype> types) {
    for (const auto& type : types) {
      int size = 0;
      const bool is_there =
          type != handles().no_type && COMMLENS_REAL(PMPI_Type_size)(type, &size) == MPI_SUCCESS;
      if (const auto dtype = is_there ? dtype_of(meaning, size) : std::nullopt) {
        add(type, *dtype);
      }
    }
  };
  all(Meaning::real, {MPI_FLOAT, MPI_DOUBLE});
  all(Meaning::bytes, {MPI_BYTE, MPI_PACKED, MPI_UNSIGNED_CHAR, MPI_UINT8_T, MPI_C_BOOL, MPI_CXX_BOOL});
  all(Meaning::number,
      {MPI_CHAR,    MPI_SIGNED_CHAR,   MPI_SHORT,     MPI_UNSIGNED_SHORT,     MPI_INT,     MPI_UNSIGNED,
       MPI_LONG,    MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_WCHAR,   MPI_INT8_T,
       MPI_INT16_T, MPI_UINT16_T,      MPI_INT32_T,   MPI_UINT32_T,           MPI_INT64_T, MPI_UINT64_T,
       MPI_AINT,    MPI_OFFSET,        MPI_COUNT});
  all(Meaning::real, {MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8});
  all(Meaning::number,
      {MPI_INTEGER, MPI_LOGICAL, MPI_CHARACTER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8});
}

void Types::add(MPI_Datatype type, DType dtype) {
  std::size_t slot = slot_of(key_of(type));
  while (entries_[slot].key != 0 && entries_[slot].key != key_of(type)) {
    slot = (slot + 1) % entries_.size();
  }
  entries_[slot] = {key_of(type), dtype};
}

Amount Types::other_amount(std::int64_t count, MPI_Datatype type) const {
  const std::uint64_t key = key_of(type);
  for (std::size_t slot = slot_of(key); entries_[slot].key != 0; slot = (slot + 1) % entries_.size()) {
    if (entries_[slot].key == key) {
      return {entries_[slot].dtype, Elements{count > 0 ? count : 0}};
    }
  }
  MPI_Count size = 0;
  if (type == handles().no_type || count <= 0 ||
      COMMLENS_REAL(PMPI_Type_size_x)(type, &size) != MPI_SUCCESS || size < 0) {
    return {};
  }
  return {DType::uint8, Elements{count * size}};
}

}  // namespace commlens::capture
