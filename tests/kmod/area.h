/* SPDX-License-Identifier: GPL-2.0 */
/* Memory in pieces that lie anywhere, and what has been written to it. */

#ifndef KTEST_AREA_H
#define KTEST_AREA_H

#include <linux/prandom.h>
#include <linux/scatterlist.h>
#include <linux/types.h>

#define KT_BLOCK 65536U
#define KT_MAX_PAGES 512
#define KT_MAX_IO (2U << 20)
#define KT_AREA_BLOCKS (KT_MAX_IO / KT_BLOCK + 2)

/* One area of memory: what may be behind the key, and what is. */
struct kt_area {
	void *blocks[KT_AREA_BLOCKS];
	u32 nblocks;
	struct scatterlist *sgl;
	u32 nents;
	u32 length;
};

u32 kt_random(struct rnd_state *rnd, u32 below);
void kt_area_free(struct kt_area *area);
int kt_area_init(struct kt_area *area, u32 max_io);
void kt_area_list(struct kt_area *area, struct rnd_state *rnd, u32 page_size, u32 length, u32 offset);
void kt_area_poison(struct kt_area *area);
bool kt_area_holds(struct kt_area *area, const void *data);
bool kt_area_untouched(struct kt_area *area);
bool kt_area_clean_beside(struct kt_area *area);

#endif
