//! How build scripts compile a program for the kernel; each takes it in as a module.

use std::path::Path;
use std::process::Command;

/// Compiles bpf/NAME.bpf.c to NAME.bpf.o in OUT_DIR. It includes `headers`, from the `folders` too.
pub(crate) fn compile(name: &str, headers: &[&str], folders: &[&str]) {
    let source = format!("bpf/{name}.bpf.c");
    for file in [source.as_str()].iter().chain(headers) {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = std::env::var("OUT_DIR").expect("cargo tells OUT_DIR");
    let chosen = std::env::var("CLANG").ok();
    let compilers = chosen.iter().map(String::as_str).chain(["clang-19", "clang"]);
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let system = format!("/usr/include/{machine}-linux-gnu");
    // As libbpf calls it: who looks at registers needs to know.
    let target = format!("-D__TARGET_ARCH_{}", if machine == "x86_64" { "x86" } else { "arm64" });
    for compiler in compilers {
        let compiled = Command::new(compiler)
            // The same bytes from any folder: debug information, which the kernel's BTF comes with, has no path of it.
            .arg("-fdebug-compilation-dir=.")
            .args(["-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-target", "bpf", &target])
            .args([system.as_str()].iter().chain(folders).flat_map(|folder| ["-I", folder]))
            .args(["-c", &source, "-o"])
            .arg(Path::new(&out).join(format!("{name}.bpf.o")))
            .status();
        match compiled {
            Ok(status) if status.success() => return,
            Ok(_) => panic!("{compiler} does not compile {source}; 'make setup' installs what it needs (libbpf-dev)"),
            Err(_) => {}
        }
    }
    panic!("there is no clang to compile {source} with: 'make setup' installs it (clang-19), or set CLANG");
}
