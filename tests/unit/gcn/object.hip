// SPDX-License-Identifier: Apache-2.0
// The source of objects.txt: make-objects compiles it, and gcn_object.c reads what came of it.
#line 1 "backends/gpu/kernels/small.yk"
extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 128))) void
small_scale(float *y, const float *x, float a, unsigned n)
{
    const unsigned i = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();
    if (i < n)
        y[i] = a * x[i];
}

extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 64))) void
small_turn(float *y)
{
    __attribute__((shared)) static float t[64];
    const unsigned i = __builtin_amdgcn_workitem_id_x();
    t[i] = y[i];
    __builtin_amdgcn_s_barrier();
    y[i] = t[63 - i];
}
