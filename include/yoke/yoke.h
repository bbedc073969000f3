/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke's kernel library: base, devices, and ops. For these, link libyoke alone. It needs no MPI, JSON or YAML
 * library.
 */
#ifndef YOKE_H
#define YOKE_H
#include <yoke/base.h>
#include <yoke/device.h>
#include <yoke/ops/families.h>
#endif
