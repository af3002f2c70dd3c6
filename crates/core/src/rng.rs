//! Seeded randomness. Everything random in a stack comes from one seed, so that a run can be
//! repeated. Not for secrets.

use core::time::Duration;

/// A small generator (SplitMix64, Steele, Lea and Flood 2014): its quality is ample for picking
/// delays and peers, and it has no state to warm up.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own, seeded from this one.
    pub fn fork(&mut self) -> Rng {
        Rng(self.next_u64())
    }

    /// Any 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        ((self.next_u64() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// A duration in `low..=high`.
    pub fn duration(&mut self, low: Duration, high: Duration) -> Duration {
        let (l, h) = (low.as_nanos() as u64, high.as_nanos() as u64);
        Duration::from_nanos(self.between(l, h.max(l)))
    }

    /// One element of `list`.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let i = self.below(list.len() as u64) as usize;
        list.get(i)
    }

    /// Puts `list` in random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
    }

    #[test]
    fn below_stays_below() {
        let mut r = Rng::new(1);
        assert!((0..1000).all(|_| r.below(3) < 3));
        assert_eq!(r.below(0), 0);
    }
}
