//! The committed header is the one that the sources make, and no export is without its door.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const HEAD: &str = include_str!("../src/header.txt");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The header that the sources make.
fn header() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    let mut text = Vec::new();
    let bindings = cbindgen::Builder::new().with_crate(root()).with_config(config).generate().expect("bindings");
    bindings.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    // What Rust calls the safety contract of a function is, in C, simply its contract.
    let text = text.replace("\n// # Safety\n", "\n");
    let version = |part: &str| part.to_owned();
    HEAD.replace("@MAJOR@", &version(env!("CARGO_PKG_VERSION_MAJOR")))
        .replace("@MINOR@", &version(env!("CARGO_PKG_VERSION_MINOR")))
        .replace("@PATCH@", &version(env!("CARGO_PKG_VERSION_PATCH")))
        .replace("@DECLARATIONS@\n", &text)
}

#[test]
fn test_committed_header_is_the_generated_one() {
    let path = root().join("include/trn3.h");
    let made = header();
    if std::env::var_os("TRN3_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("header written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(made.lines()).position(|(old, new)| old != new);
    assert!(
        committed == made,
        "include/trn3.h is not what the sources make (first at line {:?}); run\n    TRN3_WRITE_HEADER=1 cargo test -p \
         trn3-capi --test header",
        differs.map(|line| line + 1)
    );
}

fn sources(folder: PathBuf, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path()) {
        if entry.is_dir() {
            sources(entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&entry).expect("source");
            found.push((entry, text));
        }
    }
}

/// The name that follows in the text.
fn name(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[test]
fn test_every_export_is_declared_guarded_and_returns_a_status() {
    let mut files = Vec::new();
    sources(root().join("src"), &mut files);
    let mut exports = BTreeSet::new();
    for (path, text) in &files {
        for (at, marker) in text.match_indices("#[unsafe(no_mangle)]") {
            let function = &text[at + marker.len()..];
            let end = function.find("\n}\n").expect("a function ends");
            let function = &function[..end];
            let export = name(function.split_once("fn ").expect("a function").1);
            assert!(function.contains("extern \"C\" fn trn3_"), "{path:?}: {export} is no C function of ours");
            assert!(exports.insert(export.to_owned()), "{export} is exported twice");
            if export != "trn3_abi_version" {
                assert!(function.contains("-> trn3_status {"), "{export} does not return a status");
                assert!(function.contains("guard(||") || function.contains("guard(move ||"), "{export} has no guard");
            }
        }
        let doors = text.matches("no_mangle").count();
        assert_eq!(doors, text.matches("#[unsafe(no_mangle)]").count(), "{path:?} exports in another way");
    }
    let header = header();
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with("typedef"))
        .filter_map(|line| line.split_once("trn3_").filter(|(before, _)| !before.contains('(')).map(|_| line))
        .filter_map(|line| {
            let (before, _) = line.split_once('(')?;
            let declared = before.rsplit([' ', '*']).next()?;
            declared.starts_with("trn3_").then(|| declared.to_owned())
        })
        .collect();
    assert_eq!(exports, declared);
}
