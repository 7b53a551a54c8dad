//! Shares of a limited resource, and the choice of the holder that loses its share. Pure: no sockets, no clock.
//!
//! Any Pod can reach the listeners, and one process serves all of them. With only a fixed limit, slow clients could occupy every
//! slot. So the address with the most, and the requests with the least progress, make room for new ones.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A holder younger than this is chosen after older ones in the same stage: a normal client needs less time to send a request.
const GRACE: Duration = Duration::from_secs(2);

/// The stage of a holder. Earlier stages lose their share first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The TLS handshake is not complete.
    Handshake,
    /// A request is incomplete.
    Receiving,
    /// Between requests.
    Idle,
    /// A complete request is being processed.
    Serving,
}

struct Holder {
    address: IpAddr,
    stage: Stage,
    amount: usize,
    since: Instant,
}

/// Holders by number, oldest first.
#[derive(Default)]
pub(super) struct Shares {
    holders: BTreeMap<u64, Holder>,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
    total: usize,
}

impl Shares {
    /// Adds a holder with an amount. Returns its number.
    pub(super) fn add(&mut self, address: IpAddr, stage: Stage, amount: usize, since: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        self.holders.insert(number, Holder { address, stage, amount, since });
        self.count(address, 0, amount);
        number
    }

    fn count(&mut self, address: IpAddr, before: usize, now: usize) {
        self.total = self.total - before + now;
        let own = self.by_address.entry(address).or_default();
        *own = *own - before + now;
        if *own == 0 {
            self.by_address.remove(&address);
        }
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Some(holder) = self.holders.remove(&number) {
            self.count(holder.address, holder.amount, 0);
        }
    }

    pub(super) fn set_stage(&mut self, number: u64, stage: Stage) {
        if let Some(holder) = self.holders.get_mut(&number) {
            holder.stage = stage;
        }
    }

    pub(super) fn stage(&self, number: u64) -> Option<Stage> {
        self.holders.get(&number).map(|h| h.stage)
    }

    /// Changes a holder's amount. Does nothing for a removed holder.
    pub(super) fn set_amount(&mut self, number: u64, amount: usize) {
        let Some(holder) = self.holders.get_mut(&number) else { return };
        let (address, before) = (holder.address, std::mem::replace(&mut holder.amount, amount));
        self.count(address, before, amount);
    }

    pub(super) fn amount(&self, number: u64) -> usize {
        self.holders.get(&number).map_or(0, |h| h.amount)
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.holders.contains_key(&number)
    }

    /// The sum of all amounts.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn of_address(&self, address: IpAddr) -> usize {
        self.by_address.get(&address).copied().unwrap_or_default()
    }

    pub(super) fn in_stage(&self, stage: Stage) -> usize {
        self.holders.values().filter(|h| h.stage == stage).count()
    }

    /// The holder that loses its share, among those of `of`, or of all addresses, up to the stage `last`: first by the earliest
    /// stage, then old before young, then by the address with the largest amount.
    pub(super) fn victim(&self, now: Instant, last: Stage, of: Option<IpAddr>) -> Option<u64> {
        let loses = |h: &Holder| h.amount > 0 && h.stage <= last && of.is_none_or(|a| a == h.address);
        let candidates = self.holders.iter().filter(|(_, h)| loses(h));
        let rank = |(number, h): &(&u64, &Holder)| {
            let young = now.saturating_duration_since(h.since) < GRACE;
            // A handshake counts as an incomplete request.
            let stage = h.stage.max(Stage::Receiving);
            (stage, young, std::cmp::Reverse(self.of_address(h.address)), **number)
        };
        candidates.min_by_key(rank).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn the_one_with_most_that_does_least_loses() {
        use Stage::{Handshake, Idle, Receiving, Serving};
        let old = Instant::now();
        let (now, young) = (old + GRACE * 3, old + GRACE * 2 + GRACE / 2);
        // Holders as (address, stage, amount, since), and the index of the one that loses.
        let table = [
            (vec![(1, Receiving, 1, old), (2, Receiving, 1, old), (2, Receiving, 1, old)], Serving, Some(1)),
            // Old holders before young ones of an address with more.
            (
                vec![(1, Receiving, 1, young), (1, Receiving, 1, young), (2, Receiving, 1, old)],
                Serving,
                Some(2),
            ),
            // Among young holders, one of the address with the most.
            (
                vec![(2, Handshake, 1, young), (1, Receiving, 1, young), (1, Receiving, 1, young)],
                Serving,
                Some(1),
            ),
            // Regardless of the amount: idle before active, incomplete before idle.
            (vec![(1, Serving, 9, old), (2, Idle, 1, young)], Serving, Some(1)),
            (vec![(1, Idle, 9, old), (2, Handshake, 1, young)], Serving, Some(1)),
            (vec![(1, Serving, 2, old), (2, Serving, 3, old)], Serving, Some(1)),
            (vec![(1, Serving, 2, old), (2, Idle, 3, old)], Receiving, None),
            (vec![], Serving, None),
        ];
        for (i, (holders, last, expected)) in table.into_iter().enumerate() {
            let mut shares = Shares::default();
            for (from, stage, amount, since) in holders {
                shares.add(address(from), stage, amount, since);
            }
            assert_eq!(shares.victim(now, last, None), expected, "row {i}");
        }
    }

    #[test]
    fn amounts_add_up() {
        let mut shares = Shares::default();
        let now = Instant::now();
        let (a, b) =
            (shares.add(address(1), Stage::Idle, 3, now), shares.add(address(1), Stage::Idle, 4, now));
        shares.add(address(2), Stage::Handshake, 5, now);
        shares.set_amount(a, 10);
        assert_eq!((shares.total(), shares.of_address(address(1))), (19, 14));
        assert_eq!(shares.victim(now, Stage::Serving, Some(address(1))), Some(a));
        shares.remove(a);
        shares.remove(a);
        shares.set_amount(a, 99);
        assert_eq!((shares.total(), shares.has(a), shares.has(b)), (9, false, true));
        shares.set_stage(b, Stage::Handshake);
        assert_eq!(shares.in_stage(Stage::Handshake), 2);
        shares.remove(b);
        assert_eq!(shares.of_address(address(1)), 0);
        assert!(shares.by_address.len() == 1, "no entry stays for an address that is gone");
    }
}
