//! SCRAM-SHA-256 and -PLUS: which mechanisms are offered, and the two steps of the exchange.
//! pgwire does the arithmetic. -PLUS is offered over TLS only; there, a client that thinks it is not offered is refused.

use pgwire::api::auth::sasl::scram::{
    SCRAM_ITERATIONS, ScramSecret, ScramServerAuth, ScramServerAuthWaitingForClientFinal, gen_salted_password,
};

const PLAIN: &str = "SCRAM-SHA-256";
const PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The verifier of one password, for any number of logins.
pub struct Scram {
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
    without_binding: ScramServerAuth,
    with_binding: Option<ScramServerAuth>,
}

/// Half-way: the client's proof is awaited.
pub struct ScramStep {
    waiting: ScramServerAuthWaitingForClientFinal,
    /// The name is no role: the exchange runs to its end and then fails.
    doomed: bool,
}

impl Scram {
    pub fn new(password: &str, certificate_pem: Option<&[u8]>) -> Self {
        let salt = uuid::Uuid::new_v4().into_bytes().to_vec();
        let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        let secret = ScramSecret::verifier_from_salted_password(salt, salted, SCRAM_ITERATIONS);
        let ScramSecret::Verifier { salt, stored_key, server_key, .. } = secret else {
            unreachable!("a verifier was asked for")
        };
        let with_binding = certificate_pem.and_then(|pem| {
            let mut scram = ScramServerAuth::new();
            match scram.configure_certificate(pem) {
                Ok(()) => Some(scram),
                Err(error) => {
                    tracing::warn!(%error, "the certificate's signature gives no channel binding: SCRAM-SHA-256-PLUS is off");
                    None
                }
            }
        });
        Self { salt, stored_key, server_key, without_binding: ScramServerAuth::new(), with_binding }
    }

    /// Strongest first.
    pub fn mechanisms(&self, secure: bool) -> Vec<String> {
        let plus = secure && self.with_binding.is_some();
        plus.then_some(PLUS).into_iter().chain([PLAIN]).map(str::to_owned).collect()
    }

    /// Client-first → server-first. `Err`: why not.
    pub fn first(
        &self,
        mechanism: &str,
        message: &[u8],
        secure: bool,
        role_exists: bool,
    ) -> Result<(String, ScramStep), String> {
        if !self.mechanisms(secure).iter().any(|m| m == mechanism) {
            return Err("client selected an invalid SASL authentication mechanism".into());
        }
        let binds = message.first() == Some(&b'p');
        if binds != (mechanism == PLUS) {
            return Err("malformed SCRAM message: the channel binding flag does not fit the mechanism".into());
        }
        let scram = match &self.with_binding {
            Some(with_binding) if secure => with_binding,
            _ => &self.without_binding,
        };
        let secret = ScramSecret::Verifier {
            salt: self.salt.clone(),
            iterations: SCRAM_ITERATIONS,
            stored_key: self.stored_key.clone(),
            server_key: self.server_key.clone(),
        };
        let (reply, waiting) = scram.on_client_first_message_with_secret(message, secret).map_err(|e| e.to_string())?;
        Ok((reply, ScramStep { waiting, doomed: !role_exists }))
    }
}

impl ScramStep {
    /// Client-final → server-final. `Err`: the proof is wrong.
    pub fn last(self, message: &[u8]) -> Result<String, String> {
        let reply = self.waiting.on_client_final_message(message).map_err(|e| e.to_string())?;
        if self.doomed { Err("no such role".into()) } else { Ok(reply) }
    }
}
