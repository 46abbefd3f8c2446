// SPDX-License-Identifier: GPL-2.0
/* Wrappers for the RDMA core. */

#include <rdma/ib_verbs.h>
