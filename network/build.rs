//! Compiles the packet bucket (bpf/bucket.bpf.c) for the kernel.

use std::path::Path;
use std::process::Command;

fn main() {
    for source in ["bpf/bucket.bpf.c", "../policy/bucket.h"] {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = std::env::var("OUT_DIR").expect("cargo tells OUT_DIR");
    let chosen = std::env::var("CLANG").ok();
    let compilers = chosen.iter().map(String::as_str).chain(["clang-19", "clang"]);
    let include = format!("/usr/include/{}-linux-gnu", std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default());
    for compiler in compilers {
        let compiled = Command::new(compiler)
            // The same bytes from any folder: debug information, which the kernel's BTF comes with, has no path of it.
            .arg("-fdebug-compilation-dir=.")
            .args([
                "-O2",
                "-g",
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-target",
                "bpf",
                "-I",
                &include,
                "-I",
                "../policy",
                "-c",
            ])
            .arg("bpf/bucket.bpf.c")
            .arg("-o")
            .arg(Path::new(&out).join("bucket.bpf.o"))
            .status();
        match compiled {
            Ok(status) if status.success() => return,
            Ok(_) => {
                panic!("{compiler} does not compile bpf/bucket.bpf.c; 'make setup' installs what it needs (libbpf-dev)")
            }
            Err(_) => {}
        }
    }
    panic!("there is no clang to compile bpf/bucket.bpf.c with: 'make setup' installs it (clang-19), or set CLANG");
}
