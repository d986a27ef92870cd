//! Finds the processes of a container by its name or number.
//!
//! weir asks no runtime. The number of a container is in the control groups of its processes; names
//! are in files of Docker, Podman and nerdctl, as far as they can be read, and for LXC and
//! systemd-nspawn in the groups themselves.

use serde_json::Value;
use std::fs::{read, read_dir, read_to_string};
use std::path::{Path, PathBuf};
use weir_sys::Pid;
use weir_sys::places::variable;
use weir_sys::proc::{ControlGroups, processes};

/// The fewest digits by which a number is known.
const LEAST_DIGITS: usize = 6;

/// Returns the processes of the container of this name, or of this number or its beginning.
pub fn processes_of(name: &str) -> Vec<Pid> {
    let numbers = numbers(name);
    let is = |pid: &Pid| ControlGroups::of(*pid).is_some_and(|it| is_in(&it, name, &numbers));
    processes().into_iter().filter(is).collect()
}

/// Returns the numbers of the containers of this name, and the name itself if it may be a number.
fn numbers(name: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    let is_number = name.len() >= LEAST_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    numbers.extend(is_number.then(|| name.to_ascii_lowercase()));
    for directory in entries("/var/lib/docker/containers") {
        let config = json(&directory.join("config.v2.json"));
        numbers.extend(config.and_then(|config| of_docker(&config, name)));
    }
    for storage in podman_storages() {
        let list = json(&storage.join("overlay-containers/containers.json"));
        numbers.extend(list.map(|list| of_podman(&list, name)).unwrap_or_default());
    }
    let is_plain = !name.contains('/') && !name.starts_with('.');
    for namespace in entries("/var/lib/nerdctl").into_iter().filter(|_| is_plain) {
        for names in entries(namespace.join("names")) {
            let number = read_to_string(names.join(name)).unwrap_or_default();
            numbers.push(number.trim().to_owned());
        }
    }
    numbers.retain(|number| number.len() >= LEAST_DIGITS);
    numbers
}

/// Where Podman keeps its containers: those of root, and those of this user.
fn podman_storages() -> Vec<PathBuf> {
    let own = variable("XDG_DATA_HOME").map(PathBuf::from);
    let own = own.or_else(|| Some(Path::new(&variable("HOME")?).join(".local/share")));
    let own = own.map(|data| data.join("containers/storage"));
    own.into_iter().chain([PathBuf::from("/var/lib/containers/storage")]).collect()
}

fn entries(directory: impl AsRef<Path>) -> Vec<PathBuf> {
    let found = read_dir(directory).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&read(path).ok()?).ok()
}

/// The number in a container's file of Docker, whose names begin with a slash.
fn of_docker(config: &Value, name: &str) -> Option<String> {
    let called = config.get("Name")?.as_str()?;
    let number = config.get("ID")?.as_str()?;
    (called.strip_prefix('/').unwrap_or(called) == name).then(|| number.to_owned())
}

/// The numbers in Podman's list.
fn of_podman(list: &Value, name: &str) -> Vec<String> {
    let is = |one: &&Value| {
        let names = one.get("names").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|called| called.as_str() == Some(name)))
    };
    let number = |one: &Value| Some(one.get("id")?.as_str()?.to_owned());
    list.as_array().into_iter().flatten().filter(is).filter_map(number).collect()
}

/// Whether a process with these control groups belongs to the container.
fn is_in(groups: &ControlGroups, name: &str, numbers: &[String]) -> bool {
    // 12:memory:/docker/NUMBER; 0::/system.slice/docker-NUMBER.scope
    let mut parts = groups.iter().flat_map(|(_, path)| path.split('/'));
    parts.any(|part| {
        let bare = part.strip_suffix(".scope").or_else(|| part.strip_suffix(".service"));
        let bare = bare.unwrap_or(part);
        let digits = bare.rsplit('-').next().unwrap_or(bare);
        let is_number = digits.len() >= 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let has_number =
            is_number && numbers.iter().any(|number| digits.starts_with(number.as_str()));
        let called = ["lxc.payload.", "machine-", "systemd-nspawn@"];
        // systemd writes a dash of a name as an escape.
        let is_it = |found: &str| found == name || found.replace("\\x2d", "-") == name;
        has_number || called.iter().any(|prefix| bare.strip_prefix(prefix).is_some_and(is_it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NUMBER: &str = "4f9a0c1be2d34f5a6b7c8d9e0f112233445566778899aabbccddeeff00112233";

    fn is(groups: &str, name: &str, numbers: &[String]) -> bool {
        is_in(&groups.into(), name, numbers)
    }

    #[test]
    fn a_container_is_known_by_its_number_or_its_beginning() {
        let numbers = vec![NUMBER[..12].to_owned()];
        for path in [
            format!("0::/system.slice/docker-{NUMBER}.scope"),
            format!("12:memory:/docker/{NUMBER}"),
            format!("0::/user.slice/user-1000.slice/libpod-{NUMBER}.scope/container"),
            format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{NUMBER}.scope"),
        ] {
            assert!(is(&path, "web", &numbers), "{path}");
            assert!(!is(&path, "web", &["5f9a0c1be2d3".into()]), "{path}");
        }
        assert!(!is("0::/system.slice/4f9a0c1be2d3.service", "web", &numbers), "a service");
        assert!(!is("", "web", &numbers));
    }

    #[test]
    fn a_container_of_lxc_or_nspawn_is_known_by_its_name() {
        for path in ["0::/lxc.payload.web", "0::/machine.slice/systemd-nspawn@web.service/payload"]
        {
            assert!(is(path, "web", &[]) && !is(path, "we", &[]), "{path}");
        }
        // systemd writes a dash of a name in this way.
        assert!(is("0::/machine.slice/machine-my\\x2dweb.scope", "my-web", &[]));
        assert!(is("0::/lxc.payload.my-web", "my-web", &[]));
    }

    #[test]
    fn runtimes_tell_the_numbers_of_names() {
        let docker = json!({ "ID": NUMBER, "Name": "/web", "State": {} });
        assert_eq!(of_docker(&docker, "web").as_deref(), Some(NUMBER));
        assert_eq!(of_docker(&docker, "we"), None);
        let podman = json!([{ "id": NUMBER, "names": ["a", "web"] }, { "id": 1 }, "odd"]);
        assert_eq!(of_podman(&podman, "web"), [NUMBER]);
        assert!(of_podman(&json!({}), "web").is_empty() && of_docker(&json!([]), "web").is_none());
    }
}
