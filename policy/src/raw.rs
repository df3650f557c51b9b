//! The memory and the functions of the C side; layouts are checked against it when a pool is made.

use std::mem::{offset_of, size_of};

pub(crate) const CORES: usize = 64;
pub(crate) const CAPACITY: usize = 1024;
pub(crate) const NEVER: u64 = u64::MAX;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawCore {
    charged_at: u64,
    ends: u64,
    pub(crate) runs: u32,
    pub(crate) payer: u32,
}

/// What a pool begins with; the rest is the C side's alone.
#[repr(C)]
pub(crate) struct RawHead {
    now: u64,
    pub(crate) until: u64,
    pub(crate) refill: u64,
    changed: u64,
    vacated: u64,
    pub(crate) freed: u64,
    burned: u64,
    full: u64,
    due: u64,
    look: u64,
    guests: u64,
    order: u32,
    pub(crate) m: u32,
    pub(crate) count: u32,
    burners: u32,
    resting: u32,
    boosts: u32,
    chosen: u32,
    taken: u32,
    looked_past: u32,
    hot_until: u64,
    pub(crate) mode: u32,
    degrees: u32,
    back: u32,
    asking: u32,
    pending: u32,
    free: u32,
    placed: u32,
    pub(crate) core: [RawCore; CORES],
}

/// A pool's memory.
#[derive(Clone)]
pub(crate) struct RawPool(Box<[u64]>);

impl RawPool {
    pub(crate) fn new(order: u32, cores: u32) -> RawPool {
        // SAFETY: a constant that the C side defines.
        let [size, core_at, core, cores_at_most, capacity] = unsafe { gi_layout };
        let ours = [offset_of!(RawHead, core), size_of::<RawCore>(), CORES, CAPACITY].map(|n| n as u64);
        assert_eq!(ours, [core_at, core, cores_at_most, capacity], "the C and Rust layouts of a pool differ");
        let mut pool = RawPool(vec![0; (size as usize).div_ceil(8)].into_boxed_slice());
        // SAFETY: memory of the size and alignment of C's pool.
        unsafe { gi_pool_init(pool.at(), order, cores) };
        pool
    }

    pub(crate) fn at(&mut self) -> *mut RawHead {
        self.0.as_mut_ptr().cast()
    }

    pub(crate) fn head(&self) -> &RawHead {
        // SAFETY: the memory is larger than the head, aligned as it, and was initialised by the C side.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

extern "C" {
    static gi_layout: [u64; 5];
    fn gi_pool_init(p: *mut RawHead, order: u32, cores: u32);
    pub(crate) fn gi_pool_add(
        p: *mut RawHead,
        kind: u32,
        budget: u64,
        period: u64,
        first: u64,
        priority: u32,
        now: u64,
    ) -> i32;
    pub(crate) fn gi_pool_set(
        p: *mut RawHead,
        index: u32,
        budget: u64,
        period: u64,
        priority: u32,
        when: u32,
        now: u64,
    ) -> i32;
    pub(crate) fn gi_pool_add_mixed(
        p: *mut RawHead,
        optimistic: u64,
        worst: u64,
        period: u64,
        virtual_deadline: u64,
        first: u64,
        now: u64,
    ) -> i32;
    pub(crate) fn gi_pool_set_mixed(
        p: *mut RawHead,
        index: u32,
        optimistic: u64,
        worst: u64,
        period: u64,
        virtual_deadline: u64,
        when: u32,
        now: u64,
    ) -> i32;
    #[cfg(test)]
    pub(crate) fn gi_pool_kind_name(kind: u32) -> *const std::ffi::c_char;
    pub(crate) fn gi_pool_cooling(p: *mut RawHead, degrees: u32, back: u32);
    pub(crate) fn gi_pool_remove(p: *mut RawHead, index: u32, now: u64) -> i32;
    pub(crate) fn gi_pool_boost(p: *mut RawHead, index: u32, until: u64, now: u64) -> i32;
    pub(crate) fn gi_pool_charge(p: *mut RawHead, core: u32, ran: u64, now: u64);
    pub(crate) fn gi_pool_owe(p: *mut RawHead, index: u32, ran: u64, now: u64);
    pub(crate) fn gi_pool_ready(p: *mut RawHead, index: u32, is_ready: u32, now: u64);
    pub(crate) fn gi_pool_decide(p: *mut RawHead, now: u64) -> u64;
    pub(crate) fn gi_pool_order(p: *mut RawHead, out: *mut u32, capacity: u32) -> u32;
    pub(crate) fn gi_pool_look(p: *const RawHead, index: u32, out: *mut [u64; 3]);
}
