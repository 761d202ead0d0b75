//! The programs in `tests/c`, compiled with every warning an error, linked with both libraries and run; then again with
//! the address and undefined-behaviour sanitizers.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

const WARNINGS: [&str; 8] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef", "-Werror", "-O1"];
const SANITIZERS: [&str; 4] =
    ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
/// What the static library needs of the system.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

/// How a program is linked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    Static,
    Dynamic,
    Sanitized,
}

/// Where cargo has put this crate's libraries: beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    test.parent().expect("its folder").to_owned()
}

fn compiler(variable: &str, usual: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| usual.into()))
}

fn check(source: &str, link: Link) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut command, standard) = if source.ends_with(".cpp") {
        (compiler("CXX", "c++"), "-std=c++17")
    } else {
        (compiler("CC", "cc"), "-std=c11")
    };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{source}-{link:?}"));
    command.arg(standard).args(WARNINGS).arg("-D_POSIX_C_SOURCE=200809L").arg("-frounding-math");
    if link == Link::Sanitized {
        command.args(SANITIZERS);
    }
    command.arg("-I").arg(folder.join("include")).arg("-o").arg(&program).arg(folder.join("tests/c").join(source));
    let libraries = libraries();
    match link {
        Link::Static => command.arg(libraries.join("libtrn3_capi.a")).args(SYSTEM),
        Link::Dynamic | Link::Sanitized => command
            .arg(libraries.join("libtrn3_capi.so"))
            .args(["-lpthread", "-lm"])
            .arg(format!("-Wl,-rpath,{}", libraries.display())),
    };
    let compiled = command.output().unwrap_or_else(|error| panic!("a C and a C++ compiler are needed: {error}"));
    let messages = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success() && messages.is_empty(), "{source}, {link:?}: {messages}");
    let run = Command::new(&program).output().expect("the program runs");
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said == "ok\n", "{source}, {link:?}: {}\n{said}", run.status);
}

macro_rules! programs {
    ($($name:ident: $source:literal, $($test:ident $link:ident),*;)*) => { $(
        mod $name {
            use super::{Link, check};

            $(
                #[test]
                fn $test() {
                    check($source, Link::$link);
                }
            )*
        }
    )* };
}

// Linking the whole static library takes seconds; programs of each kind are enough to show that it can be.
programs! {
    numerics: "numerics.c", test_static Static, test_dynamic Dynamic, test_sanitized Sanitized;
    misuse: "misuse.c", test_dynamic Dynamic, test_sanitized Sanitized;
    threads: "threads.c", test_dynamic Dynamic, test_sanitized Sanitized;
    device: "device.c", test_static Static, test_dynamic Dynamic, test_sanitized Sanitized;
    device_misuse: "device_misuse.c", test_dynamic Dynamic, test_sanitized Sanitized;
    devices: "devices.c", test_dynamic Dynamic, test_sanitized Sanitized;
    programs_of_both_versions: "programs.c", test_dynamic Dynamic, test_sanitized Sanitized;
    ranks: "ranks.c", test_dynamic Dynamic, test_sanitized Sanitized;
    sharing: "sharing.c", test_dynamic Dynamic, test_sanitized Sanitized;
    shortage: "shortage.c", test_dynamic Dynamic;
    example: "example.c", test_dynamic Dynamic;
    host: "host.cpp", test_static Static, test_dynamic Dynamic, test_sanitized Sanitized;
}
