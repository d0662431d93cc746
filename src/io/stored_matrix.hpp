// Matrices (out, in) inside the tensors of checkpoints: whole, a third of a fused tensor, transposed, or cut
// into heads. `label` opens the error text of a tensor that has another shape.
#pragma once

#include <string>

#include "headlens/weights.hpp"

namespace headlens::io {

// (out, in) as it stands; of other shapes only the name is kept.
StoredMatrix whole(const std::string& tensor, const Array& all);
// One of `parts` equal parts along the rows of (parts out, in), or along the columns of (in, parts out).
StoredMatrix cut(const std::string& tensor, const Array& all, Index part, Index parts, bool columns,
                 const std::string& label);
// (m, in, r) as (m r, in); of outputs, (m, r, out) as (out, m r).
StoredMatrix from_heads(const std::string& tensor, const Array& all, bool outputs, const std::string& label);

// The matrix as float64, and back into its place.
Array take_matrix(const Array& from, const StoredMatrix& stored);
void put_matrix(const Array& matrix, const StoredMatrix& stored, Array& into);

}  // namespace headlens::io
