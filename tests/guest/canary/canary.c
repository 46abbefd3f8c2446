// SPDX-License-Identifier: GPL-2.0
/*
 * Deliberate mistakes, one for each checker of the debug kernel, so that a run without reports can be told from a run without checkers.
 * insmod canary.ko mistake=lock|sleep|free|leak; loading always fails afterwards, so that nothing has to be removed.
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *mistake = "";
module_param(mistake, charp, 0444);

static DEFINE_MUTEX(canary_a);
static DEFINE_MUTEX(canary_b);
static DEFINE_SPINLOCK(canary_spin);

static void canary_lock(void)
{
	mutex_lock(&canary_a);
	mutex_lock(&canary_b);
	mutex_unlock(&canary_b);
	mutex_unlock(&canary_a);
	mutex_lock(&canary_b);
	mutex_lock(&canary_a);
	mutex_unlock(&canary_a);
	mutex_unlock(&canary_b);
}

static void canary_sleep(void)
{
	spin_lock(&canary_spin);
	might_sleep();
	spin_unlock(&canary_spin);
}

static void canary_free(void)
{
	char *volatile p = kmalloc(64, GFP_KERNEL);

	kfree(p);
	pr_info("canary: read %d\n", READ_ONCE(p[8]));
}

/*
 * The allocator remembers the objects it has given out last, in memory that kmemleak takes for references, until others take their places.
 */
static void canary_leak(void)
{
	static char *others[256];
	char *volatile p;
	int i;

	for (i = 0; i < 16; i++)
		p = kmalloc(1024, GFP_KERNEL);
	p = NULL;
	for (i = 0; i < ARRAY_SIZE(others); i++)
		others[i] = kmalloc(1024, GFP_KERNEL);
	for (i = 0; i < ARRAY_SIZE(others); i++)
		kfree(others[i]);
}

static int __init canary_init(void)
{
	if (!strcmp(mistake, "lock"))
		canary_lock();
	else if (!strcmp(mistake, "sleep"))
		canary_sleep();
	else if (!strcmp(mistake, "free"))
		canary_free();
	else if (!strcmp(mistake, "leak"))
		canary_leak();
	else
		return -EINVAL;
	return -ECANCELED;
}
module_init(canary_init);

MODULE_DESCRIPTION("Deliberate mistakes for the checkers of a debug kernel");
MODULE_LICENSE("GPL");
