#include "io/stored_matrix.hpp"

#include "headlens/error.hpp"

namespace headlens {

Index StoredMatrix::flat(Index i, Index j) const {
  const Index row = run > 0 ? i / run * run_step + i % run * row_step : i * row_step;
  return first + row + j * col_step;
}

namespace io {

StoredMatrix whole(const std::string& tensor, const Array& all) {
  if (all.rank() != 2) return {tensor};
  return {tensor, all.dim(0), all.dim(1), 0, all.dim(1), 1};
}

StoredMatrix cut(const std::string& tensor, const Array& all, Index part, Index parts, bool columns,
                 const std::string& label) {
  const Index axis = columns ? 1 : 0;
  const char* expected = parts == 1 ? "(d, d)" : columns ? "(d, 3 d)" : "(3 d, d)";
  require(all.is_float() && all.rank() == 2 && all.dim(axis) % parts == 0, label, " is ", all.describe(),
          ", expected float32 or float64 ", expected);
  const Index out = all.dim(axis) / parts, in = all.dim(1 - axis), step = all.dim(1);
  if (columns) return {tensor, out, in, part * out, 1, step};
  return {tensor, out, in, part * out * in, step, 1};
}

StoredMatrix from_heads(const std::string& tensor, const Array& all, bool outputs, const std::string& label) {
  require(all.is_float() && all.rank() == 3, label, " is ", all.describe(),
          ", expected float32 or float64 of three axes, the first of heads");
  const Index m = all.dim(0), a = all.dim(1), b = all.dim(2);
  if (outputs) return {tensor, b, m * a, 0, 1, b};
  return {tensor, m * b, a, 0, 1, b, b, a * b};
}

Array take_matrix(const Array& from, const StoredMatrix& s) {
  Array out(DType::f64, {s.rows, s.cols});
  for (Index i = 0; i < s.rows; ++i)
    for (Index j = 0; j < s.cols; ++j) out.data<double>()[i * s.cols + j] = from.at(s.flat(i, j));
  return out;
}

void put_matrix(const Array& matrix, const StoredMatrix& s, Array& into) {
  for (Index i = 0; i < s.rows; ++i)
    for (Index j = 0; j < s.cols; ++j) {
      const double value = matrix.at(i * s.cols + j);
      if (into.dtype() == DType::f32)
        into.data<float>()[s.flat(i, j)] = static_cast<float>(value);
      else
        into.data<double>()[s.flat(i, j)] = value;
    }
}

}  // namespace io
}  // namespace headlens
