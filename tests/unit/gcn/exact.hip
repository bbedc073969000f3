// SPDX-License-Identifier: Apache-2.0
// Operations whose results are correctly rounded although they begin with approximations. make-objects compiles it, and gcn_exact.c runs it.
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 64))) void
#define INDEX (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

KERNEL quotients(float *q, const float *a, const float *b) { q[INDEX] = a[INDEX] / b[INDEX]; }
KERNEL roots(float *q, const float *a, const float *b) { q[INDEX] = __builtin_sqrtf(a[INDEX]); }

// the bits of each pair are two numbers of 64 bits; the quotient of zero by anything is zero
KERNEL whole_quotients(unsigned long long *q, const unsigned long long *a, const unsigned long long *b)
{
    q[INDEX] = b[INDEX] ? a[INDEX] / b[INDEX] : 0;
}
