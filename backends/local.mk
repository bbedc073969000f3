# To add a backend: its folder's local.mk here, one line in core/open/registry.c.
include backends/reference/local.mk
include backends/host/local.mk
include backends/gpu/local.mk
include backends/gpu/runtime/local.mk
include backends/opencl/local.mk
include backends/cuda/local.mk
include backends/hip/local.mk
include backends/null/local.mk
