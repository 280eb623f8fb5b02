#pragma once
#include <array>
#include <cstdint>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/capture/mpi_api.hpp"

namespace commlens::capture {

/// A number of elements.
struct Amount {
  DType dtype = DType::uint8;
  Elements elements;

  Bytes bytes() const { return elements * dtype; }
};

/// Amounts of MPI datatypes. A predefined type with an element type of the same kind and size becomes that
/// one (unsigned integers the signed one); everything else (derived types, pairs, complex numbers, long
/// double) is bytes, as many as MPI_Type_size says.
class Types {
 public:
  Types();

  Amount amount(std::int64_t count, MPI_Datatype type) const {
    const Entry& entry = entries_[slot_of(key_of(type))];
    return entry.key == key_of(type) && count > 0 ? Amount{entry.dtype, Elements{count}}
                                                  : other_amount(count, type);
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    DType dtype = DType::uint8;
  };
  static constexpr int k_bits = 8;
  static std::size_t slot_of(std::uint64_t key) { return (key * 0x9e3779b97f4a7c15U) >> (64 - k_bits); }
  /// Of a type that is not in its first slot, or of no elements (a negative count is the program's
  /// fault).
  Amount other_amount(std::int64_t count, MPI_Datatype type) const;
  void add(MPI_Datatype type, DType dtype);

  std::array<Entry, std::size_t{1} << k_bits> entries_ = {};  // linear probing, 0: empty
};

}  // namespace commlens::capture
