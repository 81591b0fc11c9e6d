//! Names, errors, bounds, and the only sources of time, chance and tasks.
//! Owns no data and does no IO. Everything below `server` takes these from here, so that a seed replays a run.

pub mod checksum;
pub mod clock;
pub mod error;
pub mod ids;
pub mod limits;
pub mod random;
pub mod spawn;
