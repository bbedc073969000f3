/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-ins of rocBLAS and hipBLASLt share. */
#ifndef EMULATE_HIP_BLAS_H
#define EMULATE_HIP_BLAS_H

#include "emulate/gpu/product.h"

/* The stand-in libamdhip64; NULL if it is not loaded. */
const struct product_driver *blas_driver(void);
/* Does the current device take subnormal numbers of 16 bits for zeros in products? MI200 does. */
bool blas_flushes(void);

#endif
