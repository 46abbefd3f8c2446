// SPDX-License-Identifier: GPL-2.0

//! The driver as the RDMA core sees it: its objects, and the verbs of the device and its port.

#![forbid(unsafe_code)]

use super::{
    ah,
    counters,
    cq,
    device::{
        DeviceData,
        RxeDev, //
    },
    mad,
    mr_verbs,
    param,
    pd,
    qp,
    srq, //
};
use crate::{
    abstractions::{
        net::{
            NetDev,
            Rtnl, //
        },
        rdma::{
            device::{
                Modify,
                ModifyPort, //
            },
            hw_stats,
            mad as rdma_mad,
            port::{
                PhysState,
                PortState, //
            },
            ucontext,
            Device,
            DeviceAttr,
            Driver,
            PortAttr,
            UserData, //
        }, //
    },
    proto::uabi, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

/// The driver.
pub struct Rxe;

/// `RDMA_DRIVER_RXE` of `enum rdma_driver_id`.
const DRIVER_ID: u32 = 14;

/// Commands that processes call: `IB_USER_VERBS_CMD_POST_SEND`, the doorbell, and
/// `IB_USER_VERBS_CMD_REQ_NOTIFY_CQ`.
const USER_COMMANDS: u64 = 1 << 28 | 1 << 23;

#[vtable]
impl Driver for Rxe {
    type Data = DeviceData;
    type Ucontext = Ucontext;
    type Pd = pd::Handle;
    type Ah = ah::Handle;
    type Cq = cq::Handle;
    type Srq = srq::Handle;
    type Qp = qp::Handle;
    type Mr = mr_verbs::Region;
    type Mw = mr_verbs::Window;

    const DRIVER_ID: u32 = DRIVER_ID;
    const UVERBS_ABI_VERSION: u32 = uabi::ABI_VERSION;
    const EXTRA_USER_COMMANDS: u64 = USER_COMMANDS;
    const COUNTERS: &'static [hw_stats::Descriptor] = &counters::DESCRIPTORS;

    fn query_device(device: &Device<Self>) -> Result<DeviceAttr> {
        let dev: &Arc<RxeDev> = device;
        Ok(DeviceAttr {
            sys_image_guid: dev.sys_image_guid(),
            max_mr_size: u64::MAX,
            page_size_cap: param::PAGE_SIZE_CAP,
            vendor_id: param::VENDOR_ID,
            max_qp: param::MAX_QP,
            max_qp_wr: param::MAX_QP_WR,
            device_cap_flags: param::DEVICE_CAPS,
            kernel_cap_flags: param::KERNEL_CAPS,
            max_send_sge: param::MAX_SGE,
            max_recv_sge: param::MAX_SGE,
            max_sge_rd: param::MAX_SGE,
            max_cq: param::MAX_CQ,
            max_cqe: param::MAX_CQE,
            max_mr: param::MAX_MR,
            max_pd: param::MAX_PD,
            max_qp_rd_atom: param::MAX_QP_RD_ATOM,
            max_res_rd_atom: param::MAX_RES_RD_ATOM,
            max_qp_init_rd_atom: param::MAX_QP_RD_ATOM,
            max_mw: param::MAX_MW,
            max_mcast_grp: param::MAX_MCAST_GRP,
            max_mcast_qp_attach: param::MAX_MCAST_QP_ATTACH,
            max_total_mcast_qp_attach: param::MAX_TOTAL_MCAST_QP_ATTACH,
            max_ah: param::MAX_AH,
            max_srq: param::MAX_SRQ,
            max_srq_wr: param::MAX_SRQ_WR,
            max_srq_sge: param::MAX_SRQ_SGE,
            max_fast_reg_page_list_len: param::MAX_FAST_REG_PAGES,
            max_pkeys: param::PKEY_TABLE_LEN,
            local_ca_ack_delay: param::LOCAL_ACK_DELAY,
            atomic: true,
            odp_general: param::ODP,
            odp_rc: param::ODP_RC,
            odp_ud: param::ODP_UD,
            ..DeviceAttr::default()
        })
    }

    fn modify_device(device: &Device<Self>, change: &Modify) -> Result {
        if let Some(guid) = change.sys_image_guid {
            device.set_sys_image_guid(guid);
        }
        Ok(())
    }

    fn query_port(device: &Device<Self>) -> Result<PortAttr> {
        let ndev = device.netdev().ok_or(ENODEV)?;
        let (active_speed, active_width) = device.link_speed()?;
        let state = Device::<Self>::link_state(&ndev);
        let phys_state = match state {
            PortState::Active => PhysState::LinkUp,
            PortState::Down if ndev.is_up() => PhysState::Polling,
            PortState::Down => PhysState::Disabled,
        };
        let (bad_pkey_counter, qkey_violation_counter) = device.key_violations();
        Ok(PortAttr {
            state,
            phys_state,
            max_mtu: param::MAX_MTU.ib_enum(),
            active_mtu: device.active_mtu().ib_enum(),
            gid_table_len: param::GID_TABLE_LEN,
            cap_flags: device.port_caps(),
            max_msg_size: param::MAX_MESSAGE,
            bad_pkey_counter,
            qkey_violation_counter,
            pkey_table_len: param::PKEY_TABLE_LEN,
            max_vl_num: 1,
            active_width,
            active_speed,
        })
    }

    fn modify_port(device: &Device<Self>, change: &ModifyPort) -> Result {
        device.change_port_caps(change.set_caps, change.clear_caps);
        if change.reset_qkey_counter {
            device.reset_qkey_violations();
        }
        Ok(())
    }

    fn query_pkey(_device: &Device<Self>, index: u16) -> Result<u16> {
        if index < param::PKEY_TABLE_LEN {
            Ok(param::PKEY)
        } else {
            Err(EINVAL)
        }
    }

    fn enable(device: &Device<Self>) -> Result {
        let ndev = device.netdev().ok_or(ENODEV)?;
        // If the network device began to go away before the device could be found by it, nobody has
        // told the device. From now on the notifier does.
        if !ndev.is_registered(&Rtnl::lock()) {
            return Err(ENODEV);
        }
        device.set_link(Device::<Self>::link_state(&ndev) == PortState::Active);
        Ok(())
    }

    fn read_counters(device: &Device<Self>, values: &mut [u64]) {
        device.read_counters(values);
    }

    fn process_mad(
        device: &Device<Self>,
        request: &rdma_mad::Request<'_>,
        reply: &mut rdma_mad::Reply<'_>,
    ) -> rdma_mad::Verdict {
        mad::process(device, request, reply)
    }

    fn parent(device: &Device<Self>) -> Result<ARef<NetDev>> {
        device.netdev().ok_or(ENODEV)
    }
}

/// A process's context.
pub struct Ucontext {
    dev: Arc<RxeDev>,
}

impl Drop for Ucontext {
    fn drop(&mut self) {
        self.dev.ucontexts.put();
    }
}

#[vtable]
impl ucontext::Operations for Ucontext {
    type Driver = Rxe;

    fn alloc(device: &Device<Rxe>, udata: &mut UserData<'_>) -> Result<Self> {
        udata.no_input()?;
        let dev: &Arc<RxeDev> = device;
        dev.ucontexts.take()?;
        Ok(Self { dev: dev.clone() })
    }
}
