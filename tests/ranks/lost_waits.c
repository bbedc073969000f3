/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A planted error, which a process has preloaded: a receive does not wait until the memory that it fills is
 * free. It stands in front of libyoke-train's function that lists the waits.
 */
#include <dlfcn.h>

#include "core/base/base.h"
#include "parallel/program.h"

yoke_status yokei_order_streams(struct yokei_program *program)
{
    yoke_status (*const own)(struct yokei_program *) = (yoke_status(*)(struct yokei_program *))(
        uintptr_t)dlsym(RTLD_NEXT, "yokei_order_streams");
    YOKE_TRY(own(program));
    for (int n = 0; n < program->n; n++) {
        struct yokei_instruction *i = &program->instruction[n];
        if (i->kind == YOKEI_RECEIVE_ACTIVATION || i->kind == YOKEI_RECEIVE_GRADIENT)
            for (int s = 0; s < YOKEI_N_STREAMS; s++) i->wait[s] = -1;
    }
    return YOKE_OK;
}
