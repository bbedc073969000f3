/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke's kernel library: base, devices, and ops. For these, link libyoke alone. It needs no MPI, JSON or YAML
 * library.
 */
#ifndef YOKE_H
#define YOKE_H
#include <yoke/base.h>
#include <yoke/device.h>
#include <yoke/ops/act.h>
#include <yoke/ops/attention.h>
#include <yoke/ops/cast.h>
#include <yoke/ops/elementwise.h>
#include <yoke/ops/embed.h>
#include <yoke/ops/gemm.h>
#include <yoke/ops/loss.h>
#include <yoke/ops/norm.h>
#include <yoke/ops/optim.h>
#include <yoke/ops/rope.h>
#endif
