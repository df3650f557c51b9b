//! Compiles the packet bucket (bpf/bucket.bpf.c) for the kernel.

#[path = "../policy/bpf_build.rs"]
mod bpf_build;

fn main() {
    bpf_build::compile("bucket", &["../policy/bucket.h"], &["../policy"]);
}
