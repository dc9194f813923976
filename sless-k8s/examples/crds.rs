//! Writes the manifests of the custom resources into `deploy/crds`.

use std::{fs, path::Path};

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds");
    fs::create_dir_all(&folder)?;
    for (name, manifest) in sless_k8s::crd_manifests() {
        fs::write(folder.join(name), manifest)?;
    }
    Ok(())
}
