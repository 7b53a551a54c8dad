//! Places of what waits, counted by number and bytes. Does not know what a place is for.

use windlass_base::namespace_places::{NamespacePlaces, NoPlace, TakenPlaces};

/// The unit in which bytes are counted.
const UNIT: usize = 1 << 10;

/// Places of what waits: its number and its bytes are bounded.
#[derive(Debug)]
pub(super) struct WaitingPlaces {
    number: NamespacePlaces,
    units: NamespacePlaces,
}

/// What waits, until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingPlace {
    _places: [TakenPlaces; 2],
}

impl WaitingPlaces {
    /// The most that wait, and their bytes: of all, and of one namespace.
    pub(super) fn new(number: [usize; 2], bytes: [usize; 2]) -> Self {
        let places = |[all, of_namespace]: [usize; 2]| NamespacePlaces::new(all, of_namespace);
        Self { number: places(number), units: places(bytes.map(|bytes| bytes / UNIT)) }
    }

    /// A place for something of so many bytes; else why there is none.
    pub(super) fn take(&self, namespace: &str, bytes: usize) -> Result<WaitingPlace, &'static str> {
        let number = self.number.try_take(namespace, 1).map_err(|whose| match whose {
            NoPlace::OfNamespace => "too many of its namespace wait",
            NoPlace::OfAll => "too many wait",
        })?;
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let units = self.units.try_take(namespace, units).map_err(|whose| match whose {
            NoPlace::OfNamespace => "too many bytes of its namespace wait",
            NoPlace::OfAll => "too many bytes wait",
        })?;
        Ok(WaitingPlace { _places: [number, units] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_as_well_as_the_number() {
        let places = WaitingPlaces::new([8, 4], [64 * UNIT, 32 * UNIT]);
        let first = places.take("a", 31 * UNIT).unwrap();
        assert_eq!(places.take("a", 2 * UNIT).unwrap_err(), "too many bytes of its namespace wait");
        let small: Vec<_> = (0..3).map(|_| places.take("a", 1)).take_while(Result::is_ok).collect();
        assert_eq!(small.len(), 1, "a part of a unit is a whole one");
        let other = places.take("b", 32 * UNIT).unwrap();
        assert_eq!(places.take("c", 1).unwrap_err(), "too many bytes wait");
        assert_eq!(places.take("c", usize::MAX).unwrap_err(), "too many bytes of its namespace wait");
        drop((first, small, other));
        assert!(places.take("c", 32 * UNIT).is_ok(), "what was refused has left nothing");
        let held = ["a", "a", "a", "a", "b", "b", "b", "b"].map(|own| places.take(own, 1).unwrap());
        assert_eq!(places.take("a", 1).unwrap_err(), "too many of its namespace wait");
        assert_eq!(places.take("c", 1).unwrap_err(), "too many wait");
        drop(held);
    }
}
