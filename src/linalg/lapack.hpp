// The Fortran LAPACK routines that libopenblas exports and headlens calls. Column-major, 32-bit integers;
// each character argument adds a hidden length at the end.
//
// A row-major matrix is the column-major transpose: a row-major lower triangle goes in as 'U'.
// Call use_one_blas_thread() before any of these.
#pragma once

#include <cstddef>

extern "C" {

// A = U^T U. info > 0: the leading minor of that order is not positive (a NaN is not noticed).
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, std::size_t);
void spotrf_(const char* uplo, const int* n, float* a, const int* lda, int* info, std::size_t);

// A triangular inverse in place. info > 0: that diagonal item is zero.
void dtrtri_(const char* uplo, const char* diag, const int* n, double* a, const int* lda, int* info,
             std::size_t, std::size_t);
void strtri_(const char* uplo, const char* diag, const int* n, float* a, const int* lda, int* info,
             std::size_t, std::size_t);

// QR by recursive blocks: R and the reflectors V in a, and T with Q = I - V T V^T.
void dgeqrt3_(const int* m, const int* n, double* a, const int* lda, double* t, const int* ldt, int* info);
void sgeqrt3_(const int* m, const int* n, float* a, const int* lda, float* t, const int* ldt, int* info);

// LQ by Householder reflections, kept in a and tau; C = C Q^T (side "R", trans "T") and its siblings. dormlq
// writes to a for a moment.
void dgelqf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void dormlq_(const char* side, const char* trans, const int* m, const int* n, const int* k, double* a,
             const int* lda, const double* tau, double* c, const int* ldc, double* work, const int* lwork,
             int* info, std::size_t, std::size_t);

// All eigenvalues and eigenvectors by divide and conquer. info > 0: no convergence.
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info, std::size_t,
             std::size_t);

// A = U S V^T by divide and conquer. info > 0: no convergence.
void dgesdd_(const char* jobz, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* iwork,
             int* info, std::size_t);

// Eigenvalues wr + i wi and left eigenvectors of a general matrix. info > 0: no convergence.
void dgeev_(const char* jobvl, const char* jobvr, const int* n, double* a, const int* lda, double* wr,
            double* wi, double* vl, const int* ldvl, double* vr, const int* ldvr, double* work,
            const int* lwork, int* info, std::size_t, std::size_t);
}
