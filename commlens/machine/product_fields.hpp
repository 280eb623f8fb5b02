#pragma once
#include "commlens/machine/machine_fields.hpp"

namespace commlens {

/// A measured product may be this much faster than the peak, for clocks that were above the stated one.
constexpr double k_most_of_peak = 1.05;

/// FLOP/s of a measured product.
double product_rate(const ProductTime& product);

/// The peak of an element type, FLOP/s; std::nullopt: the machine file has none.
std::optional<double> peak_of(const Processor& processor, DType dtype);

/// What a processor knows of products in an element type; null: nothing. Types of 16 bit are as fast as each
/// other: of the two, what is known of the other counts.
const ProductTimes* known_products(const Processor& processor, DType dtype);

/// Puts what is known of products in a type in place of what was; other types stay.
void put_products(Processor& processor, ProductTimes products);

/// Reads `gemm` of a processor whose peaks were read.
void read_products(MachineFields& fields, const ConfigNode& node, Processor& processor);

}  // namespace commlens
