//! What BuildKit is told.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::json;

use super::{
    config::{BuildKitConfig, BuildKitMode},
    plan::{FILES, Plan, ROOTLESS_USER, Work},
};

/// The time that everything in an image has: 2000-01-01, as in a context.
pub(super) const TIME: u64 = 946_684_800;

/// Starts buildkitd, and runs `buildctl` with the arguments once it answers. What goes wrong with the
/// daemon is told at once. BuildKit sends a folder as it is, and files of the downward API are links.
const SCRIPT: &str = r#"set -eu
files=$1
shift
work=/tmp/sless-build
mkdir -p $work
cp -L "$files/Dockerfile" $work/Dockerfile
{ $BUILDKITD --addr=unix://$work/buildkitd.sock >$work/log 2>&1 || true; : >$work/ended; } &
until buildctl --addr=unix://$work/buildkitd.sock debug workers >/dev/null 2>&1; do
  if [ -e $work/ended ]; then
    cat $work/log >&2
    exit 1
  fi
  sleep 0.1
done
exec buildctl --addr=unix://$work/buildkitd.sock "$@""#;

pub(super) fn plan(config: &BuildKitConfig, work: &Work) -> Plan {
    let Work { target, cache, .. } = work;
    let insecure = if work.plain_http.contains(&target.host) {
        ",registry.insecure=true"
    } else {
        ""
    };
    let mut arguments: Vec<String> = [
        FILES,
        "build",
        "--progress=plain",
        "--frontend=dockerfile.v0",
        "--local=dockerfile=/tmp/sless-build",
        "--local=context=/tmp/sless-build",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--opt=build-arg:SOURCE_DATE_EPOCH={TIME}"));
    arguments.push(format!(
        "--output=type=image,name={target},push=true,oci-mediatypes=true,rewrite-timestamp=true{insecure}"
    ));
    if let Some(repository) = cache {
        let kept = format!("type=registry,ref={repository}");
        arguments.push(format!("--import-cache={kept}"));
        arguments.push(format!(
            "--export-cache={kept},mode=min,oci-mediatypes=true,image-manifest=true,ignore-error=true{insecure}"
        ));
    }
    for name in &work.variables {
        arguments.push(format!("--secret=id={name},env={name}"));
    }
    let rootless = config.mode == BuildKitMode::Rootless;
    let mut daemon = format!("buildkitd --config={FILES}/buildkitd.toml");
    if rootless {
        // The container's /proc is masked, so that another one cannot be mounted.
        daemon = format!("rootlesskit {daemon} --oci-worker-no-process-sandbox");
    }
    let state = if rootless {
        "/home/user/.local/share/buildkit"
    } else {
        "/var/lib/buildkit"
    };
    Plan {
        image: config.image.clone(),
        command: ["/bin/sh", "-c", SCRIPT, "build"].map(str::to_owned).into(),
        arguments,
        variables: BTreeMap::from([("BUILDKITD", daemon)]),
        files: BTreeMap::from([
            ("Dockerfile", work.dockerfile.clone()),
            ("buildkitd.toml", registries(work)),
        ]),
        folders: vec![state],
        credentials: "/etc/sless/registry",
        container_security: match config.mode {
            BuildKitMode::Rootless => json!({
                "privileged": false,
                // The helpers that map users in a user namespace are privileged programs.
                "allowPrivilegeEscalation": true,
                "seccompProfile": {"type": "Unconfined"},
                "appArmorProfile": {"type": "Unconfined"},
            }),
            _ => json!({"privileged": true}),
        },
        pod_security: if rootless {
            json!({
                "runAsNonRoot": true,
                "runAsUser": ROOTLESS_USER,
                "runAsGroup": ROOTLESS_USER,
                "fsGroup": ROOTLESS_USER,
            })
        } else {
            json!({"runAsUser": 0, "runAsGroup": 0})
        },
        host_users: (config.mode == BuildKitMode::UserNamespace).then_some(false),
    }
}

/// The configuration of buildkitd.
fn registries(work: &Work) -> String {
    let mut text = String::new();
    for host in &work.plain_http {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "[registry.{host:?}]\nhttp = true\ninsecure = true");
    }
    text
}
