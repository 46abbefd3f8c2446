// SPDX-License-Identifier: GPL-2.0
/* Wrappers for networking. */

#include <linux/skbuff.h>
