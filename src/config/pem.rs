//! Certificates out of files that an option names.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt::Display;
use std::path::Path;

/// The certificates of a PEM file, in its order; at least one.
///
/// # Errors
/// The file is missing, holds something else, or no certificate; the text begins with the option and the file.
pub fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn Display| format!("{option} {}: {error}", file.display());
    let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found.map_err(|error| wrong(&error))? {
        found if found.is_empty() => Err(wrong(&"no certificate in it")),
        found => Ok(found),
    }
}
