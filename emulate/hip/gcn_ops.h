/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions that are known, by the names that the assembler gives them on GFX9. gcn_table.c has the
 * other names of GFX11. OP(name, signature, kind, body): the signature is that of the kind's list.
 *
 * Loads, stores and atomics of memory are not in these lists, because their names say all: gcn_memory_name.c
 * reads them.
 */
/* clang-format off */
#include "emulate/hip/gcn_ops_scalar.h"
#include "emulate/hip/gcn_ops_vector.h"

OP(access, "", ACCESS, )
OP(s_load, "", SCALAR_LOAD, )

/* lanes: the destination is SGPRs, or another lane's register */
OP(v_readfirstlane_b32, "S=u", LANE, )
OP(v_readlane_b32, "S=us", LANE, )
OP(v_writelane_b32, "u=ss", LANE, )
OP(v_swap_b32, "u=u", LANE, )
OP(ds_bpermute_b32, "", PERMUTE, )
OP(ds_permute_b32, "", PERMUTE, )
OP(ds_swizzle_b32, "", PERMUTE, )

/* the wave as a whole */
OP(s_branch, "", BRANCH, )
OP(s_cbranch_scc0, "", BRANCH, )
OP(s_cbranch_scc1, "", BRANCH, )
OP(s_cbranch_vccz, "", BRANCH, )
OP(s_cbranch_vccnz, "", BRANCH, )
OP(s_cbranch_execz, "", BRANCH, )
OP(s_cbranch_execnz, "", BRANCH, )
OP(s_setpc_b64, "02", BRANCH, )
OP(s_swappc_b64, "22", BRANCH, )
OP(s_call_b64, "2", BRANCH, )
OP(s_barrier, "", BARRIER, )
OP(s_endpgm, "", END, )
OP(s_trap, "", END, )
OP(s_waitcnt, "", WAIT, )
OP(s_waitcnt_vscnt, "", WAIT, )
OP(s_waitcnt_vmcnt, "", WAIT, )
OP(s_waitcnt_lgkmcnt, "", WAIT, )
OP(s_waitcnt_expcnt, "", NOTHING, )
OP(s_waitcnt_depctr, "", NOTHING, )
OP(s_nop, "", NOTHING, )
OP(s_sleep, "", NOTHING, )
OP(s_setprio, "", NOTHING, )
OP(s_clause, "", NOTHING, )
OP(s_delay_alu, "", NOTHING, )
OP(s_code_end, "", END, )
OP(s_set_inst_prefetch_distance, "", NOTHING, )
OP(s_inst_prefetch, "", NOTHING, )
OP(s_icache_inv, "", NOTHING, )
OP(s_dcache_inv, "", NOTHING, )
OP(s_dcache_wb, "", NOTHING, )
OP(s_gl1_inv, "", NOTHING, )
OP(s_sendmsg, "", NOTHING, )
OP(buffer_wbinvl1, "", NOTHING, )
OP(buffer_wbinvl1_vol, "", NOTHING, )
OP(buffer_wbl2, "", NOTHING, )
OP(buffer_invl2, "", NOTHING, )
OP(buffer_inv, "", NOTHING, )
OP(buffer_gl0_inv, "", NOTHING, )
OP(buffer_gl1_inv, "", NOTHING, )
OP(ds_nop, "", NOTHING, )
OP(v_nop, "", NOTHING, )
OP(s_set_gpr_idx_off, "", SCALAR, )
OP(s_set_gpr_idx_mode, "", SCALAR, )
OP(s_denorm_mode, "", SCALAR, )
OP(s_round_mode, "", SCALAR, )
/* clang-format on */
