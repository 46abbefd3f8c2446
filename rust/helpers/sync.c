// SPDX-License-Identifier: GPL-2.0
/* Wrappers for synchronisation. */

#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/refcount.h>
#include <linux/xarray.h>

__rust_helper bool rust_helper_refcount_inc_not_zero(refcount_t *r)
{
	return refcount_inc_not_zero(r);
}

__rust_helper void rust_helper_list_del_init(struct list_head *entry)
{
	list_del_init(entry);
}

__rust_helper void rust_helper_local_bh_disable(void)
{
	local_bh_disable();
}

__rust_helper void rust_helper_local_bh_enable(void)
{
	local_bh_enable();
}

__rust_helper unsigned long rust_helper_xa_lock_irqsave(struct xarray *xa)
{
	unsigned long flags;

	xa_lock_irqsave(xa, flags);
	return flags;
}

__rust_helper void rust_helper_xa_unlock_irqrestore(struct xarray *xa, unsigned long flags)
{
	xa_unlock_irqrestore(xa, flags);
}

__rust_helper void *rust_helper___alloc_percpu(size_t size, size_t align)
{
	return (void *)(__force unsigned long)__alloc_percpu(size, align);
}

__rust_helper void rust_helper_this_cpu_add_u64(u64 *counter, u64 n)
{
	this_cpu_add(*(u64 __percpu *)(__force unsigned long)counter, n);
}

__rust_helper unsigned int rust_helper_num_cpu_ids(void)
{
	return nr_cpu_ids;
}

__rust_helper u64 rust_helper_per_cpu_read_u64(u64 *counter, unsigned int cpu)
{
	return cpu_possible(cpu) ? READ_ONCE(*per_cpu_ptr((u64 __percpu *)(__force unsigned long)counter, cpu)) : 0;
}
