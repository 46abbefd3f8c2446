// SPDX-License-Identifier: GPL-2.0
/*
 * One-line wrappers of C inline functions and macros, so that Rust can call them: rust_helper_NAME is NAME in the bindings.
 * No logic here.
 */

#include <linux/compiler_types.h>

#define __rust_helper

#include "mm.c"
#include "net.c"
#include "rdma.c"
#include "sync.c"
