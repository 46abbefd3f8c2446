// SPDX-License-Identifier: GPL-2.0
/*
 * The control file, the results, and the devices.
 */

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ktest.h"

#define KT_ARGS 24
#define KT_OUT_SIZE 65536

static const struct {
	const char *name;
	int (*run)(void);
} kt_tests[] = {
	{ "verbs", kt_verbs },
	{ "posts", kt_posts },
	{ "flow", kt_flow },
	{ "teardown", kt_teardown },
	{ "keys", kt_keys },
};

static DEFINE_MUTEX(kt_run_lock);
static DEFINE_MUTEX(kt_out_lock);
static DEFINE_MUTEX(kt_dev_lock);
static LIST_HEAD(kt_devs);
static struct dentry *kt_dir;
static struct task_struct *kt_runner;
static bool kt_stop;
static char *kt_out;
static size_t kt_out_len;
static char kt_line[512];
static struct {
	const char *key;
	const char *value;
} kt_args[KT_ARGS];
static int kt_nargs;

const char *kt_arg_text(const char *key)
{
	int i;

	for (i = 0; i < kt_nargs; i++)
		if (!strcmp(kt_args[i].key, key))
			return kt_args[i].value;
	return NULL;
}

u32 kt_arg(const char *key, u32 otherwise)
{
	const char *text = kt_arg_text(key);
	u32 value;

	if (!text || kstrtou32(text, 0, &value))
		return otherwise;
	return value;
}

bool kt_arg_is(const char *key, const char *value)
{
	const char *text = kt_arg_text(key);

	return text && !strcmp(text, value);
}

u32 kt_slow(void)
{
	return max(kt_arg("slow", 1), 1U);
}

bool kt_stopping(void)
{
	return READ_ONCE(kt_stop) || (current == kt_runner && signal_pending(current));
}

static void kt_vput(const char *prefix, const char *fmt, va_list args)
{
	mutex_lock(&kt_out_lock);
	kt_out_len += scnprintf(kt_out + kt_out_len, KT_OUT_SIZE - kt_out_len, "%s ", prefix);
	kt_out_len += vscnprintf(kt_out + kt_out_len, KT_OUT_SIZE - kt_out_len, fmt, args);
	kt_out_len += scnprintf(kt_out + kt_out_len, KT_OUT_SIZE - kt_out_len, "\n");
	mutex_unlock(&kt_out_lock);
}

void kt_info(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	kt_vput("info", fmt, args);
	va_end(args);
}

bool kt_check(bool good, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	kt_vput(good ? "ok" : "fail", fmt, args);
	va_end(args);
	return good;
}

void kt_fault(struct kt_fault *fault, const char *fmt, ...)
{
	va_list args;

	if (atomic_inc_return(&fault->count) != 1)
		return;
	va_start(args, fmt);
	vscnprintf(fault->text, sizeof(fault->text), fmt, args);
	va_end(args);
	atomic_set_release(&fault->written, 1);
}

bool kt_check_fault(struct kt_fault *fault, const char *name)
{
	int count = atomic_read(&fault->count);

	if (!count)
		return kt_check(true, "%s", name);
	return kt_check(false, "%s: %d times, first: %s", name, count,
			atomic_read_acquire(&fault->written) ? fault->text : "?");
}

struct kt_dev *kt_dev_get(const char *name)
{
	struct kt_dev *dev, *found = NULL;

	mutex_lock(&kt_dev_lock);
	list_for_each_entry(dev, &kt_devs, node) {
		if (!dev->dying && !strcmp(dev_name(&dev->ib->dev), name)) {
			dev->users++;
			found = dev;
			break;
		}
	}
	mutex_unlock(&kt_dev_lock);
	return found;
}

void kt_dev_put(struct kt_dev *dev)
{
	mutex_lock(&kt_dev_lock);
	if (!--dev->users && dev->dying)
		complete(&dev->idle);
	mutex_unlock(&kt_dev_lock);
}

