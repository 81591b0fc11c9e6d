//! The roles and databases of a node: `postgres` and `postgres`.

use crate::access::Scram;
use crate::config::Config;

pub const SUPERUSER: &str = "postgres";
pub const DATABASE: &str = "postgres";

/// Fixed when the node starts.
pub struct Roles {
    scram: Option<Scram>,
}

/// What a client must do to become a role.
pub enum Login<'a> {
    Trusted,
    Password(&'a Scram),
}

impl Roles {
    /// Derives the password's verifier; the password itself is not kept. `certificate_pem` allows channel binding.
    pub fn new(config: &Config, certificate_pem: Option<&[u8]>) -> Self {
        Self { scram: config.password.as_ref().map(|p| Scram::new(&p.0, certificate_pem)) }
    }

    /// The way in is the same for known and unknown names, so that nobody learns which exist.
    pub fn login(&self) -> Login<'_> {
        self.scram.as_ref().map_or(Login::Trusted, Login::Password)
    }

    pub fn exists(&self, role: &str) -> bool {
        role == SUPERUSER
    }

    pub fn has_database(&self, name: &str) -> bool {
        name == DATABASE
    }
}
