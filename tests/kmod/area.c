// SPDX-License-Identifier: GPL-2.0
/* Memory in pieces that lie anywhere, and what has been written to it. */

#include <linux/gcd.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "area.h"

#define KT_POISON 0x5a

u32 kt_random(struct rnd_state *rnd, u32 below)
{
	return below ? prandom_u32_state(rnd) % below : 0;
}

void kt_area_free(struct kt_area *area)
{
	u32 i;

	for (i = 0; i < KT_AREA_BLOCKS; i++)
		if (area->blocks[i])
			free_pages((unsigned long)area->blocks[i], get_order(KT_BLOCK));
	kvfree(area->sgl);
}

int kt_area_init(struct kt_area *area, u32 max_io)
{
	u32 i;

	area->nblocks = min(max_io / KT_BLOCK + 2, KT_AREA_BLOCKS);
	area->sgl = kvcalloc(KT_MAX_PAGES, sizeof(*area->sgl), GFP_KERNEL);
	if (!area->sgl)
		return -ENOMEM;
	for (i = 0; i < area->nblocks; i++) {
		area->blocks[i] = (void *)__get_free_pages(GFP_KERNEL, get_order(KT_BLOCK));
		if (!area->blocks[i])
			return -ENOMEM;
		memset(area->blocks[i], KT_POISON, KT_BLOCK);
	}
	return 0;
}

/* A list of `length` bytes in pages of `page_size`, which lie anywhere in the area; the first byte is at `offset` of the first page. */
void kt_area_list(struct kt_area *area, struct rnd_state *rnd, u32 page_size, u32 length, u32 offset)
{
	u32 pages = DIV_ROUND_UP(offset + length, page_size);
	u32 places = area->nblocks * (KT_BLOCK / page_size);
	u32 start = kt_random(rnd, places);
	u32 step, i, left = length;

	/* Any step that shares no factor with the number of places visits each once. */
	do {
		step = 1 + kt_random(rnd, places - 1);
	} while (gcd(step, places) != 1);
	area->nents = pages;
	area->length = length;
	sg_init_table(area->sgl, pages);
	for (i = 0; i < pages; i++) {
		u32 place = (start + (u64)i * step) % places;
		void *page = area->blocks[place / (KT_BLOCK / page_size)] + (place % (KT_BLOCK / page_size)) * page_size;
		u32 n = min(left, page_size - offset);

		sg_set_buf(&area->sgl[i], page + offset, n);
		left -= n;
		offset = 0;
	}
}

void kt_area_poison(struct kt_area *area)
{
	u32 i;

	for (i = 0; i < area->nents; i++)
		memset(sg_virt(&area->sgl[i]), KT_POISON, area->sgl[i].length);
}

/* Whether the list holds the bytes `data`. */
bool kt_area_holds(struct kt_area *area, const void *data)
{
	u32 i, at = 0;

	for (i = 0; i < area->nents; i++) {
		if (memcmp(sg_virt(&area->sgl[i]), data + at, area->sgl[i].length))
			return false;
		at += area->sgl[i].length;
	}
	return true;
}

/* Whether nothing in the area has been written to. */
bool kt_area_untouched(struct kt_area *area)
{
	u32 i;

	for (i = 0; i < area->nblocks; i++)
		if (memchr_inv(area->blocks[i], KT_POISON, KT_BLOCK))
			return false;
	return true;
}

/* After the list of the area has been checked: nothing beside it has been written to. Leaves the area untouched. */
bool kt_area_clean_beside(struct kt_area *area)
{
	kt_area_poison(area);
	return kt_area_untouched(area);
}