static int kt_client_add(struct ib_device *ib)
{
	struct kt_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return -ENOMEM;
	dev->ib = ib;
	init_completion(&dev->idle);
	mutex_lock(&kt_dev_lock);
	list_add(&dev->node, &kt_devs);
	mutex_unlock(&kt_dev_lock);
	return 0;
}

static void kt_client_remove(struct ib_device *ib, void *data)
{
	struct kt_dev *dev, *found = NULL;

	mutex_lock(&kt_dev_lock);
	list_for_each_entry(dev, &kt_devs, node)
		if (dev->ib == ib)
			found = dev;
	if (found) {
		list_del(&found->node);
		found->dying = true;
		if (found->users)
			WRITE_ONCE(kt_stop, true);
		else
			complete(&found->idle);
	}
	mutex_unlock(&kt_dev_lock);
	if (!found)
		return;
	wait_for_completion(&found->idle);
	kfree(found);
}

static struct ib_client kt_client = {
	.name = "rxe_ktest",
	.add = kt_client_add,
	.remove = kt_client_remove,
};

static int kt_parse(char *line, const char **test)
{
	char *word;

	kt_nargs = 0;
	line = strim(line);
	*test = strsep(&line, " ");
	while ((word = strsep(&line, " ")) != NULL) {
		char *value = strchr(word, '=');

		if (!*word)
			continue;
		if (!value || kt_nargs == KT_ARGS)
			return -EINVAL;
		*value++ = '\0';
		kt_args[kt_nargs].key = word;
		kt_args[kt_nargs].value = value;
		kt_nargs++;
	}
	return 0;
}

static ssize_t kt_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	const char *test;
	size_t i;
	int ret;

	if (len >= sizeof(kt_line))
		return -EINVAL;
	if (mutex_lock_interruptible(&kt_run_lock))
		return -EINTR;
	ret = -EFAULT;
	if (copy_from_user(kt_line, buf, len))
		goto out;
	kt_line[len] = '\0';
	ret = kt_parse(kt_line, &test);
	if (ret)
		goto out;
	kt_out_len = 0;
	kt_runner = current;
	WRITE_ONCE(kt_stop, false);
	ret = -ENOENT;
	for (i = 0; i < ARRAY_SIZE(kt_tests); i++)
		if (!strcmp(kt_tests[i].name, test))
			ret = kt_tests[i].run();
	kt_runner = NULL;
	if (ret)
		kt_check(false, "%s: set-up: error %d", test, ret);
out:
	mutex_unlock(&kt_run_lock);
	return ret ?: len;
}

static int kt_show(struct seq_file *m, void *unused)
{
	mutex_lock(&kt_out_lock);
	seq_write(m, kt_out, kt_out_len);
	mutex_unlock(&kt_out_lock);
	return 0;
}

static int kt_open(struct inode *inode, struct file *file)
{
	return single_open(file, kt_show, NULL);
}

static const struct file_operations kt_fops = {
	.owner = THIS_MODULE,
	.open = kt_open,
	.read = seq_read,
	.write = kt_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init kt_init(void)
{
	int ret;

	kt_out = kzalloc(KT_OUT_SIZE, GFP_KERNEL);
	if (!kt_out)
		return -ENOMEM;
	ret = ib_register_client(&kt_client);
	if (ret) {
		kfree(kt_out);
		return ret;
	}
	kt_dir = debugfs_create_dir("rxe_ktest", NULL);
	debugfs_create_file("run", 0600, kt_dir, NULL, &kt_fops);
	return 0;
}

static void __exit kt_exit(void)
{
	debugfs_remove(kt_dir);
	ib_unregister_client(&kt_client);
	kfree(kt_out);
}

module_init(kt_init);
module_exit(kt_exit);

MODULE_DESCRIPTION("Kernel consumer that tests RDMA devices");
MODULE_LICENSE("GPL");
