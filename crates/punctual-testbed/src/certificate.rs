//! A certificate authority of our own, and a certificate for `localhost` that it has signed.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// The files of a server that speaks TLS.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Makes them in `folder`. The certificate is for the name `localhost` and for no address.
    pub(crate) fn make_in(folder: &Path) -> Self {
        let authority_key = KeyPair::generate().expect("a key can be made");
        let mut authority = CertificateParams::new(Vec::new()).expect("no names are valid names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority.distinguished_name.push(DnType::CommonName, "punctual test authority");
        let root = authority.self_signed(&authority_key).expect("an authority signs itself");
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().expect("a key can be made");
        let server = CertificateParams::new(vec!["localhost".to_owned()]).expect("a valid name");
        let server = server.signed_by(&key, &issuer).expect("the authority signs");

        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).expect("the folder is writable");
            path
        };
        Self {
            authority: write("authority.pem", root.pem()),
            certificate: write("server.pem", server.pem()),
            key: write("server.key", key.serialize_pem()),
        }
    }
}
