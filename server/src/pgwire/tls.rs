//! TLS for client connections: certificate and key from PEM files, rustls with ring.

use std::io::BufReader;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto};

use crate::config::{ConfigError, TlsFiles};

/// What connections need to offer TLS.
#[derive(Clone)]
pub struct Tls {
    pub acceptor: TlsAcceptor,
    /// For SCRAM's channel binding.
    pub certificate_pem: Arc<[u8]>,
}

impl Tls {
    pub fn load(files: &TlsFiles) -> Result<Tls, ConfigError> {
        let read = |path: &std::path::Path| {
            std::fs::read(path).map_err(|e| ConfigError(format!("cannot read {}: {e}", path.display())))
        };
        let unusable = |path: &std::path::Path, why: String| ConfigError(format!("{}: {why}", path.display()));
        let certificate_pem = read(&files.certificate)?;
        let key_pem = read(&files.key)?;
        let chain = rustls_pemfile::certs(&mut BufReader::new(&certificate_pem[..]))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| unusable(&files.certificate, e.to_string()))?;
        if chain.is_empty() {
            return Err(unusable(&files.certificate, "no certificate in it".into()));
        }
        let key = rustls_pemfile::private_key(&mut BufReader::new(&key_pem[..]))
            .map_err(|e| unusable(&files.key, e.to_string()))?
            .ok_or_else(|| unusable(&files.key, "no private key in it".into()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|b| b.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|e| unusable(&files.certificate, e.to_string()))?;
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificate_pem: certificate_pem.into() })
    }
}
