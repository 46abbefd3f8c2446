// SPDX-License-Identifier: GPL-2.0
/* Wrappers for memory management. */

#include <linux/mm.h>
