//! The memory and the functions of the C side; layouts are checked against it when a pool is made.

use std::mem::{offset_of, size_of};

pub(crate) const CAPACITY: usize = 64;
pub(crate) const NEVER: u64 = u64::MAX;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawServer {
    budget: u64,
    period: u64,
    pub(crate) deadline: u64,
    pub(crate) left: i64,
    priority: u32,
    kind: u32,
    ready: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Default)]
pub(crate) struct RawCore {
    charged_at: u64,
    pub(crate) payer: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone)]
pub(crate) struct RawPool {
    now: u64,
    pub(crate) until: u64,
    order: u32,
    count: u32,
    changed: u32,
    unused: u32,
    pub(crate) core: RawCore,
    servers: [RawServer; CAPACITY],
}

impl RawPool {
    pub(crate) fn boxed(order: u32) -> Box<RawPool> {
        let ours =
            [size_of::<RawPool>(), size_of::<RawServer>(), offset_of!(RawPool, core), offset_of!(RawPool, servers)];
        // SAFETY: a constant that the C side defines.
        assert_eq!(unsafe { gi_layout }, ours.map(|n| n as u64), "the C and Rust layouts of a pool differ");
        let mut pool = Box::new(RawPool {
            now: 0,
            until: 0,
            order: 0,
            count: 0,
            changed: 0,
            unused: 0,
            core: RawCore::default(),
            servers: [RawServer::default(); CAPACITY],
        });
        // SAFETY: the pool is valid and has C's layout.
        unsafe { gi_pool_init(&mut *pool, order) };
        pool
    }
}

extern "C" {
    static gi_layout: [u64; 4];
    fn gi_pool_init(p: *mut RawPool, order: u32);
    pub(crate) fn gi_pool_add(
        p: *mut RawPool,
        kind: u32,
        budget: u64,
        period: u64,
        first: u64,
        priority: u32,
        now: u64,
    ) -> i32;
    pub(crate) fn gi_pool_charge(p: *mut RawPool, core: u32, ran: u64, now: u64);
    pub(crate) fn gi_pool_ready(p: *mut RawPool, index: u32, is_ready: u32, now: u64);
    pub(crate) fn gi_pool_decide(p: *mut RawPool, now: u64) -> u32;
    pub(crate) fn gi_pool_look(p: *const RawPool, index: u32, seen: *mut RawServer);
}
