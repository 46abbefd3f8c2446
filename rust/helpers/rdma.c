// SPDX-License-Identifier: GPL-2.0
/* Wrappers for the RDMA core. */

#include <rdma/ib_verbs.h>

__rust_helper enum ib_port_state rust_helper_ib_get_curr_port_state(struct net_device *net_dev)
{
	return ib_get_curr_port_state(net_dev);
}

__rust_helper struct ib_device *rust_helper_rdma_device_to_ibdev(struct device *device)
{
	return rdma_device_to_ibdev(device);
}

__rust_helper void rust_helper_ib_mark_name_assigned_by_user(struct ib_device *ibdev)
{
	ib_mark_name_assigned_by_user(ibdev);
}

__rust_helper unsigned int rust_helper_num_possible_cpus(void)
{
	return num_possible_cpus();
}
