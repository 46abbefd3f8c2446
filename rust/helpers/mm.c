// SPDX-License-Identifier: GPL-2.0
/* Wrappers for memory management. */

#include <linux/hmm.h>
#include <linux/io.h>
#include <linux/libnvdimm.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <rdma/ib_umem.h>
#include <rdma/iter.h>

__rust_helper bool rust_helper_virt_addr_valid(const void *addr)
{
	return virt_addr_valid(addr);
}

__rust_helper phys_addr_t rust_helper_virt_to_phys(void *addr)
{
	return virt_to_phys(addr);
}

__rust_helper struct ib_umem *rust_helper_ib_umem_get_va(struct ib_device *device, unsigned long addr, size_t size,
							 int access)
{
	return ib_umem_get_va(device, addr, size, access);
}

__rust_helper size_t rust_helper_ib_umem_num_dma_blocks(struct ib_umem *umem, unsigned long pgsz)
{
	return ib_umem_num_dma_blocks(umem, pgsz);
}

__rust_helper void rust_helper___rdma_umem_block_iter_start(struct ib_block_iter *iter, struct ib_umem *umem,
							    unsigned long pgsz)
{
	__rdma_umem_block_iter_start(iter, umem, pgsz);
}

__rust_helper bool rust_helper___rdma_umem_block_iter_next(struct ib_block_iter *iter)
{
	return __rdma_umem_block_iter_next(iter);
}

__rust_helper dma_addr_t rust_helper_rdma_block_iter_dma_address(struct ib_block_iter *iter)
{
	return rdma_block_iter_dma_address(iter);
}

__rust_helper struct page *rust_helper_hmm_pfn_to_page(unsigned long hmm_pfn)
{
	return hmm_pfn_to_page(hmm_pfn);
}

__rust_helper struct folio *rust_helper_page_folio(struct page *page)
{
	return page_folio(page);
}

__rust_helper void *rust_helper_page_address(const struct page *page)
{
	return page_address(page);
}

__rust_helper bool rust_helper_folio_test_dirty(struct folio *folio)
{
	return folio_test_dirty(folio);
}

__rust_helper bool rust_helper_mmu_notifier_range_blockable(const struct mmu_notifier_range *range)
{
	return mmu_notifier_range_blockable(range);
}

__rust_helper void rust_helper_mmu_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq)
{
	mmu_interval_set_seq(notifier, seq);
}

__rust_helper bool rust_helper_mmu_interval_read_retry(struct mmu_interval_notifier *notifier, unsigned long seq)
{
	return mmu_interval_read_retry(notifier, seq);
}
