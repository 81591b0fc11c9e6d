//! The only source of chance: a generator that is passed around and split, never global.
//! Production seeds it from the operating system, simulation from the run's seed. Not for secrets.

use uuid::Uuid;

/// xoshiro256++: small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    pub fn from_seed(seed: u64) -> Self {
        // splitmix64 spreads a small seed over the whole state, which must not be all zero.
        let mut mix = seed;
        let state = std::array::from_fn(|_| {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mix;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// A generator nobody can foresee.
    pub fn from_system() -> Self {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        Self::from_seed(high ^ low.rotate_left(32))
    }

    /// An independent generator, so that one part's draws do not shift another's.
    pub fn split(&mut self) -> Self {
        Self::from_seed(self.next_u64())
    }

    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`. `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `parts` of `whole` draws.
    pub fn chance(&mut self, parts: u64, whole: u64) -> bool {
        self.below(whole) < parts
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    pub fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn one_seed_gives_one_sequence() {
        let (mut a, mut b, mut c) = (Random::from_seed(7), Random::from_seed(7), Random::from_seed(8));
        let draws = |r: &mut Random| (0..100).map(|_| r.next_u64()).collect::<Vec<_>>();
        assert_eq!(draws(&mut a), draws(&mut b));
        assert_ne!(draws(&mut a.split()), draws(&mut c));
        assert_ne!(Random::from_system().next_u64(), Random::from_system().next_u64());
    }

    #[test]
    fn draws_stay_in_bounds_and_reach_all_of_them() {
        let mut random = Random::from_seed(1);
        let mut seen = [0u32; 5];
        for _ in 0..1_000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 120), "{seen:?}");
        assert!(!random.chance(0, 10) && random.chance(10, 10));
    }
}
