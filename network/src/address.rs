//! Addresses of packets, as bpf/uplink.bpf.c looks them up.

use std::net::IpAddr;

/// Where packets are sent to: the address of a network card, or of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(pub(crate) [u8; 16]);

impl Address {
    /// Of a network card; `None`: of several, or of none.
    pub(crate) fn card(bytes: &[u8]) -> Option<Address> {
        let card: [u8; 6] = bytes.try_into().ok()?;
        let mut address = [0; 16];
        address[..6].copy_from_slice(&card);
        (card[0] & 1 == 0 && card != [0; 6]).then_some(Address(address))
    }

    pub(crate) fn ip(ip: IpAddr) -> Address {
        Address(match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_no_group_and_ip_is_written_in_one_way() {
        assert!(Address::card(&[2, 0, 0, 0, 0, 1]).is_some());
        for bytes in [&[3, 0, 0, 0, 0, 1][..], &[0xff; 6], &[0; 6], &[2, 0, 0, 0, 0]] {
            assert_eq!(Address::card(bytes), None, "{bytes:?}");
        }
        assert_eq!(Address::ip("10.0.0.1".parse().unwrap()), Address::ip("::ffff:10.0.0.1".parse().unwrap()));
    }
}
