//! Models in the folder in which the tools of a model hub keep what they downloaded. Nothing is ever fetched.

use std::path::{Path, PathBuf};

use super::config::read_json;
use super::networks::Architecture;
use trn3_system::{Error, Result};

/// How many names a message lists.
const LISTED: usize = 12;

/// The folder: `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or in `huggingface` of the user's caches.
fn folder() -> Option<PathBuf> {
    let given = |key: &str| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = || given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    let home = || given("HF_HOME").or_else(|| caches().map(|caches| caches.join("huggingface")));
    given("HF_HUB_CACHE").or_else(|| home().map(|home| home.join("hub")))
}

/// A model of the folder by `owner/name`: the snapshot that `refs/main` names, or the only one.
///
/// # Errors
/// [`Error::Spec`] if the model is there without a configuration that can be read.
pub(super) fn find(name: &str) -> Result<Option<Architecture>> {
    let Some(folder) = folder() else { return Ok(None) };
    let model = folder.join(format!("models--{}", name.replace('/', "--")));
    if !model.is_dir() {
        return Ok(None);
    }
    let path = snapshot(&model)?.join("config.json");
    let text =
        std::fs::read_to_string(&path).map_err(|error| Error::Spec(format!("{name}: {}: {error}", path.display())))?;
    read_json(name, &text).map(Some)
}

fn snapshot(model: &Path) -> Result<PathBuf> {
    let snapshots = model.join("snapshots");
    if let Ok(revision) = std::fs::read_to_string(model.join("refs").join("main")) {
        let revision = revision.trim();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !revision.is_empty() && revision.bytes().all(plain) {
            return Ok(snapshots.join(revision));
        }
    }
    let found = entries(&snapshots);
    match found.as_slice() {
        [only] => Ok(snapshots.join(only)),
        _ => Err(Error::Spec(format!(
            "{} has {} snapshots and no refs/main that names one: give the path of the config.json",
            model.display(),
            found.len()
        ))),
    }
}

/// The models of the folder as `owner/name`, in alphabetical order.
pub(super) fn names() -> Vec<String> {
    let all = folder().map(|folder| entries(&folder)).unwrap_or_default();
    all.iter().filter_map(|entry| entry.strip_prefix("models--")).map(|name| name.replacen("--", "/", 1)).collect()
}

/// What a message says of the folder.
pub(super) fn described(names: &[String]) -> String {
    let Some(folder) = folder() else { return "HF_HOME names no folder of a hub".to_owned() };
    let folder = folder.display();
    match names {
        [] => format!("the local hub {folder} holds no models"),
        _ => {
            let shown = names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if names.len() > LISTED { ", ..." } else { "" };
            format!("the local hub {folder} holds {shown}{more}")
        }
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(read) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = read.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
